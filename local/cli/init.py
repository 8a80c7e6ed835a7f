"""`hullmark init`: a folder of policies that says what a cluster's nodes have today."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from local.cli.cloud import service
from local.cli.inputs import LISTING_BYTES, read_bytes
from local.cli.output import Failure, emit, output_option
from shared.domain.documents.reading import Source, read_nodes
from shared.domain.labels.inventory import Inventory, Labelled, inventory
from shared.domain.labels.node_states import NodesRequest
from shared.world import Settings

FILE = "labels.yaml"
HEAD = """\
# The labels that nodes had when `hullmark init` was run, but for those of kubelets, clouds and add-ons.
# `nodes: {}` means every node. Where names are listed, a selector (matchLabels, matchExpressions) finds the next node too.
"""


@click.command()
@click.argument("folder")
@click.option("--nodes", "nodes_file", metavar="FILE", help="`kubectl get nodes -o json --show-managed-fields`, in place of a cluster.")
@click.option("--cluster", default="", help="The cluster, if there are several; the policies are for this one.")
@output_option
def init(folder: str, nodes_file: str | None, cluster: str, form: str) -> None:
    """Make FOLDER, with policies that declare the labels that the cluster's nodes have today. Nothing else is written anywhere.

    Labels of kubelets, clouds and add-ons are left out; `-o json` names them. `hullmark plan -f FOLDER` then shows nothing to change.
    """
    _refuse_filled(folder)
    nodes = _listed(nodes_file) if nodes_file else _live(cluster)
    if not nodes:
        raise Failure("NoNodes", "the cluster has no nodes, so there is nothing to write down")
    found = inventory(nodes, cluster, Settings.from_environment().field_managers)
    if not found.policies:
        said = f"kubelets, clouds and add-ons set every label of these {len(nodes)} nodes ({', '.join(list(found.left_out)[:3])}, …)"
        raise Failure("NothingToDeclare", f"{said}: no folder was made; write a policy of your own (docs/documents.md)")
    file = _write(folder, found)
    answer = {"folder": folder, "files": [str(file)], "nodes": len(nodes), "policies": len(found.policies), "leftOut": found.left_out}
    emit(form, answer, lambda: _next(folder, file, found, len(nodes)))


def _refuse_filled(folder: str) -> None:
    """Raises Failure for a folder with anything in it: what is there is somebody's."""
    if os.path.lexists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise Failure("NotEmpty", f"{folder} is there already, and not an empty folder: name one that is not there yet")


def _live(cluster: str) -> list[Labelled]:
    states = service().nodes.states(NodesRequest(cluster=cluster or None))
    return [Labelled(name, state.labels, state.holders) for name, state in states.nodes.items() if state.reason != "NodeNotFound"]


def _listed(file: str) -> list[Labelled]:
    return [Labelled(node.name, node.labels, node.owners) for node in read_nodes(Source(file, read_bytes(file, LISTING_BYTES)))]


def _write(folder: str, found: Inventory) -> Path:
    """Write the policies to a folder that is not there yet, or empty."""
    import yaml

    written = (yaml.safe_dump(policy, sort_keys=False, allow_unicode=True) for policy in found.policies)
    file = Path(folder, FILE)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="utf-8") as out:
        out.write(HEAD + "".join(f"---\n{policy}" for policy in written))
    return file


def _next(folder: str, file: Path, found: Inventory, nodes: int) -> Iterator[str]:
    yield f"wrote {file}: {_count(len(found.policies), 'policy', 'policies')} for what {_count(nodes, 'node has', 'nodes have')} today"
    if found.left_out:
        yield f"left out: {_count(len(found.left_out), 'key', 'keys')} of kubelets, clouds and add-ons; `-o json` names them"
    yield from _commands(
        "next:",
        (f"hullmark validate -f {folder}", "every problem at once, with file and line"),
        (f"hullmark plan -f {folder}", "nothing to change yet: now edit, and look again"),
        (f"hullmark documents stage -f {folder} && hullmark documents commit", "a commit is a proposal"),
        ("hullmark relabel --all", "releases it to every node"),
    )


def _commands(head: str, *commands: tuple[str, str]) -> Iterable[str]:
    width = max(len(command) for command, _ in commands)
    return (head, *(f"  {command:{width}}  # {why}" for command, why in commands))


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
