"""What is released to which node, worked out from the objects in the store alone: every write to a node is held against it.

Two questions, at two moments. At a write: are these the labels of something that was released to the node at some moment since the message
was taken up? At a new state of a chain: is each node's release the newest of the acts that meant it and were not taken back?
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from shared.ledger.records import RecordUnreadable, numbered
from shared.ledger.revisions import Revisions, UnknownRevision
from shared.ports import ObjectStore

Mark = tuple[int, str]
"""A revision, and an override on top of it."""


@dataclass(frozen=True)
class Declared:
    """What the documents, or a person, say of one node."""

    labels: dict[str, str]
    skips: frozenset[str] = frozenset()
    """Keys that are left to others."""
    prunes: bool = False
    taints: frozenset[tuple[str, str, str]] = frozenset()
    """Startup taints that go with these labels: key, effect, value."""


@dataclass
class Act:
    """One action's release, as its cause tells it."""

    k: int
    action: str
    revision: int
    taken_back: bool = False
    reached: set[str] = field(default_factory=set)
    """The nodes that had an outcome of it when it was taken back: they may have kept it."""
    rollout: str = ""
    """The rollout that it is part of: what that is taken back from has nothing of it."""
    named: frozenset[str] | None = None
    """The nodes whose overrides it ends; None: every node's."""
    began: int | None = None
    """Overrides from after this act outlive it."""

    def ends(self, node: str, at: int) -> bool:
        """Whether an override that a node got by act `at` is over with this one."""
        return self.k > at and (self.named is None or node in self.named) and (self.began is None or at <= self.began)


