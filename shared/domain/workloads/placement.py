"""Where a pod may run, judged as the scheduler and the DaemonSet controller judge it. Pure.

By name, labels and taints of the node: nodeSelector, required node affinity, nodeName, tolerations. Room, ports, volumes, pod affinity and
spreading are not judged here.

https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ and …/taint-and-toleration/; what the documentation leaves open is
held to the real controller and scheduler by tests/real/test_impact.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from shared.domain.keys import key_error, value_error
from shared.domain.nodes import Taint

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
NAME_FIELD = "metadata.name"
_LARGEST = 1 << 63


class Toleration(msgspec.Struct, frozen=True):
    """A pod's toleration. What it leaves out, it tolerates whatever it is."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether a pod with it may be where this taint is."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case "Lt" | "Gt":  # only an API server with the gate TaintTolerationComparisonOperators admits these
                wanted, there = _number(self.value), _number(taint.value)
                return wanted is not None and there is not None and (there < wanted if self.operator == "Lt" else there > wanted)
        return False


UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)
"""What a cordoned node counts as having, before its taint is there."""


class Host(NamedTuple):
    """A node, as pods are placed on it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class Requirement(msgspec.Struct, frozen=True):
    """One line of a term, or of a label selector's matchExpressions."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels are as it wants them."""
        value, wanted = labels.get(self.key), self.values or ()
        match self.operator:
            case "In":
                return value is not None and value in wanted
            case "NotIn":
                return value is None or value not in wanted
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                there, bound = None if value is None else _number(value), _number(wanted[0])
                return there is not None and bound is not None and (there > bound if self.operator == "Gt" else there < bound)
        return False

    @property
    def readable(self) -> bool:
        """Whether the scheduler can make anything of it. A term with a line that it can't read means no node."""
        values = self.values or ()
        if key_error(self.key) or any(value_error(value) for value in values):
            return False
        match self.operator:
            case "In" | "NotIn":
                return bool(values)
            case "Exists" | "DoesNotExist":
                return not values
            case "Gt" | "Lt":
                return len(values) == 1 and _number(values[0]) is not None
        return False


class Term(msgspec.Struct, frozen=True, rename="camel"):
    """One term of a required node affinity: all of its lines have to hold. One without any line means no node."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None

    @property
    def readable(self) -> bool:
        """Whether it means any node at all, as far as it can be read."""
        expressions, fields = self.match_expressions or (), self.match_fields or ()
        named = all(len(field.values or ()) == 1 and field.operator in ("In", "NotIn") for field in fields)
        return bool(expressions or fields) and named and all(line.readable for line in expressions)

    def means(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is meant by it. It has to be readable."""
        about = {NAME_FIELD: name}
        return all(line.holds(labels) for line in self.match_expressions or ()) and all(
            line.holds(about) if line.key in about else line.operator == "NotIn" for line in self.match_fields or ()
        )


class NodeSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Terms, of which one has to mean the node."""

    node_selector_terms: tuple[Term, ...] = ()


class NodeAffinity(msgspec.Struct, frozen=True):
    """Of a pod's node affinity, what is required of the node."""

    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class Affinity(msgspec.Struct, frozen=True, rename="camel"):
    """Of a pod's affinity, what is about nodes."""

    node_affinity: NodeAffinity | None = None


class Gate(msgspec.Struct, frozen=True):
    """A scheduling gate: somebody keeps the pod back. Which one does not matter."""


class PodSpec(msgspec.Struct, rename="camel"):
    """Of a pod's spec, what decides where it may run by names, labels and taints."""

    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    host_network: bool = False
    scheduling_gates: tuple[Gate, ...] | None = None

    @property
    def required(self) -> NodeSelector | None:
        """The required node affinity, where there is one."""
        about = self.affinity.node_affinity if self.affinity else None
        return about.required if about else None

    @property
    def chooses(self) -> bool:
        """Whether it asks anything of a node's labels or name."""
        return bool(self.node_selector) or self.required is not None


