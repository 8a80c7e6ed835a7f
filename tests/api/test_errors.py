"""Every 4xx and 5xx in one form; who asked; what must not come out."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest

from functions.api.app import MAX_BODY
from shared import telemetry
from shared.ports import StoreError
from tests import prometheus
from tests.api.conftest import FrontDoor
from tests.api.identities import id_token as token

SHIPYARDS = {"kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code", "retry"}


def assert_shipyards(answer: Any, status: int) -> dict[str, Any]:
    """The answer is an error in Shipyard's form."""
    assert answer.status_code == status, answer.text
    assert answer.mimetype == "application/json"
    body: dict[str, Any] = answer.json
    assert set(body) == SHIPYARDS
    assert (body["kind"], body["status"]) == ("status", "Failure")
    assert body["code"].startswith(f"{status} ")
    listed = body["details"]["messageList"]
    assert body["details"]["errorCount"] == len(listed) > 0
    assert all(said["error"] and said["message"] for said in listed)
    return body


@pytest.mark.parametrize(
    ("method", "path", "given", "status"),
    [
        ("GET", "/v1.0/nothing", {}, 404),
        ("GET", "/nothing/at/all", {}, 404),
        ("GET", "/robots.txt", {}, 404),
        ("GET", "/v1.0/actions/a%0Ab", {}, 404),
        ("DELETE", "/v1.0/actions", {}, 405),
        ("PATCH", "/health", {}, 405),
        ("POST", "/v1.0/actions", {}, 400),
        ("POST", "/v1.0/actions", {"json": []}, 400),
        ("POST", "/v1.0/actions", {"json": "update_labels"}, 400),
        ("POST", "/v1.0/actions", {"json": {"name": 7}}, 400),
        ("POST", "/v1.0/actions", {"json": {"name": "update_labels", "parameters": []}}, 400),
        ("POST", "/v1.0/actions", {"data": '{"name": ', "content_type": "application/json"}, 400),
        ("POST", "/v1.0/actions", {"data": "[" * 100_000, "content_type": "application/json"}, 400),
        ("POST", "/v1.0/actions", {"data": '{"name": NaN}', "content_type": "application/json"}, 400),
        ("POST", "/v1.0/actions", {"data": '{"name": "update_labels", "name": "update_site"}', "content_type": "application/json"}, 400),
        ("POST", "/v1.0/actions", {"data": "9" * 5000, "content_type": "application/json"}, 400),
        ("POST", "/v1.0/actions", {"data": b"\xff\xfe", "content_type": "application/json"}, 400),
        (
            "POST",
            "/v1.0/actions",
            {"data": '{"name": "update_site", "parameters": {"x": "\\ud800"}}', "content_type": "application/json"},
            400,
        ),
        ("POST", "/v1.0/actions", {"json": {"name": "update_labels", "parameters": {"target_nodes": ["../../n1"]}}}, 400),
        ("POST", "/v1.0/actions", {"json": {"name": "update_labels", "parameters": {"target_nodes": ["n1\u0000"]}}}, 400),
        ("POST", "/v1.0/actions", {"data": "name=update_labels", "content_type": "application/x-www-form-urlencoded"}, 415),
        ("PUT", "/v1.0/node-labels/n1", {"data": "a: b", "content_type": "application/x-yaml"}, 415),
        ("PUT", "/v1.0/node-labels/N_1", {"json": {}}, 400),
        ("POST", "/v1.0/configdocs/site", {"data": b"x", "content_type": "image/png"}, 415),
        ("POST", "/v1.0/configdocs/site?buffermode=sometimes", {"data": b"a: b", "content_type": "text/yaml"}, 400),
        ("GET", "/v1.0/actions?limit=0", {}, 400),
        ("POST", "/v1.0/actions/01ARZ3NDEKTSV4RRFFQ69G5FAV/control/dance", {}, 404),
        ("POST", "/v1.0/actions/01ARZ3NDEKTSV4RRFFQ69G5FAV/control/stop", {}, 404),
    ],
)
@pytest.mark.parametrize("prefix", ["", "/api"])
def test_every_error_has_shipyards_form(fleet: FrontDoor, prefix: str, method: str, path: str, given: dict[str, Any], status: int) -> None:
    assert_shipyards(fleet.ask(method, prefix + path, **given), status)


@pytest.mark.parametrize("path", ["/v1.0/actions", "/v1.0/configdocs/site"])
def test_a_body_over_the_limit_is_refused_unread(fleet: FrontDoor, path: str) -> None:
    for given in ({"data": b"a" * (MAX_BODY + 1)}, {"input_stream": io.BytesIO(b"a" * (MAX_BODY + 1)), "content_length": MAX_BODY + 1}):
        assert_shipyards(fleet.ask("POST", path, content_type="application/json", **given), 413)


def test_the_original_form_of_json_with_a_charset_is_json(fleet: FrontDoor) -> None:
    body = json.dumps({"name": "update_labels", "parameters": {"target_nodes": ["n1"]}})
    for kind in ("application/json; charset=utf-8", ""):
        assert fleet.ask("POST", "/v1.0/actions", data=body, content_type=kind).status_code == 201


