"""`hullmark pods`: pods that were bound before the webhook was there, or while it could not answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from local.cli.inputs import documents_option
from local.cli.output import PARTIAL, PENDING, Failure, emit, grid, output_option
from local.cli.reaching import login, reaching
from local.cli.webhook import documents_in
from shared import wiring
from shared.adapters.kubernetes import Kubernetes
from shared.domain.documents.kinds import PodLabelPolicySpec
from shared.domain.pods.copying import Additions, Copying, Own, additions, copying
from shared.ports import ClusterError, Pod
from shared.work.node_cache import keep
from shared.work.pod_topology import released
from shared.world import Settings


@click.group()
def pods() -> None:
    """Add topology labels to pods that are already bound."""


class Wanted(NamedTuple):
    """One pod and what it lacks."""

    pod: Pod
    add: Additions


@pods.command()
@documents_option
@click.option("--cluster", default="default", show_default=True, help="The cluster's name in the documents: whose policies hold.")
@click.option("--context", default="", help="The kubeconfig's context.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Default: HULLMARK_CLUSTER, else in-cluster, else kubectl's.")
@click.option("-n", "--namespace", default="", help="Only pods of this namespace.")
@click.option("--write", is_flag=True, help="Write the labels; without it, nothing is changed.")
@output_option
def backfill(files: tuple[str, ...], cluster: str, context: str, kubeconfig: str, namespace: str, write: bool, form: str) -> int:
    """Show bound pods that lack labels of the policies (exit 2); --write adds them. Without -f: the policies by which pod_binding goes."""
    settings = reaching(Settings.of_the_command_line(), kubeconfig, context)
    policies = documents_in(files)[1] if files else policies_in_force(cluster, settings)
    if not any(policy.enabled for policy in policies):
        raise Failure("NothingEnabled", "no PodLabelPolicy is enabled: give one with -f, or commit one")
    live = Kubernetes(login(settings, "bound pods"), settings.field_managers)
    try:
        wanted = list(lacking(live, policies, namespace))
        failed = _write(live, wanted) if write else {}
    finally:
        live.server.close()
    answer = {
        "written": len(wanted) - len(failed) if write else 0,
        "pods": {_name(pod): _shown(pod, add, failed) for pod, add in wanted},
    }
    emit(form, answer, lambda: _pod_lines(wanted, failed, write))
    if write:
        return PARTIAL if failed else 0
    return PENDING if wanted else 0


def lacking(cluster: Kubernetes, policies: Iterable[PodLabelPolicySpec], namespace: str = "") -> Iterable[Wanted]:
    """Every bound pod that lacks something that it would get if it were bound now."""
    policies = list(policies)
    nodes = keep(cluster.nodes(), copying(policies, None))
    sums: dict[str, Copying] = {}
    for pod in cluster.pods(namespace):
        if pod.namespace not in sums:
            sums[pod.namespace] = copying(policies, pod.namespace)
        keys = sums[pod.namespace]
        own = Own(pod.labels, pod.annotations)
        add = additions(keys, nodes.get(pod.node, {}), shown=own, own=own)
        if add.labels or add.annotations:
            yield Wanted(pod, add)


def _write(cluster: Kubernetes, wanted: list[Wanted]) -> dict[str, str]:
    """Pod → why it could not be written."""

    def one(pod: Wanted) -> tuple[str, str]:
        try:
            cluster.add_to_pod(pod.pod, pod.add.labels, pod.add.annotations)
        except ClusterError as error:
            return _name(pod.pod), str(error)
        return _name(pod.pod), ""

    return {name: error for name, error in cluster.spread(one, wanted) if error}


def policies_in_force(cluster: str, settings: Settings) -> Sequence[PodLabelPolicySpec]:
    """The policies that are released in the cluster, as for the webhook; of a server, which does not say, those of the newest commit."""
    from local.cli.cloud import SERVER, service

    if os.environ.get(SERVER):
        declared = service().documents.declared()
        return declared.policies.pod_policies if declared else []
    world = wiring.reading(settings)
    in_force = world.releases.look()
    return released(world.must_know(cluster, in_force.committed), in_force)


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _shown(pod: Pod, add: Additions, failed: Mapping[str, str]) -> dict[str, Any]:
    error = {"error": failed[_name(pod)]} if _name(pod) in failed else {}
    return {"node": pod.node, "labels": dict(add.labels), "annotations": dict(add.annotations), **error}


def _pod_lines(wanted: list[Wanted], failed: Mapping[str, str], write: bool) -> Iterable[Any]:
    rows = [
        (
            _name(pod),
            pod.node,
            ", ".join(f"{k}={v}" for k, v in (*add.labels.items(), *add.annotations.items())),
            failed.get(_name(pod), ""),
        )
        for pod, add in wanted
    ]
    if rows:
        yield grid(("pod", "node", "adds", "error"), rows)
    if write:
        yield f"{len(wanted) - len(failed)} pods written, {len(failed)} not"
    else:
        yield f"{len(wanted)} pods lack labels; --write adds them" if wanted else "every bound pod has its labels"
