"""Commits, relabels, sweeps, events, people and faults in any order, drawn from a seed: what is released is all that ever reaches a node.

The judge looks at every write; at the end, when everything is mended and swept, each node has the labels of its release.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

from local.cloud.embedded import Waiting
from shared.ledger.actions import UnknownAction, WrongState
from shared.messages import DeadlineCheck, NodeChanged, Notice, Outgoing, RelabelRequest
from shared.ports import StoreError
from shared.work.control import control, retried
from shared.work.releasing import tag
from tests.faults.harness import ACTION, Call, Fault, Finding, Site, applies, inflict
from tests.faults.schedules import DAMAGES
from tests.faults.site import FOREIGN, policy

NODES = ("n1", "n2", "n3", "n4")
LIMITS = """apiVersion: hullmark.dev/v1
kind: Limits
metadata: {name: limits}
spec: {removals: {nodes: 1000}, takeovers: {nodes: 1000}}
---
"""
EXPECTED = (StoreError, WrongState, UnknownAction)
"""What somebody hears whose verb comes too late, or while what is released can't be read."""
FAULTS = 3
"""Faults of one run at most: they are over before its end."""


def documents(number: int) -> str:
    """A revision that changes one label, brings one and takes one away; every third leaves a node out."""
    nodes = NODES[: 3 + bool(number % 3)]
    return LIMITS + policy("p", ", ".join(nodes), f"ex.io/rack: r{number}, ex.io/of-{number}: x")


@functools.cache
def _begun() -> tuple[list[Notice], list[dict[str, bytes]]]:
    site = Site()
    for name in NODES:
        site.nodes.create(name, FOREIGN, ready=True)
    site.commit(documents(1))
    site.ask()
    site.drain()
    return [*site.notices], [{key: store.get(key) or b"" for key in store.keys("")} for store in (site.truth, site.machines)]


