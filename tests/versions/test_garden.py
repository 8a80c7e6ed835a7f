"""Live Shoots of a garden cluster, on a real kube-apiserver with Shoot and CloudProfile CRDs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from functions.version_apply.main import handle as apply
from shared.adapters.apiserver import ApiServer, StatusError
from shared.adapters.gardener import GROUP, SECURITY_GROUP, Garden
from shared.domain.versions.clusters import VersionStep
from shared.ports import Refused, Stale
from tests.kube_apiserver import KubeApiserver
from tests.versions.test_functions import EVENING, Site, cloud_profile, shoot, the_update

pytestmark = pytest.mark.real
KINDS = {
    "shoots": ("Shoot", "Namespaced"),
    "cloudprofiles": ("CloudProfile", "Cluster"),
    "secretbindings": ("SecretBinding", "Namespaced"),
    "credentialsbindings": ("CredentialsBinding", "Namespaced"),
}
GROUPS = {"credentialsbindings": SECURITY_GROUP}
FORBIDDEN = [
    "!(has(self.kubernetes.kubeControllerManager) && has(self.kubernetes.kubeControllerManager.podEvictionTimeout)"
    " && self.kubernetes.version >= '1.33')",
    "!(has(self.secretBindingName) && self.kubernetes.version >= '1.34')",
    "!(has(self.addons) && self.kubernetes.version >= '1.35')",
]
"""What a garden's API server refuses, of what a crossing takes off."""


def group_of(plural: str) -> str:
    return GROUPS.get(plural, GROUP)


def crd(plural: str) -> dict[str, Any]:
    kind, scope = KINDS[plural]
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    forbidden = {"type": "string", "not": {"enum": ["1.28.9"]}}
    manager = {**free, "properties": {"podEvictionTimeout": {"type": "string"}}}
    fields = {
        "kubernetes": {**free, "properties": {"version": forbidden, "kubeControllerManager": manager}},
        "secretBindingName": {"type": "string"},
        "addons": free,
    }
    rules = [{"rule": rule, "message": f"forbidden: {rule}"} for rule in FORBIDDEN]
    spec = {**free, "properties": fields, "x-kubernetes-validations": rules} if kind == "Shoot" else free
    status = {"status": free} if kind == "Shoot" else {}
    schema = {"type": "object", "properties": {"spec": spec, **status}} if "binding" not in plural else free
    parts: dict[str, Any] = {"subresources": {"status": {}}} if kind == "Shoot" else {}
    _, _, group, version = group_of(plural).split("/")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **parts}],
        },
    }


