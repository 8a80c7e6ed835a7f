"""The `hullmark` command as a client of a server (`--server URL`): the same few things that the embedded cloud offers, over HTTP.

What the server answers becomes the records and the exceptions that the commands know from the embedded cloud, so that they print the same.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

import urllib3

from local.cli.output import Failure
from shared import wiring
from shared.domain.actions import ActionOutcome, ActionRequest, Lifecycle, Plan
from shared.domain.documents.design import DesignNode
from shared.domain.documents.reading import DocumentsRefused, Problem, Source
from shared.domain.labels.policies import Policies
from shared.domain.site import Site, load
from shared.ledger.actions import Actions, UnknownAction, WrongState
from shared.ledger.revisions import Committed, NothingStaged, Revision, Revisions, Staged, UnknownRevision
from shared.messages import Outgoing, RelabelRequest
from shared.ports import BusError
from shared.work.intake import Problem as Refusal
from shared.work.intake import Rejected
from shared.world import Settings

TIMEOUT = urllib3.Timeout(connect=5.0, read=60.0)
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLL = (0.2, 2.0)
"""Seconds between two looks at a running action: at first, and the most."""


class Http:
    """Calls of one server. Raises what the answer means."""

    def __init__(self, server: str) -> None:
        try:
            parts = urllib3.util.parse_url(server)  # as the request will be sent, whatever another reader makes of it
        except urllib3.exceptions.LocationParseError as error:
            raise Failure("Usage", f"--server {server!r} is no http(s)://host[:port]") from error
        if parts.scheme not in ("http", "https") or not parts.host or parts.auth:
            raise Failure("Usage", f"--server {server!r} is no http(s)://host[:port]")
        self._url = server.rstrip("/")
        self._local = parts.host in LOOPBACK
        self._private = self._local or parts.scheme == "https"
        self._pool = urllib3.PoolManager(timeout=TIMEOUT, retries=urllib3.Retry(2, redirect=0, allowed_methods=["GET"]))

    def get(self, path: str) -> Any:
        """The answer's JSON."""
        return self.call("GET", path)

    def call(self, method: str, path: str, **body: Any) -> Any:
        """The answer's JSON. Raises Failure (no answer, not allowed) and what `_meant` makes of an error."""
        headers = {"Accept": "application/json", **body.pop("headers", {}), **self._authorization}
        try:
            answer = self._pool.request(method, f"{self._url}/v1.0{path}", headers=headers, redirect=False, **body)
        except urllib3.exceptions.HTTPError as error:
            raise Failure("Unreachable", f"{self._url} does not answer: {error}") from error
        if 300 <= answer.status < 400:
            cause = f"{self._url} answers {answer.status}, to {answer.headers.get('Location', '')[:200]!r}"
            raise Failure("Redirected", f"{cause}: name the server that answers itself in --server")
        try:
            found = json.loads(answer.data)
        except ValueError:
            found = {}
        if answer.status < 300:
            return found
        if answer.status in (401, 403) and "details" not in found:
            cause = f"{self._url} answers {answer.status}: is the token of an identity that may call it? (HULLMARK_TOKEN)"
            raise Failure("NotAllowed", cause)
        raise _meant(found, f"{self._url}: {method} {path} answered {answer.status}")

    @functools.cached_property
    def _authorization(self) -> dict[str, str]:
        """The identity token: HULLMARK_TOKEN, else gcloud's for whoever is logged in; none for this machine.

        Raises Failure rather than send a token over plain http to another machine.
        """
        token = os.environ.get("HULLMARK_TOKEN", "")
        if not self._private:
            why = f"{self._url} is plain http to another machine, where everybody on the way could read the token: use https://"
            raise Failure("InsecureServer", why)
        if not token and not self._local:
            try:
                token = subprocess.run(
                    ["gcloud", "auth", "print-identity-token"], capture_output=True, text=True, check=True, timeout=60
                ).stdout.strip()
            except (OSError, subprocess.SubprocessError) as error:
                cause = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1:]
                raise Failure("NoToken", f"set HULLMARK_TOKEN, or log in with gcloud: {' '.join(cause)}") from error
        return {"Authorization": f"Bearer {token}"} if token else {}


def _meant(body: Mapping[str, Any], fallback: str) -> Exception:
    """An error body as the exception that the embedded cloud would have raised."""
    said = body.get("details", {}).get("messageList", [])
    reason, text = (said[0].get("reason", "") if said else ""), body.get("reason") or fallback
    if said and all("line" in each for each in said):
        names = ("file", "line", "document", "path", "type", "message")
        return DocumentsRefused([Problem(**{name: each[name] for name in names}) for each in said])
    errors: dict[str, Exception] = {
        "NothingStaged": NothingStaged("nothing is staged: `hullmark documents stage -f …` first"),
        "UnknownAction": UnknownAction(text),
        "UnknownRevision": UnknownRevision(text),
        "WrongState": WrongState(text),
    }
    if reason in errors:
        return errors[reason]
    if said and str(body.get("code", "")).startswith("400"):
        return Rejected(*(Refusal(each.get("reason", ""), each["message"]) for each in said))
    return Failure(reason or "ServerError", text)


