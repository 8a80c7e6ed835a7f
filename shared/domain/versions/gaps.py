"""Where a profile leads nowhere: versions that expire before there is anything to move to, and minors without a supported successor.

Asked of the rules that decide: each version is decided right after it expires, as if a cluster still ran it (docs/versions.md §3 to §5).
What a pool's filters add to that is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from shared.domain.reasons.versions import sentence
from shared.domain.versions.answers import GapEntry
from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.classification import EXPIRED, SUPPORTED, Offered
from shared.domain.versions.decisions import NEVER, ImageOffers, Stuck, Timeline, Update, VersionOutcome, image_outcome
from shared.domain.versions.plans import time_text
from shared.domain.versions.semver import InvalidVersion, parse

MOMENT = timedelta(microseconds=1)
Minor = tuple[int, int]
Users = Mapping[tuple[str, str], int]
"""How many places run a version of `kubernetes`, or of a machine image by its name."""


def gaps_of(name: str, profile: CloudProfile, users: Users, now: datetime) -> list[GapEntry]:
    """Every gap and dead end of a profile from now on: what comes first first; what never comes due last."""
    gaps = [*_expiries(name, profile, users, now), *_minors(name, profile, users, now)]
    return sorted(gaps, key=lambda gap: (gap.at or "~", gap.subject, gap.version))


def _expiries(name: str, profile: CloudProfile, users: Users, now: datetime) -> Iterator[GapEntry]:
    timeline = Timeline(profile)
    for offered in profile.kubernetes:
        if (moment := _end(offered, now)) is not None:
            outcome = timeline.at(moment).kubernetes(offered.version, auto=True)
            yield from _dead_end(name, "kubernetes", offered, outcome, profile.kubernetes, users, moment)
    for image in profile.images:
        offers = ImageOffers.of(image, profile)
        for version in image.versions:
            if (moment := _end(version, now)) is not None:
                outcome = image_outcome(offers, version.version, moment)
                yield from _dead_end(name, image.name, version, outcome, image.versions, users, moment)


def _end(offered: Offered, now: datetime) -> datetime | None:
    """The moment from which it counts as expired, or now where it does already; None where that never comes."""
    if offered.expires is None or offered.expires >= NEVER:
        return None
    return max(offered.expires + MOMENT, now)


def _dead_end(
    name: str, subject: str, offered: Offered, outcome: VersionOutcome, others: Sequence[Offered], users: Users, moment: datetime
) -> Iterator[GapEntry]:
    def gap(code: str, text: str) -> GapEntry:
        in_use = users.get((subject, offered.version), 0)
        at = time_text(offered.expires)
        return GapEntry(profile=name, subject=subject, version=offered.version, code=code, at=at, message=text, inUse=in_use)

    if isinstance(outcome, Stuck):
        yield gap(outcome.code, f"when {offered.version} expires, there is nothing to move to: {sentence(outcome.code)}")
    elif isinstance(outcome, Update):
        target = next((other for other in others if other.version == outcome.to), None)
        if target is not None and target.at(moment) == EXPIRED:
            yield gap("ForcedToExpired", f"when {offered.version} expires, it is forced to {outcome.to}, which has expired by then")


def _minors(name: str, profile: CloudProfile, users: Users, now: datetime) -> Iterator[GapEntry]:
    """Minors whose successor is missing although a higher one is there, or has nothing supported when the minor ends."""
    minors: dict[Minor, list[Offered]] = {}
    for offered in profile.kubernetes:
        if (minor := _minor(offered.version)) is not None:
            minors.setdefault(minor, []).append(offered)
    for minor, versions in sorted(minors.items()):
        living = [offered for offered in versions if offered.at(now) != EXPIRED]
        if not living or minor == max(minors):
            continue
        following = minors.get((minor[0], minor[1] + 1), [])
        ends = [offered.expires for offered in living]
        end = None if None in ends else max(end for end in ends if end is not None)
        at = now if end is None or end >= NEVER else end + MOMENT
        code = _without_successor(following, at)
        if code and (following or end is None):  # a minor that ends before a gap is a dead end of its versions, listed there
            text = f"{minor[0]}.{minor[1]}"
            used = sum(users.get(("kubernetes", offered.version), 0) for offered in versions)
            message = f"{sentence(code)} ({minor[0]}.{minor[1] + 1})"
            yield GapEntry(profile=name, subject="kubernetes", version=text, code=code, at=time_text(end), message=message, inUse=used)


def _without_successor(following: Sequence[Offered], at: datetime) -> str:
    if any(offered.at(at) == SUPPORTED for offered in following):
        return ""
    return "NoSupportedSuccessor" if following else "NoConsecutiveMinor"


def _minor(version: str) -> Minor | None:
    try:
        return parse(version).core[:2]
    except InvalidVersion:
        return None
