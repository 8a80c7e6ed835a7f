"""`hullmark simulate`: what colleagues, kubelets and failures do to a simulated cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import click
from pydantic import BaseModel

from local.cli.cloud import alone
from local.cli.output import F, Failure, emit, grid, output_option
from local.cloud.embedded import Cloud
from local.cloud.listening import listening
from shared.adapters.simulated import Simulated
from shared.domain.labels.events import Kind, change_of
from shared.domain.nodes import Node
from shared.messages import NodeChanged

KUBELET = "kubelet"
KUBECTL = "kubectl-label"


class Handled(BaseModel):
    """What one function made of the event, or of what followed from it."""

    step: str
    outcome: str
    reason: str


class Change(BaseModel):
    """One key: its value before somebody wrote it, theirs, and what it is after all that followed; None stands for no such label."""

    before: str | None
    written: str | None
    after: str | None
    holders: list[str]


class Changed(BaseModel):
    """A node as it is afterwards. `changes`: the keys that were named; `event` is empty where none was sent."""

    cluster: str
    node: str
    done: str
    changes: dict[str, Change] = {}
    labels: dict[str, str]
    holders: dict[str, list[str]]
    ready: bool | None
    event: list[Handled]


class Simulation(NamedTuple):
    """A simulated cluster, and the cloud that its events go to."""

    cloud: Cloud
    name: str
    cluster: Simulated

    def node(self, name: str) -> Node:
        """A node that must be there. Raises Failure."""
        node = self.cluster.node(name)
        if node is None:
            raise Failure("NodeNotFound", f"cluster {self.name} has no node {name!r}; `hullmark simulate add {name}` makes one")
        return node

    def answer(self, name: str, done: str, event: Sequence[Handled]) -> Changed:
        """The node as it is now."""
        node = self.cluster.node(name)
        return Changed(
            cluster=self.name,
            node=name,
            done=done,
            labels=dict(sorted(node.labels.items())) if node else {},
            holders={key: list(managers) for key, managers in sorted(node.owners.items())} if node else {},
            ready=self.cluster.ready(name),
            event=list(event),
        )


def simulation(cluster: str | None) -> Simulation:
    """The cluster of this name, or the only one. Raises Failure for one that exists: nobody plays with those."""
    cloud = alone("simulate", "a server's clusters are changed by whoever may change them").at_work()
    committed = cloud.world.releases.look().committed
    name = cluster or cloud.world.default_cluster(committed)
    found = cloud.world.cluster(name, committed)
    if not isinstance(found, Simulated):
        raise Failure("NotSimulated", f"cluster {name} is a real one: simulate changes simulated clusters only; use kubectl")
    return Simulation(cloud, name, found)


cluster_option = click.option("--cluster", metavar="NAME", help="The simulated cluster, if there are several.")


def event_option(command: F) -> F:
    """`--no-event`."""
    return click.option(
        "--event/--no-event", default=True, help="Send the event that a watch would send, and work it off; --no-event: it got lost."
    )(command)


@click.group()
def simulate() -> None:
    """Change a simulated cluster as colleagues, kubelets and failures do, to try drift, repairs and canaries.

    What the API server would refuse is refused. An event of each change of labels is sent and worked off, as a watch would do it.
    """


@simulate.command()
@click.argument("node")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE… KEY-…")
@click.option("--as", "manager", default=KUBECTL, show_default=True, metavar="MANAGER", help="The field manager that writes.")
@cluster_option
@event_option
@output_option
def label(node: str, changes: tuple[str, ...], manager: str, cluster: str | None, event: bool, form: str) -> None:
    """Set and remove labels of a node, as `kubectl label --overwrite` does.

    This is an Update: a key whose value changes belongs to MANAGER afterwards, and nobody is asked.
    """
    labels = read_changes(changes)
    there = simulation(cluster)
    before = there.node(node)
    there.cluster.set_labels(node, labels, manager)
    after = there.node(node)
    if (after.uid, after.labels) == (before.uid, before.labels):
        _emit(form, there.answer(node, "labels unchanged", []))
        return
    handled = send("changed", after, there) if event else []
    answer = there.answer(node, f"labelled by {manager}", handled)
    named = {
        key: Change(before=before.labels.get(key), written=value, after=answer.labels.get(key), holders=answer.holders.get(key, []))
        for key, value in labels.items()
    }
    _emit(form, answer.model_copy(update={"changes": named}))


@simulate.command()
@click.argument("node")
@click.argument("labels", nargs=-1, metavar="[KEY=VALUE…]")
@cluster_option
@event_option
@output_option
def add(node: str, labels: tuple[str, ...], cluster: str | None, event: bool, form: str) -> None:
    """Register a node, Ready, with the labels that a kubelet gives it and those named here."""
    given = read_changes(labels)
    if removed := [key for key, value in given.items() if value is None]:
        raise Failure("Usage", f"{removed[0]}-: a new node has no labels to remove")
    there = simulation(cluster)
    own = {"kubernetes.io/hostname": node, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    wanted = own | {key: value for key, value in given.items() if value is not None}
    there.cluster.create(node, wanted, KUBELET, ready=True, kubelet_version=there.cluster.server_version())
    handled = send("added", there.node(node), there) if event else []
    _emit(form, there.answer(node, "registered", handled))


@simulate.command()
@click.argument("node")
@cluster_option
@output_option
def delete(node: str, cluster: str | None, form: str) -> None:
    """Delete a node. No event: nothing is to do for a node that is gone. `add` brings another one of the name."""
    there = simulation(cluster)
    there.node(node)
    there.cluster.delete(node)
    _emit(form, there.answer(node, "deleted", []))


@simulate.command()
@click.argument("node")
@click.argument("condition", type=click.BOOL, metavar="true|false")
@cluster_option
@output_option
def ready(node: str, condition: bool, cluster: str | None, form: str) -> None:
    """Report the node's Ready condition, as its kubelet does. No event: a node's status is none of its labels."""
    there = simulation(cluster)
    there.node(node)
    there.cluster.set_ready(node, condition)
    _emit(form, there.answer(node, "Ready" if condition else "not Ready", []))


@simulate.command()
@click.argument("node")
@click.argument("name", metavar="NAMESPACE/NAME")
@click.argument("available", type=click.BOOL, metavar="true|false")
@cluster_option
@output_option
def daemonset(node: str, name: str, available: bool, cluster: str | None, form: str) -> None:
    """Say whether a DaemonSet has an available pod on the node, for rollouts that look at that. No event: it is none of the node's labels.

    One that no node was said to have does not exist.
    """
    there = simulation(cluster)
    there.node(node)
    there.cluster.set_daemon_set(node, name, available)
    _emit(form, there.answer(node, f"{'an available' if available else 'no available'} pod of {name}", []))


@simulate.command()
@click.argument("namespace")
@click.argument("count", type=click.IntRange(0, 1_000_000))
@cluster_option
@output_option
def unschedulable(namespace: str, count: int, cluster: str | None, form: str) -> None:
    """Say for how many pods of NAMESPACE the scheduler has found no node, for rollouts that look at that."""
    there = simulation(cluster)
    there.cluster.set_unschedulable(namespace, count)
    left = dict(sorted(there.cluster.unschedulable().items()))
    said = ", ".join(f"{number} in {name}" for name, number in left.items()) or "none"
    emit(form, {"cluster": there.name, "unschedulable": left}, lambda: [f"pods of cluster {there.name} that can't be scheduled: {said}"])


def read_changes(changes: Iterable[str]) -> dict[str, str | None]:
    """`KEY=VALUE` and `KEY-` as kubectl reads them; None stands for removal. Raises Failure."""
    read: dict[str, str | None] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals and change.endswith("-"):
            key = change[:-1]
        elif not equals:
            raise Failure("Usage", f"{change!r} is neither KEY=VALUE nor KEY-")
        if not key or key in read:
            raise Failure("Usage", f"{change!r}: {f'{key} is named twice' if key else 'no label key'}")
        read[key] = value if equals else None
    return read


def send(kind: Kind, node: Node, there: Simulation) -> list[Handled]:
    """Publish what a watch of the cluster would, deliver all that follows, and say what became of it."""
    news = change_of(kind, there.name, node)
    with listening() as heard:
        there.cloud.publish(NodeChanged.TOPIC, [NodeChanged.model_validate(news.model_dump()).outgoing()])
        there.cloud.drain()
    return [Handled(step=said.step, outcome=said.outcome, reason=said.reason) for said in heard.said()]


def _emit(form: str, changed: Changed) -> None:
    emit(form, changed.model_dump(mode="json"), lambda: lines(changed))


def lines(changed: Changed) -> Iterable[Any]:
    """What was done and what came of it, for people; the labels that somebody named, or all of a new node."""
    yield f"node {changed.node} of cluster {changed.cluster}: {changed.done}"
    if followed := [": ".join(filter(None, (one.step, one.outcome, one.reason))) for one in changed.event if one.step != "result_rollup"]:
        yield f"event: {', '.join(followed)}"
    if changed.changes:
        rows = [(key, *map(shown, (one.before, one.written, one.after)), ", ".join(one.holders)) for key, one in changed.changes.items()]
        yield grid(("label", "before", "written", "now", "held by"), rows)
    elif changed.event:
        yield grid(("label", "value", "held by"), [(key, value, ", ".join(changed.holders[key])) for key, value in changed.labels.items()])


def shown(value: str | None) -> str:
    """A label's value, or that there is none."""
    return "-" if value is None else value or '""'
