"""What gcloud asks of Google besides Pub/Sub and Cloud Storage: projects, APIs, regions, functions, and Cloud Run's services.

Cloud Run is asked at an address with the region before it, which no loopback name has: gcloud comes through here as through a proxy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.terraform.answering import listening

RUN = "http://run.test/"
"""What gcloud is told of Cloud Run's address."""


@dataclass
class Service:
    """A service's revisions by number, and its traffic as it was last set."""

    newest: int = 1
    traffic: list[dict[str, Any]] = field(default_factory=lambda: [{"latestRevision": True, "percent": 100}])

    def serving(self, name: str) -> str:
        """The revision that gets the requests."""
        (target,) = (target for target in self.traffic if target.get("percent"))
        return str(target.get("revisionName") or f"{name}-{self.newest:05}")


@dataclass
class Google:
    """One project."""

    project: str
    apis: list[str] = field(default_factory=lambda: ["cloudresourcemanager.googleapis.com", "cloudfunctions.googleapis.com"])
    functions: list[str] = field(default_factory=list)
    services: dict[str, Service] = field(default_factory=dict)
    candidates_at: str = ""
    """The address of every tagged revision."""
    url: str = ""

    def revise(self, name: str) -> None:
        """A deployment makes a new revision."""
        self.services[name].newest += 1

    @contextmanager
    def running(self) -> Iterator[Google]:
        google = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                data = json.dumps(google.told(self.command, urlsplit(self.path).path, body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = answer  # noqa: N815 - http.server's names

            def log_message(self, *_: Any) -> None:
                return

        with listening(Handler) as url:
            self.url = f"{url}/"
            yield self

    def told(self, verb: str, path: str, body: bytes) -> dict[str, Any]:
        """What is answered."""
        place = f"projects/{self.project}/locations/europe-west1"
        *_, kind, name = path.split("/")
        if "/namespaces/" in path and kind == "services":
            if verb == "PUT":
                self.services[name].traffic = json.loads(body)["spec"]["traffic"]
            return self._service(name)
        if "/namespaces/" in path:
            return {"apiVersion": "serving.knative.dev/v1", "kind": "ServiceList", "items": [self._service(each) for each in self.services]}
        match name:
            case "services":
                return {
                    "services": [{"name": f"projects/1/services/{api}", "config": {"name": api}, "state": "ENABLED"} for api in self.apis]
                }
            case "locations":
                return {"locations": [{"name": place, "locationId": "europe-west1"}]}
            case "functions":
                return {"functions": [{"name": f"{place}/functions/{each}", "environment": "GEN_2"} for each in self.functions]}
        return {"projectId": self.project, "projectNumber": "123456789012"}

    def _service(self, name: str) -> dict[str, Any]:
        service = self.services[name]
        newest = f"{name}-{service.newest:05}"
        traffic = [
            {"revisionName": newest, **target, **({"url": self.candidates_at} if target.get("tag") else {})} for target in service.traffic
        ]
        conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "ConfigurationsReady", "RoutesReady")]
        about = {"name": name, "namespace": self.project, "generation": 1, "labels": {"cloud.googleapis.com/location": "europe-west1"}}
        status = {"observedGeneration": 1, "latestReadyRevisionName": newest, "latestCreatedRevisionName": newest, "traffic": traffic}
        return {
            "apiVersion": "serving.knative.dev/v1",
            "kind": "Service",
            "metadata": about,
            "spec": {"template": {"spec": {"containers": [{"image": "image"}]}}, "traffic": service.traffic},
            "status": {**status, "conditions": conditions, "url": f"https://{name}.run.app"},
        }
