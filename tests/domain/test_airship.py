# ruff: noqa: E501 -- a row of a table stays on its line
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.domain.documents.design import DesignNode
from shared.domain.documents.reading import Source
from shared.domain.site import check, load


def document(kind: str, name: str, data: Any = None, **metadata: Any) -> dict[str, Any]:
    schema = kind if "/" in kind else f"drydock/{kind}/v1"
    return {"schema": schema, "metadata": {"schema": "metadata/Document/v1", "name": name, **metadata}, "data": data}


def profile(name: str, data: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return document("HostProfile", name, data or {}, **metadata)


ADDRESSES = iter(range(1, 100_000))


def node(name: str, data: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    number = next(ADDRESSES)
    address = {"network": "mgmt", "address": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"}
    return document("BaremetalNode", name, {"addressing": [address], "hardware_profile": "hw", **(data or {})}, **metadata)


HARDWARE = document("HardwareProfile", "hw", {})


def sources(*documents: dict[str, Any]) -> list[Source]:
    return [Source("site.yaml", yaml.safe_dump_all([*documents, HARDWARE], sort_keys=False).encode())]


def nodes(*documents: dict[str, Any]) -> dict[str, DesignNode]:
    return load(sources(*documents)).nodes


def told(text: str) -> list[tuple[int, str, str, str]]:
    return [(p.line, p.document, p.path, p.type) for p in check([Source("f", text.encode()), *sources()])[0]]


def refusals(*documents: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(p.document, p.path, p.type) for p in check(sources(*documents))[0]]


# --- the real sites


@pytest.mark.parametrize(
    ("site", "labels"),
    [
        ("treasuremap-v1.9-seaworthy", {"cp_r720-primary": 61, "dp_r720": 8}),
        ("treasuremap-v1.9-airsloop", {"compute_r720xd": 8}),
        ("treasuremap-v1.9-seaworthy-virt", {"cp-global": 60, "cp-secondary": 61}),
        ("treasuremap-v1.8-prime-stl1", {"nc-cp-primary-adv": 67, "nc-cp-secondary-adv": 63, "nc-p1-adv": 9}),
        ("drydock-sample-fullsite", {"k8-node": 1}),
    ],
)
def test_the_real_sites_load_with_their_labels(airship_sites: Path, site: str, labels: dict[str, int]) -> None:
    file = airship_sites / f"{site}.yaml"
    found = load([Source(file.name, file.read_bytes())])
    assert {each.host_profile: len(each.labels) for each in found.nodes.values()} == labels
    assert found.warnings == []


def test_the_real_sites_tell_racks_tags_and_sources(airship_sites: Path) -> None:
    seaworthy = load([Source("s", (airship_sites / "treasuremap-v1.9-seaworthy.yaml").read_bytes())])
    assert len(seaworthy.nodes) == 5
    master = seaworthy.nodes["cab23-r720-12"]
    assert (master.tags, master.rack, master.hardware_profile) == (("masters",), "cab23", "dell_r720")
    assert set(master.sources.values()) == {"HostProfile/cp_r720-primary"}
    sample = load([Source("s", (airship_sites / "drydock-sample-fullsite.yaml").read_bytes())]).nodes
    assert {name: dict(each.labels) for name, each in sample.items()} == {
        "controller01": {"foo": "bar"},
        "compute01": {"foo": "bar"},
        "compute02": {"foo": "baz"},
    }
    assert sample["controller01"].sources == {"foo": "HostProfile/defaults"}
    assert dict(sample["compute02"].sources) == {"foo": "BaremetalNode/compute02"}
    assert sample["compute02"].tags == ("test",)


# --- inheritance (rules/airship §2.5)


@pytest.mark.parametrize(
    ("below", "own", "labels"),
    [
        ({"a": "1", "b": "1"}, {"b": "2", "c": "2"}, {"a": "1", "b": "2", "c": "2"}),
        ({"a": "1", "b": "1"}, {"!a": "x"}, {"b": "1"}),
        ({"a": "1"}, {"!a": None}, {}),  # what the strike holds does not matter
        ({"a": "1"}, {"a": "2", "!a": "x"}, {"a": "2"}),  # both: the child's value wins
        ({"a": "1"}, {"!b": "x"}, {"a": "1"}),
        ({"a": "1"}, {"a": ""}, {"a": ""}),  # an empty string is a value
        ({}, {"a": "1"}, {"a": "1"}),
        ({"a": "1"}, {}, {"a": "1"}),
    ],
)
def test_labels_are_inherited_struck_and_overridden(below: dict[str, Any], own: dict[str, Any], labels: dict[str, str]) -> None:
    found = nodes(profile("p", {"metadata": {"owner_data": below}}), node("n1", {"host_profile": "p", "metadata": {"owner_data": own}}))[
        "n1"
    ]
    assert dict(found.labels) == labels
    assert {key: found.sources[key] for key in labels} == {key: "BaremetalNode/n1" if key in own else "HostProfile/p" for key in labels}


@pytest.mark.parametrize(
    ("below", "own", "tags"),
    [
        (["a", "b"], ["c"], ("c", "a", "b")),
        (["a", "b"], ["b", "c"], ("b", "c", "a")),
        (["a", "b"], ["!a"], ("b",)),
        (["a"], [], ("a",)),
        ([], ["a"], ("a",)),
    ],
)
def test_tags_are_the_childs_then_what_the_parent_has_besides(below: list[str], own: list[str], tags: tuple[str, ...]) -> None:
    found = nodes(profile("p", {"metadata": {"tags": below}}), node("n1", {"host_profile": "p", "metadata": {"tags": own}}))["n1"]
    assert found.tags == tags


@pytest.mark.parametrize(("own", "rack"), [(None, "r1"), ("r2", "r2"), ("!", ""), (-1, ""), ("", "")])
def test_a_scalar_is_the_childs_unless_null_and_can_be_unset(own: Any, rack: str) -> None:
    found = nodes(profile("p", {"metadata": {"rack": "r1"}}), node("n1", {"host_profile": "p", "metadata": {"rack": own}}))["n1"]
    assert found.rack == rack


def test_profiles_form_a_chain_and_the_nearest_wins() -> None:
    chain = [
        profile("top", {"metadata": {"owner_data": {"a": "top", "b": "top", "c": "top"}, "rack": "r9"}, "hardware_profile": "hw"}),
        profile("mid", {"host_profile": "top", "metadata": {"owner_data": {"b": "mid", "!c": ""}}}),
        profile("low", {"host_profile": "mid", "metadata": {"owner_data": {"d": "low"}}}),
        node("n1", {"host_profile": "low", "hardware_profile": None}),
        node("n2", {"host_profile": "top"}),
    ]
    found = nodes(*chain)
    assert dict(found["n1"].labels) == {"a": "top", "b": "mid", "d": "low"}
    assert (found["n1"].rack, found["n1"].hardware_profile, found["n1"].host_profile) == ("r9", "hw", "low")
    assert dict(found["n2"].labels) == {"a": "top", "b": "top", "c": "top"}


def test_a_chain_of_ten_thousand_profiles_is_followed() -> None:
    chain = [profile("p0", {"metadata": {"owner_data": {"a": "1"}}})]
    chain += [profile(f"p{number}", {"host_profile": f"p{number - 1}"}) for number in range(1, 10_000)]
    assert dict(nodes(*reversed(chain), node("n1", {"host_profile": "p9999"}))["n1"].labels) == {"a": "1"}


def test_a_roots_own_strike_is_a_warning_and_removes_nothing() -> None:
    site = load(
        sources(
            profile("p", {"metadata": {"owner_data": {"!ghost": "x", "a": "1"}, "tags": ["!t", "u"]}}),
            node("n1", {"host_profile": "p"}),
            node("n2", {"metadata": {"owner_data": {"!b": "x"}}}),
        )
    )
    assert dict(site.nodes["n1"].labels) == {"a": "1"}
    assert site.nodes["n1"].tags == ("u",)
    assert dict(site.nodes["n2"].labels) == {}
    assert [(w.document, w.path) for w in site.warnings] == [
        ("HostProfile/p", "data.metadata.owner_data[!ghost]"),
        ("HostProfile/p", "data.metadata.tags[0]"),
        ("BaremetalNode/n2", "data.metadata.owner_data[!b]"),
    ]


def test_rack_labels_are_the_rack_documents() -> None:
    found = nodes(
        document("Rack", "r1", {"labels": {"row": "a"}}, labels={"application": "drydock"}),
        node("n1", {"metadata": {"rack": "r1"}}),
        node("n2", {"metadata": {"rack": "unknown"}}),
    )
    assert found["n1"].rack_labels == {"row": "a"}
    assert (found["n2"].rack, found["n2"].rack_labels) == ("unknown", {})


def test_documents_of_other_schemas_are_left_alone() -> None:
    other = document("shipyard/DeploymentConfiguration/v1", "d", {"anything": None}, layeringDefinition={"parentSelector": {"no": "one"}})
    assert list(nodes(other, other, document("Network", "mgmt", {"whatever": 1}), node("n1"))) == ["n1"]


# --- what a design is refused for, to the line

NODE = """\
schema: drydock/BaremetalNode/v1
metadata:
  name: n1
data:
  hardware_profile: hw
  addressing:
    - {network: mgmt, address: 10.0.0.1}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NODE + "  metadata:\n    owner_data:\n      a: 1\n", [(10, "data.metadata.owner_data.a", "Invalid")]),
        (NODE + "  metadata:\n    owner_data:\n      a: null\n      b: true\n", [(10, "data.metadata.owner_data.a", "Invalid"), (11, "data.metadata.owner_data.b", "Invalid")]),
        (NODE + "  metadata:\n    owner_data: [a]\n", [(9, "data.metadata.owner_data", "Invalid")]),
        (NODE + "  metadata:\n    owner_data:\n", [(9, "data.metadata.owner_data", "Invalid")]),
        (NODE + "  metadata:\n    owner_data:\n      a b: x\n", [(10, "data.metadata.owner_data[a b]", "Invalid")]),
        (NODE + "  metadata:\n    owner_data:\n      a: x y\n", [(10, "data.metadata.owner_data.a", "Invalid")]),
        (NODE + "  metadata:\n    owner_data:\n      kubernetes.io/os: linux\n", [(10, "data.metadata.owner_data[kubernetes.io/os]", "Forbidden")]),
        (NODE + "  metadata:\n    rack: r1\n    racks: r1\n", [(10, "data.metadata.racks", "Unknown")]),
        (NODE + "  metadata:\n    tags: gpu\n", [(9, "data.metadata.tags", "Invalid")]),
        (NODE + "  metadata:\n    tags:\n    - a\n    - 1\n", [(11, "data.metadata.tags[1]", "Invalid")]),
        (NODE + "  metadata:\n    rack: 7\n", [(9, "data.metadata.rack", "Invalid")]),
        (NODE + "  metadata: x\n", [(8, "data.metadata", "Invalid")]),
        (NODE + "  interfaces: []\n", [(8, "data.interfaces", "Invalid")]),
        (NODE + "  host_profile: nope\n", [(8, "data.host_profile", "NotFound")]),
        (NODE + "  host_profile: [a]\n", [(8, "data.host_profile", "Invalid")]),
        (NODE.replace("hw", "nope"), [(5, "data.hardware_profile", "NotFound")]),
        (NODE.replace("- {network: mgmt, address: 10.0.0.1}", "[]"), [(6, "data.addressing", "Required")]),
        (NODE.replace("  addressing:\n    - {network: mgmt, address: 10.0.0.1}", "  oob: {}"), [(4, "data.addressing", "Required")]),
        (NODE.partition("\ndata:")[0] + "\n", [(1, "data.addressing", "Required"), (1, "data.hardware_profile", "Required")]),
        (NODE.replace("  hardware_profile: hw\n", ""), [(4, "data.hardware_profile", "Required")]),
        (NODE.replace("network: mgmt, ", ""), [(7, "data.addressing[0]", "Required")]),
        (NODE.replace("10.0.0.1", "10"), [(7, "data.addressing[0].address", "Invalid")]),
        (NODE.replace("10.0.0.1}", "10.0.0.1}\n    - {network: oob, address: 10.0.0.1}"), [(8, "data.addressing[1].address", "Duplicate")]),
        (NODE.replace("name: n1", "name: N1"), [(3, "metadata.name", "Invalid")]),
        (NODE.replace("name: n1", f"name: {'n' * 64}"), [(3, "metadata.name", "Invalid")]),
        (NODE.replace("name: n1", "name: n1.example.com"), [(3, "metadata.name", "Invalid")]),
        (NODE.replace("name: n1", "name: -n"), [(3, "metadata.name", "Invalid")]),
        (NODE.replace("name: n1", "label: n1"), [(2, "metadata.name", "Required")]),
        (NODE.replace("name: n1", "name: 1"), [(3, "metadata.name", "Required")]),
        (NODE.partition("\ndata:")[0] + "\ndata: []\n", [(4, "data", "Invalid")]),
    ],
)  # fmt: skip
def test_a_design_is_refused_with_line_and_path(text: str, expected: list[tuple[int, str, str]]) -> None:
    assert [(line, path, type_) for line, _, path, type_ in told(text)] == expected


def test_every_problem_is_told_in_one_answer_in_the_order_of_the_lines() -> None:
    text = (
        NODE
        + "  metadata:\n    owner_data:\n      a: 1\n    bogus: 1\n---\n"
        + NODE
        + "  host_profile: p\n---\nschema: drydock/HostProfile/v1\nmetadata:\n  name: p\ndata:\n  host_profile: q\n"
    )
    assert told(text) == [
        (10, "BaremetalNode/n1", "data.metadata.owner_data.a", "Invalid"),
        (11, "BaremetalNode/n1", "data.metadata.bogus", "Unknown"),
        (15, "BaremetalNode/n1", "metadata.name", "Duplicate"),
        (26, "HostProfile/p", "data.host_profile", "NotFound"),
    ]  # fmt: skip


def test_profiles_that_inherit_from_one_another_are_refused_once() -> None:
    loop = [
        profile("a", {"host_profile": "b"}),
        profile("b", {"host_profile": "c"}),
        profile("c", {"host_profile": "b"}),
        profile("d", {"host_profile": "d"}),
    ]
    problems = check(sources(*loop, node("n1", {"host_profile": "a"})))[0]
    assert [(p.document, p.path) for p in problems] == [("HostProfile/c", "data.host_profile"), ("HostProfile/d", "data.host_profile")]
    assert "b → c → b" in problems[0].message


def test_one_address_has_one_owner_and_dhcp_is_none() -> None:
    def at(name: str, *addresses: str) -> dict[str, Any]:
        return node(name, {"addressing": [{"network": f"net{number}", "address": each} for number, each in enumerate(addresses)]})

    assert refusals(at("n1", "dhcp", "10.9.0.1"), at("n2", "dhcp", "10.9.0.2"), at("n3", "dhcp", "dhcp")) == []
    assert refusals(at("n1", "10.9.0.1"), at("n2", "10.9.0.2", "10.9.0.1")) == [
        ("BaremetalNode/n2", "data.addressing[1].address", "Duplicate")
    ]
    assert refusals(at("n1", "fd00::1"), at("n2", "FD00:0::1")) == [("BaremetalNode/n2", "data.addressing[0].address", "Duplicate")]


BARE = node("bare", {"hardware_profile": None, "host_profile": "low"})
LOW, TOP = profile("low", {"host_profile": "top"}), profile("top", {"metadata": {"rack": "r1"}})


@pytest.mark.parametrize(
    ("before", "refused"),
    [
        ([BARE, LOW, TOP], False),
        ([TOP, node("other"), LOW, BARE], False),  # in another order, with a node that is gone
        ([], True),
        ([LOW, TOP], True),  # the node is new
        ([node("bare", {"hardware_profile": "hw", "host_profile": "low"}), LOW, TOP], True),  # it named one
        (
            [BARE, LOW, profile("top", {"metadata": {"rack": "r1"}, "hardware_profile": "hw"})],
            True,
        ),  # a profile that it builds on named one
        ([BARE, profile("low", {"host_profile": "top", "metadata": {"rack": "r2"}}), TOP], True),  # something that it is made of changed
    ],
)
def test_a_node_without_hardware_profile_is_refused_unless_an_earlier_version_accepted_the_same(before: list[Any], refused: bool) -> None:
    problems, warnings = check(sources(BARE, LOW, TOP), previous=sources(*before))
    told_of = [(found.document, found.path, found.type) for found in (problems if refused else warnings)]
    assert told_of == [("BaremetalNode/bare", "data.hardware_profile", "Required")]
    assert not (warnings if refused else problems)


def test_a_missing_hardware_profile_is_told_where_it_is_named_and_only_if_a_node_has_it() -> None:
    missing = profile("p", {"hardware_profile": "gone"})
    inherits = {"host_profile": "p", "hardware_profile": None}
    assert refusals(missing, node("n1")) == []
    assert refusals(missing, node("n1", inherits), node("n2", inherits)) == [("HostProfile/p", "data.hardware_profile", "NotFound")]


@pytest.mark.parametrize("own", [None, "!", -1, ""])
def test_a_node_is_refused_where_nobody_in_its_chain_names_a_hardware_profile(own: Any) -> None:
    chain = [profile("low", {"host_profile": "top"}), profile("top", {"hardware_profile": None if own is None else "hw"})]
    refused = [("BaremetalNode/n1", "data.hardware_profile", "Required")]
    assert refusals(*chain, node("n1", {"host_profile": "low", "hardware_profile": own})) == refused
    assert refusals(profile("alone", {"host_profile": "none yet"}))[0][1] == "data.host_profile"


def test_unknown_fields_outside_of_metadata_are_warnings() -> None:
    problems, warnings = check(sources(node("n1", {"adressing": []}), document("Rack", "r", {"lables": {}})))
    assert problems == []
    assert [(w.path, "did you mean" in w.message) for w in warnings] == [("data.adressing", True), ("data.lables", True)]


def test_a_misspelt_schema_is_a_warning_with_a_suggestion() -> None:
    problems, warnings = check([Source("f", NODE.replace("BaremetalNode", "BaremetalNod").encode())])
    assert problems == []
    assert "did you mean drydock/BaremetalNode/v1?" in warnings[0].message


# --- layering (Deckhand)


def layered(layer: str, *actions: tuple[str, str], abstract: bool = False, parent: dict[str, str] | None = None) -> dict[str, Any]:
    definition: dict[str, Any] = {"abstract": abstract, "layer": layer}
    if parent is not None:
        definition |= {"parentSelector": parent, "actions": [{"method": method, "path": path} for method, path in actions]}
    return {"layeringDefinition": definition}


ORDER = document("deckhand/LayeringPolicy/v1", "layering-policy", {"layerOrder": ["global", "type", "site"]})
BASE = {"platform": {"image": "x", "kernel": "y"}, "metadata": {"owner_data": {"a": "1", "b": "1"}, "tags": ["t"], "rack": "r1"}}
GLOBAL = profile("base", BASE, labels={"hosttype": "base"}, **layered("global", abstract=True))
PARENT = {"hosttype": "base"}


def rendered(own: dict[str, Any], *actions: tuple[str, str]) -> DesignNode:
    child = profile("p", own, **layered("site", *actions, parent=PARENT))
    return nodes(ORDER, GLOBAL, child, node("n1", {"host_profile": "p"}))["n1"]


@pytest.mark.parametrize(
    ("own", "actions", "labels", "tags", "rack"),
    [
        ({"metadata": {"owner_data": {"b": "2", "c": "2"}}}, [("merge", ".")], {"a": "1", "b": "2", "c": "2"}, ("t",), "r1"),
        ({"metadata": {"owner_data": {"c": "2"}}}, [("replace", ".metadata.owner_data")], {"c": "2"}, ("t",), "r1"),
        ({"metadata": {"owner_data": {"c": "2"}}}, [("replace", ".metadata")], {"c": "2"}, (), ""),
        ({"metadata": {"owner_data": {"c": "2"}}}, [("replace", ".")], {"c": "2"}, (), ""),
        ({"metadata": {"tags": ["u"]}}, [("merge", ".")], {"a": "1", "b": "1"}, ("u",), "r1"),  # lists are replaced, not joined
        ({}, [("delete", ".metadata.owner_data.a")], {"b": "1"}, ("t",), "r1"),
        ({}, [("delete", ".metadata.tags[0]")], {"a": "1", "b": "1"}, (), "r1"),
        ({}, [("delete", ".")], {}, (), ""),
        ({"metadata": {"owner_data": {"c": "2"}}}, [("delete", ".metadata"), ("merge", ".metadata.owner_data")], {"c": "2"}, (), ""),
        ({"metadata": {"owner_data": {"c": "2"}}}, [("merge", ".data.metadata")], {"a": "1", "b": "1", "c": "2"}, ("t",), "r1"),
        ({"metadata": {"owner_data": {"c": "2"}}}, [("merge", "$.metadata.owner_data")], {"a": "1", "b": "1", "c": "2"}, ("t",), "r1"),
        ({"metadata": {"owner_data": {"d.e/f": "2"}}}, [("merge", ".metadata.owner_data['d.e/f']")], {"a": "1", "b": "1", "d.e/f": "2"}, ("t",), "r1"),
        ({"metadata": {"owner_data": {"c": "2"}}}, [], {"c": "2"}, (), ""),  # no action: its own data
    ],
)  # fmt: skip
def test_actions_are_carried_out_on_the_parents_data(
    own: dict[str, Any], actions: list[tuple[str, str]], labels: dict[str, str], tags: tuple[str, ...], rack: str
) -> None:
    found = rendered(own, *actions)
    assert (dict(found.labels), found.tags, found.rack) == (labels, tags, rack)


@pytest.mark.parametrize(
    "action", [("merge", ".nothing"), ("replace", ".metadata.none"), ("delete", ".nothing"), ("delete", ".metadata.tags[5]")]
)
def test_an_action_on_a_path_that_is_not_there_is_an_error(action: tuple[str, str]) -> None:
    child = profile("p", {"metadata": {}}, **layered("site", action, parent=PARENT))
    assert refusals(ORDER, GLOBAL, child)[0] == ("HostProfile/p", "metadata.layeringDefinition.actions[0].path", "NotFound")


def test_layering_does_not_change_the_parent_for_its_other_children() -> None:
    one = profile(
        "one",
        {"metadata": {"owner_data": {"c": "1"}}},
        **layered("site", ("merge", "."), ("delete", ".metadata.owner_data.a"), parent=PARENT),
    )
    two = profile("two", {"metadata": {"owner_data": {"d": "1"}}}, **layered("site", ("merge", "."), parent=PARENT))
    found = nodes(ORDER, GLOBAL, one, two, node("n1", {"host_profile": "one"}), node("n2", {"host_profile": "two"}))
    assert dict(found["n1"].labels) == {"b": "1", "c": "1"}
    assert dict(found["n2"].labels) == {"a": "1", "b": "1", "d": "1"}


def test_the_parent_is_in_the_nearest_higher_layer() -> None:
    middle = profile(
        "mid", {"metadata": {"owner_data": {"b": "mid"}}}, labels=PARENT, **layered("type", ("merge", "."), abstract=True, parent=PARENT)
    )
    child = profile("p", {"metadata": {"owner_data": {"c": "2"}}}, **layered("site", ("merge", "."), parent=PARENT))
    found = nodes(child, middle, GLOBAL, ORDER, node("n1", {"host_profile": "p"}))["n1"]
    assert dict(found.labels) == {"a": "1", "b": "mid", "c": "2"}


def test_a_replacement_takes_its_parents_place_for_everybody() -> None:
    original = profile("cp", {"metadata": {"owner_data": {"a": "1"}}}, labels={"hosttype": "cp"}, **layered("type"))
    instead = profile(
        "cp", {"metadata": {"owner_data": {"b": "2"}}}, replacement=True, **layered("site", ("merge", "."), parent={"hosttype": "cp"})
    )
    sibling = profile("cp2", {"metadata": {"owner_data": {"c": "3"}}}, **layered("site", ("merge", "."), parent={"hosttype": "cp"}))
    found = nodes(ORDER, sibling, original, instead, node("n1", {"host_profile": "cp"}), node("n2", {"host_profile": "cp2"}))
    assert dict(found["n1"].labels) == {"a": "1", "b": "2"}
    assert dict(found["n2"].labels) == {"a": "1", "b": "2", "c": "3"}


def test_an_abstract_document_is_no_profile() -> None:
    assert refusals(ORDER, GLOBAL, node("n1", {"host_profile": "base"})) == [("BaremetalNode/n1", "data.host_profile", "NotFound")]


def test_layers_default_to_airships_own_where_no_policy_names_them() -> None:
    child = profile("p", {"metadata": {"owner_data": {"c": "2"}}}, **layered("site", ("merge", "."), parent=PARENT))
    assert dict(nodes(GLOBAL, child, node("n1", {"host_profile": "p"}))["n1"].labels) == {"a": "1", "b": "1", "c": "2"}


DEFINITION = ("HostProfile/p", "metadata.layeringDefinition")


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (
            [GLOBAL, profile("base2", {}, labels=PARENT, **layered("global")), profile("p", {}, **layered("site", ("merge", "."), parent=PARENT))],
            (f"{DEFINITION[1]}.parentSelector", "Invalid"),
        ),
        ([GLOBAL, profile("p", {}, **layered("nowhere", parent=PARENT))], (f"{DEFINITION[1]}.layer", "NotSupported")),
        ([GLOBAL, profile("p", {}, **layered("site", ("append", "."), parent=PARENT))], (f"{DEFINITION[1]}.actions[0].method", "NotSupported")),
        ([GLOBAL, profile("p", {}, **layered("site", ("merge", ".a[*]"), parent=PARENT))], (f"{DEFINITION[1]}.actions[0].path", "Invalid")),
        ([GLOBAL, profile("p", {}, replacement=True, **layered("site", ("merge", "."), parent=PARENT))], ("metadata.name", "Invalid")),
        ([GLOBAL, profile("p", {}, replacement="true", **layered("site", ("merge", "."), parent=PARENT))], ("metadata.replacement", "Invalid")),
        ([profile("p", {}, layeringDefinition="site")], ("metadata.layeringDefinition", "Invalid")),
        ([GLOBAL, profile("q", {}, **layered("site", parent=PARENT)), profile("p", {}, replacement=True, **layered("site"))], ("metadata.replacement", "Required")),
        ([profile("p", {}, labels=PARENT, **layered("global")), profile("p", {}, **layered("site", ("merge", "."), parent=PARENT))], ("metadata.name", "Duplicate")),
    ],
)  # fmt: skip
def test_layering_is_refused_with_its_place(documents: list[dict[str, Any]], expected: tuple[str, str]) -> None:
    assert ("HostProfile/p", *expected) in refusals(ORDER, *documents)


@pytest.mark.parametrize(
    "documents",
    [
        [profile("p", {"metadata": {"owner_data": {"a": "1"}}}, **layered("site", ("merge", "."), parent={"no": "one"}))],
        [GLOBAL, profile("p", {"metadata": {"owner_data": {"a": "1"}}}, **layered("global", ("delete", ".x"), parent=PARENT))],
        [
            document("Rack", "x", {}, labels=PARENT, **layered("global")),
            profile("p", {"metadata": {"owner_data": {"a": "1"}}}, replacement=True, **layered("site", parent=PARENT)),
        ],
    ],
    ids=["nowhere", "not in a higher layer", "of another schema"],
)
def test_where_a_selector_matches_no_parent_the_document_stands_as_it_is_with_a_warning(documents: list[dict[str, Any]]) -> None:
    site = load(sources(ORDER, *documents, node("n1", {"host_profile": "p"})))
    assert dict(site.nodes["n1"].labels) == {"a": "1"}
    told = [(w.document, w.path, w.type, "stands as it is" in w.message) for w in site.warnings]
    assert told == [("HostProfile/p", "metadata.layeringDefinition.parentSelector", "NotFound", True)]


def test_a_rendered_site_keeps_its_selectors_without_their_abstract_parents() -> None:
    """What Deckhand renders still has its layeringDefinition, and the abstract documents are gone."""
    child = profile("p", {"metadata": {"owner_data": {"b": "2", "c": "2"}}}, **layered("site", ("merge", "."), parent=PARENT))
    merged = {**child, "data": {"metadata": {"owner_data": {"a": "1", "b": "2", "c": "2"}}}}
    below = node("n1", {"host_profile": "p"})
    assert nodes(ORDER, merged, below)["n1"].labels == nodes(ORDER, GLOBAL, child, below)["n1"].labels


def test_a_problem_of_inherited_data_is_told_of_the_document_that_wrote_it() -> None:
    bad = profile("base", {"metadata": {"owner_data": {"a": None}}}, labels=PARENT, **layered("global", abstract=True))
    child = profile("p", {"metadata": {"owner_data": {"b": "1"}}}, **layered("site", ("merge", "."), parent=PARENT))
    assert refusals(ORDER, bad, child) == [("HostProfile/base", "data.metadata.owner_data.a", "Invalid")]
    filled = profile("p", {"metadata": {"owner_data": {"a": "1"}}}, **layered("site", ("merge", "."), parent=PARENT))
    assert refusals(ORDER, bad, filled) == []


# --- generated labels


def generated(from_: str, key: str = "example.com/x", name: str = "g") -> dict[str, Any]:
    return {"apiVersion": "hullmark.dev/v1", "kind": "GeneratedLabels", "metadata": {"name": name}, "spec": {"from": from_, "key": key}}


SITE = [
    profile("p", {"hardware_profile": "hw", "metadata": {"owner_data": {"example.com/x": "below", "b": "1"}}}),
    node("n1", {"host_profile": "p", "metadata": {"rack": "r1", "tags": ["gpu"]}}),
]


@pytest.mark.parametrize(
    ("from_", "value"), [("rack", "r1"), ("tag", "gpu"), ("hardwareProfile", "hw"), ("hostProfile", "p"), ("hostname", "n1")]
)
def test_a_generated_label_lies_over_the_designs_and_names_who_asked(from_: str, value: str) -> None:
    found = nodes(*SITE, generated(from_))["n1"]
    assert dict(found.labels) == {"example.com/x": value, "b": "1"}
    assert dict(found.sources) == {"example.com/x": "GeneratedLabels/g", "b": "HostProfile/p"}


def test_the_region_may_ask_too() -> None:
    region = document("Region", "site", {"generated_labels": [{"from": "rack", "key": "topology.kubernetes.io/rack"}]})
    found = nodes(*SITE, region)["n1"]
    assert found.labels["topology.kubernetes.io/rack"] == "r1"
    assert found.sources["topology.kubernetes.io/rack"] == "Region/site"


def test_nothing_is_generated_where_nobody_asks_or_nothing_is_there() -> None:
    assert dict(nodes(node("n1", {"metadata": {"rack": "r1"}}))["n1"].labels) == {}
    assert dict(nodes(node("n1"), generated("rack"), generated("tag", "t", "h"), generated("hostProfile", "u", "i"))["n1"].labels) == {}


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([node("n1", {"metadata": {"rack": "Rack 1"}}), generated("rack")], ("BaremetalNode/n1", "data.metadata.rack", "Invalid")),
        ([node("n1", {"metadata": {"tags": ["a", "b"]}}), generated("tag")], ("BaremetalNode/n1", "data.metadata.tags", "Invalid")),
        ([generated("rack", "bad key")], ("GeneratedLabels/g", "spec.key", "Invalid")),
        ([generated("rack", "topology.kubernetes.io/zone")], ("GeneratedLabels/g", "spec.key", "Forbidden")),
        ([generated("rack"), generated("tag", name="h")], ("GeneratedLabels/h", "spec.key", "Duplicate")),
        ([generated("rack", "k"), document("Region", "r", {"generated_labels": [{"from": "tag", "key": "k"}]})], ("Region/r", "data.generated_labels[0].key", "Duplicate")),
        ([generated("shelf")], ("GeneratedLabels/g", "spec.from", "NotSupported")),
        ([document("Region", "r", {"generated_labels": [{"from": "rack", "keys": "x"}]})], ("Region/r", "data.generated_labels[0].key", "Required")),
        ([document("Region", "r", {"generated_labels": [{"from": "rack", "key": "a/b/c"}]})], ("Region/r", "data.generated_labels[0].key", "Invalid")),
    ],
)  # fmt: skip
def test_what_cannot_be_generated_is_refused_not_mended(documents: list[dict[str, Any]], expected: tuple[str, str, str]) -> None:
    assert expected in refusals(*documents)
