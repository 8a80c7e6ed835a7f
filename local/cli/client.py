"""The commands' service on a server (`--server URL`): every question and every order goes over its HTTP API.

An error that the server answers becomes the exception that the embedded service raises for it, so the command says the same.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import urllib3
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from local.cli.output import Failure
from local.cli.service import (
    ActionSummary,
    CommittedDocuments,
    CommittedSummary,
    ListedRevision,
    Listing,
    Progress,
    RestoredSummary,
    RevisionSummary,
    StagedFiles,
    Word,
)
from shared.domain.actions import REVISION_REJECTED, ActionOutcome, Lifecycle
from shared.domain.documents.reading import DocumentsRefused, Problem, Source
from shared.domain.labels.comparison import RevisionDiff
from shared.domain.labels.explanations import NodeExplanation, NodeHistory
from shared.domain.labels.impact import Accepting, RevisionImpact
from shared.domain.labels.node_states import NodesRequest, NodeStates
from shared.domain.labels.plans import LabelPlan, PlanRequest
from shared.domain.rollouts.on_commit import OnCommit
from shared.domain.rollouts.progress import WrongPhase
from shared.domain.site import DeclaredSite, load
from shared.domain.versions.answers import DecisionList, Explanation, ForecastList, ImpactList, OfferList
from shared.domain.versions.groups import EVERYTHING, ClusterFilter, DecisionFilter
from shared.ledger.actions import UnknownAction, WrongState
from shared.ledger.revisions import EmptyStage, NothingStaged, TagStays, UnknownCollection, UnknownRevision, UnknownTag
from shared.ledger.rollouts import UnknownRollout
from shared.messages import RelabelRequest
from shared.work.commits import WouldCommit
from shared.work.deferrals import DeferralEntry, DeferralList
from shared.work.holds import FreezeList, PauseStatus
from shared.work.intake import Refusal, Rejected
from shared.work.planning import Declarations
from shared.work.rollouts import Control, RolloutList, RolloutStatus

T = TypeVar("T")
PAGE = 5000
"""Nodes that are asked for at a time; the server bounds a page in bytes, too."""
URL_NAMES = 4000
"""Characters of names in one URL."""
CONNECT_SECONDS, READ_SECONDS = 5.0, 60.0
TIMEOUT = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
RETRIES = urllib3.Retry(
    2, redirect=False, allowed_methods=["GET"], status_forcelist=(502, 503, 504), raise_on_status=False, backoff_factor=0.2
)
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLL = (0.2, 2.0)
"""Seconds between two looks at a running action: at first, and the most."""


class Http:
    """Calls of one server. Raises Failure, or what the server's error means."""

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
        self._pool = urllib3.PoolManager(timeout=TIMEOUT, retries=RETRIES)

    def get(self, path: str, meant: type[T], **query: Any) -> T:
        """Send a request and return the answer as `meant`."""
        return self.call("GET", path, meant, fields={name: str(value) for name, value in query.items() if value is not None})

    def call(self, method: str, path: str, meant: type[T], **body: Any) -> T:
        """Send a request and return the answer as `meant`."""
        headers = {"Accept": "application/json", **self._authorization}
        try:
            answer = self._pool.request(method, f"{self._url}/v1.0{path}", headers=headers, redirect=False, **body)
        except urllib3.exceptions.HTTPError as error:
            perhaps = "" if method == "GET" else "; the request may still have taken effect: check before you repeat it"
            raise Failure("Unreachable", f"{self._url} does not answer: {_cause(error)}{perhaps}") from error
        if 300 <= answer.status < 400:
            cause = f"{self._url} answers {answer.status}, to {answer.headers.get('Location', '')[:200]!r}"
            raise Failure("Redirected", f"{cause}: give --server the final address")
        asked = f"{self._url}: {method} {path}"
        answered = _json(answer.data)
        if answer.status < 300:
            try:
                return TypeAdapter(meant).validate_python(answered)
            except ValidationError as error:
                kind = answer.headers.get("Content-Type", "something")
                flaw = error.errors(include_url=False)[0]
                what = (
                    f"{'.'.join(map(str, flaw['loc'])) or 'the answer'}: {flaw['msg']}"
                    if answered is not None
                    else f"it is {kind}, not JSON"
                )
                raise Failure("NotHullmark", f"{asked} did not answer like Hullmark: {what}; is this its address?") from error
        if answer.status in (401, 403) and not isinstance(answered, dict):
            cause = f"{self._url} answers {answer.status}: does the token (HULLMARK_TOKEN) belong to an identity that may call it?"
            raise Failure("NotAllowed", cause)
        raise _meant(answered if isinstance(answered, dict) else {}, f"{asked} answered {answer.status}")

    @functools.cached_property
    def _authorization(self) -> dict[str, str]:
        """The identity token: HULLMARK_TOKEN, else gcloud's for whoever is logged in; none for this machine.

        Raises Failure rather than send a token over plain http to another machine.
        """
        token = os.environ.get("HULLMARK_TOKEN", "")
        if not self._private:
            why = f"{self._url} would send the token unencrypted to another machine: use https://"
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