class RemoteActions(Actions):
    """The ledger as the server shows it."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def _body(self, action: str) -> dict[str, Any]:
        found: dict[str, Any] = self._http.get(f"/actions/{quote(action, safe='')}")
        return found

    def ids(self, *, limit: int = 0) -> list[str]:
        return [body["id"] for body in self._http.get(f"/actions?limit={limit or 1000}")]

    def request(self, action: str) -> ActionRequest:
        body = self._body(action)
        given = body["parameters"]
        names = given.get("target_nodes")
        return ActionRequest(
            id=body["id"],
            name=body["name"],
            cluster=body["cluster"],
            revision=body["committed_rev_id"],
            requested_by=body["user"],
            requested_at=datetime.fromisoformat(body["dag_execution_date"]),
            deadline=datetime.fromisoformat(body["deadline"]),
            target_nodes=[name.strip() for name in names.split(",")] if isinstance(names, str) else names,
            node_filter=given.get("node_filter"),
            dry_run=body["dry_run"],
            retry_of=body["retry_of"],
        )

    def find(self, action: str) -> ActionRequest | None:
        try:
            return self.request(action)
        except UnknownAction:
            return None

    def outcome(self, action: str) -> ActionOutcome | None:
        body = self._http.get(f"/actions/{quote(action, safe='')}/outcome")
        return ActionOutcome.model_validate(body) if body["result"] else None

    def lifecycle(self, action: str) -> Lifecycle:
        state: Lifecycle = self._body(action)["action_lifecycle"]
        return state

    def plan(self, action: str) -> Plan | None:
        """As much of a plan as a progress bar needs: how many nodes are done, and how many are not."""
        body = self._body(action)
        done, total = body["progress"]["done"], body["progress"]["total"]
        if not total:
            return None
        at = datetime.fromisoformat(body["dag_execution_date"])
        return Plan(revision=body["committed_rev_id"], planned_at=at, parts=[["waiting"] * (total - done)], unchanged=["done"] * done)

    def recorded(self, action: str) -> set[int]:
        return set()


class RemoteRevision(Revision):
    """A revision with its documents, resolved here where a command asks for more than they say."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.about = Committed.model_validate({**body, "objects": "", "bounds": []})
        self.number = self.about.number
        self.tags: list[str] = body["tags"]
        self.texts = [Source(each["file"], each["text"].encode()) for each in body["texts"]]

    @functools.cached_property
    def site(self) -> Site:
        """The documents, resolved."""
        return load(self.texts)

    @functools.cached_property
    def policies(self) -> Policies:
        return self.site.policies

    @functools.cached_property
    def clusters(self) -> dict[str, dict[str, Any]]:
        return {name: spec["access"] for name, spec in self.policies.clusters.items() if spec.get("access")}

    def node(self, name: str) -> DesignNode | None:
        return self.site.nodes.get(name)

    def nodes(self) -> Iterator[DesignNode]:
        return (self.site.nodes[name] for name in sorted(self.site.nodes))


class RemoteRevisions(Revisions):
    """The committed and staged documents of the server."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def stage(self, collection: str, sources: Sequence[Source], by: str, now: datetime) -> Staged:
        fields = [("files", (source.file, source.data, "application/x-yaml")) for source in sources]
        body = self._http.call("POST", f"/configdocs/{quote(collection, safe='')}", fields=fields)
        return Staged(collection=collection, by=by, at=now, files=[(file, "") for file in body["files"]], digest=body["digest"])

    def commit(self, by: str, now: datetime) -> tuple[Revision, list[Problem]]:
        body = self._http.call("POST", "/commitconfigdocs")
        names = ("file", "line", "document", "path", "type", "message")
        warnings = [Problem(**{name: each[name] for name in names}) for each in body["details"]["messageList"]]
        return self.get(body["revision"]), warnings

    def get(self, number: int) -> RemoteRevision:
        return RemoteRevision(self._http.get(f"/revisions/{number}"))

    def newest(self) -> int:
        return max(self.numbers(), default=0)

    def numbers(self) -> list[int]:
        return [body["number"] for body in self._http.get("/revisions")["revisions"]]

    def buffers(self) -> dict[str, str]:
        found: dict[str, str] = self._http.get("/revisions")["staged"]
        return found

    def sources(self, number: int) -> list[Source]:
        return self.get(number).texts

    def tag(self, number: int, tag: str, by: str, now: datetime) -> None:
        self._http.call("POST", f"/revisions/{number}/tags/{quote(tag, safe='')}")

    def tags(self, number: int) -> list[str]:
        return self.get(number).tags


class Remote:
    """A server in the place of the embedded cloud: it works by itself, so that waiting is looking."""

    def __init__(self, server: str) -> None:
        self._http = Http(server)
        self._watched = ""
        self.world = wiring.build(Settings.from_environment().model_copy(update={"store": "memory:"}), self)
        self.world.actions = RemoteActions(self._http)
        self.world.revisions = RemoteRevisions(self._http)

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        """The bus is the server's. Raises BusError."""
        raise BusError(f"{topic}: with --server, messages are the server's business ({len(messages)} not published)")

    def submit(self, request: RelabelRequest) -> str:
        """Ask the server for an action; its id."""
        if request.retry_of:
            body = self._http.call("POST", f"/actions/{quote(request.retry_of, safe='')}/control/retry")
        else:
            given = request.model_dump(include={"target_nodes", "node_filter", "cluster", "dry_run"}, exclude_none=True, mode="json")
            body = self._http.call("POST", "/actions", json={"name": request.name, "parameters": given})
        self._watched = body["id"]
        return self._watched

    def control(self, action: str, verb: str, by: str, now: datetime) -> None:
        """Stop an action, as whoever the server takes us for. Raises WrongState and UnknownAction."""
        self._http.call("POST", f"/actions/{quote(action, safe='')}/control/{verb}")

    def resume(self, *only: str) -> list[str]:
        """Watch this action: on a server nothing needs to be asked again."""
        self._watched = only[0] if only else ""
        return list(only)

    def drain(self) -> None:
        """Look at the watched action until it has ended."""
        wait = POLL[0]
        while self._watched and self.world.actions.lifecycle(self._watched) not in ("Complete", "Failed"):
            time.sleep(wait)
            wait = min(wait * 1.5, POLL[1])
