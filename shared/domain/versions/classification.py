"""What a version counts as at a moment: Gardener's classification of expirable versions (docs/versions.md §1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

PREVIEW, SUPPORTED, DEPRECATED, EXPIRED, UNAVAILABLE = "preview", "supported", "deprecated", "expired", "unavailable"
ORDER = (UNAVAILABLE, PREVIEW, SUPPORTED, DEPRECATED, EXPIRED)
"""The stages of a version's life, first to last."""


@dataclass(frozen=True, slots=True)
class Stage:
    """From `start` on (None: always) a version counts as `classification`."""

    classification: str
    start: datetime | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """The stages of one version, made ready to be asked at many moments. `turns`: when each dated stage begins, the last listed first."""

    turns: tuple[tuple[datetime, str], ...]
    before: str
    """What it counts as before all of them."""

    def at(self, now: datetime) -> str:
        """Its classification: the last listed stage that began strictly before `now`; unclassified means supported."""
        for start, classification in self.turns:
            if start < now:
                return classification
        return self.before


@dataclass(frozen=True, slots=True)
class Offered:
    """A version as a profile offers it, in the profile's own spelling. `lifecycle` excludes the two older fields."""

    version: str
    classification: str | None = None
    expiration: datetime | None = None
    lifecycle: tuple[Stage, ...] = ()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that decide: the lifecycle, or what the two older fields say."""
        if self.lifecycle or (self.classification is None and self.expiration is None):
            return self.lifecycle
        first = Stage(SUPPORTED if self.classification is None else self.classification)
        return (first,) if self.expiration is None else (first, Stage(EXPIRED, self.expiration))

    @property
    def expires(self) -> datetime | None:
        """When it expires, if ever."""
        return next((stage.start for stage in self.stages if stage.classification == EXPIRED), None)

    @property
    def life(self) -> Life:
        """Its stages, to be asked at many moments."""
        stages = self.stages
        turns: list[tuple[datetime, str]] = []
        for stage in reversed(stages):
            if stage.start is None:
                return Life(tuple(turns), stage.classification)
            turns.append((stage.start, stage.classification))
        return Life(tuple(turns), UNAVAILABLE if stages else SUPPORTED)

    def at(self, now: datetime) -> str:
        """Its classification at a moment."""
        return self.life.at(now)


def transitions(versions: Iterable[Offered]) -> list[datetime]:
    """Every moment after which one of these versions may count as something else, ascending."""
    return sorted({stage.start for version in versions for stage in version.stages if stage.start is not None})
