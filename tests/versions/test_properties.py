"""What holds of every decision, whatever the profile."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.versions.classification import DEPRECATED, EXPIRED, PREVIEW, UNAVAILABLE
from shared.domain.versions.decisions import Timeline, Update
from shared.domain.versions.semver import parse
from tests.versions.shorthand import NOW, cluster, image, image_version, kubernetes_outcome, offered, pool, profile

spellings = st.builds(
    lambda major, minor, patch, pre: f"{major}.{minor}.{patch}{pre}", *[st.integers(0, 3)] * 3, st.sampled_from(["", "", "", "-rc1"])
)
states = st.sampled_from(["", "", "supported", PREVIEW, DEPRECATED, EXPIRED, UNAVAILABLE, "preview+-1", "deprecated+3"])
offers = st.lists(
    st.builds(lambda version, state: f"{version} {state}".strip(), spellings, states), max_size=12, unique_by=lambda text: text.split()[0]
)
strategies = st.sampled_from(["patch", "minor", "major"])


def stage(version: str, offered_texts: list[str]) -> str:
    return next(each.at(NOW) for each in map(offered, offered_texts) if each.version == version)


@settings(max_examples=400)
@given(spellings, offers, st.booleans())
def test_kubernetes_goes_up_by_a_minor_at_most_and_never_to_what_nobody_should_run(
    current: str, offered_texts: list[str], auto: bool
) -> None:
    outcome = kubernetes_outcome(current, offered_texts, auto)
    assert not isinstance(outcome, Update) or outcome.to in [text.split()[0] for text in offered_texts]
    if isinstance(outcome, Update):
        old, new = parse(current), parse(outcome.to)
        assert new.key > old.key
        assert stage(outcome.to, offered_texts) not in (PREVIEW, UNAVAILABLE)
        if outcome.kind == "auto":
            assert stage(outcome.to, offered_texts) != EXPIRED
            assert (new.major, new.minor) == (old.major, old.minor) or old.core == (0, 0, 0)
        else:
            assert (new.major, new.minor) == (old.major, old.minor + 1)
            assert outcome.trigger != "autoUpdate"
    if not auto:
        assert outcome.trigger != "autoUpdate"


@settings(max_examples=400)
@given(spellings, offers, strategies, st.booleans())
def test_images_stay_within_their_strategy(current: str, offered_texts: list[str], strategy: str, auto: bool) -> None:
    rules = Timeline(profile(["1.30.0"], image([image_version(text) for text in offered_texts], strategy))).at(NOW)
    outcome = rules.image(pool(current), cluster("1.30.0", auto_image=auto))
    if isinstance(outcome, Update):
        old, new = parse(current), parse(outcome.to)
        assert new.key > old.key
        assert stage(outcome.to, offered_texts) not in (PREVIEW, UNAVAILABLE)
        if outcome.kind == "auto":
            assert stage(outcome.to, offered_texts) != EXPIRED
        if strategy == "patch":
            assert new.major == old.major or old.core == (0, 0, 0)
        if strategy == "minor" and outcome.kind == "force":
            assert new.major > old.major
        assert strategy != "major" or outcome.kind == "auto"


releases = offers.map(lambda texts: [text for text in texts if "-rc" not in text])
"""Without pre-releases: the compare helper takes `1.0.0-rc1` for 1.0.0, and the first one listed is the current version."""


@given(spellings, releases, strategies)
def test_the_order_in_which_a_profile_lists_its_versions_decides_nothing(current: str, offered_texts: list[str], strategy: str) -> None:
    def decided(texts: list[str]) -> object:
        rules = Timeline(profile(texts, image(texts, strategy))).at(NOW)
        return rules.kubernetes(current, True), rules.image(pool(current), cluster("1.30.0"))

    assert decided(offered_texts) == decided(offered_texts[::-1])
