"""What an action may change and nothing else: a plan that somebody has seen, as it travels with the request. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from shared.domain.keys import key_error, node_name, value_error
from shared.domain.nodes import Node
from shared.domain.outcomes import Before, KeyChange

STALE_PLAN = "StalePlan"
NAMED = 5
"""Nodes that a message names."""


class NodeChange(BaseModel):
    """What changes on one node. `from` (Python keeps that word for itself): those of the keys that the node has, as they are."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True, defer_build=True)
    set: dict[str, str]
    remove: list[str]
    from_: dict[str, Before] = Field(alias="from")

    @property
    def by_key(self) -> list[KeyChange]:
        """The change, key by key."""
        return [self._of(key, to) for key, to in (*self.set.items(), *((key, None) for key in self.remove))]

    def _of(self, key: str, to: str | None) -> KeyChange:
        was = self.from_.get(key)
        return KeyChange(key, to, was.value, tuple(was.holders)) if was else KeyChange(key, to)


class BoundPlan(BaseModel):
    """A plan that an action is bound to: of each node, what changes on it. Nothing of it is ever written: it is what the action's own plan
    must come to.

    Fleets change alike, so each change stands here once, and a node has the numbers of its changes: a plan of 5,000 nodes with ten changes
    has about 300 kB. What `POST /plans` answers is taken too.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)
    revision: Annotated[int, Field(ge=1)] | None = None
    """The revision that it was made for; None for documents that were not committed."""
    cluster: str = Field(max_length=253)
    changes: list[KeyChange]
    nodes: dict[Annotated[str, AfterValidator(node_name)], list[Annotated[int, Field(ge=0)]]] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _as_plans_answer(cls, value: Any) -> Any:
        """The nodes as `POST /plans` answers them: `{NAME: {"set", "remove", "from"}}`."""
        nodes = value.get("nodes") if isinstance(value, dict) else None
        if not isinstance(nodes, dict) or "changes" in value or not all(isinstance(node, dict) for node in nodes.values()):
            return value
        return {**value, **_compact({name: _answered(name, node) for name, node in nodes.items()})}

    @model_validator(mode="after")
    def _changes_of_labels(self) -> Self:
        for change in self.changes:
            values = (value for value in (change.to, change.was) if value is not None)
            if reason := key_error(change.key) or next(filter(None, map(value_error, values)), None):
                raise ValueError(f"no change of a label: {str(change)[:200]!r}: {reason}")
            if not all(manager.isprintable() for manager in change.holders):
                raise ValueError(f"{change.key} is held by no field manager: {str(change.holders)[:200]}")
        return self

    @model_validator(mode="after")
    def _numbers_of_changes(self) -> Self:
        if any(number >= len(self.changes) for numbers in self.nodes.values() for number in numbers):
            raise ValueError("a node has the number of a change that is not there")
        return self

    @classmethod
    def of(cls, nodes: Mapping[str, Sequence[KeyChange]], *, revision: int | None, cluster: str) -> Self:
        """The plan with these changes."""
        return cls.model_validate({"revision": revision, "cluster": cluster, **_compact(nodes)})

    def changes_of(self, node: str) -> frozenset[KeyChange]:
        """What changes on a node."""
        return frozenset(self.changes[number] for number in self.nodes[node])


def _compact(nodes: Mapping[str, Iterable[KeyChange]]) -> dict[str, Any]:
    numbers: dict[KeyChange, int] = {}
    compact = {name: [numbers.setdefault(change, len(numbers)) for change in changes] for name, changes in nodes.items()}
    return {"changes": list(numbers), "nodes": compact}


def _answered(name: str, node: Any) -> list[KeyChange]:
    """A node's changes in an answer of `POST /plans`. Raises ValueError."""
    try:
        return NodeChange.model_validate(node).by_key
    except ValidationError as error:
        flaw = error.errors(include_url=False)[0]
        if (flaw["loc"], flaw["type"]) == (("from",), "missing"):
            raise ValueError(f"{name} has no `from`: plans of an earlier version do not say what they replace; make a new plan") from error
        raise ValueError(f"{'.'.join((name, *map(str, flaw['loc'])))}: {flaw['msg']}") from error


def still_to_do(planned: Iterable[KeyChange], live: Node | None) -> frozenset[KeyChange]:
    """What of a planned change a node does not have yet."""
    return frozenset(change for change in planned if live is None or live.labels.get(change.key) != change.to)


def differing(planned: frozenset[KeyChange], due: frozenset[KeyChange]) -> str:
    """What lies between the change that was planned and the one that is due now, in words."""
    gone, new = sorted(map(str, planned - due)), sorted(map(str, due - planned))
    return f"planned {', '.join(gone) or 'nothing more'}; now due {', '.join(new) or 'nothing'}"


def stale_message(stale: Mapping[str, str], plan: BoundPlan) -> str:
    """Why an action that is bound to a plan writes nothing. `stale`: the nodes that differ, each with how."""
    some = "; ".join(f"{name} ({how})" for name, how in sorted(stale.items())[:NAMED])
    more = f"; and {len(stale) - NAMED} more" if len(stale) > NAMED else ""
    made = "" if plan.revision else "; it was made of files, and what is committed says something else"
    return f"the plan no longer holds for {len(stale)} of {len(plan.nodes)} nodes: {some}{more}{made}: nothing was written; make a new plan"
