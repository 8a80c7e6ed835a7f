"""One contract for every store: memory, a folder, and S3 (moto's server behind the real client)."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs

import pytest
from obstore import exceptions as errors

from shared.adapters.store import federated, open_store
from shared.ports import ObjectStore, StoreError


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    before = dict(os.environ)
    os.environ.update(settings)
    client = boto3.client("s3")
    client.create_bucket(Bucket="hulls")
    client.close()
    yield "s3://hulls"
    server.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(params=["memory", "folder", "s3", "s3 under a prefix"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    kind: str = request.param
    if kind == "memory":
        return open_store("memory:")
    if kind == "folder":
        return open_store(f"file:{tmp_path / 'not' / 'there yet'}")
    bucket = request.getfixturevalue("s3")
    return open_store(f"{bucket}/{tmp_path.name}{'/deeper' if 'prefix' in kind else ''}")


def test_an_object_is_created_once_and_the_first_one_stays(store: ObjectStore) -> None:
    assert store.create("a/b.json", b"first")
    assert not store.create("a/b.json", b"second")
    assert store.get("a/b.json") == b"first"
    assert store.get("a/c.json") is None


def test_of_many_who_create_the_same_object_one_wins(store: ObjectStore) -> None:
    wins: list[int] = []

    def create(number: int) -> None:
        if store.create("race", str(number).encode()):
            wins.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    assert store.get("race") == str(wins[0]).encode()


def test_keys_are_sorted_whole_and_of_the_folder_alone(store: ObjectStore) -> None:
    for key in ("parts/0002.json", "parts/0001.json", "parts/deep/0003.json", "parts-of-another/0001.json", "zero"):
        store.create(key, b"")
    assert store.keys("parts/") == ["parts/0001.json", "parts/0002.json", "parts/deep/0003.json"]
    assert store.keys("parts/", after="parts/0001.json") == ["parts/0002.json", "parts/deep/0003.json"]
    assert store.keys("none/") == []


def test_a_listing_with_a_limit_is_the_beginning_of_the_whole_one(store: ObjectStore) -> None:
    every = [f"many/{number:04}" for number in range(1203)]
    for key in every:
        store.create(key, b"")
    assert store.keys("many/", limit=3) == every[:3]
    assert store.keys("many/", after=every[99], limit=5) == every[100:105]
    assert store.keys("many/", limit=1100) == every[:1100]
    assert store.keys("many/", after=every[-2], limit=5) == every[-1:]
    assert store.keys("many/") == every


def test_folders_are_the_names_one_level_below(store: ObjectStore) -> None:
    for key in ("actions/B/plan.json", "actions/A/parts/1.json", "actions/loose.json"):
        store.create(key, b"x")
    assert store.folders("actions/") == ["A", "B"]
    assert store.folders("none/") == []


def test_what_is_deleted_is_gone_and_may_be_deleted_again(store: ObjectStore) -> None:
    store.create("a", b"x")
    store.delete("a")
    store.delete("a")
    assert store.get("a") is None
    assert store.create("a", b"y")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errors.PermissionDeniedError("Server returned non-2xx status code: 403 Forbidden: <Error>"), "access denied"),
        (errors.UnauthenticatedError("Server returned non-2xx status code: 401 Unauthorized"), "were not accepted"),
        (errors.GenericError("Generic S3 error: after 10 retries - HTTP error: error sending request"), "does not answer"),
    ],
)
def test_what_a_bucket_refuses_is_said_without_its_librarys_text(monkeypatch: pytest.MonkeyPatch, error: Exception, says: str) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("obstore.get", refuse)
    with pytest.raises(StoreError, match=f"store memory:: get x: .*{says}") as raised:
        open_store("memory:").get("x")
    assert not [word for word in ("Generic", "retries", "Server returned", "<") if word in str(raised.value)]


@pytest.mark.parametrize("url", ["", "folder", "ftp://x", "s3://", "gs:///prefix"])
def test_a_store_that_is_none_is_refused_with_the_forms_that_are(url: str) -> None:
    with pytest.raises(StoreError, match="file:FOLDER"):
        open_store(url)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"can't make the folder .*file/store"):
        open_store(f"file:{tmp_path / 'file' / 'store'}")


def test_a_bucket_that_is_not_there_is_told_with_its_url(s3: str) -> None:
    with pytest.raises(StoreError, match=r"s3://nobody: create x: there is no such bucket: make it, or correct HULLMARK_STORE$"):
        open_store("s3://nobody").create("x", b"")


class TokenService(BaseHTTPRequestHandler):
    """Google's token exchange, as far as RFC 8693 has it: a workload's own token for one of Google's."""

    asked: ClassVar[list[dict[str, list[str]]]] = []

    def do_POST(self) -> None:
        self.asked.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        answer = {
            "access_token": "googles",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": 3600,
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_bucket_is_opened_with_the_token_of_a_workload_identity_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = HTTPServer(("127.0.0.1", 0), TokenService)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "token").write_text("the cluster's")
    configuration = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/k",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"http://127.0.0.1:{server.server_address[1]}/v1/token",
        "credential_source": {"file": str(tmp_path / "token")},
    }
    (tmp_path / "credentials.json").write_text(json.dumps(configuration))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "credentials.json"))
    try:
        open_store("gs://bucket")
        token = federated(str(tmp_path / "credentials.json"))
        assert token is not None
        given = token()
    finally:
        server.shutdown()
        server.server_close()

    assert given["token"] == "googles"
    assert timedelta(minutes=50) < given["expires_at"] - datetime.now(UTC) <= timedelta(hours=1)
    assert TokenService.asked[-1]["subject_token"] == ["the cluster's"]


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"type": "service_account"}'])
def test_any_other_credentials_are_left_to_the_client(tmp_path: Path, text: str) -> None:
    (tmp_path / "credentials.json").write_text(text)

    assert federated(str(tmp_path / "credentials.json")) is None
    assert federated(str(tmp_path / "nowhere.json")) is None