def test_an_unforeseen_error_is_a_500_that_tells_nothing_of_its_inside(fleet: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(fleet.world.revisions, "newest", broken)
    body = assert_shipyards(fleet.get("/health"), 500)
    assert body["retry"] is True
    assert "hunter2" not in json.dumps(body)


def test_a_store_that_does_not_answer_is_a_503_with_its_cause(fleet: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        raise StoreError("store gs://fleet: get revisions: 403")

    monkeypatch.setattr(fleet.world.revisions, "newest", broken)
    body = assert_shipyards(fleet.get("/v1.0/health"), 503)
    assert (body["retry"], body["reason"]) == (True, "store gs://fleet: get revisions: 403")


def test_a_page_of_another_site_can_change_nothing(fleet: FrontDoor) -> None:
    action = fleet.create(target_nodes=["n1"]).json["id"]
    stop = f"/v1.0/actions/{action}/control/stop"
    assert_shipyards(fleet.post(stop, headers={"Origin": "https://evil.example.com"}), 403)
    assert fleet.get("/v1.0/actions", headers={"Origin": "https://evil.example.com"}).status_code == 200
    assert fleet.post(stop, headers={"Origin": "http://localhost"}).status_code == 202


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "header",
    [
        {"Host": "[::1"},
        {"Host": "a@localhost"},
        {"Host": "localhost/a"},
        {"Host": "localhost:port"},
        {"Origin": "http://[::1"},
        {"Origin": "http://localhost:x"},
    ],
)
def test_a_host_or_origin_that_is_none_is_a_400(fleet: FrontDoor, method: str, header: dict[str, str]) -> None:
    assert_shipyards(fleet.ask(method, "/v1.0/actions", headers=header), 400)


@pytest.mark.parametrize("origin", ["null", "", "http://localhost.evil.example", "http://localhost:81"])
def test_an_origin_that_is_not_this_host_changes_nothing(fleet: FrontDoor, origin: str) -> None:
    assert_shipyards(fleet.create_as({"Origin": origin}), 403)


def test_no_token_comes_out_in_answers_or_logs(fleet: FrontDoor) -> None:
    lines = io.StringIO()
    telemetry.write_to(lines)
    secret = token(email="ada@example.com")
    answers = [fleet.create_as({"Authorization": secret}), fleet.get("/v1.0/nothing?token=hunter2", headers={"Authorization": secret})]
    answers.append(fleet.post("/v1.0/actions", {"name": {"password": "hunter2"}}, headers={"Authorization": secret}))
    said = lines.getvalue() + "".join(answer.text for answer in answers)
    assert "hunter2" not in said
    assert secret.split(".")[1] not in said
    assert [json.loads(line)["step"] for line in lines.getvalue().splitlines()] == ["api"] * 3


def test_a_context_marker_is_kept_with_its_action(fleet: FrontDoor) -> None:
    marker = "7e1b7a5c-8a44-4f3b-9f7b-3a2f2f0e9a11"
    answer = fleet.create_as({"X-Context-Marker": marker})
    assert fleet.get(answer.headers["Location"]).json["context_marker"] == marker


def test_under_airships_prefix_everything_is_the_same_and_stays_there(fleet: FrontDoor) -> None:
    answer = fleet.post("/api/v1.0/actions", {"name": "relabel_nodes", "parameters": {"target_nodes": "n1"}})
    assert answer.headers["Location"].startswith("/api/v1.0/actions/")
    assert fleet.get(answer.headers["Location"]).json["id"] == answer.json["id"]


def test_metrics_count_actions_by_result_and_nodes_out_of_sync(fleet: FrontDoor) -> None:
    fleet.declares({"n1": {"rack": "r7"}, "gone": {"rack": "r9"}})
    fleet.relabels("n1", "gone")
    text = fleet.get("/metrics").text
    for line in (
        'hullmark_actions{name="update_labels",result="partial_success"} 1',
        'hullmark_nodes_not_true{cluster="default"} 1',
        "hullmark_actions_open 0",
        "hullmark_revision 2",
        'hullmark_handled_total{step="node_apply"',
    ):
        assert line in text
    assert fleet.get("/metrics").content_type == "text/plain; version=0.0.4; charset=utf-8"


def test_metrics_stay_readable_when_a_record_holds_an_odd_cluster_name(fleet: FrontDoor) -> None:
    odd = 'x"} 1\nhullmark_owned{a="'
    fleet.declares({"n1": {"rack": "r7"}})
    known = fleet.world.actions.request(fleet.relabels("n1"))
    fleet.world.actions.accept(known.model_copy(update={"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "cluster": odd}))
    found = prometheus.read(fleet.get("/metrics").text)
    assert found["hullmark_nodes_not_true"].samples == {("", (("cluster", name),)): 0 for name in ("default", odd)}
    assert found["hullmark_actions_open"].samples == {("", ()): 1}
    assert found["hullmark_handling_seconds"].type == "histogram"


def test_the_function_imports_its_routes_only_when_the_first_request_comes() -> None:
    late = ("flask_openapi3", "functions.api.app", "obstore", "shared.ledger.revisions", "yaml")
    program = f"import sys, functions.api.main; print([name for name in {late!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": "."}, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1.0/actions", DEEP),
        ("POST", "/v1.0/actions", f'{{"name":"update_labels","parameters":{DEEP}}}'),
        ("POST", "/v1.0/nodefilter", f'{{"node_filter":{DEEP}}}'),
        ("POST", "/v1.0/tasks", f'{{"action":"relabel_nodes","design_ref":"committed","node_filter":{DEEP}}}'),
        ("PUT", "/v1.0/node-labels/n1", f'{{"k":{DEEP}}}'),
        ("POST", "/v1.0/configdocs/site", DEEP),
    ],
)
def test_a_body_that_is_nested_beyond_reading_is_a_400(fleet: FrontDoor, method: str, path: str, body: str) -> None:
    kind = "application/x-yaml" if "configdocs" in path else "application/json"
    assert_shipyards(fleet.ask(method, path, data=body, content_type=kind), 400)