def _json(data: bytes) -> Any:
    """What the bytes say; None for what is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _cause(error: BaseException) -> str:
    """The innermost cause in a few words: urllib3 wraps it in its own."""
    from shared.adapters.apiserver import plain

    if isinstance(error, urllib3.exceptions.MaxRetryError) and error.reason is not None:
        return _cause(error.reason)
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return f"no answer within {READ_SECONDS:.0f} seconds"
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError) and not isinstance(error, urllib3.exceptions.NewConnectionError):
        return f"no connection within {CONNECT_SECONDS:.0f} seconds"
    text = str(error.args[-1] if error.args else error)
    words = plain(text.partition("): ")[2] or text)  # after the name of the connection's object
    return "nothing listens there (connection refused)" if "Connection refused" in words else words


class ErrorEntry(BaseModel):
    """One entry of an error's messageList."""

    model_config = ConfigDict(extra="ignore")
    message: str
    reason: str = ""
    file: str = ""
    line: int | None = None
    document: str = ""
    path: str = ""
    type: str = ""

    def problem(self) -> Problem:
        """What it says of a document."""
        return Problem(self.file, self.line or 0, self.document, self.path, self.type, self.message)


class ErrorDetails(BaseModel):
    """`details` of an error, and of an answer that has warnings."""

    messageList: list[ErrorEntry] = []  # noqa: N815 - Shipyard's name


class ErrorBody(BaseModel):
    """How every error of the server looks."""

    model_config = ConfigDict(extra="ignore")
    reason: str = ""
    code: str = ""
    details: ErrorDetails = ErrorDetails()


def _meant(body: Mapping[str, Any], fallback: str) -> Exception:
    """An error body as the exception that the embedded service raises."""
    try:
        error = ErrorBody.model_validate(body)
    except ValidationError:
        error = ErrorBody()
    listed = error.details.messageList
    reason, text = (listed[0].reason if listed else ""), error.reason or fallback
    if listed and all(entry.line is not None for entry in listed):
        return DocumentsRefused([entry.problem() for entry in listed])
    known: dict[str, Exception] = {
        "NothingStaged": NothingStaged(text),
        "EmptyStage": EmptyStage(text),
        "UnknownCollection": UnknownCollection(text),
        "UnknownAction": UnknownAction(text),
        "UnknownRevision": UnknownRevision(text),
        "UnknownTag": UnknownTag(text),
        "TagStays": TagStays(text),
        **{
            reason: Rejected(Refusal(reason, text))
            for reason in (REVISION_REJECTED, "NewerReleased", "Frozen", "Paused", "InvalidDeferral")
        },
        "WrongState": WrongState(text),
        "UnknownRollout": UnknownRollout(text),
        "WrongPhase": WrongPhase(text),
    }
    if reason in known:
        return known[reason]
    if listed and error.code.startswith("400"):
        return Rejected(*(Refusal(entry.reason, entry.message) for entry in listed))
    return Failure(reason or "ServerError", text)


class Server:
    """A server, asked over HTTP: it works by itself, so waiting is looking."""

    def __init__(self, url: str) -> None:
        self._http = http = Http(url)
        self.ledger = ServerLedger(http)
        self.documents = ServerDocuments(http)
        self.plans = ServerPlans(http)
        self.nodes = ServerNodes(http)
        self.rollouts = ServerRollouts(http)
        self.holds = ServerHolds(http)

    def versions(self, *, live: bool) -> ServerVersions:
        return ServerVersions(self._http, live)


class ChildAnswer(BaseModel):
    """One cluster's own action."""

    cluster: str
    id: str