class Placement:
    """What a pod asks of a node. One is made for all pods that ask the same."""

    def __init__(self, spec: PodSpec, *, daemon: bool = False) -> None:
        """`daemon`: with the tolerations that the DaemonSet controller gives its pods."""
        required = spec.required
        self._selector = dict(spec.node_selector or {})
        self._terms = None if required is None else [term for term in required.node_selector_terms if term.readable]
        self._tolerations = (*(spec.tolerations or ()), *(daemon_tolerations(host_network=spec.host_network) if daemon else ()))
        lines = [line.key for term in self._terms or () for line in term.match_expressions or ()]
        self.keys = frozenset((*self._selector, *lines))
        """The label keys that it looks at."""

    def chooses(self, host: Host) -> bool:
        """Whether nodeSelector and required affinity mean the node."""
        labels = host.labels
        if any(labels.get(key) != value for key, value in self._selector.items()):
            return False
        return self._terms is None or any(term.means(host.name, labels) for term in self._terms)

    def bears(self, host: Host, effects: Iterable[str] = (NO_SCHEDULE, NO_EXECUTE)) -> bool:
        """Whether it tolerates every taint of the node that has one of these effects."""
        return all(self._tolerates(taint) for taint in host.taints if taint.effect in effects)

    def fits(self, host: Host) -> bool:
        """Whether the scheduler would take the node into account."""
        open_ = not host.unschedulable or self._tolerates(UNSCHEDULABLE)
        return open_ and self.chooses(host) and self.bears(host)

    def _tolerates(self, taint: Taint) -> bool:
        return any(toleration.tolerates(taint) for toleration in self._tolerations)


class Daemon(NamedTuple):
    """What the DaemonSet controller decides for one node."""

    starts: bool
    """A pod is created where there is none."""
    stays: bool
    """One that is there is left there."""


NOT_HERE = Daemon(starts=False, stays=False)


def daemon(placement: Placement, host: Host, node_name: str = "") -> Daemon:
    """What becomes of a DaemonSet's pod on a node. `node_name`: the nodeName of its template."""
    if (node_name and node_name != host.name) or not placement.chooses(host):
        return NOT_HERE
    if placement.bears(host):
        return Daemon(starts=True, stays=True)
    return Daemon(starts=False, stays=placement.bears(host, (NO_EXECUTE,)))


_CONDITIONS = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
_DAEMON_TOLERATIONS = (
    *(Toleration(f"node.kubernetes.io/{key}", "Exists", effect=NO_EXECUTE) for key in ("not-ready", "unreachable")),
    *(Toleration(f"node.kubernetes.io/{key}", "Exists", effect=NO_SCHEDULE) for key in _CONDITIONS),
)
_HOST_NETWORK = Toleration("node.kubernetes.io/network-unavailable", "Exists", effect=NO_SCHEDULE)


def daemon_tolerations(*, host_network: bool) -> tuple[Toleration, ...]:
    """What the DaemonSet controller lets every pod of it tolerate."""
    return (*_DAEMON_TOLERATIONS, _HOST_NETWORK) if host_network else _DAEMON_TOLERATIONS


def target(spec: PodSpec) -> str:
    """The node of a DaemonSet's pod, before the scheduler has bound it, too; empty where it names none."""
    terms = spec.required.node_selector_terms if spec.required else ()
    lines = (line for term in terms for line in term.match_fields or () if line.key == NAME_FIELD and line.operator == "In")
    named = next(lines, None)
    return spec.node_name or (named.values[0] if named and named.values and len(named.values) == 1 else "")


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    """A label selector, as a PodDisruptionBudget has it. An empty one selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels are selected."""
        return all(labels.get(key) == value for key, value in (self.match_labels or {}).items()) and all(
            line.holds(labels) for line in self.match_expressions or ()
        )


def shared_placements(*, daemon: bool = False) -> Callable[[PodSpec], Placement]:
    """Makes placements, one for all pods that ask the same."""
    made: dict[bytes, Placement] = {}

    def placement(spec: PodSpec) -> Placement:
        asked = msgspec.json.encode((sorted((spec.node_selector or {}).items()), spec.required, spec.tolerations, spec.host_network))
        found = made.get(asked)
        if found is None:
            found = made[asked] = Placement(spec, daemon=daemon)
        return found

    return placement


def _number(value: str) -> int | None:
    """A whole number as Go reads one of 64 bits; None for anything else."""
    digits = value.removeprefix("-") if value[:1] == "-" else value.removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 4300):
        return None
    number = int(value)
    return number if -_LARGEST <= number < _LARGEST else None
