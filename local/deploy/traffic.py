"""Which revision of each function gets the requests: held while a new one is tried, moved when it answered, put back when it did not.

Behind each function stands a Cloud Run service. Traffic that is pinned to a revision stays there while Terraform updates the function
with `hold_traffic`; `--to-latest` gives it to whatever is newest, now and from then on, which is also what Terraform declares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from local import steps
from local.deploy.tools import CannotDeploy, Tools

CANDIDATE = "candidate"
"""The tag under which a new revision can be asked before it gets traffic."""


class Service(msgspec.Struct, frozen=True):
    """One function's service: the revision that gets most of the traffic, the newest that is ready, and addresses."""

    name: str
    serving: str
    newest: str
    url: str
    candidate: str = ""


class Record(msgspec.Struct):
    """What served before a deployment: the way back."""

    revisions: dict[str, str]
    archive: str = ""


@dataclass(frozen=True)
class Traffic:
    """The services of one deployment."""

    tools: Tools
    prefix: str
    record: str
    """Where the way back is kept: an object beside the state."""

    def services(self) -> dict[str, Service]:
        """The services that are there, by name."""
        listed = json.loads(self._run("list", "--format=json") or "[]")
        ours = {f"{self.prefix}{name.replace('_', '-')}" for name in steps.load().steps}
        return {name: _service(name, told) for told in listed if (name := told["metadata"]["name"]) in ours}

    def hold(self, services: Mapping[str, Service], archive: str) -> None:
        """Remember what serves now, and keep all traffic there."""
        revisions = {name: service.serving for name, service in services.items()}
        self._remember(Record(revisions, archive))
        for name, revision in revisions.items():
            self._run("update-traffic", name, f"--to-revisions={revision}=100", "--quiet")

    def tag(self, service: Service) -> Service:
        """Give a service's newest revision an address of its own, without traffic."""
        self._run("update-traffic", service.name, f"--set-tags={CANDIDATE}={service.newest}", "--quiet")
        return self.services()[service.name]

    def release(self, services: Mapping[str, Service]) -> None:
        """All traffic to the newest revisions."""
        for name, service in services.items():
            untag = [f"--remove-tags={CANDIDATE}"] if service.candidate else []
            self._run("update-traffic", name, "--to-latest", *untag, "--quiet")

    def back(self) -> dict[str, str]:
        """All traffic to what served before the last deployment; service → revision. Raises CannotDeploy where that is not known."""
        kept = self.tools.asked("storage", "cat", self.record)
        if kept is None:
            raise CannotDeploy("nothing to go back to: no deployment has replaced another one yet")
        record = msgspec.json.decode(kept, type=Record)
        for name, revision in record.revisions.items():
            self._run("update-traffic", name, f"--to-revisions={revision}=100", "--quiet")
        return record.revisions

    def _remember(self, record: Record) -> None:
        self.tools.gcloud("storage", "cp", "-", self.record, "--quiet", given=msgspec.json.encode(record).decode())

    def _run(self, verb: str, *arguments: str) -> str:
        return self.tools.gcloud("run", "services", verb, *arguments, f"--project={self.tools.project}", f"--region={self.tools.region}")


def _service(name: str, told: Mapping[str, Any]) -> Service:
    status = told.get("status", {})
    newest = status.get("latestReadyRevisionName", "")
    traffic = status.get("traffic", [])
    serving: Mapping[str, Any] = max(traffic, key=lambda target: int(target.get("percent") or 0), default={})
    tagged = next((target.get("url", "") for target in traffic if target.get("tag") == CANDIDATE), "")
    return Service(name, serving.get("revisionName") or newest, newest, status.get("url", ""), tagged)