class ActionAnswer(BaseModel):
    """What we read of the server's action."""

    model_config = ConfigDict(extra="ignore")
    id: str
    name: str
    cluster: str
    clusters: list[str] = []
    parent: str | None = None
    children: list[ChildAnswer] = []
    committed_rev_id: int
    action_lifecycle: Lifecycle
    result: str | None
    user: str
    dag_execution_date: datetime
    dry_run: bool = False
    progress: Progress

    def summary(self) -> ActionSummary:
        """As the commands know it."""
        return ActionSummary(
            id=self.id,
            name=self.name,
            cluster=self.cluster,
            clusters=self.clusters,
            parent=self.parent,
            revision=self.committed_rev_id,
            lifecycle=self.action_lifecycle,
            result=self.result,
            requested_by=self.user,
            requested_at=self.dag_execution_date,
            dry_run=self.dry_run,
        )


class OutcomeAnswer(BaseModel):
    """Whether an action has ended; the rest of the answer is an ActionOutcome then."""

    model_config = ConfigDict(extra="allow")
    result: str | None


class ServerLedger:
    """The server's actions."""

    runs_by_itself = True

    def __init__(self, http: Http) -> None:
        self._http = http
        self._left = threading.Event()

    def newest(self, limit: int) -> list[ActionSummary]:
        return [action.summary() for action in self._http.get("/actions", list[ActionAnswer], limit=limit)]

    def summary(self, action: str) -> ActionSummary:
        return self._answer(action).summary()

    def outcome(self, action: str) -> ActionOutcome | None:
        answer = self._http.get(f"{_path(action)}/outcome", OutcomeAnswer)
        return ActionOutcome.model_validate(answer.model_dump()) if answer.result else None

    def progress(self, action: str) -> Progress | None:
        progress = self._answer(action).progress
        return progress if progress.total else None

    def children(self, action: str) -> dict[str, str]:
        return {child.cluster: child.id for child in self._answer(action).children}

    def submit(self, request: RelabelRequest) -> str:
        which = {"plan"} if request.plan else {"target_nodes", "node_filter"}
        parameters = {*which, "cluster", "clusters", "dry_run", "adopt", "supersede", *Accepting.model_fields}
        given = request.model_dump(include=parameters, exclude_none=True, mode="json")
        return self._http.call("POST", "/actions", ActionAnswer, json={"name": request.name, "parameters": given}).id

    def retry(self, action: str, accept: Accepting) -> str:
        return self._http.call("POST", f"{_path(action)}/control/retry?{urlencode(accept.accepting())}", ActionAnswer).id

    def control(self, action: str, verb: str, now: datetime) -> None:
        self._http.call("POST", f"{_path(action)}/control/{verb}", ActionAnswer)

    goes_on = "on the server"

    def leave(self) -> None:
        """The server's work is its own; looking at it ends."""
        self._left.set()

    def wait(self, action: str) -> None:
        wait = POLL[0]
        try:
            while self._answer(action).action_lifecycle not in ("Complete", "Failed", "Paused"):
                if self._left.wait(wait):
                    return
                wait = min(wait * 1.5, POLL[1])
        except Failure as failure:
            hint = f"action {action} continues {self.goes_on}; follow it with `hullmark actions watch {action}`"
            raise Failure(failure.reason, f"{failure}; {hint}") from failure

    def _answer(self, action: str) -> ActionAnswer:
        return self._http.get(_path(action), ActionAnswer)


def _path(action: str) -> str:
    """Where an action is. Raises UnknownAction for what is no id: it would be another path."""
    if not action.isalnum():
        raise UnknownAction(f"no action {action}")
    return f"/actions/{quote(action)}"


class RevisionsAnswer(BaseModel):
    """Revisions, and what is staged."""

    model_config = ConfigDict(extra="ignore")
    revisions: list[ListedRevision]
    staged: dict[str, str]


class FileAnswer(BaseModel):
    """One file of a revision."""

    file: str
    text: str
    collection: str = ""


class RevisionAnswer(RevisionSummary):
    """One revision with its documents."""

    texts: list[FileAnswer]

    def committed(self) -> CommittedDocuments:
        """As the commands know it."""
        about = RevisionSummary.model_validate(self.model_dump(exclude={"texts"}))
        files: dict[str, list[Source]] = {}
        for text in self.texts:
            files.setdefault(text.collection, []).append(Source(text.file, text.text.encode()))
        return CommittedDocuments(about, files)


class CommitAnswer(BaseModel):
    """The number of the new revision (null for a dry run), its warnings, and what it does to the nodes."""

    model_config = ConfigDict(extra="ignore")
    revision: int | None
    impact: RevisionImpact | None = None
    rollouts: list[OnCommit] = []
    details: ErrorDetails

    @property
    def warnings(self) -> list[Problem]:
        """Of the documents; what goes beyond the limits is in `impact`."""
        return [entry.problem() for entry in self.details.messageList if entry.line is not None]


