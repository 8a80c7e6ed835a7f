"""Alias pairs: KEP-793's table and upstream's TestReconcileNodeLabels as tables, and the plan that aliases share with declared labels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.documents.kinds import LabelAliasesSpec, parsed
from shared.domain.documents.reading import Document
from shared.domain.labels.aliases import (
    KEP_793,
    AliasPair,
    aliases_for,
    check_pairs,
    cluster_version,
    in_force,
    reconcile,
)

OS, BETA_OS, ARCH, BETA_ARCH = "kubernetes.io/os", "beta.kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/arch"
NOW = in_force(KEP_793, "v1.35.4")
ME = "hullmark-aliases"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.17.3-gke.5", (1, 17, 3)),
        ("1.18", (1, 18, 0)),
        ("v1.18.0-beta.1", (1, 18, 0)),
        ("v1.21.5-eks-9017834", (1, 21, 5)),
        ("v1.29.1+k3s2", (1, 29, 1)),
        ("1.17+", (1, 17, 0)),
    ],
)
def test_a_version_is_its_numbers_whatever_a_provider_appends(text: str, version: tuple[int, int, int]) -> None:
    assert cluster_version(text) == version


@pytest.mark.parametrize("text", ["", "unknown", "1", "v1.x", "1.17x"])
def test_a_cluster_that_tells_no_version_counts_as_the_newest(text: str) -> None:
    assert in_force(KEP_793, text) == in_force(KEP_793, "v9.99.0")


@pytest.mark.parametrize(
    ("version", "primaries", "ensured"),
    [
        ("v1.13.0", {BETA_OS, BETA_ARCH}, True),
        ("v1.17.17-gke.9", {BETA_OS, BETA_ARCH}, True),
        ("v1.18.0", {OS, ARCH}, False),
        ("v1.35.4", {OS, ARCH}, False),
    ],
)
def test_kep_793_turns_its_pairs_round_at_1_18(version: str, primaries: set[str], ensured: bool) -> None:
    pairs = in_force(KEP_793, version)

    assert {pair.primary for pair in pairs} == primaries
    assert {pair.ensure_secondary_exists for pair in pairs} == {ensured}


@pytest.mark.parametrize(
    ("version", "labels", "changes"),
    [
        # before 1.18: the beta key is true, the GA key is made to exist
        ("v1.17.3", {BETA_OS: "linux"}, {OS: "linux"}),
        ("v1.17.3", {BETA_OS: "linux", OS: "windows"}, {OS: "linux"}),
        ("v1.17.3", {BETA_OS: "linux", OS: "linux"}, {}),
        ("v1.17.3", {OS: "linux"}, {}),
        ("v1.17.3", {BETA_OS: "linux", BETA_ARCH: "amd64"}, {OS: "linux", ARCH: "amd64"}),
        ("v1.17.3", {BETA_OS: ""}, {OS: ""}),
        # from 1.18: the GA key is true, a missing beta key stays missing
        ("v1.35.4", {OS: "linux"}, {}),
        ("v1.35.4", {OS: "linux", BETA_OS: "windows"}, {BETA_OS: "linux"}),
        ("v1.35.4", {OS: "linux", BETA_OS: "linux"}, {}),
        ("v1.35.4", {BETA_OS: "linux"}, {}),
        ("v1.35.4", {OS: "", BETA_OS: "linux"}, {BETA_OS: ""}),
        ("v1.35.4", {OS: "linux", "beta.kubernetes.io/os-image": "x"}, {}),
    ],
)
def test_kep_793_row_by_row(version: str, labels: dict[str, str], changes: dict[str, str]) -> None:
    assert reconcile(labels, in_force(KEP_793, version)) == changes


ENSURED = (AliasPair(OS, BETA_OS, ensure_secondary_exists=True), AliasPair(ARCH, BETA_ARCH, ensure_secondary_exists=True))


@pytest.mark.parametrize(
    ("labels", "changes"),
    [
        ({}, {}),
        ({"unrelated": "x"}, {}),
        ({OS: "linux", ARCH: "amd64"}, {BETA_OS: "linux", BETA_ARCH: "amd64"}),
        ({OS: "linux", BETA_OS: "windows", ARCH: "amd64", BETA_ARCH: "wrong"}, {BETA_OS: "linux", BETA_ARCH: "amd64"}),
    ],
)
def test_the_rows_of_upstreams_test_reconcile_node_labels(labels: dict[str, str], changes: dict[str, str]) -> None:
    assert reconcile(labels, ENSURED) == changes


def test_every_pair_reads_the_labels_as_they_were_at_the_start() -> None:
    chain = [AliasPair("a", "b", True), AliasPair("b", "c", True)]

    assert reconcile({"a": "new", "b": "old"}, chain) == {"b": "new", "c": "old"}


def test_the_alias_follows_the_value_that_the_primary_is_about_to_get() -> None:
    plan = aliases_for({"rack": "r1", "old-rack": "r1"}, {"rack": "r2"}, [AliasPair("rack", "old-rack")])

    assert (plan.write, plan.set, plan.hold) == (True, {"old-rack": "r2"}, {"old-rack": "r2"})


def test_equal_labels_cost_no_write_even_where_others_hold_them() -> None:
    plan = aliases_for({OS: "linux", BETA_OS: "linux"}, {}, NOW, owners={BETA_OS: ("kubelet",)})

    assert not plan.write
    assert plan.set == {}


def test_a_correction_of_one_pair_goes_on_holding_the_others() -> None:
    observed = {OS: "linux", BETA_OS: "windows", ARCH: "amd64", BETA_ARCH: "amd64"}

    plan = aliases_for(observed, {}, NOW, held=[BETA_ARCH])

    assert plan.hold == {BETA_OS: "linux", BETA_ARCH: "amd64"}
    assert plan.set == {BETA_OS: "linux"}


def test_a_secondary_that_only_we_made_goes_with_its_pair_and_one_that_others_hold_stays() -> None:
    observed = {"new": "x", "old-mine": "x", "old-shared": "x"}

    plan = aliases_for(observed, {}, [], held=["old-mine", "old-shared"], owners={"old-mine": (ME,), "old-shared": (ME, "kubectl")})

    assert (plan.write, plan.hold, plan.remove) == (True, {}, ("old-mine",))


def test_a_secondary_goes_with_its_primary() -> None:
    plan = aliases_for({"new": "x", "old": "x"}, {}, [AliasPair("new", "old", True)], dropped=["new"], held=["old"], owners={"old": (ME,)})

    assert (plan.write, plan.remove) == (True, ("old",))


def test_the_upgrade_to_1_18_does_not_take_the_os_label_away() -> None:
    """Under 1.17 we made kubernetes.io/os; at 1.18 it is the primary, and nobody else holds it."""
    observed = {BETA_OS: "linux", OS: "linux", ARCH: "amd64"}

    plan = aliases_for(observed, {}, NOW, held=[OS], owners={OS: (ME,), BETA_OS: ("kubelet",)})

    assert plan.hold == {OS: "linux", BETA_OS: "linux"}
    assert (plan.write, plan.remove) == (False, ())


def test_a_declared_key_that_becomes_a_secondary_is_held_before_the_declaration_lets_go_of_it() -> None:
    pair = AliasPair("new", "old", True)

    plan = aliases_for({"old": "x"}, {"new": "x"}, [pair], dropped=["old"])

    assert (plan.write, plan.hold, plan.set) == (True, {"old": "x"}, {})


KEYS = st.sampled_from(["a", "b", "c", "d", OS, BETA_OS])
LABELS = st.dictionaries(KEYS, st.sampled_from(["", "x", "y"]))
PAIRS = st.lists(st.builds(AliasPair, KEYS, KEYS, st.booleans()), max_size=3).filter(
    # one step only: what a second run meets is what the first one left
    lambda pairs: not check_pairs(pairs) and not {p.primary for p in pairs} & {p.secondary for p in pairs}
)


@given(LABELS, LABELS, PAIRS, st.frozensets(KEYS))
def test_a_second_run_writes_nothing(observed: dict[str, str], declared: dict[str, str], pairs: Any, held: frozenset[str]) -> None:
    """The node after the first run, as Server-Side Apply leaves it when nobody else holds a key."""
    declared = {k: v for k, v in declared.items() if k not in {p.secondary for p in pairs}}
    held = held & observed.keys()
    first = aliases_for(observed, declared, pairs, held=held)
    after = {k: v for k, v in {**observed, **declared, **first.set}.items() if k not in first.remove}

    second = aliases_for(after, declared, pairs, held=first.hold if first.write else held)

    assert not second.write
    assert reconcile(after, pairs) == {}


def test_what_follows_depends_on_the_clusters_version() -> None:
    assert {pair.secondary for pair in in_force(KEP_793, "v1.17.3")} == {OS, ARCH}
    assert {pair.secondary for pair in in_force(KEP_793, "v1.35.4")} == {BETA_OS, BETA_ARCH}


@pytest.mark.parametrize(
    ("pairs", "index", "text"),
    [
        ([AliasPair("a", "c"), AliasPair("b", "c")], 1, "c would follow both a and b"),
        ([AliasPair("a", "b"), AliasPair("b", "a")], 1, "cycle"),
        ([AliasPair("a", "b"), AliasPair("b", "c"), AliasPair("c", "a")], 2, "cycle"),
        ([AliasPair("a", "b", before="1.20"), AliasPair("b", "a", from_="1.18")], 1, "at 1.18"),
        ([AliasPair("a", "b"), AliasPair("b", "a", from_="1.30", before="1.31")], 1, "at 1.30"),
        ([AliasPair("a", "a")], 0, "follow itself"),
        ([AliasPair("a b", "c")], 0, "not a label key"),
        ([AliasPair("a", "Example.com/x")], 0, "not a label key"),
        ([AliasPair("a", "beta.kubernetes.io/*")], 0, "not a label key"),
        ([AliasPair("a", "b\n")], 0, "not a label key"),
        ([AliasPair("a", "b", from_="soon")], 0, "not a cluster version"),
        ([AliasPair("a", "b", from_="1.20", before="1.20")], 0, "never hold"),
    ],
)
def test_pairs_that_cannot_hold_are_refused_when_declared(pairs: Any, index: int, text: str) -> None:
    problems = check_pairs(pairs)

    assert [problem.index for problem in problems] == [index]
    assert text in problems[0].message


@pytest.mark.parametrize(
    "pairs",
    [
        KEP_793,
        (AliasPair("a", "b"), AliasPair("b", "c")),
        (AliasPair("a", "b", before="1.18"), AliasPair("b", "a", from_="1.18")),
        (AliasPair("a", "b"), AliasPair("a", "c")),
    ],
)
def test_pairs_that_never_meet_at_one_version_are_welcome(pairs: Any) -> None:
    assert check_pairs(pairs) == []


def test_a_labelaliases_document_holds_the_pairs_that_decide() -> None:
    written = [
        {"primary": "new", "secondary": "old", "ensureSecondaryExists": True, "from": "1.20"},
        {"primary": "a", "secondary": "b", "before": None},
    ]
    assert LabelAliasesSpec.model_validate({"pairs": written}).pairs == [AliasPair("new", "old", True, "1.20"), AliasPair("a", "b")]


@pytest.mark.parametrize(
    ("pair", "path", "says"),
    [
        ({"primary": "a"}, "spec.pairs[0].secondary", "`secondary` is required"),
        ({"primary": "a", "secondary": "b", "form": "1.20"}, "spec.pairs[0].form", "unknown field `form`: did you mean from?"),
        ({"primary": "a", "secondary": "b", "from_": "1.20"}, "spec.pairs[0].from_", "unknown field `from_`: did you mean from?"),
        ({"primary": "a", "secondary": 1}, "spec.pairs[0].secondary", "must be text, not a number: put it in quotes"),
        ({"primary": "a", "secondary": "b", "from": 1.2}, "spec.pairs[0].from", "must be text, not a number: put it in quotes"),
        (
            {"primary": "a", "secondary": "b", "ensureSecondaryExists": "yes"},
            "spec.pairs[0].ensureSecondaryExists",
            "must be true or false, not text: write true or false, without quotes",
        ),
        ("a=b", "spec.pairs[0]", "must be a mapping, not text"),
    ],
)
def test_a_pair_that_is_written_wrong_is_told_where_and_what_to_do(pair: Any, path: str, says: str) -> None:
    body = {"apiVersion": "hullmark.dev/v1", "kind": "LabelAliases", "metadata": {"name": "l"}, "spec": {"pairs": [pair]}}
    found = parsed(Document("f.yaml", 0, 1, "LabelAliases", "l", body))
    assert isinstance(found, list)
    assert [(problem.path, problem.message) for problem in found] == [(path, says)]
