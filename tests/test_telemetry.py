"""What is said about a message, and how one relabel is one trace."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from shared import telemetry
from shared.domain.exposition import exposition
from shared.messages import Delivery

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    before = telemetry._Output.stream, telemetry._Output.redirected
    telemetry.write_to(stream)
    yield stream
    telemetry._Output.stream, telemetry._Output.redirected = before


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def delivery(**attributes: str) -> Delivery:
    return Delivery(id="17", data=b"{}", attributes=attributes, topic="node-applies")


def test_one_message_is_one_line_in_cloud_loggings_form(out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HULLMARK_PROJECT", "fleet")
    with telemetry.handling("node_apply", delivery(traceparent=f"00-{TRACE}-{SPAN}-01")) as line:
        line.outcome("done", subject="2 nodes", action="A1", changed=2)

    (said,) = lines(out)
    assert said["severity"] == "INFO"
    assert said["message"] == "node_apply done 2 nodes"
    assert (said["step"], said["action"], said["changed"], said["message_id"]) == ("node_apply", "A1", 2, "17")
    assert said["logging.googleapis.com/trace"] == f"projects/fleet/traces/{TRACE}"
    assert said["logging.googleapis.com/labels"] == {"step": "node_apply", "outcome": "done", "action": "A1"}
    assert said["duration_ms"] >= 0


def test_what_is_published_while_handling_names_the_handling_as_its_parent(out: io.StringIO) -> None:
    assert telemetry.attributes() == {}
    with telemetry.handling("relabel_request", delivery(traceparent=f"00-{TRACE}-{SPAN}-01")) as line:
        carried = telemetry.attributes()
        assert carried == {"traceparent": f"00-{TRACE}-{line.span.id}-01"}
        assert line.span.parent == SPAN
    with telemetry.handling("node_apply", delivery(**carried)) as following:
        assert (following.span.trace, following.span.parent) == (TRACE, line.span.id)
    assert telemetry.attributes() == {}


def test_a_request_without_a_trace_begins_one_and_its_redelivery_continues_it(out: io.StringIO) -> None:
    seen = []
    for _ in range(2):
        with telemetry.handling("relabel_request", delivery()):
            seen.append(telemetry.attributes()["traceparent"].split("-")[1])
    assert seen[0] == seen[1] != ""


@pytest.mark.parametrize(
    "broken", ["", "x", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{SPAN}-01", f"00-{TRACE[:-1]}-{SPAN}-01"]
)
def test_a_broken_traceparent_begins_a_new_trace(broken: str) -> None:
    span = telemetry.Span.following({"traceparent": broken}, "seed")
    assert span.parent == ""
    assert span.trace != TRACE
    assert telemetry.TRACEPARENT.match(span.traceparent)


def test_an_unsampled_trace_stays_unsampled() -> None:
    assert telemetry.Span.following({"traceparent": f"00-{TRACE}-{SPAN}-00"}).traceparent.endswith("-00")


def test_a_failure_is_told_with_its_reason_and_goes_on_up(out: io.StringIO) -> None:
    def fails() -> None:
        with telemetry.handling("node_apply", delivery()) as line:
            line.outcome("done", action="A1")
            raise KeyError("rack")

    with pytest.raises(KeyError):
        fails()
    (said,) = lines(out)
    assert (said["severity"], said["outcome"], said["reason"], said["action"]) == ("ERROR", "error", "KeyError", "A1")
    assert "rack" in said["message"]


def test_a_reason_in_words_is_told_and_is_no_label(out: io.StringIO) -> None:
    for reason in ("no nodes: give target_nodes", "UnknownNode"):
        with telemetry.handling("relabel_request", delivery()) as line:
            line.outcome("refused", reason)
    told = lines(out)
    assert [one["reason"] for one in told] == ["no nodes: give target_nodes", "UnknownNode"]
    assert [one["logging.googleapis.com/labels"].get("reason") for one in told] == [None, "UnknownNode"]


def test_metrics_count_messages_by_step_and_outcome_in_prometheus_form(out: io.StringIO) -> None:
    for result in ("done", "done", "refused"):
        with telemetry.handling("counted_step", delivery()) as line:
            line.outcome(result)
    text = exposition(telemetry.metrics())
    assert 'hullmark_handled_total{step="counted_step",outcome="done"} 2\n' in text
    assert 'hullmark_handled_total{step="counted_step",outcome="refused"} 1\n' in text
    assert 'hullmark_handling_seconds_bucket{step="counted_step",le="+Inf"} 3\n' in text
    assert 'hullmark_handling_seconds_count{step="counted_step"} 3\n' in text


def test_an_http_request_joins_the_trace_of_its_header(out: io.StringIO) -> None:
    with telemetry.serving("api", "POST /v1.0/actions", {"Traceparent": f"00-{TRACE}-{SPAN}-01"}):
        assert telemetry.attributes()["traceparent"].split("-")[1] == TRACE
    assert lines(out)[0]["subject"] == "POST /v1.0/actions"


def test_a_configured_exporter_gets_the_span_with_the_same_ids() -> None:
    program = (
        "from shared import telemetry; from shared.messages import Delivery; telemetry.write_to(None)\n"
        f"message = Delivery('1', b'', {{'traceparent': '00-{TRACE}-{SPAN}-01'}})\n"
        "with telemetry.handling('node_apply', message) as line: line.outcome('done', changed=3)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "OTEL_TRACES_EXPORTER": "console", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    span = json.loads(ran.stdout)
    assert span["name"] == "node_apply"
    assert span["context"]["trace_id"] == f"0x{TRACE}"
    assert span["parent_id"] == f"0x{SPAN}"
    assert span["attributes"]["changed"] == 3


def test_without_an_exporter_opentelemetry_is_not_imported() -> None:
    program = (
        "import sys; from shared import telemetry; from shared.messages import Delivery\n"
        "with telemetry.handling('x', Delivery('1', b'')): pass\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")} | {"PYTHONPATH": "."}
    assert subprocess.run([sys.executable, "-c", program], env=env, capture_output=True).returncode == 0
