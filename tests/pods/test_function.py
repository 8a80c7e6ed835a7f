"""The function over HTTP, as the API server calls it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import functions_framework
import pytest
from flask.testing import FlaskClient

from functions.pod_binding.main import seconds_for
from shared import wiring
from shared.domain.documents.reading import Source
from shared.domain.pods.copying import Additions, Placement
from shared.messages import Outgoing
from shared.work.pod_topology import PodPolicies, PodTopology
from shared.world import Settings
from tests.pods.reviews import HOST, ZONE, Fleet, Hang, a_binding, a_pod, a_policy, a_review, patched

MAIN = Path(__file__).parents[2] / "functions/pod_binding/main.py"


class NoBus:
    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        raise AssertionError("pod_binding publishes nothing")


@pytest.fixture
def fleet() -> Fleet:
    return Fleet({"n1": {ZONE: "z1", HOST: "n1", "kubernetes.io/os": "linux"}})


@pytest.fixture
def client(fleet: Fleet) -> Iterator[FlaskClient]:
    topology = PodTopology(lambda: PodPolicies((a_policy(),), lambda _: fleet.as_cluster()))
    wiring.install(None, topology)
    yield functions_framework.create_app("pod_binding", str(MAIN)).test_client()
    wiring.install(None)


def asked(client: FlaskClient, review: dict[str, Any], url: str = "/?timeout=2s") -> dict[str, Any]:
    answer = client.post(url, json=review)
    assert answer.status_code == 200
    assert answer.mimetype == "application/json"
    body: dict[str, Any] = answer.get_json()
    assert (body["apiVersion"], body["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return body["response"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("obj", [a_binding(), a_pod()], ids=["binding", "pod"])
def test_a_bound_pod_gets_its_nodes_labels(client: FlaskClient, obj: dict[str, Any]) -> None:
    review = a_review(obj)
    assert patched(review, asked(client, review))["metadata"]["labels"] == {ZONE: "z1", HOST: "n1"}


def test_what_is_not_ours_is_allowed_untouched_even_for_an_unknown_cluster(client: FlaskClient) -> None:
    assert asked(client, a_review(a_pod("")), "/nowhere") == {"uid": "u-1", "allowed": True}


def test_a_review_that_lacks_its_target_is_allowed_and_says_so(client: FlaskClient, capsys: pytest.CaptureFixture[str]) -> None:
    binding = {key: value for key, value in a_binding().items() if key != "target"}
    response = asked(client, a_review(binding))
    assert (response["uid"], response["allowed"], "patch" in response) == ("u-1", True, False)
    assert "target" in response["warnings"][0]
    line = json.loads(capsys.readouterr().out)
    assert (line["severity"], line["outcome"], line["subject"]) == ("WARNING", "incomplete", "review u-1")


@pytest.mark.parametrize(
    ("body", "says"),
    [(b'{"a":' * 100_000, "nested too deeply"), (b"{", "the review"), (b'{"apiVersion":"v1"}', "apiVersion"), (b"", "the review")],
)
def test_a_malformed_review_gets_a_clear_400(client: FlaskClient, body: bytes, says: str) -> None:
    answer = client.post("/", data=body, content_type="application/json")
    assert answer.status_code == 400
    assert "not an AdmissionReview of admission.k8s.io/v1" in answer.get_json()["message"]
    assert says in answer.get_json()["message"]


def test_a_hanging_server_is_answered_inside_the_api_servers_own_timeout_with_one_line_in_the_log(
    client: FlaskClient, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    with Hang() as hang:
        fleet.reading = hang
        response = asked(client, a_review(a_binding()), "/?timeout=1s")
        assert response["allowed"] is True
        assert "patch" not in response
        assert "can't be read" in response["warnings"][0]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [(line["severity"], line["outcome"], line["subject"]) for line in lines] == [("WARNING", "incomplete", "shop/web-0 on n1")]
    assert "can't be read" in lines[0]["message"]


def test_an_answer_takes_a_part_of_the_api_servers_own_timeout(client: FlaskClient) -> None:
    waits: list[float] = []

    class Recording(PodTopology):
        def additions(self, place: Placement, cluster: str, seconds: float) -> Additions:
            waits.append(seconds)
            return Additions()

    wiring.install(None, Recording(lambda: PodPolicies((), lambda _: Fleet().as_cluster())))
    asked(client, a_review(a_binding()), "/?timeout=1s")
    (wait,) = waits
    assert wait <= 0.75


def test_an_error_that_nobody_foresaw_never_denies(client: FlaskClient, fleet: Fleet) -> None:
    def burst(what: str) -> None:
        raise ZeroDivisionError("burst")

    fleet.reading = burst
    response = asked(client, a_review(a_binding()))
    assert response["allowed"] is True
    assert "ZeroDivisionError: burst" in response["warnings"][0]


def test_get_says_when_answers_come_from_memory(client: FlaskClient) -> None:
    end = time.monotonic() + 60
    while (answer := client.get("/")).status_code != 200:
        assert answer.status_code == 503
        assert time.monotonic() < end
        time.sleep(0.01)
    assert answer.get_json() == {"ready": True}
    assert client.put("/").status_code == 405


def test_policies_are_those_of_the_newest_revision_and_nodes_those_of_the_cluster_it_names(tmp_path: Path) -> None:
    """Through the real wiring: a folder as store, simulated clusters, no bus."""
    nodes = {"kind": "List", "apiVersion": "v1", "items": []}
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "uid": "1", "labels": {HOST: "n1", ZONE: "east"}}}
    for cluster in ("east", "west"):
        node["metadata"]["labels"] = {HOST: "n1", ZONE: cluster}  # type: ignore[index]
        (tmp_path / f"{cluster}.json").write_text(json.dumps(nodes | {"items": [node]}))
    cluster_document = (
        "apiVersion: hullmark.dev/v1\nkind: Cluster\nmetadata: {{name: {0}}}\nspec: {{access: {{simulated: {{name: {0}}}}}}}\n---\n"
    )
    documents = "".join(cluster_document.format(name) for name in ("east", "west"))
    policy = "apiVersion: hullmark.dev/v1\nkind: PodLabelPolicy\nmetadata: {name: a}\nspec: {topology: [topology.kubernetes.io/zone]}\n"
    world = wiring.build(
        Settings(store=f"file:{tmp_path}/store", simulated=f"east={tmp_path}/east.json,west={tmp_path}/west.json"), NoBus()
    )
    world.revisions.stage("default", [Source("site.yaml", (documents + policy).encode())], "me", datetime.now(UTC))
    world.revisions.commit("me", datetime.now(UTC))
    wiring.install(world)
    try:
        client = functions_framework.create_app("pod_binding", str(MAIN)).test_client()
        review = a_review(a_binding())
        for cluster in ("east", "west"):
            assert patched(review, asked(client, review, f"/{cluster}"))["metadata"]["labels"] == {ZONE: cluster}
        (warning,) = asked(client, review, "/")["warnings"]
        assert "east, west" in warning
        for number in range(3):
            (warning,) = asked(client, review, f"/nowhere-{number}")["warnings"]
            assert f"no cluster 'nowhere-{number}'" in warning
            assert client.get(f"/nowhere-{number}").status_code == 503
        assert wiring.pod_topology().kept == ["east", "west"]
    finally:
        wiring.install(None)


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        ("2s", 1.5),
        ("1s", 0.75),
        ("400ms", 0.3),
        ("10s", 1.5),
        ("", 1.5),
        ("soon", 1.5),
        ("1m0s", 1.5),
        ("1.5s", 1.125),
        ("-1s", 1.5),
        ("s", 1.5),
        ("²s", 1.5),
    ],
)
def test_the_api_servers_timeout_is_kept(timeout: str, seconds: float) -> None:
    assert seconds_for(timeout) == pytest.approx(seconds)
