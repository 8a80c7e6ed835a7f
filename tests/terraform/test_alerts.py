"""Each alert fires on what it is for, and not on a healthy day: its condition, on series and on lines that functions wrote."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.relabel_request.main import NOT_YET
from local.steps import ROOT
from shared import telemetry
from shared.messages import DeadlineCheck, RelabelRequest, RolloutStep, VersionCheck
from shared.work.intake import accept
from shared.world import Settings
from tests.stories.fleet import Fleet, a_policy
from tests.terraform.logs import Entry, counted, matches, said
from tests.terraform.promtool import firing
from tests.terraform.running import Planned, Terraform, copied, usual

MINUTES = 360
CLOCKWORK = "logging_googleapis_com:user_hullmark_clockwork"
REQUESTS = 'run_googleapis_com:request_count{monitored_resource="cloud_run_revision",service_name="hullmark-api",response_code_class="%s"}'
RUNBOOKS = ROOT / "docs" / "runbooks"


def policies(plan: Planned) -> dict[str, dict[str, Any]]:
    """The alerts by name."""
    return plan.all("monitoring_alert_policy")


def condition(plan: Planned, name: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = policies(plan)[name]["conditions"][0][f"condition_{kind}"][0]
    return found


# Silence, and errors: PromQL, asked of Prometheus


def every(minutes: int, until: int = MINUTES) -> str:
    """A counter that goes up by one every so many minutes, and then stays: promtool's notation."""
    steps = [f"{number}+0x{minutes - 1}" for number in range(until // minutes)]
    return " ".join([*steps, f"{len(steps)}+0x{MINUTES - until}"] if until < MINUTES else steps)


def stops(series: str, at: int, every_: int) -> str:
    """The same, with no more samples after some minutes."""
    return f"{series.split(f' {at // every_}+0', maxsplit=1)[0]} _x{MINUTES}"


BEATS = {
    "no-sweep": ("relabel_request", 60, 90),
    "no-version-check": ("version_check", 10, 30),
    "no-deadline-check": ("result_rollup", 5, 20),
    "no-rollout-step": ("rollout", 1, 15),
}
"""Alert → the step that its clock sets off, how often in minutes, and the window that it must be seen in."""


@pytest.mark.parametrize("name", list(BEATS))
def test_silence_is_an_alert_however_it_looks(name: str, deployment: Planned, tmp_path: Path) -> None:
    step, clock, window = BEATS[name]
    asked = condition(deployment, name, "prometheus_query_language")
    series = f'{CLOCKWORK}{{step="{step}"}}'

    def fires(values: str | None, at: int) -> bool:
        return firing(name, asked["query"], asked["duration"], {series: values} if values else {}, f"{at}m", tmp_path)

    healthy = every(clock)
    assert not fires(healthy, 350), "a clock that ticks is no alert"
    assert fires(every(clock, until=120), 350), "the count stands still"
    assert fires(stops(healthy, 120, clock), 350), "no more samples"
    assert fires(None, 2 * window + 5), "it never began"
    assert not fires(None, window - 5), "a new deployment has time for its first"


def test_one_request_in_ten_that_fails_for_ten_minutes_is_an_alert(deployment: Planned, tmp_path: Path) -> None:
    asked = condition(deployment, "server-errors", "prometheus_query_language")

    def fires(failed: int) -> bool:
        series = {REQUESTS % "2xx": f"0+{100 - failed}x60", REQUESTS % "5xx": f"0+{failed}x60"}
        return firing("server-errors", asked["query"], asked["duration"], series, "50m", tmp_path)

    assert fires(20)
    assert not fires(5)


def test_metrics_of_the_same_apply_need_not_be_known_yet(deployment: Planned) -> None:
    for policy in deployment.each("monitoring_alert_policy"):
        (asked,) = policy["conditions"]
        for threshold in asked["condition_threshold"]:
            assert "logging.googleapis.com/user" not in threshold["filter"], "refused for up to ten minutes after the metric was made"
        for query in asked["condition_prometheus_query_language"]:
            assert query["disable_metric_validation"]


# What waits, and what was given up: thresholds


@pytest.mark.parametrize(
    ("name", "healthy", "sick"), [("dead-letters", [0, 0, 0], [0, 1, 0]), ("oldest-unacked", [1, 40, 899], [1, 500, 1200])]
)
def test_what_is_given_up_or_waits_too_long_is_an_alert(name: str, healthy: list[int], sick: list[int], deployment: Planned) -> None:
    asked = condition(deployment, name, "threshold")
    (aggregation,) = asked["aggregations"]
    aligned: Any = {"ALIGN_DELTA": sum, "ALIGN_MAX": max}[aggregation["per_series_aligner"]]
    watched = set(re.findall(r'"([\w-]+--\w+)"', asked["filter"].partition("one_of(")[2]))
    assert watched == {subscription["name"] for subscription in deployment.each("pubsub_subscription")}
    assert asked["comparison"] == "COMPARISON_GT"
    assert asked["duration"] == "0s"
    assert aligned(sick) > (asked["threshold_value"] or 0) >= aligned(healthy)


# What functions said: their own lines


@pytest.fixture
def heard() -> Any:
    """A fleet, and what its functions have said so far as entries of Cloud Logging."""
    stream = io.StringIO()
    telemetry.write_to(stream)

    def entries() -> list[Entry]:
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        stream.truncate(0)
        stream.seek(0)
        return [said(line, f"hullmark-{line['step'].replace('_', '-')}") for line in lines]

    return entries


def test_an_action_that_does_not_succeed_is_an_alert(heard: Callable[[], list[Entry]], deployment: Planned) -> None:
    asked = condition(deployment, "failed-actions", "matched_log")["filter"]
    fleet = Fleet()
    fleet.declares({"n1": {"rack": "r1"}, "gone": {"rack": "r2"}})
    fleet.has_nodes(n1={})
    fleet.relabels("n1")
    assert not list(counted(asked, heard())), "a success"
    fleet.relabels("n1", "gone")
    assert [entry["jsonPayload"]["outcome"] for entry in counted(asked, heard())] == ["partial_success"]


def test_an_action_that_expires_is_an_alert(heard: Callable[[], list[Entry]], deployment: Planned) -> None:
    asked = condition(deployment, "failed-actions", "matched_log")["filter"]
    fleet = Fleet()
    fleet.declares({"n1": {"rack": "r1"}})
    accept(RelabelRequest(name="drift_sweep"), "01BX5ZZKBKACTAV9WEVGEMMVRZ", fleet.world, fleet.now)  # and its messages are lost

    def checks() -> list[Entry]:
        fleet.cloud.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])
        fleet.cloud.drain()
        return list(counted(asked, heard()))

    fleet.now += timedelta(seconds=Settings().action_seconds - 60)
    assert checks() == []
    fleet.now += timedelta(seconds=120)
    assert [entry["jsonPayload"]["outcome"] for entry in checks()] == ["1 ended"]


