"""The OpenAPI document: valid, complete, and true to the service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from openapi_spec_validator import validate
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from functions.api.app import application
from shared import telemetry, wiring
from tests.api.conftest import FrontDoor

CALLS = {
    "/v1.0/actions": {"get", "post"},
    "/v1.0/actions/{action}": {"get"},
    "/v1.0/actions/{action}/outcome": {"get"},
    "/v1.0/actions/{action}/steps/{step}": {"get"},
    "/v1.0/actions/{action}/control/{verb}": {"post"},
    "/v1.0/configdocs": {"get"},
    "/v1.0/configdocs/{collection}": {"delete", "get", "post"},
    "/v1.0/commitconfigdocs": {"post"},
    "/v1.0/revisions": {"get"},
    "/v1.0/revisions/{revision}": {"get"},
    "/v1.0/revisions/{revision}/diff/{newer}": {"get"},
    "/v1.0/revisions/{revision}/restore": {"post"},
    "/v1.0/revisions/{revision}/tags/{tag}": {"post", "delete"},
    "/v1.0/revisions/{revision}/acceptances": {"post"},
    "/v1.0/plans": {"post"},
    "/v1.0/rollouts": {"get", "post"},
    "/v1.0/rollouts/{rollout}": {"get"},
    "/v1.0/rollouts/{rollout}/control/{verb}": {"post"},
    "/v1.0/pause": {"get", "put"},
    "/v1.0/freezes": {"get"},
    "/v1.0/refused-requests": {"get"},
    "/v1.0/tasks": {"get", "post"},
    "/v1.0/tasks/{task}": {"get"},
    "/v1.0/nodefilter": {"post"},
    "/v1.0/nodes": {"get"},
    "/v1.0/versions": {"get"},
    "/v1.0/versions/plan": {"get"},
    "/v1.0/versions/calendar": {"get"},
    "/v1.0/versions/calendar.ics": {"get"},
    "/v1.0/versions/impact": {"post"},
    "/v1.0/versions/why/{cluster}": {"get"},
    "/v1.0/versions/deferrals": {"get"},
    "/v1.0/versions/deferrals/{cluster}": {"put", "delete"},
    "/v1.0/node-labels/{node}": {"get", "put"},
    "/v1.0/node-labels/{node}/history": {"get"},
    "/v1.0/explain/{node}": {"get"},
    **{f"{prefix}/{name}": {"get"} for prefix in ("", "/v1.0") for name in ("health", "metrics", "openapi.json")},
}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@pytest.fixture(scope="module")
def busy() -> Iterator[FrontDoor]:
    """A fleet with something of everything: revisions, ended and open actions."""
    telemetry.write_to(None)
    door = FrontDoor()
    door.declares({"n1": {"rack": "r7"}, "gone": {"rack": "r9"}})
    door.has_nodes(n1={"zone": "a"})
    door.relabels("n1", "gone")
    door.create(target_nodes=["n1"])
    yield door
    wiring.install(None)


@pytest.fixture(scope="module")
def contract(busy: FrontDoor) -> Any:
    return schemathesis.openapi.from_wsgi("/openapi.json", busy.app)


RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
OPERATIONS = [(path, method, mode) for path, methods in CALLS.items() for method in sorted(methods) for mode in (RIGHT, WRONG)]


def can_be(path: str, method: str, mode: GenerationMode) -> bool:
    """Whether a request can be right, or wrong: a call without any input can't be wrong."""
    operation = application().api_doc["paths"][path][method]
    return mode is RIGHT or bool(operation.get("parameters") or operation.get("requestBody"))


@pytest.mark.parametrize(("path", "method", "mode"), [each for each in OPERATIONS if can_be(*each)])
def test_the_service_answers_as_its_document_says(contract: Any, busy: FrontDoor, path: str, method: str, mode: GenerationMode) -> None:
    """Each generated request twice: as it is, and about things that there are. Wrong ones must be refused."""
    operation = contract[path][method.upper()]
    checks = [*CHECKS]
    if (path, method) == ("/v1.0/configdocs/{collection}", "get"):
        checks.remove(response_schema_conformance)  # the answer is several YAML documents, and schemathesis reads one
    cases = operation.as_strategy(generation_mode=mode)

    @given(case=cases)
    @settings(max_examples=12, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def asked(case: Any) -> None:
        case.call_and_validate(checks=checks)
        first, *_, last = busy.world.actions.ids()
        known = {"action": last, "task": first, "step": "relabel_nodes", "collection": "site", "revision": 1, "node": "n1"}
        there = {name: known[name] for name in case.path_parameters or {} if name in known}
        if there:
            case.path_parameters = {**case.path_parameters, **there}
            case.call_and_validate(checks=[check for check in checks if check is not negative_data_rejection])

    asked()


def test_the_document_is_valid_openapi() -> None:
    validate(application().api_doc)


def test_the_document_describes_every_call_and_every_route_is_in_it() -> None:
    document = application().api_doc
    assert {path: set(calls) for path, calls in document["paths"].items()} == CALLS
    served = {re.sub(r"<(?:path:)?(\w+)>", r"{\1}", str(rule)) for rule in application().url_map.iter_rules()}
    pages = {
        "/",
        "/actions/{action}",
        "/actions/{action}/causes/{cause}",
        "/causes/{cause}",
        "/live",
        "/nodes/{node}",
        "/reasons/{code}",
        "/reference",
        "/reference/redoc.js",
        "/revisions",
        "/revisions/{revision}",
        "/rollouts/{rollout}",
        "/rollouts/{rollout}/{verb}",
        "/search",
        "/versions",
        "/versions/{cluster}",
    }
    assert served - pages - {"/static/{filename}"} == set(CALLS)


def test_every_operation_says_what_it_does_and_answers_errors_in_one_form() -> None:
    for path, calls in application().api_doc["paths"].items():
        for method, operation in calls.items():
            assert operation["summary"].endswith((".", ":")), f"{method} {path}"
            for status, answer in operation["responses"].items():
                if status >= "400":
                    assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Status"}, (
                        f"{method} {path} {status}"
                    )
