"""`hullmark labels` and `hullmark select`: what the documents say, without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import click

from local.cli.inputs import documents_option, read_files, read_filter
from local.cli.output import Failure, emit, grid, output_option_and
from shared.domain.documents.kinds import did_you_mean
from shared.domain.labels.selection import select as selected
from shared.domain.site import Site, load

cluster_option = click.option("--cluster", help="Apply the policies for this cluster. Default: the one Cluster that the documents declare.")


@click.command()
@documents_option
@click.argument("nodes", nargs=-1)
@cluster_option
@output_option_and("name")
def labels(files: tuple[str, ...], nodes: tuple[str, ...], cluster: str | None, form: str) -> None:
    """Show the labels that the documents declare for every node they name, and where they come from."""
    by_node = _effective(_site(files), cluster)
    unknown = [name for name in nodes if name not in by_node]
    if unknown:
        raise Failure("UnknownNode", f"the documents name no node {', '.join(unknown)}")
    answer = {"nodes": {name: by_node[name] for name in sorted(nodes or by_node)}}
    emit(form, answer, lambda: _rows(answer["nodes"]), answer["nodes"])


def _rows(nodes: dict[str, Any]) -> Iterable[Any]:
    rows = [
        (name, key, node["labels"][key], node["sources"].get(key, "")) for name, node in nodes.items() for key in sorted(node["labels"])
    ]
    yield grid(("node", "label", "value", "declared by"), rows) if rows else "the documents declare no labels for any node"


@click.command()
@documents_option
@click.option(
    "--filter", "filter_file", required=True, metavar="FILE", help="The node filter (docs/labels.md), YAML or JSON; null means all."
)
@cluster_option
@output_option_and("name")
def select(files: tuple[str, ...], filter_file: str, cluster: str | None, form: str) -> None:
    """Show the names of the nodes that a filter selects from the design."""
    site = _site(files)
    by_node = _effective(site, cluster)
    candidates = [replace(node, labels=by_node[name]["labels"]) for name, node in site.nodes.items()]
    names = selected(read_filter(filter_file), candidates)
    emit(form, {"nodes": names}, lambda: names or ["no node"], names)


def _effective(site: Site, cluster: str | None) -> dict[str, dict[str, Mapping[str, str]]]:
    return site.effective(_cluster(site, cluster))


def _cluster(site: Site, asked: str | None) -> str:
    """Which cluster's policies count. Raises Failure for a name that no document has, where documents name clusters at all."""
    declared = sorted(site.policies.clusters)
    known = {*declared, *site.policies.named_clusters(), "default"}
    if asked is not None and declared and asked not in known:
        raise Failure("ClusterUnknown", f"the documents name no cluster {asked}{did_you_mean(asked, known)}")
    if asked is None and len(declared) > 1 and any(policy.spec.where for policy in site.policies.all):
        click.echo(f"note: policies for certain clusters are left out; --cluster shows one: {', '.join(declared)}", err=True)
    return asked or (declared[0] if len(declared) == 1 else "default")


def _site(files: tuple[str, ...]) -> Site:
    if not files:
        raise Failure("Usage", "no documents: give -f FILE, a folder, or - for standard input")
    return load(read_files(files))
