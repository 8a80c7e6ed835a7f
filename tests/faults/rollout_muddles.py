"""Rollouts in a muddle: words, clocks, faults and pauses in any order, drawn from a seed.

The judge looks at every write, as in muddles.py. Besides, every opening is held against what was answered before it (openings.py).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from datetime import timedelta

from shared.domain.rollouts.progress import WrongPhase
from shared.ledger.actions import WrongState
from shared.ledger.records import RecordUnreadable
from shared.ledger.rollouts import UnknownRollout
from shared.messages import RolloutStep
from shared.ports import StoreError
from shared.work import holds
from shared.work.intake import Rejected
from shared.work.rollouts import CONTROLS, Control, control, start
from tests.faults.harness import Finding
from tests.faults.muddles import NODES, Muddle, documents
from tests.faults.openings import HOLDS, Openings
from tests.faults.stories import shown_impact

EXPECTED = (StoreError, WrongState, WrongPhase, UnknownRollout, RecordUnreadable, Rejected)
"""What somebody hears whose word comes too late, or while others speak."""
STEP = timedelta(minutes=11)
"""By how much a clock is wrong, where clocks are: longer than a soak."""
ROLLOUT = """apiVersion: hullmark.dev/v1
kind: Rollout
metadata: {{name: careful}}
spec:
  onStop: {on_stop}
  stages:
  - {{name: canary, nodes: {{names: [n{canary}]}}, soak: {soak}, approval: {approval}}}
  - {{name: half, percent: 50, approval: {before}}}
---
"""


class RolloutMuddle(Muddle):
    """One run, in which most changes come by rollouts. In every third, each process may have a clock that is wrong."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._apart = STEP if seed % 3 == 0 else timedelta()
        super().__init__(seed)
        self.openings = Openings(self.site.truth)

    def _skew(self, step: str, delivery: int) -> float:
        return random.Random(f"{self._seed}/{delivery}").choice((-1, 0, 0, 1)) * self._apart.total_seconds()

    @property
    def _acts(self) -> list[Callable[[], None]]:
        """What may happen, the more often the more often it stands here."""
        steering = [self.starts, self.approves, self.approves, self.says, self.looks, self.looks, self.lets_it_soak]
        others = [self.commits, self.asks_all, self.asks_some, self.sweeps, self.tells, self.drifts, self.puts, self.takes_first]
        return [*steering, *steering, *steering, *others, self.repeats, self.repeats, self.stops, self.pauses_all, self.resumes_all]

    def run(self, found: Finding) -> str:
        """Muddle about, end every rollout, and see what came of it. What was done, in words."""
        self.commits()
        self.starts()
        self.site.drain(most=self._random.choice((0, 1, 2, 3, 100)))
        for _ in range(self._random.randrange(6, 16)):
            act = self._random.choice(self._acts)
            self._done.append(act.__name__)
            act()
            self.site.drain(most=self._random.choice((0, 1, 1, 2, 3, 5, 100)))
        self._faults = 0
        self.site.drain()
        self.resumes_all()
        self._unpause()
        self._finishes(found)
        self._ends(found)
        found.broken += self.openings.broken(2 * self._apart)
        return ", ".join(self._done)

    def _finishes(self, found: Finding) -> None:
        """The clock goes on, somebody approves, and aborts what does not end."""
        for _ in range(3):
            self._time(700)
            self.approves()
            self.site.drain()
        self._time(90_000)
        world = self.site.untouched
        for rollout in world.rollouts.open():
            with contextlib.suppress(*EXPECTED):
                if world.rollouts.get(rollout).unfinished:
                    self._word(rollout, "abort")
        self._time(4000)
        self._time(90_000)
        left = [world.rollouts.get(each) for each in world.rollouts.open()]
        found.expect(not left, f"rollouts open for ever: {left}")

    def _time(self, seconds: float) -> None:
        self.site.elapsed += seconds
        self.looks()
        self.site.drain()
        self.site.sweep()

    # what people and clocks do

    def commits(self) -> None:
        chance, number = self._random, self.site.untouched.revisions.newest() + 1
        rollout = ROLLOUT.format(
            on_stop=chance.choice(("pause", "revert")),
            canary=chance.randrange(1, 5),
            soak=chance.choice(("0s", "10m")),
            approval=chance.choice(("none", "after")),
            before=chance.choice(("none", "before")),
        )
        self.site.commit(documents(number) + rollout)

    def _rollout(self) -> str:
        ids = self.site.untouched.rollouts.ids()
        return self._random.choice(ids[-2:]) if ids else ""

    def starts(self) -> None:
        """Somebody starts one, perhaps in the place of others."""
        supersede = self._random.random() < 0.5
        with contextlib.suppress(*EXPECTED):
            begun = start("careful", "a person", self.site.untouched, self.site.now(), supersede=supersede)
            for replaced in self.site.untouched.rollouts.get(begun.id).replaces:
                self.openings.answered(replaced)

    def approves(self) -> None:
        for stage in ("canary", "half"):
            self._word(self._rollout(), "approve", stage)

    def says(self) -> None:
        self._word(self._rollout(), self._random.choice(CONTROLS[1:]))

    def _word(self, rollout: str, verb: Control, stage: str = "") -> None:
        self._done.append(verb)
        with contextlib.suppress(*EXPECTED):
            impact = shown_impact(self.site, rollout) if verb == "approve" else ""
            control(rollout, verb, "a person", self.site.untouched, self.site.now(), stage=stage, impact=impact, message="because")
            if verb in HOLDS:
                self.openings.answered(rollout)

    def looks(self) -> None:
        self.site.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])

    def lets_it_soak(self) -> None:
        self.site.elapsed += self._random.choice((1, 660))
        self.looks()

    def takes_first(self) -> None:
        """Somebody else has a label by now that the newest revision brings."""
        number = self.site.untouched.revisions.newest()
        self.site.nodes.set_labels(self._random.choice(NODES), {f"ex.io/of-{number}": "theirs"}, "someone")

    def pauses_all(self) -> None:
        with contextlib.suppress(*EXPECTED):
            holds.pause("because", "a person", self.site.untouched, self.site.now())
            self.site.paused()

    def resumes_all(self) -> None:
        self.site.paused_at = None
        with contextlib.suppress(*EXPECTED):
            holds.resume("a person", self.site.untouched, self.site.now())
