"""What all answers share: Shipyard's status body, and the errors that become one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Literal

from flask import Response, request
from pydantic import BaseModel, ConfigDict, ValidationError
from werkzeug.exceptions import HTTPException

from shared.domain.actions import REVISION_REJECTED
from shared.domain.documents.reading import DocumentsRefused
from shared.domain.documents.reading import Problem as DocumentProblem
from shared.domain.rollouts.progress import WrongPhase
from shared.domain.versions.answers import UnknownFleetCluster
from shared.ledger.actions import UnknownAction, WrongState
from shared.ledger.records import RecordUnreadable
from shared.ledger.revisions import EmptyStage, NothingStaged, TagStays, UnknownCollection, UnknownRevision, UnknownTag
from shared.ledger.rollouts import UnknownRollout
from shared.ports import BusError, ClusterError, Refused, StoreError
from shared.work.intake import ROLLOUT_RUNNING, Rejected
from shared.world import SettingsError

NEEDS_BODY = (413, 415)


class Said(BaseModel):
    """One entry of a `messageList`. `reason` is a CamelCase code; the last five say where in the documents."""

    model_config = ConfigDict(extra="forbid")
    message: str
    error: bool = True
    level: Literal["Error", "Warning", "Info"] = "Error"
    reason: str = ""
    file: str | None = None
    line: int | None = None
    document: str | None = None
    path: str | None = None
    type: str | None = None


class Details(BaseModel):
    """`details` of a status body."""

    errorType: str | None = None  # noqa: N815 - Shipyard's name
    errorCount: int = 0  # noqa: N815
    messageList: list[Said] = []  # noqa: N815


class Status(BaseModel):
    """Shipyard's and Promenade's status body (docs/airship.md §1.1, §3): how every error looks, and some successes."""

    kind: Literal["status", "Status"] = "status"
    apiVersion: str = "v1.0"  # noqa: N815
    metadata: dict[str, Any] = {}
    status: Literal["Success", "Failure"]
    message: str
    reason: str
    details: Details
    code: str
    retry: bool = False


class ApiError(Exception):
    """An answer other than success: title, cause, and every single problem."""

    def __init__(self, status: int, title: str, cause: str, problems: Iterable[Said] = (), *, retry: bool = False) -> None:
        self.status = status
        self.title = title
        self.cause = cause
        self.problems = list(problems) or [Said(message=cause)]
        self.retry = retry
        super().__init__(f"{status} {title}: {cause}")


ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}
"""Named, not given as a model: a model's schema would be made anew for each of some hundred errors, at every cold start."""


def answers(success: int, model: type[BaseModel] | dict[str, Any] | None, *errors: int, body: bool = False) -> dict[Any, Any]:
    """The `responses` of an operation: its success, the errors it names, and those that any operation may answer with."""
    expected = sorted({400, 401, 403, *errors, *(NEEDS_BODY if body else ()), 500, 503})
    return {success: model, **{status: {"content": ERROR} for status in expected}}


def media(kind: str) -> dict[str, Any]:
    """A success that is not JSON."""
    return {"content": {kind: {"schema": {"type": "string"}}}}


