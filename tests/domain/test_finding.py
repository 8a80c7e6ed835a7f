"""Where a document says a thing: collection, file and line."""

from __future__ import annotations

from shared.domain.documents import finding
from shared.domain.documents.finding import Place, places
from shared.domain.documents.reading import Source

SITE = b"""\
# a comment with gpu-nodes in it
apiVersion: hullmark.dev/v1
kind: NodeLabelPolicy
metadata: {name: others}
spec:
  labels: {tier: gpu-nodes}
---
apiVersion: hullmark.dev/v1
kind: NodeLabelPolicy
metadata:
  name: gpu-nodes
spec:
  labels:
    # why
    halden.example.com/pool: gpu
    tier: one
--- # the host
schema: drydock/HostProfile/v1
metadata: {name: gpu, schema: metadata/Document/v1}
data:
  metadata:
    owner_data:
      accelerator: hopper
---
apiVersion: hullmark.dev/v1
kind: GeneratedLabels
metadata: {name: rack}
spec: {from: rack, key: topology.kubernetes.io/rack}
"""


def at(line: int, file: str = "site.yaml", collection: str = "default") -> Place:
    return Place(collection=collection, file=file, line=line)


def test_a_key_is_found_on_its_line_in_policies_profiles_and_generated_labels() -> None:
    wanted = {
        "halden.example.com/pool": "NodeLabelPolicy/gpu-nodes",
        "tier": "NodeLabelPolicy/gpu-nodes",
        "accelerator": "HostProfile/gpu",
        "topology.kubernetes.io/rack": "GeneratedLabels/rack",
    }
    assert places({"default": [Source("site.yaml", SITE)]}, wanted) == {
        "halden.example.com/pool": at(15),
        "tier": at(16),
        "accelerator": at(23),
        "topology.kubernetes.io/rack": at(28),
    }


def test_a_key_that_its_document_does_not_spell_out_has_the_documents_first_line() -> None:
    assert places({"default": [Source("site.yaml", SITE)]}, {"inherited": "HostProfile/gpu"}) == {"inherited": at(18)}


def test_a_list_and_json_are_searched_too_and_other_collections() -> None:
    listed = b"""\
apiVersion: v1
kind: List
items:
- apiVersion: hullmark.dev/v1
  kind: NodeLabelPolicy
  metadata: {name: p}
  spec:
    labels:
      rack: r1
"""
    json = b'{"apiVersion": "hullmark.dev/v1", "kind": "NodeLabelPolicy", "metadata": {"name": "q"},\n "spec": {"labels": {"row": "w"}}}'
    files = {"a": [Source("other.yaml", SITE)], "b": [Source("list.yaml", listed), Source("q.json", json)]}
    found = places(files, {"rack": "NodeLabelPolicy/p", "row": "NodeLabelPolicy/q"})
    assert found == {"rack": at(9, "list.yaml", "b"), "row": at(2, "q.json", "b")}


def test_what_is_nowhere_is_left_out() -> None:
    assert places({"default": [Source("site.yaml", SITE)]}, {"x": "NodeLabelPolicy/gone"}) == {}


def test_of_a_large_site_only_documents_with_the_name_are_parsed() -> None:
    host = "schema: drydock/BaremetalNode/v1\nmetadata: {name: n%05d}\ndata: {metadata: {owner_data: {rack: r}}}\n"
    data = "---\n".join(host % number for number in range(5000)).encode()
    assert finding._without_others(data, [b"n04999"]).count(b"schema: drydock") == 1
    assert places({"default": [Source("n.yaml", data)]}, {"rack": "BaremetalNode/n04999"}) == {"rack": at(4999 * 4 + 3, "n.yaml")}