class Real:
    """A garden on the API server: objects put and read as they are."""

    def __init__(self, kube: KubeApiserver) -> None:
        self.access = kube.access
        self.server = ApiServer(kube.access)
        for plural in KINDS:
            self.put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(plural))
        self.put("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "garden"}})
        for plural in KINDS:
            self.wait_for(plural)

    def wait_for(self, plural: str) -> None:
        for _ in range(600):
            try:
                self.server.request("GET", f"{group_of(plural)}/{plural}")
                return
            except StatusError:
                time.sleep(0.1)
        raise AssertionError(f"{plural} are not served")

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Create or replace."""
        with suppress(StatusError):
            if path.startswith((GROUP, SECURITY_GROUP)):
                self.server.request("DELETE", f"{path}/{body['metadata']['name']}")
        try:
            self.server.request("POST", path, body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
        except StatusError as rejected:
            if rejected.code != 409:
                raise

    def has(self, body: dict[str, Any]) -> None:
        plural = next(plural for plural, (kind, _) in KINDS.items() if kind == body["kind"])
        where = "" if KINDS[plural][1] == "Cluster" else "/namespaces/garden"
        self.put(f"{group_of(plural)}{where}/{plural}", body)

    def shoot(self, name: str = "s") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.server.request("GET", f"{GROUP}/namespaces/garden/shoots/{name}"))
        return found

    def reconciles(self, name: str, healthy: bool = True) -> None:
        """Do what Gardener does once a Shoot runs what its spec says: say so in its status."""
        status = {
            "observedGeneration": self.shoot(name)["metadata"]["generation"],
            "lastOperation": {"type": "Reconcile", "state": "Succeeded"},
            "conditions": [{"type": "APIServerAvailable", "status": str(healthy)}, {"type": "EveryNodeReady", "status": "True"}],
        }
        path, kind = f"{GROUP}/namespaces/garden/shoots/{name}/status", {"Content-Type": "application/merge-patch+json"}
        self.server.request("PATCH", path, body=json.dumps({"status": status}).encode(), headers=kind)


@pytest.fixture(scope="module")
def real(kube: KubeApiserver) -> Real:
    return Real(kube)


@pytest.fixture
def garden(real: Real) -> Garden:
    real.has(cloud_profile())
    real.has(shoot())
    return Garden(real.access)


def test_shoots_and_profiles_are_read(garden: Garden) -> None:
    (profile,), _ = garden.profiles()
    assert [each.version for each in profile.kubernetes] == ["1.29.0", "1.28.1", "1.27.3"]
    assert [cluster.id for cluster in garden.clusters()] == ["garden/s"]
    assert garden.cluster("garden/none") is None


@pytest.mark.parametrize(
    ("step", "path"),
    [
        (VersionStep("controlPlane", "kubernetes", "1.27.3", "1.28.1"), ("kubernetes", "version")),
        (VersionStep("worker/a", "kubernetes", "1.27.3", "1.28.1"), ("provider", "workers", 0, "kubernetes", "version")),
        (VersionStep("worker/a", "machineImage", "1.0.0", "1.2.0"), ("provider", "workers", 0, "machine", "image", "version")),
    ],
)
def test_a_step_changes_one_version_and_a_dry_run_none(real: Real, garden: Garden, step: VersionStep, path: tuple[Any, ...]) -> None:
    before = real.shoot()
    assert garden.apply("garden/s", step, dry_run=True)
    assert real.shoot() == before
    assert garden.apply("garden/s", step)
    after = real.shoot()["spec"]
    assert at(after, path) == step.to
    put(after, path, step.current)
    assert after == before["spec"]
    assert not garden.apply("garden/s", step)


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    at(value, path[:-1])[path[-1]] = new


def test_a_step_from_another_version_and_one_that_the_server_refuses_change_nothing(real: Real, garden: Garden) -> None:
    with pytest.raises(Stale, match=r"1\.27\.3 now"):
        garden.apply("garden/s", VersionStep("controlPlane", "kubernetes", "1.26.0", "1.28.1"))
    with pytest.raises(Refused, match="not"):
        garden.apply("garden/s", VersionStep("controlPlane", "kubernetes", "1.27.3", "1.28.9"), dry_run=True)
    with pytest.raises(Refused):
        garden.apply("garden/s", VersionStep("worker/z", "kubernetes", "1.27.3", "1.28.1"))
    assert real.shoot()["spec"]["kubernetes"]["version"] == "1.27.3"


def test_maintain_is_taken_out_of_the_operations_that_were_asked_for(real: Real, garden: Garden) -> None:
    real.has(shoot(annotations={"gardener.cloud/operation": "retry;maintain"}))
    garden.apply("garden/s", VersionStep("controlPlane", "kubernetes", "1.27.3", "1.28.1"))
    assert real.shoot()["metadata"]["annotations"] == {"gardener.cloud/operation": "retry"}


@pytest.fixture
def site(real: Real) -> Iterator[Site]:
    from shared import telemetry, wiring

    telemetry.write_to(None)
    fleet = Site()
    fleet.world.open_fleet = lambda _name, _spec: Garden(real.access)
    fleet.commits(
        {
            "apiVersion": "hullmark.dev/v1",
            "kind": "Cluster",
            "metadata": {"name": "garden"},
            "spec": {"provider": "gardener", "access": {"inCluster": {}}},
        }
    )
    yield fleet
    wiring.install(None)


def test_a_live_shoot_is_changed_inside_its_window_and_left_alone_outside_it(real: Real, garden: Garden, site: Site) -> None:
    before = real.shoot()
    site.checks(EVENING.replace(hour=12))
    site.checks(EVENING.replace(hour=22, minute=45, second=1))
    assert real.shoot() == before
    site.checks(EVENING)
    spec = real.shoot()["spec"]
    assert (spec["kubernetes"]["version"], spec["provider"]["workers"][0]["kubernetes"]["version"]) == ("1.28.1", "1.28.1")
    assert site.actions() == [{"controlPlane/kubernetes": "changed", "worker/a/kubernetes": "changed"}]


FREEZE, ZONE = "hullmark.dev/freeze", "hullmark.dev/time-zone"
DAMAGED: dict[str, dict[str, Any]] = {
    "freeze": shoot(annotations={FREEZE: "2026-12-32"}),
    "time-zone": shoot(annotations={ZONE: "Europe/Berlim"}),
    "timeWindow": shoot(),
    "autoUpdate": shoot(),
}
DAMAGED["timeWindow"]["spec"]["maintenance"]["timeWindow"] = {"begin": "22:00", "end": "230000+0000"}
DAMAGED["autoUpdate"]["spec"]["maintenance"]["autoUpdate"]["kubernetesVersion"] = "false"


@pytest.mark.parametrize("field", DAMAGED)
def test_a_live_shoot_that_cannot_be_read_is_left_alone_and_told_of(real: Real, garden: Garden, site: Site, field: str) -> None:
    site.world.open_fleet = lambda _name, _spec: garden
    access = {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": "east"}}
    site.commits(access | {"spec": {"provider": "gardener", "access": {"inCluster": {}}}})
    update = the_update(site)
    real.has(DAMAGED[field])
    apply(update, site.world, EVENING, last=True)
    del site.world.bus.publish
    site.checks(EVENING, force_window=True)
    assert real.shoot()["spec"]["kubernetes"]["version"] == "1.27.3"
    (told,) = site.notices("fleet.unreadable")
    assert (told["fleet"], told["part"], told["reason"]) == ("east", "garden/s", "FieldUnreadable")
    assert field in told["message"]
    (failed,) = site.notices("version.failed")[:1]
    assert failed["code"] == "FieldUnreadable"


def test_a_live_profile_that_cannot_be_read_decides_nothing_and_none_of_the_documents_stands_in(
    real: Real, garden: Garden, site: Site
) -> None:
    site.world.open_fleet = lambda _name, _spec: garden
    real.has(cloud_profile([{"version": "1.28.1"}, {"version": "1.27.3", "expirationDate": "2026-13-01"}]))
    access = {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": "east"}}
    site.now = EVENING.replace(month=10)
    site.commits(access | {"spec": {"provider": "gardener", "access": {"inCluster": {}}}}, cloud_profile())
    site.checks(EVENING)
    assert real.shoot()["spec"]["kubernetes"]["version"] == "1.27.3"
    (told,) = site.notices("fleet.unreadable")
    assert (told["part"], "expirationDate" in told["message"]) == ("CloudProfile/p", True)
    assert {each["reason"] for each in site.notices("update.skipped")} == {"CloudProfileNotFound"}


# --- one write


MOVES = [
    VersionStep("worker/a", "machineImage", "1.0.0", "1.2.0"),
    VersionStep("controlPlane", "kubernetes", "1.27.3", "1.28.1"),
    VersionStep("worker/a", "kubernetes", "1.27.3", "1.28.1"),
]


def crossing(to: str, **spec: Any) -> tuple[dict[str, Any], VersionStep]:
    """A Shoot on the version before one that forbids fields, and the step across."""
    minor = int(to.split(".")[1])
    body = shoot(kubernetes=f"1.{minor - 1}.0", pools=())
    body["spec"]["kubernetes"] |= spec.pop("kubernetes", {})
    body["spec"] |= spec
    return body, VersionStep("controlPlane", "kubernetes", f"1.{minor - 1}.0", to)


def test_control_plane_pools_and_images_of_a_shoot_go_with_one_write(real: Real, garden: Garden) -> None:
    before = real.shoot()
    garden.apply_at_once("garden/s", MOVES, dry_run=True)
    assert real.shoot() == before
    garden.apply_at_once("garden/s", MOVES)
    after = real.shoot()
    worker = after["spec"]["provider"]["workers"][0]
    assert (after["spec"]["kubernetes"]["version"], worker["kubernetes"]["version"]) == ("1.28.1", "1.28.1")
    assert worker["machine"]["image"]["version"] == "1.2.0"
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


def test_what_the_server_refuses_of_one_write_changes_nothing_of_it(real: Real, garden: Garden) -> None:
    before = real.shoot()
    refused = [MOVES[0], VersionStep("controlPlane", "kubernetes", "1.27.3", "1.28.9"), MOVES[2]]
    with pytest.raises(Refused):
        garden.apply_at_once("garden/s", refused)
    with pytest.raises(Stale):
        garden.apply_at_once("garden/s", [MOVES[0], VersionStep("controlPlane", "kubernetes", "1.26.0", "1.28.1")])
    assert real.shoot() == before


def test_a_check_moves_a_shoot_with_one_write(real: Real, garden: Garden, site: Site) -> None:
    real.has(shoot(auto=True))
    before = real.shoot()["metadata"]["generation"]
    site.checks(EVENING)
    assert site.actions() == [dict.fromkeys(["worker/a/machineImage", "controlPlane/kubernetes", "worker/a/kubernetes"], "changed")]
    assert real.shoot()["metadata"]["generation"] == before + 1


def test_a_field_that_the_next_version_forbids_goes_in_the_same_write_and_is_told(real: Real, garden: Garden, site: Site) -> None:
    manager = {"kubeControllerManager": {"podEvictionTimeout": "2m", "nodeCIDRMaskSize": 24}}
    body, step = crossing("1.33.1", kubernetes=manager)
    real.has(body)
    moved = json.dumps([{"op": "replace", "path": "/spec/kubernetes/version", "value": step.to}]).encode()
    headers = {"Content-Type": "application/json-patch+json"}
    with pytest.raises(StatusError, match="forbidden"):
        real.server.request("PATCH", f"{GROUP}/namespaces/garden/shoots/s", body=moved, headers=headers)
    real.has(cloud_profile([{"version": "1.33.1"}, {"version": "1.32.0", "expirationDate": "2026-11-01T00:00:00Z"}]))
    site.checks(EVENING)
    assert real.shoot()["spec"]["kubernetes"] == {"version": "1.33.1", "kubeControllerManager": {"nodeCIDRMaskSize": 24}}
    (told,) = site.notices("version.updated")
    assert "spec.kubernetes.kubeControllerManager.podEvictionTimeout was removed" in told["message"]


def test_a_secret_binding_gives_way_to_the_credentials_binding_of_the_same_secret(real: Real, garden: Garden) -> None:
    body, step = crossing("1.34.1", secretBindingName="old")
    real.has(body)
    secret = {"namespace": "garden", "name": "cloud"}
    with pytest.raises(Refused):
        garden.apply_at_once("garden/s", [step])
    real.has({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "SecretBinding", "metadata": {"name": "old"}, "secretRef": secret})
    with pytest.raises(Refused, match="create a CredentialsBinding") as refused:
        garden.apply_at_once("garden/s", [step])
    assert refused.value.reason == "CredentialsBindingMissing"
    for name, led in (("a-other", secret | {"name": "other"}), ("b-same", secret)):
        reference = {"apiVersion": "v1", "kind": "Secret", **led}
        metadata = {"name": name}
        kind = {"apiVersion": "security.gardener.cloud/v1alpha1", "kind": "CredentialsBinding"}
        real.has({**kind, "metadata": metadata, "credentialsRef": reference})
    garden.apply_at_once("garden/s", [step])
    spec = real.shoot()["spec"]
    assert (spec["kubernetes"]["version"], spec.get("secretBindingName"), spec["credentialsBindingName"]) == ("1.34.1", None, "b-same")