class Judge:
    """Looks at the store from outside, at whatever moment it is asked to."""

    def __init__(self, store: ObjectStore) -> None:
        self.broken: list[str] = []
        self._store = store
        self._chains: dict[str, dict[int, dict[str, Any]]] = {}
        """By cluster and number: the states as they were made, whatever became of their objects."""
        self._policies: dict[int, list[dict[str, Any]]] = {}

    # looking

    def now(self) -> dict[str, int]:
        """The number of each cluster's newest act. What is new in the chains is judged."""
        for key in self._store.keys("releases/"):
            _, cluster, *below = key.split("/")
            for k in numbered([key]) if len(below) == 1 else ():
                self._seen(cluster, k, key)
        return {cluster: max(chain) for cluster, chain in self._chains.items()}

    def torn(self) -> bool:
        """Whether the newest state of a chain can't be read: what is to be taken back waits until it can."""
        return any(self._json(f"releases/{cluster}/{k:06}.json") is None for cluster, k in self.now().items())

    def _seen(self, cluster: str, k: int, key: str) -> None:
        chain = self._chains.setdefault(cluster, {})
        if k in chain:
            return
        body = self._store.get(key)
        try:
            chain[k] = json.loads(body or b"")
        except ValueError:  # torn before anybody could look: nothing is known of it, and nothing may be written by it
            chain[k] = {"cause": {}, "torn": True}
            return
        for share in chain[k].get("shards", ()):
            chain[k]["names"] |= json.loads(self._store.get(share) or b"{}")
        self._expect(k == 1 or k - 1 in chain, f"{key} comes after a gap")
        self._judge(cluster, k)

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.broken.append(otherwise)

    # a write to a node

    def write(self, cluster: str, node: str, since: int, **written: Any) -> None:
        """A write to a node, by work that was taken up when the cluster's newest act was `since`."""
        newest = self.now().get(cluster, 0)
        marks = {self._mark(cluster, k, node) for k in range(since, newest + 1)}
        self._expect(
            any(self._fits(mark, node, **written) for mark in marks),
            f"{node} of {cluster} was written {written} while {sorted(marks)} were released to it (acts {since} to {newest})",
        )

    def _fits(
        self,
        mark: Mark,
        node: str,
        labels: Mapping[str, str] | None = None,
        removed: frozenset[str] = frozenset(),
        taint: tuple[str, str, str] | None = None,
    ) -> bool:
        if mark == (0, ""):
            return False
        declared = self.declared(mark, node)
        if declared is None:
            return True
        if labels is None:
            return declared.prunes and not removed & declared.labels.keys()
        if taint and taint not in declared.taints:
            return False
        missing = declared.labels.keys() - labels.keys()
        return missing <= declared.skips and {**declared.labels, **labels} == declared.labels

    def declared(self, mark: Mark, node: str) -> Declared | None:
        """What a mark says of a node; None where that can't be read."""
        revision, override = mark
        if override:
            kept = self._json(f"overrides/{override}.json")
            return Declared(kept["labels"]) if kept else None
        if revision not in self._policies:
            try:
                sources = Revisions(self._store).sources(revision)
            except (RecordUnreadable, UnknownRevision):
                return None
            self._policies[revision] = [spec for each in sources for spec in _policies_in(each.data)]
        return _said(self._policies[revision], node)

    # the chain

    def mark(self, cluster: str, node: str) -> Mark:
        """A node's release now."""
        return self._mark(cluster, self.now().get(cluster, 0), node)

    def _mark(self, cluster: str, k: int, node: str) -> Mark:
        if k == 0:
            return self._before(), ""
        state = self._chains[cluster][k]
        if "torn" in state:
            return 0, ""
        entry, base = state["names"].get(node), state["base"] or 0
        if entry and (entry["k"] > state["base_k"] or entry.get("revision", 0) > base):
            return entry.get("revision", 0), entry.get("override", "")
        way = state.get("next")
        while way:
            if way["revision"] > base and self._on_its_way(way, cluster, node):
                return way["revision"], ""
            way = way.get("before")
        return base, ""

    def _on_its_way(self, way: dict[str, Any], cluster: str, node: str) -> bool:
        """Whether a rollout has reached a node: its stage is passed, or it is the present one and the node's place is."""
        stage, upto = way.get("stage", 0), way.get("upto", -1)
        if (stage, upto) == (0, -1):
            return False
        index, stages = self._places(way["rollout"], cluster)
        place = int.from_bytes(hashlib.blake2b(node.encode(), digest_size=6).digest(), "big")
        later = (each["stage"] for each in index["later"] if place < each["below"])
        own = stages.get(node, next(later, len(index["counts"][0]) - 1))
        return bool(own < stage or (own == stage and place <= upto))

    def _places(self, rollout: str, cluster: str) -> tuple[dict[str, Any], dict[str, int]]:
        folder = f"rollouts/{rollout}/places/{cluster}/"
        stages: dict[str, int] = {}
        for key in numbered(self._store.keys(folder)).values():
            stages |= self._json(key) or {}
        return self._json(f"{folder}index.json") or {"later": [], "counts": [[0]]}, stages

    def _before(self) -> int:
        """What counts as released where no chain is: a store from before releases was brought to the revision of its site action."""
        began = self._json("upgrades/releases")
        if began is not None:
            return int(began.get("base") or 0)
        tagged = [number for tag in ("success", "failure") for number in numbered(self._store.keys(f"tags/site-action-{tag}/"))]
        return max(tagged, default=0)

    def _judge(self, cluster: str, k: int) -> None:
        acts, overrides = self._acts(cluster, k)
        for node in self._nodes(cluster, k):
            meant = [act for act in acts if self._means(act, cluster, node)]
            certain = [act for act in meant if not act.taken_back]
            maybe = [act for act in meant if act.taken_back and node in act.reached]
            revision, override = self._mark(cluster, k, node)
            least = max((act.revision for act in certain), default=0)
            possible = {least, *(act.revision for act in maybe if act.revision > least)}
            where = f"{node} of {cluster} by act {k} ({self._chains[cluster][k]['cause']})"
            self._expect(override != "" or revision in possible, f"{where} has revision {revision}, not one of {sorted(possible)}")
            self._judge_override(where, node, override, overrides.get(node, []), certain, maybe)

    def _judge_override(
        self, where: str, node: str, override: str, put: list[tuple[int, str]], certain: list[Act], maybe: list[Act]
    ) -> None:
        at, last = put[-1] if put else (0, "")
        least = max((act.revision for act in certain if act.k < at), default=0)
        ended = last == "" or any(act.ends(node, at) and act.revision >= least for act in certain)
        may_have = ended or any(act.ends(node, at) and act.revision >= least for act in maybe)
        allowed = {""} if ended else {"", last} if may_have else {last}
        self._expect(override in allowed, f"{where} has override {override!r}, not one of {sorted(allowed)}")

    def _acts(self, cluster: str, newest: int) -> tuple[list[Act], dict[str, list[tuple[int, str]]]]:
        """What happened in a chain: the releases, and for each node the overrides that were not taken back."""
        acts: list[Act] = []
        overrides: dict[str, list[tuple[int, str]]] = {}
        for k in range(1, newest + 1):
            state = self._chains[cluster][k]
            cause = state["cause"]
            kind, action = cause.get("kind", "before releases"), cause.get("action", "")
            match kind:
                case "before releases" | "adopted":
                    acts.append(Act(k, "", state.get("base") or 0))
                case "action":
                    request = self._json(f"actions/{action}/request.json") or {}
                    rollout = request.get("rollout", "")
                    acts.append(
                        Act(k, action, cause["revision"], rollout=rollout, named=frozenset(request["target_nodes"]) if rollout else None)
                    )
                case "rollout finished":
                    before = self._chains[cluster][k - 1].get("next") or {}
                    acts.append(Act(k, "", cause["revision"], rollout=action, began=before.get("began")))
                case "rollout taken back":
                    gone = [act for act in acts if act.rollout == action]
                    for node, put in overrides.items():  # what it ended stays ended
                        overrides[node] = [each for each in put if not any(act.ends(node, each[0]) for act in gone)]
                    acts = [act for act in acts if act.rollout != action]
                case "taken back":
                    for act in acts:
                        if act.action == action:
                            act.taken_back = True
                            act.reached = self._reached(action)
                case "override":
                    overrides.setdefault(cause["node"], []).append((k, action))
                case "override taken back":
                    overrides[cause["node"]] = [put for put in overrides[cause["node"]] if put[1] != action]
        return acts, overrides

    def _reached(self, action: str) -> set[str]:
        plan, ended = (self._json(f"actions/{action}/{name}.json") or {} for name in ("plan", "outcome"))
        parts = [self._json(key) or {} for key in self._store.keys(f"actions/{action}/parts/")]
        told = [*plan.get("settled", ()), *ended.get("outcomes", ()), *(outcome for part in parts for outcome in part.get("outcomes", ()))]
        return {*plan.get("unchanged", ()), *(outcome["subject"] for outcome in told if outcome["outcome"] != "stopped")}

    def _means(self, act: Act, cluster: str, node: str) -> bool:
        request = self._json(f"actions/{act.action}/request.json") if act.action else None
        way = self._chains[cluster][act.k].get("next") if act.rollout and act.action else None
        if way and self._on_its_way(way, cluster, node):
            return True
        return request is None or request.get("target_nodes") is None or node in request["target_nodes"]

    def _nodes(self, cluster: str, k: int) -> Iterator[str]:
        named = {node for number in range(1, k + 1) for node in self._chains[cluster][number].get("names", ())}
        yield from sorted({*named, "a node that joins later"})

    def _json(self, key: str) -> dict[str, Any] | None:
        body = self._store.get(key)
        try:
            return None if body is None else dict(json.loads(body))
        except ValueError:
            return None


@functools.cache
def _policies_in(text: bytes) -> list[dict[str, Any]]:
    documents = (document for document in yaml.load_all(text, yaml.CSafeLoader) if document)
    return [document["spec"] for document in documents if document["kind"] == "NodeLabelPolicy"]


def _said(policies: list[dict[str, Any]], node: str) -> Declared:
    """The policies that name a node, or every node, one after the other. The sites of these tests select nodes in no other way."""
    specs = [spec for spec in policies if node in spec.get("nodes", {"names": [node]})["names"]]
    labels = {key: value for spec in specs for key, value in spec["labels"].items()}
    skips = frozenset(key for spec in specs if spec.get("onConflict") == "skip" for key in spec["labels"])
    named = [spec["until"]["taint"] for spec in specs if "until" in spec]
    taints = frozenset((taint["key"], taint["effect"], taint.get("value", "")) for taint in named)
    return Declared(labels, skips, any(spec.get("prune") == "all" for spec in specs), taints)