def send(body: BaseModel | list[Any] | dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON, as compact as it gets: lists of actions are polled."""
    plain: Any = body.model_dump(mode="json") if isinstance(body, BaseModel) else body
    if isinstance(body, Status):  # what an entry has nothing to say of is left out
        plain["details"] = body.details.model_dump(mode="json", exclude_none=True)
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
    return Response(text, status, headers, mimetype="application/json")


def success(message: str, reason: str, code: int = 200, said: Iterable[Said] = ()) -> Status:
    """Return a status body for a success."""
    listed = list(said)
    phrase = f"{code} {HTTPStatus(code).phrase}"
    return Status(
        kind="Status",
        status="Success",
        message=message,
        reason=reason,
        details=Details(errorCount=sum(entry.error for entry in listed), messageList=listed),
        code=phrase,
    )


def failure(error: ApiError) -> Response:
    """The error form of every 4xx and 5xx."""
    phrase = f"{error.status} {HTTPStatus(error.status).phrase}"
    details = Details(errorType=type(error).__name__, errorCount=sum(p.error for p in error.problems), messageList=error.problems)
    body = Status(status="Failure", message=error.title, reason=error.cause, details=details, code=phrase, retry=error.retry)
    return send(body, error.status)


def said_of(problem: DocumentProblem, *, error: bool = True) -> Said:
    """A problem of the documents, as an entry of a messageList."""
    return Said(
        message=problem.message,
        error=error,
        level="Error" if error else "Warning",
        reason=problem.type,
        file=problem.file,
        line=problem.line,
        document=problem.document,
        path=problem.path,
        type=problem.type,
    )


def invalid(title: str, error: ValidationError) -> ApiError:
    """A body, query or path that its model refuses, every problem at once. What was sent is not repeated: it may hold secrets."""
    said = [Said(message=_worded(flaw["loc"], flaw["msg"], flaw["type"]), reason=flaw["type"]) for flaw in error.errors(include_url=False)]
    return ApiError(400, title, "; ".join(entry.message for entry in said), said)


def _worded(where: tuple[int | str, ...], message: str, kind: str) -> str:
    message = "unknown; left out, or misspelt?" if kind == "extra_forbidden" else message.removeprefix("Value error, ")
    return f"{'.'.join(map(str, where))}: {message}" if where else message


REJECTIONS = {
    "NoCommittedRevision": "No committed configdocs",
    "NoSiteAction": "No site action",
    "UnknownNode": "Invalid target_nodes parameter",
    "ClusterUnknown": "Invalid cluster parameter",
    REVISION_REJECTED: "Revision rejected",
    ROLLOUT_RUNNING: "Rollout running",
    "ReasonRequired": "Invalid reason",
    "ImpactRequired": "Invalid impact",
    "ImpactChanged": "Impact changed",
    "UnknownRolloutDocument": "No such Rollout document",
}
"""Titles of what intake refuses, in Shipyard's words where it has some."""
CONFLICTS = (REVISION_REJECTED, ROLLOUT_RUNNING, "NewerReleased", "ActionRunning", "Frozen", "Paused", "ImpactChanged")
"""What intake refuses though nothing is wrong with the request: 409."""


NAMED: Mapping[type[Exception], tuple[int, str, str]] = {
    UnknownAction: (404, "Action not found", "UnknownAction"),
    UnknownRevision: (404, "Revision not found", "UnknownRevision"),
    UnknownFleetCluster: (404, "Cluster not found", "ClusterUnknown"),
    UnknownCollection: (404, "Configdocs not found", "UnknownCollection"),
    UnknownTag: (404, "Tag not found", "UnknownTag"),
    TagStays: (409, "Tag stays", "TagStays"),
    EmptyStage: (400, "Validation failed", "EmptyStage"),
    NothingStaged: (409, "No documents to commit", "NothingStaged"),
    UnknownRollout: (404, "Rollout not found", "UnknownRollout"),
    WrongPhase: (409, "Invalid state", "WrongPhase"),
    WrongState: (409, "Invalid state", "WrongState"),
}
"""Errors whose text is the whole answer: status, title, reason."""


def translated(error: Exception) -> ApiError:
    """Turn an exception into an answer. An unexpected one becomes a 500 that reveals no details."""
    match error:
        case ApiError():
            return error
        case Rejected(problems=problems):
            said = [Said(message=problem.message, reason=problem.reason) for problem in problems]
            status = 409 if problems[0].reason in CONFLICTS else 400
            return ApiError(status, REJECTIONS.get(problems[0].reason, "Unable to start action"), str(error), said)
        case DocumentsRefused(problems=problems):
            return ApiError(400, "Validation failed", f"{len(problems)} problem(s) in the documents", map(said_of, problems))
        case _ if type(error) in NAMED:
            status, title, reason = NAMED[type(error)]
            return ApiError(status, title, str(error), [Said(message=str(error), reason=reason)])
        case Refused(reason="ClusterUnknown"):
            return ApiError(400, REJECTIONS["ClusterUnknown"], str(error), [Said(message=str(error), reason="ClusterUnknown")])
        case ClusterError():
            return ApiError(503, "Kubernetes API Error", str(error), [Said(message=str(error), reason=error.reason)], retry=error.retryable)
        case StoreError() | BusError():
            said = [Said(message=str(error), reason=type(error).__name__)]
            return ApiError(503, "Service unavailable", str(error), said, retry=not isinstance(error, RecordUnreadable))
        case SettingsError():
            return ApiError(503, "Not configured", str(error), [Said(message=str(error), reason="SettingsError")])
        case HTTPException():
            return _of_http(error)
        case _:
            cause = "unexpected error; see the log for this request's trace"
            return ApiError(500, "Internal error", cause, [Said(message=cause, reason=type(error).__name__)], retry=True)


def _of_http(error: HTTPException) -> ApiError:
    status = error.code or 500
    cause = {
        404: f"nothing is served at {request.path}; /openapi.json lists what is",
        405: f"{request.method} is not served at {request.path}: {', '.join(sorted(getattr(error, 'valid_methods', None) or ()))}",
        413: "the body is larger than this service takes",
    }.get(status, str(error.description))
    return ApiError(status, error.name, cause)
