"""`hullmark clock`: what a clock sends, for a machine on which nothing serves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click
from pydantic import BaseModel

from local import steps
from local.cli.cloud import alone
from local.cli.output import ERROR, Failure, emit, grid, output_option
from local.cli.relabel import EXIT, ended_line
from local.cloud.embedded import Cloud
from local.cloud.listening import Said, listening
from local.steps import Schedule
from shared import telemetry
from shared.domain.notices import ACTION_FINISHED
from shared.messages import Outgoing


class Sent(BaseModel):
    """One schedule, and what the function behind its topic made of the message."""

    schedule: str
    topic: str
    step: str
    outcome: str
    reason: str


class EndedAction(BaseModel):
    """An action that ended meanwhile, as its notice has it."""

    id: str
    name: str
    cluster: str
    revision: int
    result: str
    reason: str
    message: str
    counts: dict[str, int]


class Told(BaseModel):
    """Any other notice."""

    type: str
    subject: str
    data: dict[str, Any]


class Lost(BaseModel):
    """A message that its function did not take."""

    topic: str
    step: str
    error: str


class Round(BaseModel):
    """What was sent, and what came of it."""

    now: datetime
    sent: list[Sent]
    actions: list[EndedAction]
    notices: list[Told]
    lost: list[Lost]

    @property
    def exit_code(self) -> int:
        """That of the worst: an error, some nodes failed, or all is well."""
        codes = {EXIT.get(action.result, ERROR) for action in self.actions}
        return ERROR if self.lost or ERROR in codes else max(codes, default=0)


@click.command()
@click.option("--once", is_flag=True, help="Send everything once, whatever the time, work it off, and end.")
@output_option
def clock(once: bool, form: str) -> int:
    """Send what the schedules send (version check, drift sweep, deadlines), and work it off.

    For a cron job on a machine where nothing serves. `hullmark serve` and a deployment have a clock of their own.
    """
    if not once:
        raise Failure("Usage", "add --once; a clock that keeps going is part of `hullmark serve`")
    done = one_round(alone("clock", "a server has a clock of its own").at_work())
    emit(form, done.model_dump(mode="json"), lambda: lines(done))
    return done.exit_code


def one_round(cloud: Cloud) -> Round:
    """Send what every schedule sends, one after the other, so that each says the same whenever it is the same."""
    schedules = steps.load().schedules
    cloud.notices.clear()
    lost = len(cloud.dead)
    with listening() as heard:
        traces = {name: send(schedule, cloud) for name, schedule in schedules.items()}
    said, notices = heard.said(), {notice.id: notice for notice in cloud.notices}.values()
    return Round(
        now=cloud.world.clock(),
        sent=[sent(name, schedule, [one for one in said if one.trace == traces[name]]) for name, schedule in schedules.items()],
        actions=[EndedAction.model_validate(notice.data) for notice in notices if notice.type == ACTION_FINISHED.type],
        notices=[
            Told(type=notice.type, subject=notice.subject, data=notice.data) for notice in notices if notice.type != ACTION_FINISHED.type
        ],
        lost=[Lost(topic=letter.topic, step=letter.step, error=letter.error) for letter in cloud.dead[lost:]],
    )


def send(schedule: Schedule, cloud: Cloud) -> str:
    """Publish a schedule's message, and deliver until nothing is left to do; the trace of all that followed."""
    span = telemetry.Span.following({})
    cloud.publish(schedule.topic, [Outgoing(json.dumps(schedule.body).encode(), {"traceparent": span.traceparent})])
    cloud.drain()
    return span.trace


def sent(name: str, schedule: Schedule, said: Iterable[Said]) -> Sent:
    """What the function behind the schedule's topic said; of a sweep of several clusters, for all of them."""
    answers = [one for one in said if one.topic == schedule.topic]
    return Sent(
        schedule=name,
        topic=schedule.topic,
        step=answers[0].step if answers else "",
        outcome=", ".join(dict.fromkeys(one.outcome for one in answers)),
        reason="; ".join(dict.fromkeys(one.reason for one in answers if one.reason)),
    )


def lines(done: Round) -> Iterable[Any]:
    """The round for people."""
    rows = [(one.schedule, one.step, ": ".join(filter(None, (one.outcome, one.reason)))) for one in done.sent]
    yield grid(("schedule", "function", "outcome"), rows)
    for action in done.actions:
        yield ended_line(
            f"{action.id}: {action.name} of {action.cluster or 'several clusters'}", action.result, action.counts, action.message
        )
    for notice in done.notices:
        yield ": ".join(filter(None, ("notice", notice.type, notice.subject, str(notice.data.get("message", "")))))
    for letter in done.lost:
        yield f"given up: {letter.step} did not take a message of {letter.topic}: {letter.error}"
