"""What a pod gets from its node: upstream's table (KEP-4742), policies, and patches that are always valid."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.documents.kinds import TOPOLOGY, PodLabelPolicySpec
from shared.domain.pods import copying as deciding
from shared.domain.pods.copying import (
    SELECTED_ON,
    Additions,
    MalformedReview,
    Own,
    Placement,
    answer,
    check_pod_policy,
    copying,
    patch,
    read_review,
)
from tests.pods.reviews import HOST, REGION, ZONE, a_binding, a_pod, a_policy, a_review, patched, placed

UPSTREAM = [
    (
        "zone and region are copied, others are not",
        {ZONE: "z", REGION: "r", "topology.kubernetes.io/arbitrary": "a", "x": "y"},
        {},
        {ZONE: "z", REGION: "r"},
    ),
    ("an arbitrary topology key is not copied", {"topology.kubernetes.io/arbitrary": "a"}, {}, {}),
    ("a key of a subdomain is not copied", {"sub.topology.kubernetes.io/zone": "z"}, {}, {}),
    ("a key without a prefix is not copied", {"zone": "z"}, {}, {}),
    (
        "an existing value is overwritten",
        {ZONE: "new", REGION: "r"},
        {ZONE: "old", REGION: "r", "own": "1"},
        {ZONE: "new", REGION: "r", "own": "1"},
    ),
    ("a node without labels adds nothing", {}, {"own": "1"}, {"own": "1"}),
    ("keys are case-sensitive", {"Topology.Kubernetes.io/zone": "z"}, {}, {}),
]


def decide(place: Placement, policies: list[PodLabelPolicySpec], node: dict[str, str] | None, own: Own | None = None) -> Additions:
    return deciding.decide(place, copying(policies, place.namespace), node, own)


def after(obj: dict[str, Any], add: Additions, **how: Any) -> dict[str, Any]:
    review = a_review(obj, **how)
    return patched(review, json.loads(answer("u-1", patch(placed(obj, **how), add), add.warnings))["response"])


@pytest.mark.parametrize(("about", "node", "before", "expected"), UPSTREAM, ids=[row[0] for row in UPSTREAM])
@pytest.mark.parametrize("kind", [a_binding, a_pod], ids=["binding", "pod"])
@pytest.mark.parametrize("absent", [True, False], ids=["no label map", "label map"])
def test_upstreams_table(
    kind: Any, about: str, node: dict[str, str], before: dict[str, str], expected: dict[str, str], absent: bool
) -> None:
    obj = kind(labels=None if absent and not before else before)
    add = decide(placed(obj), [a_policy(topology=[ZONE, REGION])], node)
    assert (after(obj, add)["metadata"].get("labels") or {}) == expected


def test_a_real_review_of_the_api_server_is_read_and_its_labels_replaced() -> None:
    body = (Path(__file__).parent / "admissionreview-binding.json").read_bytes()
    place = read_review(body).placement
    assert place
    assert (place.namespace, place.pod, place.node, place.binding) == ("default", "b299413922-997", "node-00997", True)
    add = decide(place, [a_policy()], {ZONE: "other", REGION: "europe-west1", HOST: "node-00997"})
    assert patch(place, add) == [
        {"op": "add", "path": "/metadata/labels/topology.kubernetes.io~1zone", "value": "other"},
        {"op": "add", "path": "/metadata/labels/kubernetes.io~1hostname", "value": "node-00997"},
    ]


@pytest.mark.parametrize(
    "review",
    [
        a_review(a_binding(), operation="UPDATE"),
        a_review(a_pod(), operation="UPDATE"),
        a_review(a_pod(""), operation="CREATE"),
        a_review(a_pod(), sub="status"),
        a_review(a_pod(), sub="ephemeralcontainers"),
        a_review(a_binding(kind="Machine")),
        a_review({"kind": "Deployment", "spec": "anything"}, resource="deployments", group="apps"),
        a_review(a_pod(), group="metrics.k8s.io"),
        a_review(None, operation="DELETE"),
    ],
    ids=lambda r: f"{r['request']['operation']} {r['request']['resource']['resource']}/{r['request'].get('subResource', '')}",
)
def test_everything_else_passes_untouched(review: dict[str, Any]) -> None:
    assert read_review(json.dumps(review).encode()).placement is None


@pytest.mark.parametrize("obj", [a_binding(), a_binding(kind=""), a_binding(kind=None)], ids=["Node", "empty", "absent"])
@pytest.mark.parametrize("resource", ["pods", "bindings"])
def test_bindings_of_both_resources_are_ours_and_an_empty_kind_means_node(obj: dict[str, Any], resource: str) -> None:
    assert placed(obj, resource=resource).node == "n1"


GOOD = a_review(a_binding())
MALFORMED = [
    (b"", "the review"),
    (b"not json", "the review"),
    (b"\xff\xfe", "the review"),
    (b"[]", "Expected `object`"),
    (json.dumps(GOOD | {"apiVersion": "admission.k8s.io/v1beta1"}).encode(), "v1beta1"),
    (json.dumps(GOOD | {"kind": "Pod"}).encode(), "kind"),
    (json.dumps({k: v for k, v in GOOD.items() if k != "request"}).encode(), "request"),
    (json.dumps(GOOD | {"request": GOOD["request"] | {"uid": ""}}).encode(), "uid"),
    (json.dumps(GOOD).replace('"Binding"', '{"a":' * 100_000 + "1" + "}" * 100_000).encode(), "nested too deeply"),
    (b'{"request":' * 100_000, "the review"),
]


@pytest.mark.parametrize(("body", "names"), MALFORMED, ids=[str(i) for i in range(len(MALFORMED))])
def test_a_malformed_review_says_where(body: bytes, names: str) -> None:
    with pytest.raises(MalformedReview, match=re.escape(names)):
        read_review(body)


LACKING = [
    ({"object": None}, "request.object"),
    ({"object": {"metadata": {"labels": {"a": 1}}, "target": {}}}, "labels"),
    ({"object": {"metadata": {}}}, "target"),
    ({"object": {"target": {"name": "n1"}}}, "metadata"),
    ({"object": {"metadata": None, "target": {"name": "n1"}}}, "metadata"),
    ({"object": "no binding"}, "request.object"),
    ({"resource": None}, "resource"),
    ({"operation": 7}, "operation"),
]


@pytest.mark.parametrize(("wrong", "names"), LACKING, ids=[str(i) for i in range(len(LACKING))])
def test_a_review_that_lacks_what_it_needs_and_has_a_uid_is_allowed_with_a_warning(wrong: dict[str, Any], names: str) -> None:
    review = read_review(json.dumps(GOOD | {"request": GOOD["request"] | wrong}).encode())
    assert (review.uid, review.placement) == ("u-1", None)
    (warning,) = review.warnings
    assert warning.startswith("hullmark: no topology labels are copied")
    assert names in warning


@pytest.mark.parametrize("gone", ["object", "resource", "operation"])
def test_a_review_without_its_object_is_allowed_with_a_warning(gone: str) -> None:
    request = {key: value for key, value in GOOD["request"].items() if key != gone}
    assert len(read_review(json.dumps(GOOD | {"request": request}).encode()).warnings) == 1


def test_without_any_policy_nothing_is_copied_and_a_disabled_one_is_like_none() -> None:
    place = placed(a_binding())
    assert decide(place, [], {ZONE: "z"}) == Additions()
    assert decide(place, [a_policy(enabled=False)], {ZONE: "z"}) == Additions()


def test_the_default_topology_is_zone_region_and_hostname_and_an_empty_list_copies_none() -> None:
    node = dict.fromkeys(TOPOLOGY, "v") | {"kubernetes.io/os": "linux"}
    assert decide(placed(a_binding()), [a_policy()], node).labels == dict.fromkeys((ZONE, REGION, HOST), "v")
    assert decide(placed(a_binding()), [a_policy(topology=[])], node) == Additions()


@pytest.mark.parametrize(
    ("namespaces", "held"),
    [({}, True), ({"include": ["shop"]}, True), ({"include": ["other"]}, False), ({"exclude": ["shop"]}, False),
     ({"include": ["shop"], "exclude": ["shop"]}, False), ({"include": []}, True), ({"exclude": ["other"]}, True)],
)  # fmt: skip
def test_a_policy_holds_in_its_namespaces(namespaces: dict[str, list[str]], held: bool) -> None:
    assert bool(decide(placed(a_binding()), [a_policy(namespaces=namespaces)], {ZONE: "z"}).labels) is held


def test_policies_side_by_side_add_up() -> None:
    policies = [
        a_policy(topology=[ZONE]),
        a_policy(topology=[REGION], asAnnotations=True),
        a_policy(topology=["rack"], namespaces={"include": ["other"]}),
        a_policy(topology=[], extra=["example.com/*"]),
    ]
    node = {ZONE: "z", REGION: "r", "rack": "7", "example.com/pool": "blue", "sub.example.com/pool": "red"}
    found = decide(placed(a_binding()), policies, node, Own())
    assert found.labels == {ZONE: "z", "example.com/pool": "blue"}
    assert found.annotations == {REGION: "r"}


def test_a_key_that_is_topology_anywhere_replaces() -> None:
    policies = [a_policy(topology=["rack"]), a_policy(topology=[], extra=["rack"])]
    assert decide(placed(a_pod(labels={"rack": "1"})), policies, {"rack": "2"}).labels == {"rack": "2"}


def test_extra_fills_and_never_replaces_what_the_pod_or_the_binding_has() -> None:
    policy, node = a_policy(topology=[], extra=["team", "pool"]), {"team": "node's", "pool": "blue"}
    assert decide(placed(a_pod(labels={"team": "pod's"})), [policy], node).labels == {"pool": "blue"}
    assert decide(placed(a_binding(labels={"pool": "binding's"})), [policy], node, Own({"team": "pod's"})).labels == {}


def test_extra_is_left_out_while_the_bound_pod_is_unknown() -> None:
    node = {"team": "node's", ZONE: "z"}
    assert decide(placed(a_binding()), [a_policy(extra=["team"])], node, None).labels == {ZONE: "z"}


def test_annotations_are_kept_apart_from_labels() -> None:
    pod = a_pod(labels={"pool": "mine"})
    add = decide(placed(pod), [a_policy(topology=[], extra=["pool"], asAnnotations=True)], {"pool": "blue"})
    got = after(pod, add)["metadata"]
    assert (got["labels"], got["annotations"]) == ({"pool": "mine"}, {"pool": "blue"})


def test_a_node_that_is_not_there_adds_nothing_and_says_so() -> None:
    found = decide(placed(a_binding("gone")), [a_policy()], None)
    assert not found.labels
    assert "no node 'gone'" in found.warnings[0]


@pytest.mark.parametrize(
    "node",
    [{ZONE: "v v"}, {ZONE: "x" * 64}, {ZONE: "new\n"}, {ZONE: "é"}, {ZONE: "-"}, {"bad key!": "v"}, {"x/": "v"}, {"A.b/c": "v"},
     {f"{'a' * 254}/k": "v"}, {"k" * 64: "v"}, {"a/b/c": "v"}],
    ids=str,
)  # fmt: skip
def test_an_invalid_label_never_reaches_a_pod(node: dict[str, str]) -> None:
    policy = a_policy(topology=[ZONE]).model_copy(update={"topology": [ZONE, *node]})
    found = decide(placed(a_binding()), [policy], node)
    assert not found.labels
    assert "not copied" in found.warnings[0]


def test_a_key_that_controllers_select_on_is_not_copied_even_from_a_policy_of_an_older_version() -> None:
    old = a_policy().model_copy(update={"topology": ["app", ZONE], "extra": ["app.kubernetes.io/*"]})
    assert decide(placed(a_pod()), [old], {"app": "x", "app.kubernetes.io/name": "y", ZONE: "z"}).labels == {ZONE: "z"}


@pytest.mark.parametrize("key", sorted(SELECTED_ON))
@pytest.mark.parametrize("place", ["extra", "topology"])
def test_dangerous_keys_are_refused_with_the_reason(key: str, place: str) -> None:
    concrete = key.replace("*", "some-key")
    for written in {concrete, key} if place == "extra" else {concrete}:
        (found,) = check_pod_policy(a_policy(**{place: [ZONE, written]}))
        assert (found.path, found.type) == ((place, 1), "Forbidden")
        assert SELECTED_ON[key] in found.message


@pytest.mark.parametrize(
    ("spec", "path", "kind"),
    [
        ({"extra": ["*"]}, ("extra", 0), "Invalid"),
        ({"extra": ["app*"]}, ("extra", 0), "Invalid"),
        ({"extra": ["*/app"]}, ("extra", 0), "Invalid"),
        ({"extra": ["a/*/b"]}, ("extra", 0), "Invalid"),
        ({"extra": ["Example.com/*"]}, ("extra", 0), "Invalid"),
        ({"topology": ["example.com/*"]}, ("topology", 0), "Invalid"),
        ({"topology": ["bad key"]}, ("topology", 0), "Invalid"),
        ({"namespaces": {"include": ["team-*"]}}, ("namespaces", "include", 0), "Invalid"),
    ],
    ids=str,
)
def test_a_bad_policy_is_refused_where_it_is_bad(spec: Any, path: tuple[str | int, ...], kind: str) -> None:
    assert [(f.path, f.type) for f in check_pod_policy(a_policy(**spec))] == [(path, kind)]


def test_a_good_policy_has_no_findings_and_all_problems_come_at_once() -> None:
    assert check_pod_policy(a_policy(extra=["example.com/*", "rack"], namespaces={"exclude": ["kube-system"]}, asAnnotations=True)) == []
    assert len(check_pod_policy(a_policy(topology=["job-name"], extra=["app", "*"], namespaces={"include": ["A"]}))) == 4


WORD = st.text(alphabet="abcXYZ019-_.~/é \n", min_size=0, max_size=12)
LABELS = st.dictionaries(
    st.sampled_from([ZONE, REGION, "rack", "team", "a~b", "example.com/x", "app", "bad key", "é"]) | WORD, WORD, max_size=6
)
VALID_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
VALID_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")


@given(node=LABELS, before=st.none() | LABELS, own=st.none() | LABELS, binding=st.booleans(), annotations=st.booleans())
def test_the_patch_gives_exactly_the_expected_map_and_never_adds_an_invalid_entry(
    node: dict[str, str], before: dict[str, str] | None, own: dict[str, str] | None, binding: bool, annotations: bool
) -> None:
    policy = a_policy(topology=[ZONE, REGION], extra=["rack", "example.com/*"], asAnnotations=annotations)
    obj = a_binding(labels=before) if binding else a_pod(labels=before)
    if annotations and before is not None:
        obj["metadata"]["annotations"] = obj["metadata"].pop("labels")
    known = None if own is None else (Own(annotations=own) if annotations else Own(own))
    where = "annotations" if annotations else "labels"
    got = after(obj, decide(placed(obj), [policy], node, known))["metadata"].get(where) or {}

    there = before or {}
    expected = dict(there)
    for key, value in node.items():
        valid = bool(VALID_KEY.match(key) and VALID_VALUE.match(value))
        fills = (
            (key == "rack" or key.startswith("example.com/")) and key not in there and (not binding or (own is not None and key not in own))
        )
        if valid and (key in (ZONE, REGION) or fills):
            expected[key] = value
    assert got == expected
