"""The versions that one thing may have, compiled once for a profile: sorted, with the moments from which each counts as something else.

Everything here belongs to the profile and holds at any moment, so that deciding costs a look at a few versions and not at all of them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import takewhile

from shared.domain.versions.classification import DEPRECATED, EXPIRED, PREVIEW, SUPPORTED, UNAVAILABLE, Life, Offered
from shared.domain.versions.semver import InvalidVersion, Version, constrain, normalize, parse

ZERO = parse("0.0.0").key
"""Nothing up to here is ever chosen."""
LESS_THAN_SUPPORTED = frozenset([UNAVAILABLE, PREVIEW, DEPRECATED, EXPIRED])
_THREE_PARTS = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A version on offer: its text, what it parses to (None: it doesn't), its life, when it expires, and which demands it makes."""

    text: str
    version: Version | None
    life: Life
    expires: datetime | None
    demands: int = 0
    """Its place in what the versions of an image demand."""


Fits = Callable[[Offer], bool]
"""Whether a version may be had at all by the one who asks."""
Stretch = tuple[int, int]
"""Versions next to each other in ascending order: from, and up to but without."""


def anybody(_: Offer) -> bool:
    """Kubernetes versions may be had by everybody."""
    return True


class Track:
    """The versions that one thing may have: as the profile lists them, and in ascending order."""

    def __init__(self, offers: Iterable[Offer]) -> None:
        self.offers = tuple(offers)
        self.unreadable = tuple(offer for offer in self.offers if offer.version is None)
        self._spelled: dict[str, list[Offer]] = {}
        for offer in self.offers:
            self._spelled.setdefault(offer.text, []).append(offer)
        readable = [(offer.version, offer) for offer in reversed(self.offers) if offer.version is not None]
        readable.sort(key=lambda pair: pair[0].key)
        self._ascending = [offer for _, offer in readable]
        self._keys = [version.key for version, _ in readable]

    @cached_property
    def _normal(self) -> tuple[Version | None, ...]:
        """What the compare helper reads each version as, in the profile's order."""
        return tuple(parsed_or_none(normalize(offer.text)) for offer in self.offers)

    @cached_property
    def _by_core(self) -> dict[tuple[int, ...], Offer]:
        """The first version listed with each major, minor and patch, up to one that cannot be read: looking further is an error."""
        readable = takewhile(lambda pair: pair[1] is not None, zip(self.offers, self._normal, strict=True))
        found: dict[tuple[int, ...], Offer] = {}
        for offer, normal in readable:
            found.setdefault(normal.core if normal else (), offer)
        return found

    def listed_as(self, current: str) -> Offer | None:
        """The first version on offer that counts as the current one, by the compare helper. Raises InvalidVersion."""
        if not self.offers:
            return None
        wanted = normalize(current)
        if _THREE_PARTS.fullmatch(wanted) and (exact := self._by_core.get(tuple(map(int, wanted.split("."))))):
            return exact
        constraint = constrain(f"= {wanted}")
        for offer, normal in zip(self.offers, self._normal, strict=True):
            if constraint.accepts(normal or parse(normalize(offer.text))):
                return offer
        return None

    def spelled(self, text: str, fits: Fits = anybody) -> Offer | None:
        """The first version on offer that is written like this, and fits."""
        for offer in self._spelled.get(text, ()):
            if fits(offer):
                return offer
        return None

    def parsed(self, text: str) -> Version:
        """What a version parses to, looked up where it is on offer. Raises InvalidVersion."""
        offer = self.spelled(text)
        return offer.version if offer and offer.version else parse(text)

    # stretches of the ascending order

    def same_minor(self, version: Version) -> Stretch:
        """What is above a version in its minor. Above 0.0.0 everything: the compare helper's `~0.0.0` accepts all."""
        if version.core == (0, 0, 0):
            return self.above(version)
        return self._above(version), bisect_left(self._keys, (version.major, version.minor + 1))

    def same_major(self, version: Version) -> Stretch:
        """What is above a version in its major."""
        return self._above(version), bisect_left(self._keys, (version.major + 1,))

    def above(self, version: Version) -> Stretch:
        """What is above a version."""
        return self._above(version), len(self._keys)

    def next_minor(self, version: Version) -> Stretch:
        """The minor that follows a version's own."""
        following = version.minor + 1
        return bisect_left(self._keys, (version.major, following)), bisect_left(self._keys, (version.major, following + 1))

    def later_minors(self, version: Version) -> Stretch:
        """All minors behind a version's own, in its major."""
        return bisect_left(self._keys, (version.major, version.minor + 1)), bisect_left(self._keys, (version.major + 1,))

    def later_majors(self, version: Version) -> Stretch:
        """All majors behind a version's own."""
        return bisect_left(self._keys, (version.major + 1,)), len(self._keys)

    def _above(self, version: Version) -> int:
        return bisect_right(self._keys, max(version.key, ZERO))

    # what is there

    def highest(self, stretch: Stretch, now: datetime, fits: Fits) -> dict[str, Offer]:
        """The highest version of each classification in a stretch, down to the first that is supported; of equals the first listed.

        What counts as something that is not known is as good as supported.
        """
        found: dict[str, Offer] = {}
        first, end = stretch
        for place in range(end - 1, first - 1, -1):
            offer = self._ascending[place]
            stage = offer.life.at(now)
            if stage in found or not fits(offer):
                continue
            if stage not in LESS_THAN_SUPPORTED:
                found[SUPPORTED] = offer
                break
            found[stage] = offer
        return found

    def check(self, now: datetime, fits: Fits) -> None:
        """Raise InvalidVersion at a version that cannot be read; previews nothing ever chooses."""
        for offer in self.unreadable:
            if fits(offer) and offer.life.at(now) != PREVIEW:
                raise unreadable(offer.text)

    def next_group(self, stretch: Stretch, group: Callable[[Track, Version], Stretch], now: datetime, fits: Fits) -> Offer | None:
        """The highest version of the lowest group in a stretch that has any; one that is not expired, where the group has such a one.

        `group` says how far it goes above one of its versions. Raises InvalidVersion at one that cannot be read.
        """
        for offer in self.unreadable:
            if fits(offer):
                raise unreadable(offer.text)
        for place in range(*stretch):
            offer = self._ascending[place]
            if offer.version and fits(offer) and offer.life.at(now) not in (PREVIEW, UNAVAILABLE):
                return highest_of(self.highest((place, group(self, offer.version)[1]), now, fits))
        return None

    def between(self, current: str, target: str, now: datetime, fits: Fits, *, minor: bool = False) -> list[str]:
        """The versions above one and below another that are neither expired nor in preview, the highest first.

        `minor`: only those of the target's minor.
        """
        low, high = parsed_or_none(current), parsed_or_none(target)
        if low is None or high is None:
            return []
        first = bisect_right(self._keys, low.key)
        if minor:
            first = max(first, bisect_left(self._keys, (high.major, high.minor)))
        found = {
            key: offer.text
            for key, offer in zip(self._keys[first:], self._ascending[first:], strict=True)
            if key < high.key and fits(offer) and offer.life.at(now) in (SUPPORTED, DEPRECATED)
        }
        return [found[key] for key in sorted(found, reverse=True)]


def best_of(found: Mapping[str, Offer]) -> Offer | None:
    """Of the highest of each classification, the supported one, else the deprecated one."""
    return found.get(SUPPORTED) or found.get(DEPRECATED)


def highest_of(found: Mapping[str, Offer]) -> Offer | None:
    """Of the highest of each classification, the highest that has not expired (a deprecated one was met first), else the expired one."""
    return found.get(DEPRECATED) or found.get(SUPPORTED) or found.get(EXPIRED)


def offer_of(offered: Offered, demands: int = 0) -> Offer:
    """A version of a profile, compiled."""
    return Offer(offered.version, parsed_or_none(offered.version), offered.life, offered.expires, demands)


def unreadable(text: str) -> InvalidVersion:
    """The error at a version on offer that cannot be read."""
    try:
        parse(text)
    except InvalidVersion as error:
        return InvalidVersion(f"error while parsing version '{text}': {error}")
    return InvalidVersion("")


def parsed_or_none(text: str) -> Version | None:
    """What a version parses to; None where it doesn't."""
    try:
        return parse(text)
    except InvalidVersion:
        return None
