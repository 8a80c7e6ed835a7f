"""What is known of the clusters of a rollout for versions: what each one runs, since when, and how it has been doing on it. Pure.

A cluster has a few *lines*: its control plane, its pools' Kubernetes version (the lowest of them), and each machine image (likewise).
A pool whose owner moves it counts for none: later stages would wait for what nobody here does.
Time in which nobody could say how a cluster is counts neither for a version nor against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec
from msgspec import structs

from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.semver import InvalidVersion, Version, parse

CONTROL_PLANE, WORKERS, IMAGE = "controlPlane", "workers", "image/"
"""The lines of a cluster; an image's name stands behind the last one."""
CATALOGUE = "gke"
"""The profile of clusters that have each a catalogue of its own, named like them: GKE's. What one shows counts for the others."""
RUNS = 4
"""Runs that are kept of a line: a version that has left again and was good still counts."""
PATIENCE = timedelta(minutes=30)
"""So long may a cluster be unhealthy after an update before the update counts as failed."""


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """A version that a line runs or ran."""

    version: str
    since: datetime
    good: datetime | None = None
    """Since when it has been healthy on it, later by the time in which nobody could say."""
    best: int = 0
    """Seconds of its longest healthy stretch that has ended."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An update that was tried and failed."""

    version: str
    at: datetime
    message: str = ""


class Known(msgspec.Struct, frozen=True, omit_defaults=True):
    """One cluster as it was seen last."""

    profile: str
    labels: Mapping[str, str] = {}
    lines: Mapping[str, list[Run]] = {}
    """The newest run last."""
    bad: datetime | None = None
    """Since when it is not healthy."""
    unknown: datetime | None = None
    """Since when nobody can say how it is."""
    why: str = ""
    """In words: what is wrong with it, or why nobody can say."""
    failures: Mapping[str, Failure] = {}
    """By line, the update that failed last, until the line moves."""


class Look(NamedTuple):
    """One cluster as it is seen now."""

    profile: str
    labels: Mapping[str, str]
    versions: Mapping[str, str]
    healthy: bool | None
    why: str = ""


def look_at(cluster: FleetCluster, labels: Mapping[str, str]) -> Look:
    """What a fleet says of a cluster. `labels`: those by which stages select it."""
    profile = f"{cluster.namespace}/{cluster.profile}" if cluster.own else CATALOGUE if cluster.profile == cluster.id else cluster.profile
    return Look(profile, labels, versions_of(cluster), cluster.health.healthy, cluster.health.message)


def versions_of(cluster: FleetCluster) -> dict[str, str]:
    """The version of each line; one that can't be read is left out."""
    found: dict[str, str] = {}
    for line, version in _versions(cluster):
        try:
            if line not in found or parse(version).key < parse(found[line]).key:
                found[line] = version
        except InvalidVersion:
            continue
    return found


def _versions(cluster: FleetCluster) -> Iterator[tuple[str, str]]:
    if cluster.kubernetes:
        yield CONTROL_PLANE, cluster.kubernetes
    for pool in cluster.pools:
        if (kubelet := pool.kubernetes or cluster.kubernetes) and not pool.own_image:
            yield WORKERS, kubelet
        if pool.image and pool.image_version:
            yield IMAGE + pool.image, pool.image_version


# --- keeping


def seen(known: Known | None, look: Look, now: datetime) -> Known:
    """What is known of a cluster after a look; the same object where that is nothing new."""
    before = known or Known(look.profile)
    lines = {line: _line(before, line, version, look.healthy, now) for line, version in look.versions.items()}
    after = Known(
        profile=look.profile,
        labels=dict(look.labels),
        lines=lines,
        bad=(before.bad or now) if look.healthy is False else None,
        unknown=(before.unknown or now) if look.healthy is None else None,
        why="" if look.healthy else look.why,
        failures={line: failure for line, failure in before.failures.items() if _still(lines.get(line), failure)},
    )
    return known if known == after else after


def unanswered(known: Known, why: str, now: datetime) -> Known:
    """A cluster whose fleet does not answer: what it runs is as it was, how it is nobody can say."""
    return known if known.unknown else structs.replace(known, unknown=now, bad=None, why=why)


def _line(before: Known, line: str, version: str, healthy: bool | None, now: datetime) -> list[Run]:
    runs = list(before.lines.get(line, ()))
    if not runs or runs[-1].version != version:
        ended = [_stopped(run, before.unknown or now) for run in runs[-1:]]
        return [*runs[:-1], *ended, Run(version, now, now if healthy else None)][-RUNS:]
    if healthy is False:
        runs[-1] = _stopped(runs[-1], before.unknown or now)
    elif healthy:
        runs[-1] = _healthy(runs[-1], before.unknown, now)
    return runs


def _stopped(run: Run, end: datetime) -> Run:
    """A run whose healthy stretch is over."""
    return structs.replace(run, good=None, best=max(run.best, _stretch(run, end))) if run.good else run


def _healthy(run: Run, unknown: datetime | None, now: datetime) -> Run:
    if run.good is None:
        return structs.replace(run, good=now)
    return structs.replace(run, good=run.good + (now - max(unknown, run.good))) if unknown else run


def _stretch(run: Run, end: datetime) -> int:
    return max(0, int((end - run.good).total_seconds())) if run.good else 0


def _still(runs: list[Run] | None, failure: Failure) -> bool:
    """Whether a failure still says something: the line has not reached that version by other means."""
    return runs is not None and parse(runs[-1].version).key < parse(failure.version).key


# --- judging

Standing = Literal["proven", "soaking", "waiting", "failed"]


class Judged(NamedTuple):
    """What one cluster shows of a version; when it is through its soak, where nothing else lacks."""

    standing: Standing
    why: str = ""
    until: datetime | None = None


def judge(known: Known, line: str, version: Version, soak: timedelta, now: datetime) -> Judged:
    """Whether a cluster has run a version or a higher one, healthy, through the soak."""
    runs = known.lines[line]
    last = runs[-1]
    at = parse(last.version).key
    failure = known.failures.get(line)
    if failure and parse(failure.version).key == version.key:
        return Judged("failed", f"its update to {failure.version} failed: {failure.message}")
    if known.bad and at == version.key and known.bad >= last.since:
        patient = now - known.bad < PATIENCE
        return Judged("waiting" if patient else "failed", f"it is not healthy since it runs {last.version}: {known.why}")
    reached = [run for run in runs if parse(run.version).key >= version.key]
    needed = max(1, int(soak.total_seconds()))
    if any(run.best >= needed or _through(run, known, soak, now) for run in reached):
        return Judged("proven")
    if at < version.key:
        return Judged("waiting", f"it runs {last.version}")
    if last.good is None or known.unknown or known.bad:
        return Judged("waiting", known.why or "nobody can say how it is")
    return Judged("soaking", f"it runs {last.version} since {last.since:%Y-%m-%d %H:%M} UTC", last.good + soak)


def _through(run: Run, known: Known, soak: timedelta, now: datetime) -> bool:
    return run.good is not None and (known.unknown or now) - run.good >= soak
