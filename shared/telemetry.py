"""One JSON line for each message handled, the trace that a relabel is, and the counters behind `/metrics`.

    with telemetry.handling("node_apply", delivery) as line:
        ...
        line.outcome("done", subject="17 nodes", action=task.action, changed=16, failed=1)

The line goes to stdout in Cloud Logging's form (https://cloud.google.com/logging/docs/structured-logging). The trace is W3C's
(https://www.w3.org/TR/trace-context/): read from the message's `traceparent`, and carried on by every bus, which adds `attributes()`
to what it publishes. OpenTelemetry is imported only when OTEL_TRACES_EXPORTER names an exporter.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

from shared.domain.exposition import Family, Sample

if TYPE_CHECKING:
    from shared.messages import Delivery

TRACEPARENT = re.compile(r"^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$")
BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
"""Upper bounds of the duration histogram, seconds."""
TIMES_TO_LABEL = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds of the histogram of new nodes, seconds: an event takes one or two, a sweep up to an hour."""
TIME_TO_LABEL = "From a new node's creation until its labels are there and its startup taints are gone."
IGNORED = "ignored"
"""The outcome of an ignored event; the line's reason, a CamelCase code, says why, and is counted."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where we are in a trace: hexadecimal ids as W3C writes them. `parent` is empty at the root."""

    trace: str
    id: str
    parent: str = ""
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """The header value that makes this span the parent of what follows."""
        return f"00-{self.trace}-{self.id}-{'01' if self.sampled else '00'}"

    @classmethod
    def following(cls, attributes: Mapping[str, str], seed: str = "") -> Span:
        """A new span under the one named in `attributes`. Without one a trace begins, the same one each time for the same `seed`:
        a redelivered request is one trace with its first delivery.
        """
        given = TRACEPARENT.match(attributes.get("traceparent") or attributes.get("googclient_traceparent") or "")
        if given:
            return cls(given[1], secrets.token_hex(8), given[2], sampled=bool(int(given[3], 16) & 1))
        return cls(hashlib.sha256(seed.encode()).hexdigest()[:32] if seed else secrets.token_hex(16), secrets.token_hex(8))


_span: ContextVar[Span | None] = ContextVar("hullmark_span", default=None)
_line: ContextVar[Line | None] = ContextVar("hullmark_line", default=None)


def attributes() -> dict[str, str]:
    """What a published message carries so that its handling joins the current trace; empty outside of one."""
    span = _span.get()
    return {"traceparent": span.traceparent} if span else {}


@dataclass(slots=True)
class Line:
    """What will be logged about one message. `result` is a short closed word (`done`, `refused`, `duplicate`, `error` …)."""

    step: str
    span: Span
    result: str = "done"
    reason: str = ""
    subject: str = ""
    action: str = ""
    severity: str = "INFO"
    text: str = ""
    numbers: dict[str, int | float] = field(default_factory=dict)

    def outcome(
        self, result: str, reason: str = "", *, subject: str = "", action: str | None = None, text: str = "", **numbers: int
    ) -> None:
        """Say how it ended. `reason` is a CamelCase code, `numbers` are counts (changed=3); what is left out stays as it was."""
        self.result = result
        self.reason = reason or self.reason
        self.subject = subject or self.subject
        self.action = action or self.action
        self.text = text or self.text
        self.numbers.update(numbers)

    def warn(self) -> None:
        """Raise the line's severity to WARNING: it worked, and a person should look."""
        self.severity = "WARNING"


class _Output:
    """Where lines go. None: nowhere. Not given: whatever stdout is at that moment."""

    stream: TextIO | None = None
    redirected = False


def write_to(stream: TextIO | None) -> None:
    """Send the lines to `stream` instead of stdout; None drops them (the command line's stdout is for data)."""
    _Output.stream, _Output.redirected = stream, True


@contextmanager
def handling(step: str, delivery: Delivery) -> Iterator[Line]:
    """Handle one message: joins its trace, writes one line and counts, also when the handling raises (which goes on up)."""
    ids = {"message_id": delivery.id, "topic": delivery.topic}
    with _observed(step, Span.following(delivery.attributes, delivery.attributes.get("identity") or delivery.id), ids) as line:
        yield line


@contextmanager
def serving(step: str, subject: str, headers: Mapping[str, str]) -> Iterator[Line]:
    """Answer one HTTP request: the same line, the trace from the request's `traceparent` header (any case)."""
    lowered = {key.lower(): value for key, value in headers.items()}
    with _observed(step, Span.following(lowered), {}) as line:
        line.subject = subject
        yield line


@contextmanager
def _observed(step: str, span: Span, ids: Mapping[str, str]) -> Iterator[Line]:
    line, token = Line(step, span), _span.set(span)
    lines = _line.set(line)
    began, clock = time.time_ns(), time.perf_counter()
    try:
        yield line
    except BaseException as error:
        line.result, line.severity = "error", "ERROR"
        line.reason = getattr(error, "reason", "") or type(error).__name__
        line.text = f"{step} failed and will be delivered again: {type(error).__name__}: {error}"
        raise
    finally:
        _span.reset(token)
        _line.reset(lines)
        seconds = time.perf_counter() - clock
        _counted(line, seconds)
        _written(line, ids, seconds)
        _exported(line, began)


