"""`hullmark pools`: the labels that policies give to an EKS node group or a GKE node pool, set where the cloud keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

import click

from local.cli.cloud import alone
from local.cli.export import cluster_of, policies_of
from local.cli.inputs import documents_option
from local.cli.output import PENDING, Failure, emit, output_option
from shared import wiring
from shared.domain.documents.kinds import ClusterSpec
from shared.domain.labels.policies import Policies, PolicyConflict
from shared.domain.labels.templates import Format, template
from shared.domain.pools import PoolChange, PoolKind, PoolLabels, pool_change
from shared.ports import NodePools
from shared.work.intake import refuse_held

REMOVE = "A label that the pool is to give no longer, and that no policy gives it; repeatable."


class Due(NamedTuple):
    """A pool as it is, what is to change, what the cloud would refuse, and where to write."""

    cluster: str
    kind: PoolKind
    pool: PoolLabels
    change: PoolChange
    left_out: Mapping[str, str]
    there: NodePools


@click.group()
def pools() -> None:
    """Labels of EKS node groups and GKE node pools, through the cloud's API and with your own rights there."""


@pools.command()
@documents_option
@click.option("--pool", "name", required=True, help="The pool's name in the cloud.")
@click.option("--cluster", help="Whose pool it is. Default: the one Cluster that the documents declare.")
@click.option("--remove", "given_up", metavar="KEY", multiple=True, help=REMOVE)
@output_option
def show(files: tuple[str, ...], name: str, cluster: str | None, given_up: tuple[str, ...], form: str) -> int:
    """Show what `pools apply` would change on a pool; exit 2 where anything would."""
    due = _due(policies_of(files), name, cluster, given_up)
    emit(form, _told(due, applied=False), lambda: _words(due, "would change"))
    return PENDING if due.change else 0


@pools.command()
@documents_option
@click.option("--pool", "name", required=True, help="The pool's name in the cloud.")
@click.option("--cluster", help="Whose pool it is. Default: the one Cluster that the documents declare.")
@click.option("--remove", "given_up", metavar="KEY", multiple=True, help=REMOVE)
@output_option
def apply(files: tuple[str, ...], name: str, cluster: str | None, given_up: tuple[str, ...], form: str) -> None:
    """Set the labels that policies give to a pool on the pool itself: the cloud brings them to all its nodes (first look: `pools show`)."""
    world = alone("pools apply", "it calls the cloud with your own rights").at_work().world
    due = _due(policies_of(files), name, cluster, given_up)
    refuse_held([due.cluster], world.releases.look(), world, world.clock())
    if due.change:
        due.there.write(due.pool, due.change)
    emit(form, _told(due, applied=bool(due.change)), lambda: _words(due, "changes"))


def _due(policies: Policies, name: str, asked: str | None, given_up: Iterable[str]) -> Due:
    cluster = cluster_of(asked, policies)
    spec = policies.clusters.get(cluster)
    if not isinstance(spec, ClusterSpec):
        raise Failure("ClusterUnknown", f"no Cluster document is named {cluster}: pools are reached by its access.eks or access.gke")
    kind, there = wiring.open_pools(cluster, spec)
    pool = there.read(name)
    own = {key: value for key, value in pool.labels.items() if key not in given_up} | {kind.key: name}
    made = template(name, own, policies, cluster, cast("Format", kind.form))
    if isinstance(made, PolicyConflict):
        raise Failure("Usage", f"policies contradict each other about this pool: {made.message}")
    if declared := sorted(made.labels.keys() & set(given_up)):
        raise Failure("Usage", f"--remove {declared[0]}: a policy gives it to this pool; take it out of the policy first")
    left_out = {key: why for key, why in made.left_out.items() if key not in own}
    return Due(cluster, kind, pool, pool_change(pool, made.labels, given_up), left_out, there)


def _told(due: Due, *, applied: bool) -> dict[str, Any]:
    change = {"set": dict(due.change.set), "remove": list(due.change.remove)}
    was = {key: due.pool.labels[key] for key in (*due.change.set, *due.change.remove) if key in due.pool.labels}
    return {"cluster": due.cluster, "pool": due.pool.name, **change, "from": was, "leftOut": dict(due.left_out), "applied": applied}


def _words(due: Due, verb: str) -> Iterable[str]:
    title = f"{due.kind.title} {due.pool.name} of cluster {due.cluster}"
    yield f"{title} {verb}:" if due.change else f"{title} has its labels"
    for key, value in due.change.set.items():
        was = due.pool.labels.get(key)
        yield f"  + {key}={value}" if was is None else f"  ~ {key}={value} (was {was})"
    for key in due.change.remove:
        yield f"  - {key}={due.pool.labels[key]}"
    for key, why in due.left_out.items():
        yield f"  {key} is left out: {why}"
