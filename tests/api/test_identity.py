"""Who asked: what HULLMARK_IDENTITY says to believe, and nothing else."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ulid import ULID

from shared import telemetry, wiring
from shared.adapters import iap
from shared.messages import RelabelRequest
from shared.ports import Unverified
from shared.world import Settings, SettingsError
from tests.api.conftest import FrontDoor
from tests.api.identities import AUDIENCE, Signer, id_token

ADA = {"Authorization": id_token(email="ada@example.com")}
Door = Callable[..., FrontDoor]


@pytest.fixture
def believing() -> Iterator[Door]:
    """A fleet behind an api with this HULLMARK_IDENTITY."""
    telemetry.write_to(None)

    def opened(identity: str) -> FrontDoor:
        door = FrontDoor(identity=identity)
        door.declares({"n1": {"rack": "r7"}})
        door.has_nodes(n1={"zone": "a"})
        return door

    yield opened
    wiring.install(None)


@pytest.mark.parametrize(
    "headers",
    [
        ADA,
        {"Authorization": id_token(email="ada@example.com", signature="x")},
        {"X-Serverless-Authorization": id_token(email="ada@example.com")},
        {"X-Goog-Authenticated-User-Email": "accounts.google.com:ada@example.com"},
        {"X-Goog-IAP-JWT-Assertion": Signer().assertion()},
        {"Remote-User": "ada@example.com"},
    ],
)
def test_where_nothing_verifies_callers_no_header_names_one(fleet: FrontDoor, headers: dict[str, str]) -> None:
    assert fleet.create_as(headers).json["user"] == "unauthenticated"
    assert fleet.create_as(headers, {"REMOTE_USER": "bob"}).json["user"] == "bob", "the server itself says who calls"


@pytest.mark.parametrize(
    ("headers", "person"),
    [
        (ADA, "ada@example.com"),
        ({"Authorization": id_token(sub="1234")}, "1234"),
        ({"X-Serverless-Authorization": id_token(email="bob@example.com"), **ADA}, "bob@example.com"),
        ({**ADA, "X-Goog-Authenticated-User-Email": "x:mallory@example.com"}, "ada@example.com"),
    ],
)
def test_on_cloud_run_the_token_that_it_checked_names_the_caller(believing: Door, headers: dict[str, str], person: str) -> None:
    door = believing("cloud-run")
    answer = door.create_as(headers)
    assert answer.json["user"] == person
    assert door.get(answer.headers["Location"], headers=headers).json["command_audit"][0]["user"] == person


def parts(*words: bytes) -> str:
    return ".".join(base64.urlsafe_b64encode(word).decode().rstrip("=") for word in words)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": id_token(email="ada@example.com", signature="x")},
        {"Authorization": id_token(email="ada@example.com", signature="")},
        {"X-Serverless-Authorization": id_token(email="ada@example.com", signature="x"), **ADA},
        {"Authorization": id_token()},
        {"Authorization": "Bearer opaque"},
        {"Authorization": f"Bearer {parts(b'{}', b'[' * 100_000)}.SIGNATURE_REMOVED_BY_GOOGLE"},
        {"Authorization": f"Bearer {parts(b'{}', b'[]')}.SIGNATURE_REMOVED_BY_GOOGLE"},
        {"Authorization": "Bearer x.é.SIGNATURE_REMOVED_BY_GOOGLE"},
        {"Authorization": "Basic YWRhOmh1bnRlcjI="},
        {"X-Goog-Authenticated-User-Email": "accounts.google.com:ada@example.com"},
    ],
)
def test_on_cloud_run_a_token_that_it_did_not_check_is_refused(believing: Door, headers: dict[str, str]) -> None:
    door = believing("cloud-run")
    assert door.create_as(headers).status_code == 401
    assert door.get("/v1.0/actions", headers=headers).status_code == 401
    assert door.world.actions.ids() == []


def test_behind_identity_aware_proxy_its_signature_names_the_caller(believing: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    signer = Signer()
    monkeypatch.setattr(iap, "google_keys", lambda: iap.SigningKeys(lambda: signer.public))
    door = believing(f"iap:{AUDIENCE}")
    assert door.create_as({"X-Goog-IAP-JWT-Assertion": signer.assertion()}).json["user"] == "ada@example.com"
    for refused in ({}, ADA, {"X-Goog-IAP-JWT-Assertion": Signer().assertion()}, {"X-Goog-Authenticated-User-Email": "x:ada@example.com"}):
        assert door.create_as(refused).status_code == 401


NOW = int(time.time())


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "/projects/1/global/backendServices/3"},
        {"iss": "https://accounts.google.com"},
        {"email": "", "sub": ""},
        {"iat": NOW - 7200, "exp": NOW - 3600},
    ],
)
def test_a_signed_header_for_another_audience_issuer_or_time_is_refused(claims: dict[str, Any]) -> None:
    signer = Signer()
    with pytest.raises(Unverified):
        iap.person(signer.assertion(**claims), AUDIENCE, iap.SigningKeys(lambda: signer.public))


def test_a_signed_header_with_another_algorithm_is_refused() -> None:
    signer = Signer()
    claims = signer.assertion().split(".")[1]
    for algorithm in ("none", "HS256", "RS256"):
        header = parts(json.dumps({"alg": algorithm, "kid": "k1", "typ": "JWT"}).encode())
        with pytest.raises(Unverified):
            iap.person(f"{header}.{claims}.", AUDIENCE, iap.SigningKeys(lambda: signer.public))


def test_keys_are_read_again_when_they_are_old() -> None:
    read, now = list[int](), [0.0]

    def reading() -> dict[str, str]:
        read.append(1)
        return {"k": "v"}

    keys = iap.SigningKeys(reading, lambda: now[0])
    keys.now()
    keys.now()
    now[0] = iap.KEPT_SECONDS
    keys.now()
    assert len(read) == 2


@pytest.mark.parametrize("value", ["iap", "iap:", "google", "Cloud-Run"])
def test_a_setting_that_names_no_proof_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="HULLMARK_IDENTITY"):
        Settings.from_environment({"HULLMARK_IDENTITY": value})


def test_whom_a_published_message_names_is_recorded_as_a_claim(fleet: FrontDoor) -> None:
    action = str(ULID())
    asked = RelabelRequest(action=action, target_nodes=["n1"], requested_by="ada@example.com")
    fleet.cloud.publish(RelabelRequest.TOPIC, [asked.outgoing()])
    fleet.cloud.drain()
    assert fleet.get(f"/v1.0/actions/{action}").json["user"] == "unverified: ada@example.com"
    assert asked.as_claimed().as_claimed() == asked.as_claimed()


def test_an_action_that_the_api_accepted_keeps_its_caller_on_the_bus(fleet: FrontDoor) -> None:
    action = fleet.create_as({}, {"REMOTE_USER": "ada"}).json["id"]
    forged = RelabelRequest(action=action, target_nodes=["n1"], requested_by="mallory")
    fleet.cloud.publish(RelabelRequest.TOPIC, [forged.outgoing()])
    fleet.cloud.drain()
    assert fleet.get(f"/v1.0/actions/{action}").json["user"] == "ada"
