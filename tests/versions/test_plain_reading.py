"""The rules read plainly (§2 to §5): every version looked at, one after the other. The product looks at few, and decides the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.versions.catalogue import ImageVersion
from shared.domain.versions.classification import DEPRECATED, EXPIRED, PREVIEW, UNAVAILABLE, Offered
from shared.domain.versions.decisions import Timeline
from shared.domain.versions.semver import Version, constrain, parse
from tests.versions.shorthand import NOW, cluster, day, image, image_version, pool, profile, short
from tests.versions.test_properties import offers, spellings, strategies

Reach = Callable[[Version, Version], bool]
"""(a version, the current one) → whether the one is within reach of the other."""


def same_minor(version: Version, current: Version) -> bool:
    return current.core == (0, 0, 0) or version.core[:2] == current.core[:2]


def same_major(version: Version, current: Version) -> bool:
    return version.major == current.major


def anything(_: Version, __: Version) -> bool:
    return True


def best(versions: Sequence[Offered], current: str, reach: Reach, now: datetime, without: Sequence[str]) -> str | None:
    above = [
        version
        for version in versions
        if version.at(now) not in (PREVIEW, UNAVAILABLE, *without)
        and parse(version.version).key > max(parse(current).key, parse("0.0.0").key)
        and reach(parse(version.version), parse(current))
    ]
    return max(above, key=lambda version: parse(version.version).key).version if above else None


def auto(versions: Sequence[Offered], current: str, reach: Reach, now: datetime) -> str | None:
    return best(versions, current, reach, now, (EXPIRED, DEPRECATED)) or best(versions, current, reach, now, (EXPIRED,))


def attempted(hit: Offered | None, switched_on: bool, now: datetime) -> str | None:
    if hit is None or hit.at(now) == EXPIRED:
        return "force"
    return "auto" if switched_on else None


def read_kubernetes(versions: Sequence[Offered], current: str, switched_on: bool, now: datetime) -> str | None:
    core = ".".join(map(str, parse(current).core))
    hit = next((version for version in versions if ".".join(map(str, parse(version.version).core)) == core), None)
    trigger = attempted(hit, switched_on, now)
    if trigger is None:
        return None
    if target := auto(versions, current, same_minor, now):
        return f"auto {target}"

    def following(version: Version, old: Version) -> bool:
        return version.core[:2] == (old.major, old.minor + 1)

    forced = best(versions, current, following, now, (EXPIRED,)) or best(versions, current, following, now, ())
    return f"force {forced}" if trigger == "force" and forced else None


def read_image(versions: Sequence[Offered], current: str, strategy: str, switched_on: bool, now: datetime) -> str | None:
    trigger = attempted(next((version for version in versions if version.version == current), None), switched_on, now)
    if trigger is None:
        return None
    wide = {"patch": same_minor, "minor": same_major, "major": anything}[strategy]
    if target := auto(versions, current, same_minor, now) or auto(versions, current, wide, now):
        return f"auto {target}"
    if trigger == "auto" or strategy == "major":
        return None
    place = 1 if strategy == "patch" else 0

    def later(version: Version, old: Version) -> bool:
        return version.core[:place] == old.core[:place] and version.core[place] > old.core[place]

    groups = {parse(version.version).core[place] for version in versions if later(parse(version.version), parse(current))}
    for group in sorted(groups):

        def inside(version: Version, old: Version, group: int = group) -> bool:
            return later(version, old) and version.core[place] == group

        if target := best(versions, current, inside, now, (EXPIRED,)) or best(versions, current, inside, now, ()):
            return f"force {target}"
    return None


def moves(text: str) -> str | None:
    return text if text.startswith(("auto", "force")) else None


moments = st.sampled_from([NOW, day(2), day(3), day(3.1), day(15), day(25)])


@settings(max_examples=300)
@given(spellings, offers, st.booleans(), moments)
def test_kubernetes_is_decided_as_the_rules_read(current: str, offered_texts: list[str], auto_update: bool, now: datetime) -> None:
    offering = profile(offered_texts)
    decided = Timeline(offering).kubernetes(current, auto_update, now)
    assert moves(short(decided)) == read_kubernetes(offering.kubernetes, current, auto_update, now)


demands = st.fixed_dictionaries(
    {
        "architectures": st.sampled_from([(), ("amd64",), ("arm64",), ("arm64", "amd64")]),
        "kubelet": st.sampled_from([None, None, ">= 1.30", "< 1.30", "no constraint"]),
    }
)


@settings(max_examples=300)
@given(st.data(), spellings, offers, strategies, st.booleans(), moments)
def test_an_image_is_decided_as_the_rules_read(
    data: st.DataObject, current: str, offered_texts: list[str], strategy: str, auto_update: bool, now: datetime
) -> None:
    versions = [image_version(text, **data.draw(demands)) for text in offered_texts]
    timeline = Timeline(profile(["1.30.0"], image(versions, strategy)))
    decided = timeline.image(pool(current), cluster("1.30.0", auto_image=auto_update))(now)
    assert moves(short(decided)) == read_image([version for version in versions if runs(version)], current, strategy, auto_update, now)


def runs(version: ImageVersion) -> bool:
    """Whether a pool of amd64 machines under 1.30.0 may have it."""
    if "amd64" not in (version.architectures or ("amd64",)):
        return False
    return version.kubelet is None or (version.kubelet != "no constraint" and constrain(version.kubelet).accepts(parse("1.30.0")))