def test_work_that_a_clock_set_off_is_counted_when_it_was_done(heard: Callable[[], list[Entry]], deployment: Planned) -> None:
    metric = deployment.all("logging_metric", "clockwork").popitem()[1]
    fleet = Fleet()

    def counts() -> Mapping[str, int]:
        assert metric["label_extractors"] == {"step": "EXTRACT(jsonPayload.step)"}
        return Counter(entry["jsonPayload"]["step"] for entry in counted(metric["filter"], heard()))

    def sweeps() -> None:
        fleet.cloud.publish(RelabelRequest.TOPIC, [RelabelRequest(name="drift_sweep").outgoing()])
        fleet.cloud.drain()

    sweeps()
    assert counts() == {}, "nothing was ever committed: the sweep is refused, and that is as good as silence"
    fleet.commits(a_policy("all", {"names": ["n1"]}, {"rack": "r1"}))
    fleet.has_nodes(n1={})
    sweeps()
    assert counts() == {"relabel_request": 1}
    fleet.relabels("n1")
    assert counts() == {}, "what a person asks for says nothing of the clock"
    fleet.cloud.publish(VersionCheck.TOPIC, [VersionCheck().outgoing()])
    fleet.cloud.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])
    fleet.cloud.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])
    fleet.cloud.drain()
    assert counts() == {"version_check": 1, "result_rollup": 1, "rollout": 1}
    nobodys_turn = {"severity": "INFO", "step": "relabel_request", "subject": "drift_sweep", "outcome": NOT_YET}
    assert not matches(metric["filter"], said(nobodys_turn, "hullmark-relabel-request"))


