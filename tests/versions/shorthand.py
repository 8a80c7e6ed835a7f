"""Profiles and clusters in few words: `"1.27.3 expired"` is a version with its classification, dates count in days from NOW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.domain.versions.catalogue import CloudProfile, Image, ImageVersion, MachineType
from shared.domain.versions.classification import Offered, Stage
from shared.domain.versions.clusters import FleetCluster, Pool
from shared.domain.versions.decisions import Decision, Keep, Stuck, Timeline, Update, VersionOutcome

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def day(number: float) -> datetime:
    return NOW + timedelta(days=number)


def offered(text: str) -> Offered:
    """`1.27.3`, `1.27.3 preview`, `1.27.3 expired` (since yesterday), `1.27.3 unavailable`, `1.27.3 deprecated+30` (expires in 30 days)."""
    version, _, state = text.partition(" ")
    classification, _, days = state.partition("+")
    match classification:
        case "expired":
            return Offered(version, None, day(-1))
        case "unavailable":
            return Offered(version, lifecycle=(Stage("preview", day(10)), Stage("supported", day(20))))
        case _:
            return Offered(version, classification or None, day(float(days)) if days else None)


def image_version(text: str, **needs: Any) -> ImageVersion:
    base = offered(text)
    version = ImageVersion(base.version, base.classification, base.expiration, base.lifecycle)
    return replace(version, **needs)


def image(versions: Sequence[str | ImageVersion], strategy: str | None = None, name: str = "linux") -> Image:
    return Image(name, tuple(image_version(each) if isinstance(each, str) else each for each in versions), strategy)


def profile(kubernetes: Sequence[str] = (), *images: Image) -> CloudProfile:
    return CloudProfile("p", tuple(map(offered, kubernetes)), images, (MachineType("m"), MachineType("arm", "arm64")))


def cluster(kubernetes: str, *pools: Pool, auto: bool = True, auto_image: bool = True) -> FleetCluster:
    return FleetCluster("garden/c", kubernetes, "p", pools=pools, auto_kubernetes=auto, auto_image=auto_image)


def pool(version: str | None = None, kubernetes: str | None = None, **more: Any) -> Pool:
    base = Pool("w", "m", "linux", version, kubernetes)
    return replace(base, **more)


def kubernetes_outcome(current: str, versions: Sequence[str], auto: bool = True) -> VersionOutcome:
    return Timeline(profile(versions)).at(NOW).kubernetes(current, auto)


def image_outcome(
    current: str,
    versions: Sequence[str | ImageVersion],
    strategy: str | None = None,
    auto: bool = True,
    kubernetes: str = "1.30.0",
    **more: Any,
) -> VersionOutcome:
    chosen = pool(current, **more)
    return Timeline(profile(["1.30.0"], image(versions, strategy))).at(NOW).image(chosen, cluster(kubernetes, auto_image=auto))


def short(outcome: VersionOutcome) -> str:
    """`auto 1.27.5`, `force 1.28.1`, `keep AlreadyLatest`, `stuck NoConsecutiveMinor`."""
    match outcome:
        case Update(to=to, kind=kind):
            return f"{kind} {to}"
        case Keep(code=code):
            return f"keep {code}"
        case Stuck(code=code):
            return f"stuck {code}"


def by_place(decisions: Sequence[Decision]) -> dict[str, str]:
    return {f"{each.component} {each.subject}": short(each.outcome) for each in decisions}
