"""The forecast: what it says, and that a fleet stepped through two years of windows does just that."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from shared.domain.versions.catalogue import CloudProfile, Image, ImageVersion, MachineType
from shared.domain.versions.classification import EXPIRED, PREVIEW, Offered, Stage
from shared.domain.versions.clusters import FleetCluster, Pool
from shared.domain.versions.decisions import Decision, Update
from shared.domain.versions.forecast import Event, forecast
from shared.domain.versions.plans import Planner, after, going
from shared.domain.versions.profiles import Gardener
from shared.domain.versions.semver import parse
from shared.domain.versions.windows import Window, parse_window
from tests.versions.shorthand import NOW, cluster, day, image, pool, profile, short

EVENING = Window(22 * 3600, 23 * 3600)


def told(events: list[Event]) -> list[str]:
    return [
        f"{event.at:%m-%d %H:%M} {event.decision.component} {event.decision.current} {short(event.decision.outcome)}" for event in events
    ]


def forecast_of(offered: CloudProfile, *clusters: FleetCluster, until: datetime | None = None) -> list[Event]:
    fleet = Gardener(profiles={"p": offered}, clusters={each.id: replace(each, window=EVENING) for each in clusters})
    return forecast(Planner(fleet), NOW, until=until)


def test_each_step_is_taken_in_the_first_window_in_which_it_is_due() -> None:
    offered = profile(["1.27.3 +1", "1.28.1 +10.1", "1.28.4 +20", "1.29.0"])
    assert told(forecast_of(offered, cluster("1.27.3", auto=False))) == [
        "11-22 22:00 controlPlane 1.27.3 force 1.28.4",
        "12-11 22:00 controlPlane 1.28.4 force 1.29.0",
    ]


def test_a_version_that_expires_while_the_window_is_open_is_left_in_that_window() -> None:
    ten_past_ten = (10 + 10 / 60) / 24
    (event,) = forecast_of(profile([f"1.27.3 +{ten_past_ten}", "1.28.0"]), cluster("1.27.3", auto=False))
    assert NOW.replace(hour=22, minute=10) <= event.at <= NOW.replace(hour=22, minute=10, second=1)


def test_a_cluster_takes_one_step_in_an_opening() -> None:
    events = forecast_of(profile(["1.26.0 expired", "1.27.0 expired", "1.28.0 expired", "1.29.0"]), cluster("1.26.0"))
    assert told(events) == [
        "11-21 22:00 controlPlane 1.26.0 force 1.27.0",
        "11-22 22:00 controlPlane 1.27.0 force 1.28.0",
        "11-23 22:00 controlPlane 1.28.0 force 1.29.0",
    ]


def test_a_dead_end_is_told_on_the_day_it_is_reached() -> None:
    offered = profile(["1.27.3 +30", "1.29.0"], image(["1.0.0 +40"], "major"))
    assert told(forecast_of(offered, cluster("1.27.3", pool("1.0.0")))) == [
        "12-21 22:00 controlPlane 1.27.3 stuck NoConsecutiveMinor",
        "12-31 22:00 worker/w 1.0.0 stuck EndOfLife",
    ]


def test_a_horizon_cuts_the_forecast_off() -> None:
    assert forecast_of(profile(["1.27.3 +30", "1.28.0"]), cluster("1.27.3"), until=day(29)) == []


def test_an_unreachable_cap_does_not_keep_the_forecast_going_for_ever() -> None:
    behind = forecast_of(profile(["1.27.3", "1.27.9"]), cluster("1.26.0", pool(kubernetes="1.27.3")))
    assert len(behind) < 10


# --- two years of 200 clusters --------------------------------------------------------------------------------------------------------

YEARS = timedelta(days=730)


def living(random: Random, spelling: str, born: float) -> tuple[str, tuple[Stage, ...]]:
    """A version that is shown, recommended, deprecated and expired in the course of about a year."""
    days = [born, born + random.uniform(5, 30), born + random.uniform(100, 200), born + random.uniform(250, 420)]
    return spelling, tuple(
        Stage(name, day(number)) for name, number in zip(("preview", "supported", "deprecated", EXPIRED), days, strict=True)
    )


def moving_profile(random: Random) -> CloudProfile:
    """Eight minors over two years; 1.28 never comes, so whoever is left on 1.27 gets stuck."""
    kubernetes = [
        Offered(spelling, lifecycle=life)
        for minor in range(24, 33)
        for patch in range(4)
        if minor != 28
        for spelling, life in [living(random, f"1.{minor}.{patch}", -300 + 110 * (minor - 24) + 25 * patch)]
    ]
    images = [
        Image(
            name,
            tuple(
                ImageVersion(spelling, lifecycle=life, kubelet=random.choice([None, None, ">= 1.25"]))
                for major in range(1, 4)
                for minor in range(3)
                for patch in range(3)
                for spelling, life in [living(random, f"{major}.{minor}.{patch}", -300 + 270 * (major - 1) + 80 * minor + 20 * patch)]
            ),
            name,
        )
        for name in ("patch", "minor", "major")
    ]
    return CloudProfile("p", tuple(kubernetes), tuple(images), (MachineType("m"),))


def moving_fleet(count: int) -> Gardener:
    random = Random(2026)
    offered = moving_profile(random)
    fleet = Gardener(profiles={"p": offered})
    for number in range(count):
        current = f"1.{random.choice([24, 25, 26])}.{random.randrange(4)}"
        pools = tuple(
            Pool(f"w{index}", "m", strategy, f"1.{random.randrange(3)}.{random.randrange(3)}", current if random.random() < 0.4 else None)
            for index in range(random.randint(1, 3))
            for strategy in [random.choice(["patch", "minor", "major"])]
        )
        hour, zone = random.randrange(23), random.choice([None, "Europe/Berlin", "America/New_York"])
        window = parse_window(f"{hour:02}0000+0000", f"{(hour + 2) % 24:02}0000+0000", zone)
        name = f"garden/c{number}"
        auto, auto_image = random.random() < 0.6, random.random() < 0.6
        fleet.clusters[name] = FleetCluster(name, current, "p", pools=pools, auto_kubernetes=auto, auto_image=auto_image, window=window)
    return fleet


def moments(one: FleetCluster, transitions: list[datetime], until: datetime) -> Iterator[tuple[datetime, list[datetime]]]:
    """Every opening, with the moments in it at which something may have become due."""
    for begin, end in one.window.openings(NOW):
        if begin > until:
            return
        due = transitions[bisect_left(transitions, begin) : bisect_left(transitions, end)]
        yield begin, [max(begin, NOW), *(each + timedelta(seconds=1) for each in due)]


def test_two_years_of_windows_keep_their_promises_and_end_where_the_forecast_said() -> None:
    fleet = moving_fleet(200)
    planner, until = Planner(fleet), NOW + YEARS
    offered = fleet.profiles["p"]
    transitions = offered.transitions()
    events = forecast(planner, NOW, until=until)
    by_cluster: dict[str, list[Event]] = {}
    for event in events:
        by_cluster.setdefault(event.cluster.full_name, []).append(event)
    steps = 0
    for name, start in fleet.clusters.items():
        state = start
        taken: list[tuple[datetime, Decision]] = []
        for _, chances in moments(start, transitions, until):
            for chance in chances:
                decisions = planner.decide(state, chance)
                must_leave_what_expired(offered, decisions, state, chance)
                updates = going(decisions)
                if updates:
                    assert state.window.open(chance)
                    for update in updates:
                        must_be_allowed(offered, update, chance)
                    taken += [(chance, update) for update in updates]
                    state = after(state, updates)
                    break
        foreseen = [event for event in by_cluster.get(name, []) if not event.stuck]
        assert [(event.at, event.decision) for event in foreseen] == taken
        steps += len(taken)
    assert steps > 1000
    assert {event.decision.outcome.code for event in events if event.stuck} >= {"NoConsecutiveMinor", "NoHigherMinor"}


def stage_of(offered: CloudProfile, decision: Decision, version: str, now: datetime) -> str | None:
    listed = (
        offered.kubernetes if decision.subject == "kubernetes" else next(i.versions for i in offered.images if i.name == decision.image)
    )
    return next((each.at(now) for each in listed if each.version == version), None)


def must_be_allowed(offered: CloudProfile, decision: Decision, now: datetime) -> None:
    assert isinstance(decision.outcome, Update)
    old, new = parse(decision.current or ""), parse(decision.outcome.to)
    assert new.key > old.key
    assert stage_of(offered, decision, decision.outcome.to, now) not in (PREVIEW, "unavailable", None)
    if decision.subject == "kubernetes":
        assert new.major == old.major
        assert new.minor - old.minor <= 1


def must_leave_what_expired(offered: CloudProfile, decisions: list[Decision], state: FleetCluster, now: datetime) -> None:
    """Whatever runs an expired version moves, if its next minor (or patch) has a version that may be chosen."""
    for decision in decisions:
        if decision.subject != "kubernetes" or stage_of(offered, decision, decision.current or "", now) != EXPIRED:
            continue
        current = parse(decision.current or "")
        reachable = [
            each.version
            for each in offered.kubernetes
            for version in [parse(each.version)]
            if version.key > current.key
            and version.minor <= current.minor + 1
            and each.at(now) not in (PREVIEW, "unavailable", *([EXPIRED] if version.minor == current.minor else []))
        ]
        assert isinstance(decision.outcome, Update) == bool(reachable), (decision, reachable, state)