class ServerDocuments:
    """The server's documents."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def stage(self, collection: str, sources: Sequence[Source], now: datetime) -> StagedFiles:
        fields = [("files", (source.file, source.data, "application/x-yaml")) for source in sources]
        return self._http.call("POST", f"/configdocs/{quote(collection, safe='')}", StagedFiles, fields=fields)

    def remove(self, collection: str, now: datetime) -> StagedFiles:
        return self._http.call("DELETE", f"/configdocs/{quote(collection, safe='')}", StagedFiles)

    def would_commit(self, now: datetime, accept: Accepting) -> WouldCommit:
        answer = self._http.call("POST", f"/commitconfigdocs?{urlencode({'dryrun': 'true', **accept.accepting()})}", CommitAnswer)
        return WouldCommit(answer.warnings, answer.impact or RevisionImpact(), answer.rollouts)

    def commit(self, now: datetime, message: str, source: str, accept: Accepting) -> tuple[CommittedSummary, list[Problem]]:
        given = urlencode({"message": message, "source": source, **accept.accepting()})
        answer = self._http.call("POST", f"/commitconfigdocs?{given}", CommitAnswer)
        if answer.revision is None:
            raise Failure("NotHullmark", "the server treated the commit as a dry run")
        about = self.get(answer.revision).about
        return CommittedSummary(**dict(about), rollouts=answer.rollouts), answer.warnings

    def restore(self, number: int, now: datetime, message: str, source: str, accept: Accepting) -> RestoredSummary:
        why = urlencode({"message": message, "source": source, **accept.accepting()})
        return self._http.call("POST", f"/revisions/{number}/restore?{why}", RestoredSummary)

    def list(self, limit: int) -> Listing:
        answer = self._http.get("/revisions", RevisionsAnswer, limit=limit)
        return Listing(answer.revisions, sorted(answer.staged))

    def get(self, number: int, collection: str = "") -> CommittedDocuments:
        return self._http.get(f"/revisions/{number}", RevisionAnswer, collection=collection or None).committed()

    def diff(self, older: int, newer: int, cluster: str, collection: str) -> RevisionDiff:
        narrowed = {"cluster": cluster or None, "collection": collection or None}
        return self._http.get(f"/revisions/{older}/diff/{newer}", RevisionDiff, **narrowed)

    def tag(self, number: int, tag: str, now: datetime) -> RevisionSummary:
        return self._http.call("POST", f"/revisions/{number}/tags/{quote(tag, safe='')}", RevisionSummary)

    def untag(self, number: int, tag: str) -> RevisionSummary:
        return self._http.call("DELETE", f"/revisions/{number}/tags/{quote(tag, safe='')}", RevisionSummary)

    def declared(self) -> DeclaredSite | None:
        revisions = self.list(1).revisions
        if not revisions:
            return None
        newest = self.get(revisions[-1].number)
        return DeclaredSite(newest.about.number, load(newest.sources))


class ServerRollouts:
    """The server's rollouts."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def start(self, name: str, accept: Accepting, *, supersede: bool) -> RolloutStatus:
        return self._http.call("POST", "/rollouts", RolloutStatus, json={"name": name, "supersede": supersede, **accept.accepting()})

    def newest(self, limit: int) -> list[RolloutStatus]:
        return self._http.get("/rollouts", RolloutList, limit=limit).rollouts

    def get(self, rollout: str) -> RolloutStatus:
        return self._http.get(f"/rollouts/{quote(rollout, safe='')}", RolloutStatus)

    def control(self, rollout: str, verb: Control, word: Word) -> RolloutStatus:
        said = {"stage": word.stage, "impact": word.impact, "reason": word.reason, **word.accept.accepting()}
        said = {name: value for name, value in said.items() if value != ""}
        return self._http.call("POST", f"/rollouts/{quote(rollout, safe='')}/control/{verb}", RolloutStatus, json=said)

    def look_again(self, rollout: str, seconds: float) -> RolloutStatus:
        time.sleep(seconds)
        return self.get(rollout)


