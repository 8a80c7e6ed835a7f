"""Which fields of a Shoot a newer Kubernetes version forbids."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from shared.domain.versions.shoot_fields import binding_to_migrate, pointer, removals

SHOOT: dict[str, Any] = {
    "spec": {
        "secretBindingName": "old",
        "addons": {"nginxIngress": {"enabled": False}},
        "dns": {"domain": "d", "providers": [{"type": "x", "secretName": "a"}, {"type": "y"}, {"type": "z", "secretName": "c"}]},
        "kubernetes": {
            "version": "1.32.0",
            "kubeControllerManager": {"podEvictionTimeout": "2m"},
            "clusterAutoscaler": {"maxEmptyBulkDelete": 10, "scanInterval": "10s"},
            "kubeAPIServer": {"enableAnonymousAuthentication": False, "watchCacheSizes": {"default": 100, "resources": []}},
            "kubeScheduler": {"kubeMaxPDVols": "30", "profile": "balanced"},
        },
    }
}


@pytest.mark.parametrize(
    ("current", "to", "gone"),
    [
        ("1.31.4", "1.32.0", []),
        ("1.32.0", "1.33.1", ["kubeControllerManager/podEvictionTimeout", "clusterAutoscaler/maxEmptyBulkDelete"]),
        ("1.33.0", "1.33.4", []),
        ("1.33.0", "1.34.1", []),
        (
            "1.34.0",
            "1.35.0",
            [
                "kubeAPIServer/enableAnonymousAuthentication",
                "kubeAPIServer/watchCacheSizes/default",
                "kubeScheduler/kubeMaxPDVols",
                "/spec/addons",
                "/spec/dns/providers/0/secretName",
                "/spec/dns/providers/2/secretName",
            ],
        ),
    ],
)
def test_crossing_a_minor_takes_off_what_it_forbids_and_nothing_else(current: str, to: str, gone: list[str]) -> None:
    before = copy.deepcopy(SHOOT)
    assert [pointer(each.path) for each in removals(SHOOT, current, to)] == [
        path if path.startswith("/") else f"/spec/kubernetes/{path}" for path in gone
    ]
    assert before == SHOOT


def test_what_is_not_there_is_not_taken_off() -> None:
    for bare in ({}, {"spec": None}, {"spec": {"kubernetes": {"kubeAPIServer": None}, "dns": {"providers": None}}}):
        assert removals(bare, "1.32.0", "1.36.0") == []


def test_only_a_secret_binding_without_a_credentials_binding_is_migrated() -> None:
    assert binding_to_migrate(SHOOT, "1.33.0", "1.34.1") == "old"
    assert binding_to_migrate(SHOOT, "1.32.0", "1.33.1") == ""
    assert binding_to_migrate({"spec": SHOOT["spec"] | {"credentialsBindingName": "new"}}, "1.33.0", "1.34.1") == ""


def test_a_version_that_cannot_be_read_crosses_nothing() -> None:
    assert removals(SHOOT, "what", "1.35.0") == []
