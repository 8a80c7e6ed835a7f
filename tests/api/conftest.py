"""The api as functions-framework hosts it, in front of the embedded cloud with every other function behind the bus."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import functions_framework
import pytest
import yaml
from werkzeug.test import Client

from local import steps
from shared import telemetry, wiring
from shared.ports import ClusterError
from tests.stories.fleet import Fleet, a_policy


class FrontDoor(Fleet):
    """The fleet of the stories, asked over HTTP."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.app = functions_framework.create_app("api", str(steps.load().steps["api"].source))
        self.client: Client = self.app.test_client()

    def ask(self, method: str, path: str, **given: Any) -> Any:
        return self.client.open(path, method=method, **given)

    def get(self, path: str, **given: Any) -> Any:
        return self.ask("GET", path, **given)

    def post(self, path: str, body: Any = None, **given: Any) -> Any:
        return self.ask("POST", path, json=body, **given) if body is not None else self.ask("POST", path, **given)

    def stage(self, documents: str, collection: str = "site", **given: Any) -> Any:
        given = {"content_type": "application/x-yaml", "data": documents} | given
        return self.ask("POST", f"/v1.0/configdocs/{collection}", **given)

    def create(self, name: str = "update_labels", **parameters: Any) -> Any:
        """POST an action."""
        return self.post("/v1.0/actions", {"name": name, "parameters": parameters})

    def create_as(self, headers: Mapping[str, str], environ: Mapping[str, str] | None = None) -> Any:
        """POST an action on n1 with these headers, in this WSGI environment."""
        body = {"name": "update_labels", "parameters": {"target_nodes": ["n1"]}}
        return self.post("/v1.0/actions", body, headers=dict(headers), environ_overrides=dict(environ or {}))

    def unreachable(self, error: ClusterError, *nodes: str) -> None:
        """From now on the cluster answers this, for these nodes or (none named) for everything."""

        def before(_call: str, node: str) -> None:
            if not nodes or node in nodes:
                raise error

        self.cluster.before = before


def policies(labels: Mapping[str, Mapping[str, str]]) -> str:
    """Documents: a policy for each node."""
    return yaml.safe_dump_all(a_policy(name, {"names": [name]}, wanted) for name, wanted in labels.items())


def as_files(**files: str) -> dict[str, Any]:
    """A multipart body."""
    return {"files": [(io.BytesIO(text.encode()), f"{name}.yaml") for name, text in files.items()]}


def reasons(answer: Any) -> list[str]:
    """The codes in an error's messageList."""
    return [said["reason"] for said in answer.json["details"]["messageList"]]


@pytest.fixture
def door() -> Iterator[FrontDoor]:
    """Nothing committed, no nodes."""
    telemetry.write_to(None)
    yield FrontDoor()
    wiring.install(None)


@pytest.fixture
def fleet(door: FrontDoor) -> FrontDoor:
    """n1 and n2, in the documents and in the cluster; deployed by other means."""
    door.declares({"n1": {"rack": "r7"}, "n2": {"rack": "r8"}})
    door.has_nodes(n1={"zone": "a"}, n2={"zone": "a"})
    return door