class ServerHolds:
    """What holds the server's changes back."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def pause(self, reason: str) -> PauseStatus:
        return self._http.call("PUT", "/pause", PauseStatus, json={"reason": reason})

    def resume(self) -> PauseStatus:
        return self._http.call("PUT", "/pause", PauseStatus, json={"paused": False})

    def defer(self, cluster: str, until: datetime, reason: str) -> DeferralEntry:
        said = {"until": until.isoformat(), "reason": reason}
        return self._http.call("PUT", _deferral(cluster), DeferralEntry, json=said)

    def cancel(self, cluster: str) -> DeferralEntry:
        return self._http.call("DELETE", _deferral(cluster), DeferralEntry)

    def deferrals(self) -> DeferralList:
        return self._http.get("/versions/deferrals", DeferralList)

    def freezes(self) -> FreezeList:
        return self._http.get("/freezes", FreezeList)


def _deferral(cluster: str) -> str:
    return f"/versions/deferrals/{quote(cluster, safe='/')}"


class ServerPlans:
    """Plans that the server makes, of its own revision and clusters."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def committed(self, asked: PlanRequest) -> LabelPlan:
        return self._http.call("POST", "/plans", LabelPlan, json=asked.model_dump(mode="json", exclude_defaults=True))

    def documents(self, asked: PlanRequest, declared: Declarations) -> LabelPlan:
        raise Failure("Usage", "a server plans its committed documents: commit first, or give --nodes to plan here")


class ServerNodes:
    """Nodes of the server's clusters."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def states(self, asked: NodesRequest) -> NodeStates:
        pages = [page for some in _in_urls(asked.names) for page in self._pages(asked, some)]
        every = {name: node for page in pages for name, node in page.nodes.items()}
        return NodeStates(cluster=pages[-1].cluster, committed=pages[-1].committed, nodes=every)

    def explain(self, node: str, key: str, cluster: str | None, look_back: int) -> NodeExplanation:
        asked = {"key": key or None, "cluster": cluster, "look_back": look_back}
        return self._http.get(f"/explain/{quote(node, safe='')}", NodeExplanation, **asked)

    def history(self, node: str, cluster: str | None, look_back: int) -> NodeHistory:
        return self._http.get(f"/node-labels/{quote(node, safe='')}/history", NodeHistory, cluster=cluster, look_back=look_back)

    def _pages(self, asked: NodesRequest, names: str) -> Iterator[NodeStates]:
        query = {"cluster": asked.cluster or "", "names": names, "out_of_sync": str(asked.out_of_sync).lower()}
        given = {name: value for name, value in query.items() if value}
        page = self._http.get("/nodes", NodeStates, **given, limit=PAGE)
        yield page
        while page.next:
            page = self._http.get("/nodes", NodeStates, **given, limit=PAGE, after=page.next)
            yield page


def _in_urls(names: Sequence[str] | None) -> list[str]:
    """The names with commas, as many at a time as fit into a URL; one empty text for every node."""
    texts = [""]
    for name in sorted(names or ()):
        if texts[-1] and len(texts[-1]) + len(name) >= URL_NAMES:
            texts.append("")
        texts[-1] += f",{name}" if texts[-1] else name
    return texts


class ServerVersions:
    """The versions of the server's fleet."""

    def __init__(self, http: Http, live: bool) -> None:
        self._http = http
        self._live = live

    def offers(self, now: datetime) -> OfferList:
        return self._get("", OfferList, now)

    def decisions(self, now: datetime, wanted: DecisionFilter = EVERYTHING, *, stays: bool = True) -> DecisionList:
        return self._get("/plan", DecisionList, now, stays=str(stays).lower(), **wanted.model_dump(exclude_none=True))

    def calendar(self, now: datetime, days: int | None, wanted: ClusterFilter = EVERYTHING) -> ForecastList:
        named = wanted.model_dump(include={*ClusterFilter.model_fields}, exclude_none=True)
        return self._get("/calendar", ForecastList, now, days=days, **named)

    def impact(self, edited: Sequence[Source], now: datetime, days: int | None = None, only: str | None = None) -> ImpactList:
        given = {"now": now.isoformat(), "live": str(self._live).lower(), "days": days, "fleet": only}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        files = [{"file": source.file, "text": source.data.decode(errors="replace")} for source in edited]
        return self._http.call("POST", f"/versions/impact?{query}", ImpactList, json={"files": files})

    def why(self, cluster: str, now: datetime) -> Explanation:
        return self._get(f"/why/{quote(cluster, safe='')}", Explanation, now)

    def _get(self, path: str, meant: type[T], now: datetime, **query: Any) -> T:
        return self._http.get(f"/versions{path}", meant, now=now.isoformat(), live=str(self._live).lower(), **query)