# What people did to the deployment: audit entries


def audited(kind: str, labels: Mapping[str, str], method: str, **payload: Any) -> Entry:
    return {"resource": {"type": kind, "labels": labels}, "severity": "NOTICE", "protoPayload": {"methodName": method, **payload}}


def test_a_paused_clock_is_an_alert(deployment: Planned) -> None:
    asked = condition(deployment, "clock-paused", "matched_log")["filter"]
    job, scheduler = {"job_id": "hullmark-drift-sweep"}, "google.cloud.scheduler.v1.CloudScheduler."
    assert matches(asked, audited("cloud_scheduler_job", job, f"{scheduler}PauseJob"))
    assert not matches(asked, audited("cloud_scheduler_job", job, f"{scheduler}UpdateJob")), "a deployment"
    assert not matches(asked, audited("cloud_scheduler_job", {"job_id": "of-another"}, f"{scheduler}PauseJob"))
    failed = {"resource": {"type": "cloud_scheduler_job", "labels": job}, "severity": "ERROR", "jsonPayload": {"status": "NOT_FOUND"}}
    assert matches(asked, failed)


def test_a_sink_that_is_switched_off_or_deleted_is_an_alert(deployment: Planned) -> None:
    asked = condition(deployment, "sink-disabled", "matched_log")["filter"]
    name, method = "projects/fleet-project/sinks/hullmark-node-events", "google.logging.v2.ConfigServiceV2."
    off = audited("logging_sink", {}, f"{method}UpdateSink", resourceName=name, request={"sink": {"disabled": True}})
    assert matches(asked, off)
    assert matches(asked, audited("logging_sink", {}, f"{method}DeleteSink", resourceName=name))
    assert not matches(asked, audited("logging_sink", {}, f"{method}UpdateSink", resourceName=name, request={"sink": {"filter": "…"}}))
    assert not matches(asked, audited("logging_sink", {}, f"{method}DeleteSink", resourceName="projects/p/sinks/of-another"))


# What every alert has


def test_every_alert_says_how_bad_it_is_and_carries_its_page(deployment: Planned) -> None:
    found = policies(deployment)
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == set(found)
    for name, policy in found.items():
        page = (RUNBOOKS / f"{name}.md").read_text()
        assert policy["documentation"][0]["content"] == page
        assert len(page) <= 8192, "no longer text is taken"
        severity = re.search(r"\*\*Severity:\*\* (\w+)", page)
        assert severity, name
        assert severity[1].upper() == policy["severity"], name
        assert "**Look" in page, name
        assert "**Do" in page, name


def test_alerts_link_to_their_pages_where_these_can_be_read(terraform: Terraform, tmp_path: Path) -> None:
    root = copied(tmp_path)
    plan = terraform.plan(root, usual(root, docs_url="https://git.example.com/hullmark/docs"))
    for name, policy in policies(plan).items():
        (link,) = policy["documentation"][0]["links"]
        assert link["url"] == f"https://git.example.com/hullmark/docs/runbooks/{name}.md"


def test_log_matches_are_held_to_a_rate(deployment: Planned) -> None:
    """Without one a policy on log entries is refused."""
    for policy in policies(deployment).values():
        (asked,) = policy["conditions"]  # more are refused beside a log match
        limits = [strategy["notification_rate_limit"][0]["period"] for strategy in policy["alert_strategy"]]
        assert limits == (["300s"] if asked["condition_matched_log"] else []), "and refused for all others"


def test_the_dashboard_shows_the_four_signals_and_how_actions_ended(deployment: Planned) -> None:
    (dashboard,) = deployment.each("monitoring_dashboard")
    tiles = json.loads(dashboard["dashboard_json"])["mosaicLayout"]["tiles"]
    titles = " ".join(tile["widget"]["title"] for tile in tiles)
    for signal in ("Latency", "Traffic", "Errors", "Saturation", "Actions", "Rollouts"):
        assert signal in titles
    taken = [
        (x, y)
        for tile in tiles
        for x in range(tile.get("xPos", 0), tile.get("xPos", 0) + tile["width"])
        for y in range(tile.get("yPos", 0), tile.get("yPos", 0) + tile["height"])
    ]
    assert len(taken) == len(set(taken)), "tiles overlap"
