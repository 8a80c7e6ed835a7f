"""`hullmark export`: a pool's template from the documents, and its check in CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Hullmark

POLICY = """apiVersion: hullmark.dev/v1
kind: NodeLabelPolicy
metadata: {name: gpu}
spec:
  nodes: {matchLabels: {pool: gpu}}
  labels: {example.com/rack: r7, topology.kubernetes.io/rack: r7}
  until: {taint: {key: hullmark.dev/unlabelled, effect: NoSchedule}}
"""
EXPORT = ("export", "-f", "site.yaml", "--format", "kubelet", "--pool", "gpu")
FLAGS = "--node-labels=example.com/rack=r7,pool=gpu\n--register-with-taints=hullmark.dev/unlabelled=:NoSchedule\n"


@pytest.fixture
def exports(hullmark: Hullmark) -> Hullmark:
    Path("site.yaml").write_text(POLICY)
    return hullmark


@pytest.mark.parametrize("known", [("--labels", "pool=gpu"), ("--policy", "gpu")])
def test_a_pool_is_known_by_its_labels_or_by_a_policys(exports: Hullmark, known: tuple[str, str]) -> None:
    ran = exports(*EXPORT, *known)

    assert (ran.code, ran.out) == (0, FLAGS)
    assert "topology.kubernetes.io/rack is left out: kubelets set no other keys" in ran.err


def test_the_committed_revision_says_the_same_as_its_files(exports: Hullmark) -> None:
    exports("documents", "stage", "-f", "site.yaml")
    exports("documents", "commit")

    assert exports("export", "--format", "kubelet", "--pool", "gpu", "--labels", "pool=gpu").out == FLAGS


def test_a_check_in_ci_passes_while_the_file_says_the_same_and_shows_what_differs(exports: Hullmark) -> None:
    Path("flags").write_text(FLAGS)
    same = exports(*EXPORT, "--policy", "gpu", "--check", "flags")
    Path("site.yaml").write_text(POLICY.replace("r7", "r8"))
    differs = exports(*EXPORT, "--policy", "gpu", "--check", "flags")

    assert (same.code, same.out) == (0, "")
    assert differs.code == 2
    assert "---- flags" not in differs.out
    assert "\n---node-labels=example.com/rack=r7,pool=gpu\n+--node-labels=example.com/rack=r8,pool=gpu\n" in differs.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "say how the pool's nodes are known: --labels pool=gpu, or --policy NAME"),
        (("--labels", "pool=gpu", "--policy", "gpu"), "one of them"),
        (("--policy", "gp"), "no NodeLabelPolicy is named gp: did you mean gpu?"),
        (("--labels", "pool"), "write KEY=VALUE"),
        (("--labels", "a/b/c=1"), "a label key has at most one /"),
        (("--labels", "pool=a b"), "a label value"),
        (("--labels", "pool=a,pool=b"), "the key is here twice"),
        (("--labels", "pool=gpu", "--check", "missing"), "missing"),
    ],
)
def test_an_order_that_cannot_be_meant_is_refused_in_words(exports: Hullmark, options: tuple[str, ...], said: str) -> None:
    ran = exports(*EXPORT, *options)

    assert ran.code == 1
    assert said in ran.err


def test_a_pool_that_no_policy_selects_is_told(exports: Hullmark) -> None:
    Path("site.yaml").write_text(POLICY)
    ran = exports("export", "-f", "site.yaml", "--format", "eks-nodegroup", "--pool", "cpu", "--labels", "")

    assert (ran.code, '"labels": {}' in ran.out) == (0, True)
    assert "no policy selects the pool cpu" in ran.err


def test_policies_that_contradict_each_other_about_a_pool_are_named(exports: Hullmark) -> None:
    Path("site.yaml").write_text(f"{POLICY}---\n{POLICY.replace('name: gpu', 'name: second').replace('r7', 'r8')}")
    ran = exports(*EXPORT, "--labels", "pool=gpu")

    assert (ran.code, ran.out) == (1, "")
    assert "NodeLabelPolicy/gpu says 'r7', NodeLabelPolicy/second says 'r8'" in ran.err
