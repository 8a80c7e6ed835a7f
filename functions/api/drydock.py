"""An action in Drydock's words: a task, with one subtask for each node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel

from functions.api.shipyard import stamp
from functions.api.standing import Standing, in_one_line, parameters_of
from shared.domain.actions import UNSUCCESSFUL
from shared.domain.outcomes import Outcome

TaskStatus = Literal["requested", "queued", "running", "complete", "terminated"]
TaskResult = Literal["incomplete", "success", "partial_success", "failure"]


class TaskMessage(BaseModel):
    """Drydock's message: about one node, or about the task."""

    message: str
    error: bool
    context_type: str
    context: str
    ts: str
    extra: dict[str, Any] = {}


class TaskDetails(BaseModel):
    """Messages, and how many of them are errors."""

    errorCount: int  # noqa: N815 - Drydock's name
    messageList: list[TaskMessage]  # noqa: N815


class TaskOutcome(BaseModel):
    """Drydock's `result`."""

    kind: Literal["Status"] = "Status"
    apiVersion: Literal["v1.0"] = "v1.0"  # noqa: N815
    metadata: dict[str, Any] = {}
    status: TaskResult
    message: str
    reason: str
    successes: list[str]
    failures: list[str]
    links: list[dict[str, str]]
    details: TaskDetails


class Subtask(BaseModel):
    """One node's part of a task, in short."""

    task_id: str
    node: str
    status: TaskStatus
    result: TaskResult
    message: str


class Task(BaseModel):
    """Drydock's task; `subtasks` is ours."""

    kind: Literal["Task"] = "Task"
    apiVersion: Literal["v1"] = "v1"  # noqa: N815
    task_id: str
    action: str
    parent_task_id: str | None
    design_ref: str
    status: TaskStatus
    result: TaskOutcome
    node_filter: dict[str, Any] | None
    subtask_id_list: list[str]
    subtasks: list[Subtask] = []
    created: str
    created_by: str
    updated: str
    terminated: str | None
    terminated_by: str | None
    terminate: bool
    retry: int = 0


# --- from the ledger


def task_of(standing: Standing, outcomes: list[Outcome], stopped_by: str | None = None) -> Task:
    """The action as Drydock would show it, with what became of these nodes."""
    asked, ended = standing.request, standing.outcome
    status: TaskStatus = _status(standing)
    updated = ended.finished_at if ended else standing.plan.planned_at if standing.plan else asked.requested_at
    given = parameters_of(asked)
    return Task(
        task_id=asked.id,
        action=asked.name,
        parent_task_id=asked.parent,
        design_ref=str(given.get("design_ref") or f"revisions/{asked.revision}"),
        status=status,
        result=_rolled_up(standing, outcomes),
        node_filter=given.get("node_filter"),
        subtask_id_list=[f"{asked.id}.{outcome.subject}" for outcome in outcomes],
        subtasks=[_brief(asked.id, outcome) for outcome in outcomes],
        created=stamp(asked.requested_at),
        created_by=asked.requested_by,
        updated=stamp(updated),
        terminated=stamp(updated) if status == "terminated" else None,
        terminated_by=stopped_by if status == "terminated" else None,
        terminate=stopped_by is not None,
    )


def _brief(task: str, outcome: Outcome) -> Subtask:
    status, message = _result({outcome.outcome: 1}), in_one_line(outcome)
    return Subtask(task_id=f"{task}.{outcome.subject}", node=outcome.subject, status="complete", result=status, message=message)


def subtask_of(task: Task, outcome: Outcome) -> Task:
    """One node's leaf of it."""
    message = _message(outcome, task.updated)
    result = task.result.model_copy(
        update={
            "status": _result({outcome.outcome: 1}),
            "message": in_one_line(outcome),
            "reason": outcome.reason,
            "successes": [] if outcome.outcome in UNSUCCESSFUL else [outcome.subject],
            "failures": [outcome.subject] if outcome.outcome in UNSUCCESSFUL else [],
            "details": TaskDetails(errorCount=int(message.error), messageList=[message]),
        }
    )
    only = {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": [outcome.subject]}]}
    return task.model_copy(
        update={
            "task_id": f"{task.task_id}.{outcome.subject}",
            "action": "relabel_node",
            "parent_task_id": task.task_id,
            "status": "complete",
            "result": result,
            "node_filter": only,
            "subtask_id_list": [],
            "subtasks": [],
        }
    )


def _status(standing: Standing) -> TaskStatus:
    if standing.outcome:
        return "terminated" if standing.outcome.result == "stopped" else "complete"
    return "queued" if standing.plan is None else "running"


def _result(counts: Mapping[str, int]) -> TaskResult:
    bad = sum(number for kind, number in counts.items() if kind in UNSUCCESSFUL)
    return "success" if not bad else "failure" if bad == sum(counts.values()) else "partial_success"


def _message(outcome: Outcome, at: str) -> TaskMessage:
    error = outcome.outcome in UNSUCCESSFUL
    extra = {"outcome": outcome.outcome, "reason": outcome.reason, "retryable": outcome.retryable}
    return TaskMessage(message=in_one_line(outcome), error=error, context_type="node", context=outcome.subject, ts=at, extra=extra)


def _rolled_up(standing: Standing, outcomes: list[Outcome]) -> TaskOutcome:
    """Drydock's result. Unlike the original the causes are told here too, not only on the leaves; unchanged nodes need no message."""
    ended = standing.outcome
    at = stamp(ended.finished_at if ended else standing.request.requested_at)
    messages = [_message(outcome, at) for outcome in outcomes if outcome.outcome != "unchanged"]
    if ended and not ended.counts:
        why = ended.message or "No nodes in scope, nothing to relabel."
        messages = [TaskMessage(message=why, error=ended.result != "success", context_type="task", context=standing.request.id, ts=at)]
    result: TaskResult = "incomplete"
    if ended:
        result = _result(ended.counts) if ended.counts or ended.result == "success" else "failure"
    return TaskOutcome(
        status=result,
        message=ended.message if ended else "",
        reason=ended.reason if ended else "",
        successes=[o.subject for o in outcomes if o.outcome not in UNSUCCESSFUL],
        failures=[o.subject for o in outcomes if o.outcome in UNSUCCESSFUL],
        links=[{"rel": "action", "href": f"/v1.0/actions/{standing.request.id}"}],
        details=TaskDetails(errorCount=sum(m.error for m in messages), messageList=messages),
    )