class Muddle:
    """One run."""

    def __init__(self, seed: int) -> None:
        notices, kept = _begun()
        self._random = random.Random(seed)
        self._faults = self._random.choice((0, 0, 1, FAULTS))
        self.site = Site(
            interfere=self._interfere,
            pick=self._pick,
            copies=lambda: self._random.random() < 0.1,
            skew=self._skew,
            cold=self._random.random() < 0.4,
        )
        self.site.notices.extend(notices)
        for store, objects in zip((self.site.truth, self.site.machines), kept, strict=True):
            for key, body in objects.items():
                store.create(key, body)
        self.site.judge.now()
        self._sent: list[tuple[str, Outgoing]] = []
        self._asked = [ACTION]
        self._torn: dict[str, bytes] = {}
        self._done: list[str] = []
        publish = self.site.publish

        def kept_too(topic: str, messages: Sequence[Outgoing]) -> None:
            self._sent.extend((topic, message) for message in messages)
            publish(topic, messages)

        self.site.publish = kept_too  # type: ignore[method-assign]

    def _interfere(self, site: Site, call: Call, do: Callable[[], Any]) -> Any:
        if self._faults and self._random.random() < 0.02:
            fault = self._random.choice(list(Fault))
            if applies(fault, call):
                self._faults -= 1
                self._done.append(f"{fault.name} at {call.step} {call.method} {call.argument}")
                return inflict(fault, site, call, do)
        return do()

    def _pick(self, waiting: Sequence[Waiting]) -> int:
        return 0 if self._random.random() < 0.5 else self._random.randrange(len(waiting))

    def _skew(self, step: str, delivery: int) -> float:
        """By how many seconds the clock of a process is wrong."""
        return 0.0

    def run(self, found: Finding) -> str:
        """Muddle about, mend what is torn, and see what came of it. What was done, in words."""
        asked = [self.commits, self.asks_all, self.asks_some, self.retries, self.adopts, self.puts]
        acts = [*asked, *asked[:3], self.sweeps, self.tells, self.drifts, self.repeats, self.lets_time_pass]
        acts += [self.stops, self.pauses, self.tears, self.mends]
        for _ in range(self._random.randrange(5, 14)):
            act = self._random.choice(acts)
            self._done.append(act.__name__)
            act()
            self.site.drain(most=self._random.choice((0, 1, 1, 2, 3, 5, 100)))
        self._faults = 0
        self.mends()
        self.site.drain()
        self._unpause()
        self.site.drain()
        self._ends(found)
        return ", ".join(self._done)

    def _ends(self, found: Finding) -> None:
        site = self.site
        ids = [action for action in site.untouched.actions.ids() if site.untouched.actions.shown(action)]
        site.ended_once(found, *ids, in_time=False)
        for _ in range(2):  # a fight that was left alone for its window
            site.elapsed += 2 * 86400
            site.ask(self._id(), name="drift_sweep")
            site.drain()
        site.as_released(found, *NODES)
        found.broken += [each for each in site.judge.broken if each not in found.broken]

    # what people, clocks and clusters do

    def _id(self) -> str:
        self._asked.append(f"01KAJ{len(self._asked):021}")
        return self._asked[-1]

    def _some(self) -> list[str]:
        return self._random.sample(NODES, self._random.randrange(1, 4))

    def commits(self) -> None:
        self.site.commit(documents(self.site.untouched.revisions.newest() + 1))

    def asks_all(self) -> None:
        self.site.ask(self._id(), name="update_site", requested_by="somebody")

    def asks_some(self) -> None:
        self.site.ask(self._id(), name="update_labels", target_nodes=self._some(), requested_by="somebody")

    def sweeps(self) -> None:
        self.site.ask(self._id(), name="drift_sweep", requested_by="somebody")

    def tells(self) -> None:
        node = self.site.nodes.node(self._random.choice(NODES))
        assert node
        self.site.publish(NodeChanged.TOPIC, [NodeChanged(name=node.name, kind="added", uid=node.uid).outgoing()])

    def drifts(self) -> None:
        self.site.nodes.set_labels(self._random.choice(NODES), {"ex.io/rack": self._random.choice(("theirs", None))}, "someone")
        self.tells()

    def puts(self) -> None:
        labels = {"ex.io/rack": f"mine-{len(self._done)}"}
        self.site.request("api", "PUT", f"/v1.0/node-labels/{self._random.choice(NODES)}", "a person", json=labels)

    def stops(self) -> None:
        self._controls("stop")

    def pauses(self) -> None:
        self._controls(self._random.choice(("pause", "unpause")))

    def _controls(self, verb: str) -> None:
        with contextlib.suppress(*EXPECTED):
            control(self._random.choice(self._asked[-3:]), verb, "a person", self.site.untouched, self.site.now())

    def _unpause(self) -> None:
        for action in self._asked:
            with contextlib.suppress(*EXPECTED):
                control(action, "unpause", "a person", self.site.untouched, self.site.now())

    def repeats(self) -> None:
        if self._sent:
            topic, message = self._random.choice(self._sent)
            self.site.publish(topic, [message])

    def lets_time_pass(self) -> None:
        self.site.elapsed += self._random.choice((60, 4000))
        self.site.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])

    def retries(self) -> None:
        with contextlib.suppress(*EXPECTED):
            again = retried(self._random.choice(self._asked), "a person", self.site.untouched)
            self._asked.append(str(again.action))
            self.site.publish(RelabelRequest.TOPIC, [again.outgoing()])

    def adopts(self) -> None:
        number = self._random.randrange(1, self.site.untouched.revisions.newest() + 1)
        with contextlib.suppress(*EXPECTED):
            tag(number, "site-action-success", "a person", self.site.untouched, self.site.now())

    def tears(self) -> None:
        key = f"releases/default/{self.site.judge.now()['default']:06}.json"
        if not self._torn:
            self._torn[key] = self.site.truth.get(key) or b""
            self.site.truth.delete(key)
            self.site.truth.create(key, self._random.choice(list(DAMAGES.values()))(self._torn[key]))

    def mends(self) -> None:
        for key, body in self._torn.items():
            self.site.truth.delete(key)
            self.site.truth.create(key, body)
        self._torn.clear()
