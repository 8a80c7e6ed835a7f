"""The site of the fault tests: one node of each kind, and what each must look like under each revision. Written by hand."""

from __future__ import annotations

from tests.faults.harness import Site

POLICY = """
apiVersion: hullmark.dev/v1
kind: NodeLabelPolicy
metadata: {{name: {name}}}
spec: {{nodes: {{names: [{nodes}]}}, labels: {{{labels}}}{more}}}
---
"""


def policy(name: str, nodes: str, labels: str, more: str = "") -> str:
    """One policy document."""
    return POLICY.format(name=name, nodes=nodes, labels=labels, more=more)


REVISION_1 = (
    policy("settled", "a-true", "ex.io/rack: r1")
    + policy("new", "b-new", "ex.io/rack: r1, ex.io/row: w1")
    + policy("dropped", "c-drops", "ex.io/rack: r1")
    + policy("taken", "d-taken", "ex.io/rack: r1")
    + policy("pruned", "e-pruned", "ex.io/rack: r1", ", prune: all")
    + policy("skipped", "f-skips", "ex.io/rack: r1, ex.io/row: w1", ", onConflict: skip")
)
REVISION_2 = (
    policy("settled", "a-true", "ex.io/rack: r2")
    + policy("new", "b-new", "ex.io/rack: r0")
    + policy("dropped", "c-drops", "ex.io/rack: r1, ex.io/old: x")
    + policy("taken", "d-taken", "ex.io/rack: r2")
    + policy("pruned", "e-pruned", "ex.io/rack: r2", ", prune: all")
    + policy("skipped", "f-skips", "ex.io/row: w2", ", onConflict: skip")
)
FOREIGN = {"kubernetes.io/hostname": "h", "vendor.io/gpu": "a100"}
LABELS_1 = {
    "a-true": FOREIGN | {"ex.io/rack": "r1"},
    "b-new": FOREIGN | {"ex.io/rack": "r1", "ex.io/row": "w1"},
    "c-drops": FOREIGN | {"ex.io/rack": "r1"},
    "d-taken": FOREIGN | {"ex.io/rack": "r1"},
    "e-pruned": {"kubernetes.io/hostname": "h", "ex.io/rack": "r1"},
    "f-skips": FOREIGN | {"ex.io/rack": "theirs", "ex.io/row": "w1"},
}
LABELS_2 = {
    "a-true": FOREIGN | {"ex.io/rack": "r2"},
    "b-new": FOREIGN | {"ex.io/rack": "r0"},
    "c-drops": FOREIGN | {"ex.io/rack": "r1", "ex.io/old": "x"},
    "d-taken": FOREIGN | {"ex.io/rack": "r2"},
    "e-pruned": {"kubernetes.io/hostname": "h", "ex.io/rack": "r2"},
    "f-skips": FOREIGN | {"ex.io/rack": "theirs", "ex.io/row": "w2"},
}
OUTCOMES_1 = {
    "a-true": "unchanged",
    "b-new": "changed",
    "c-drops": "changed",
    "d-taken": "changed",
    "e-pruned": "changed",
    "f-skips": "changed",
    "g-gone": "missing",
}


def a_site(world: Site) -> Site:
    """Six nodes of six kinds in the cluster, a seventh only in the documents; revision 1 committed, nothing applied."""
    nodes = world.nodes
    for name in LABELS_1:
        nodes.create(name, FOREIGN, ready=True)
    for name, labels in {
        "a-true": {"ex.io/rack": "r1"},
        "b-new": {"ex.io/rack": "r0"},
        "c-drops": {"ex.io/rack": "r1", "ex.io/old": "x"},
    }.items():
        nodes.apply(name, labels, "hullmark")
    for name in ("d-taken", "f-skips"):
        nodes.set_labels(name, {"ex.io/rack": "theirs"}, "someone")
    # What c-drops holds is ours by revision 1 once that is released, and by the word of whoever asks until then (Site.ask).
    assert world.commit(REVISION_1 + policy("gone", "g-gone", "ex.io/rack: r1, ex.io/old: x")) == 1
    return world