def _written(line: Line, ids: Mapping[str, str], seconds: float) -> None:
    stream = _Output.stream if _Output.redirected else sys.stdout
    if stream is None:
        return
    project = os.environ.get("HULLMARK_PROJECT") or os.environ.get("GOOGLE_CLOUD_PROJECT") or ""
    code = "" if " " in line.reason else line.reason  # a label is a code to group by; a sentence stays in the line
    labels = {"step": line.step, "outcome": line.result, "action": line.action, "reason": code}
    said = " ".join(word for word in (line.step, line.result, line.subject, line.reason) if word)
    entry: dict[str, Any] = {
        "severity": line.severity,
        "message": line.text or said,
        "step": line.step,
        "subject": line.subject,
        "outcome": line.result,
        "reason": line.reason,
        "action": line.action,
        "trace": line.span.trace,
        **ids,
        "duration_ms": round(seconds * 1000, 1),
        **line.numbers,
        "logging.googleapis.com/labels": {key: value for key, value in labels.items() if value},
        "logging.googleapis.com/trace": f"projects/{project}/traces/{line.span.trace}" if project else line.span.trace,
        "logging.googleapis.com/spanId": line.span.id,
        "logging.googleapis.com/trace_sampled": line.span.sampled,
    }
    text = json.dumps({key: value for key, value in entry.items() if value != ""}, ensure_ascii=False)
    stream.write(text + "\n")  # one write: lines of threads do not mix
    stream.flush()


# Counters of this process. Instances each have their own: Prometheus adds them up, log-based metrics count the lines.
_lock = threading.Lock()
_messages: dict[tuple[str, str], int] = {}
_ignored: dict[str, int] = {}
_seconds: dict[str, list[float]] = {}  # step -> count per bucket, then the count of all, then the sum of seconds


_new_nodes: list[float] = [0.0] * (len(TIMES_TO_LABEL) + 2)


def labelled(times: Sequence[float]) -> None:
    """Count new nodes by the seconds from their creation until their labels were there and their startup taints gone; the line of what is
    being handled says how many, and the longest time.
    """
    if not times:
        return
    with _lock:
        for seconds in times:
            _observe(_new_nodes, TIMES_TO_LABEL, seconds)
    if line := _line.get():
        line.numbers |= {"new_nodes": len(times), "time_to_label_s": round(max(times), 3)}


def _observe(row: list[float], bounds: Sequence[float], seconds: float) -> None:
    for place, bound in enumerate(bounds):
        row[place] += seconds <= bound
    row[-2] += 1
    row[-1] += seconds


def _counted(line: Line, seconds: float) -> None:
    with _lock:
        key = (line.step, line.result)
        _messages[key] = _messages.get(key, 0) + 1
        if line.result == IGNORED:
            _ignored[line.reason] = _ignored.get(line.reason, 0) + 1
        row = _seconds.setdefault(line.step, [0.0] * (len(BUCKETS) + 2))
        _observe(row, BUCKETS, seconds)


def metrics() -> list[Family]:
    """This process's counters."""
    with _lock:
        messages, timed = sorted(_messages.items()), {step: list(row) for step, row in sorted(_seconds.items())}
        ignored, new_nodes = sorted(_ignored.items()), list(_new_nodes)
    handled = tuple(Sample(count, {"step": step, "outcome": outcome}) for (step, outcome), count in messages)
    durations = tuple(sample for step, row in timed.items() for sample in _histogram({"step": step}, BUCKETS, row))
    dropped = tuple(Sample(count, {"reason": reason}) for reason, count in ignored)
    return [
        Family("hullmark_handled_total", "Messages and requests handled.", "counter", handled),
        Family("hullmark_handling_seconds", "Time to handle one.", "histogram", durations),
        Family("hullmark_time_to_label_seconds", TIME_TO_LABEL, "histogram", tuple(_histogram({}, TIMES_TO_LABEL, new_nodes))),
        Family("hullmark_events_ignored_total", "Cluster events that were ignored, by reason.", "counter", dropped),
    ]


def _histogram(labels: Mapping[str, str], bounds: Sequence[float], row: list[float]) -> Iterator[Sample]:
    for bound, count in zip((*bounds, "+Inf"), row[:-1], strict=True):
        yield Sample(count, {**labels, "le": str(bound)}, "_bucket")
    yield Sample(row[-1], labels, "_sum")
    yield Sample(row[-2], labels, "_count")


@cache
def _exporter(name: str) -> Any:
    """The exporter that OTEL_TRACES_EXPORTER names (`console`, `otlp` …), found as OpenTelemetry finds it: by entry point."""
    from importlib.metadata import entry_points

    exporters = list(entry_points(group="opentelemetry_traces_exporter", name=name))
    if not exporters:
        print(f"no OpenTelemetry exporter named {name!r} is installed: traces are not exported", file=sys.stderr)  # noqa: T201
        return None
    return exporters[0].load()()


def _exported(line: Line, began: int) -> None:
    """Hand the span over before the function returns: an instance has no CPU afterwards. A failing exporter never fails a message."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "none")
    if name == "none" or not line.span.sampled or (exporter := _exporter(name)) is None:
        return
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context(span_id: str) -> SpanContext:
        return SpanContext(int(line.span.trace, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    said = {
        "hullmark.outcome": line.result,
        "hullmark.reason": line.reason,
        "hullmark.action": line.action,
        "hullmark.subject": line.subject,
    }
    span = ReadableSpan(
        name=line.step,
        context=context(line.span.id),
        parent=context(line.span.parent) if line.span.parent else None,
        resource=Resource.create({"service.name": f"hullmark-{line.step}"}),
        attributes={**{key: value for key, value in said.items() if value}, **line.numbers},
        kind=SpanKind.CONSUMER,
        status=Status(StatusCode.ERROR if line.severity == "ERROR" else StatusCode.OK),
        start_time=began,
        end_time=time.time_ns(),
    )
    try:
        exporter.export([span])
    except Exception as error:
        print(f"the trace of {line.step} was not exported: {error}", file=sys.stderr)  # noqa: T201
