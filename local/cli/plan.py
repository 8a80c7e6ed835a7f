"""`hullmark plan`: what a relabel would change, and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from local.cli.cloud import embedded
from local.cli.inputs import documents_option, read_bytes, read_files
from local.cli.output import BLOCKED, PENDING, Failure, emit, grid, output_option
from local.cli.relabel import read_filter
from shared.domain.documents.design import DesignNode
from shared.domain.documents.reading import Source, read_nodes
from shared.domain.labels.aliases import in_force, oldest
from shared.domain.labels.planning import Settled, plan_node
from shared.domain.labels.policies import Policies
from shared.domain.labels.selection import select
from shared.domain.nodes import Node
from shared.domain.site import load
from shared.work.planning import candidate, everything


@click.command()
@documents_option
@click.option("--nodes", "nodes_file", metavar="FILE", help="`kubectl get nodes -o json --show-managed-fields`, in place of a cluster.")
@click.option("--cluster", help="The cluster, where there are several.")
@click.option("--server-version", metavar="V", help="The cluster's version; else the server's, else the nodes' oldest kubelet's.")
@click.option("--target", metavar="N1,N2", help="Only these nodes.")
@click.option("--filter", "filter_file", metavar="FILE", help="Only nodes that this node filter selects (docs/labels.md).")
@click.option("--out", metavar="FILE", help="Keep the plan, for `hullmark relabel --plan FILE`.")
@output_option
def plan(
    files: tuple[str, ...],
    nodes_file: str | None,
    cluster: str | None,
    server_version: str | None,
    target: str | None,
    filter_file: str | None,
    out: str | None,
    form: str,
) -> int:
    """What would change on which node, and why. Without -f: as the committed revision declares.

    Exit 2 when something is pending, 4 when nothing is and a node can't be made true.
    """
    asked: dict[str, Any] = {
        "files": list(files),
        "nodes_file": nodes_file,
        "cluster": cluster,
        "server_version": server_version,
        "target": target,
        "filter_file": filter_file,
    }
    answer = compute(**asked)
    if out:
        Path(out).write_text(json.dumps(answer | {"asked": asked}, indent=2) + "\n")
    emit(form, answer, lambda: _told(answer))
    if nodes_file and answer.pop("unowned"):
        click.echo(f"note: {nodes_file} has no managedFields, so what Hullmark owns, and would remove, can't be seen in it", err=True)
    if answer["nodes"]:
        return PENDING
    return BLOCKED if any(each["outcome"] == "failed" for each in answer["blocked"].values()) else 0


def compute(
    files: Sequence[str],
    nodes_file: str | None,
    cluster: str | None,
    server_version: str | None,
    target: str | None,
    filter_file: str | None,
) -> dict[str, Any]:
    """The plan as docs/command-line.md fixes it, with the revision it is for (null for `-f`) and the nodes that can't be planned."""
    revision = None
    if files:
        site = load(read_files(files))
        designs, policies = site.nodes, site.policies
    else:
        revisions = embedded().world.revisions
        revision = revisions.newest() or None
        committed = revisions.get(revision) if revision else None
        designs = {node.name: node for node in committed.nodes()} if committed else {}
        policies = committed.policies if committed else Policies()
    name, nodes, server = _observed(nodes_file, cluster, policies)
    version = server_version or server or oldest(node.kubelet_version for node in nodes)
    live = {node.name: node for node in nodes}
    meant = _meant(target, filter_file, designs, live, policies, name)
    pairs = in_force(policies.alias_pairs, version)
    decided = {each: plan_node(each, design, node, policies, name, pairs) for each, design, node in meant}
    return {
        "revision": revision,
        "cluster": name,
        "server_version": version,
        "nodes": {
            each: {"set": write.changes.set, "remove": write.changes.remove, "reasons": dict(write.reasons)}
            for each, write in decided.items()
            if not isinstance(write, Settled) and (write.changes.set or write.changes.remove)
        },
        "unchanged": sum(
            write.outcome.outcome == "unchanged" if isinstance(write, Settled) else not (write.changes.set or write.changes.remove)
            for write in decided.values()
        ),
        "missing": [each for each, write in decided.items() if isinstance(write, Settled) and write.outcome.outcome == "missing"],
        "blocked": {
            each: {"outcome": write.outcome.outcome, "reason": write.outcome.reason, "message": write.outcome.message}
            for each, write in decided.items()
            if isinstance(write, Settled) and write.outcome.outcome in ("failed", "skipped")
        },
        "unowned": bool(nodes) and not any(node.owners for node in nodes),
    }


def _observed(nodes_file: str | None, cluster: str | None, policies: Policies) -> tuple[str, list[Node], str]:
    """The cluster's name, its nodes and its server's version, from a file or from the cluster itself."""
    declared = sorted(policies.clusters)
    if nodes_file:
        source = Source(nodes_file, read_bytes(nodes_file))
        return cluster or (declared[0] if len(declared) == 1 else "default"), read_nodes(source), ""
    world = embedded().world
    if not cluster and not world.settings.cluster and len(declared) > 1:
        raise Failure("ClusterUnknown", f"name the cluster: the documents declare {', '.join(declared)}")
    name = cluster or ("default" if world.settings.cluster or not declared else declared[0])
    if declared and name != "default" and name not in declared:
        raise Failure("ClusterUnknown", f"no Cluster document is named {name}: there are {', '.join(declared)}")
    access = policies.clusters.get(name, {}).get("access")
    opened = world.open_cluster(access, name) if access else world.cluster(name, None)
    return name, opened.nodes(), opened.server_version()


def _meant(
    target: str | None,
    filter_file: str | None,
    designs: Mapping[str, DesignNode],
    live: Mapping[str, Node],
    policies: Policies,
    cluster: str,
) -> Iterable[tuple[str, DesignNode | None, Node | None]]:
    if target is not None and filter_file:
        raise Failure("Usage", "give --target or --filter, not both")
    if target is not None:
        names = list(dict.fromkeys(name.strip() for name in target.split(",") if name.strip()))
        unknown = [name for name in names if name not in designs and name not in live]
        if unknown or not names:
            raise Failure(
                "UnknownNode",
                f"unknown node {', '.join(unknown)}: neither in the documents nor in the cluster" if names else "--target names no node",
            )
        return [(name, designs.get(name), live.get(name)) for name in sorted(names)]
    both = list(everything((designs[name] for name in sorted(designs)), live, policies, cluster))
    node_filter = read_filter(filter_file) if filter_file else None
    if node_filter is None:
        return both
    chosen = set(select(node_filter, [candidate(name, design, node, policies, cluster) for name, design, node in both]))
    return [each for each in both if each[0] in chosen]


def _told(answer: Mapping[str, Any]) -> Iterable[Any]:
    rows = [
        (
            name,
            f"{key}={node['set'][key]}" if key in node["set"] else f"{key}-",
            node["reasons"].get(key, ""),
        )
        for name, node in answer["nodes"].items()
        for key in (*node["set"], *node["remove"])
    ]
    if rows:
        yield grid(("node", "change", "why"), rows)
    if answer["blocked"]:
        yield grid(("node", "reason", "message"), [(name, why["reason"], why["message"]) for name, why in answer["blocked"].items()])
    if answer["missing"]:
        yield f"declared, but not in cluster {answer['cluster']}: {', '.join(answer['missing'])}"
    counts = (len(answer["nodes"]), "to change"), (answer["unchanged"], "unchanged"), (len(answer["missing"]), "missing")
    yield ", ".join(f"{number} {what}" for number, what in (*counts, (len(answer["blocked"]), "blocked")))
