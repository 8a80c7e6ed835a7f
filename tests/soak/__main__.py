"""`make soak MINUTES=10`: the whole house on the real transport, disturbed for as long as one asks, then left to come to rest and checked.

The Pub/Sub emulator and one process per function; a pump that repeats, loses, delays and leaves unanswered one delivery in twenty each;
a real kube-apiserver with our forwarder where there is one, else the simulated cluster. Ends with 1 where an invariant does not hold.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local import steps
from local.cloud.emulated import RealCloud
from local.cloud.pump import Faults
from local.steps import FunctionStep, Steps
from shared.adapters.pubsub import Administration, Puller, Subscription
from shared.domain.notices import ACTION_FINISHED
from shared.messages import DeadlineCheck, Outgoing, VersionCheck
from shared.ports import OWNER
from shared.wiring import build
from shared.world import Settings, World
from tests.soak import invariants
from tests.soak.cluster import Ground, a_cluster, there_is_a_real_one
from tests.soak.disturb import Api, Disturbing, Machine, Operators, Strangers, put_clock
from tests.soak.documents import drawn
from tests.soak.measures import Sizes, running_with
from tests.soak.stepped import CLOCKS

FAULTS = 0.05
DELAY_SECONDS = 0.5
ACTION_SECONDS = 900
REST_SECONDS = 300
"""How long it may take to come to rest once nobody disturbs it any more; a busy machine included."""
START_SECONDS = 180


class Stepped(FunctionStep):
    """A function that is loaded behind a clock of its own."""

    @property
    def source(self) -> Path:
        return Path(__file__).parent / "stepped.py"


class NoBus:
    """For a world that only looks."""

    def publish(self, topic: str, messages: object) -> None:
        raise AssertionError(f"published to {topic}")


class Soak:
    """One run."""

    def __init__(self, folder: Path, seed: int, minutes: float, nodes: int, *, real: bool) -> None:
        self.seed, self.seconds, self.real = seed, minutes * 60, real
        self.names = [f"node-{number:03}" for number in range(nodes)]
        self.folder, self.clocks = folder, folder / "clocks"
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.notices: list[dict[str, Any]] = []
        self._log = (folder / "log").open("w", buffering=1)
        self._lock = threading.Lock()

    def log(self, line: str) -> None:
        """Keep what the processes say, and count what they call errors."""
        with self._lock:
            self._log.write(line + "\n")
            self.counts["error lines logged"] += '"severity": "ERROR"' in line
            self.counts["dead letters"] += " moved to dead-letters " in line

    def run(self) -> None:
        self.clocks.mkdir()
        os.environ[CLOCKS] = str(self.clocks)
        with a_cluster(self.folder, self.names, real=self.real) as ground:
            settings = Settings(
                store=f"file:{self.folder / 'store'}", cluster=ground.setting, project=f"soak-{self.seed}", action_seconds=ACTION_SECONDS
            )
            described = described_with_clocks()
            faults = Faults(duplicate=FAULTS, lost=FAULTS, unanswered=FAULTS, delay=DELAY_SECONDS, seed=self.seed)
            world = build(settings, NoBus())
            with RealCloud(settings, described=described, faults=faults, say=self.log) as cloud:
                self._in(cloud, world, ground)
        self.problems += [f"left running: {line}" for line in running_with(str(self.folder))]
        self._log.close()

    def _in(self, cloud: RealCloud, world: World, ground: Ground) -> None:
        api = Api(cloud, self.counts)
        sizes = Sizes(lambda: groups(cloud, ground))
        sizes.start()
        with self._reading(cloud), ground.watch(cloud.bus) as told:
            self._begin(api, world)
            say(f"disturbing for {self.seconds:.0f} s")
            strangers = Strangers(self.seed, ground.others, told, self.names, self.counts)
            self._disturb(
                cloud,
                Operators(self.seed, api, cloud, world, self.names, self.counts),
                strangers,
                Machine(self.seed, cloud, self.clocks, self.counts, kill_seconds=15),
            )
            say("nobody disturbs it any more: coming to rest")
            self._come_to_rest(api, cloud, world, strangers)
        sizes.end()
        api.close()
        self._judge(api, cloud, world)
        self.problems += sizes.problems(cloud.functions)  # etcd and the emulator keep in memory whatever went through them
        self._report(cloud, world, sizes)

    def _begin(self, api: Api, world: World) -> None:
        """Documents, and a first relabel of the site: without one, named nodes are refused."""
        text = drawn(random.Random(self.seed), self.names, first=True)
        until("documents are committed", lambda: self._commits(api, text), START_SECONDS)
        until("a first relabel is accepted", lambda: api.call("POST", "/v1.0/actions", json={"name": "update_site"}), START_SECONDS)
        until("it ended", lambda: not world.actions.open() and world.actions.ids(), START_SECONDS)

    def _commits(self, api: Api, text: str) -> object:
        api.call("POST", "/v1.0/configdocs/site", body=text, headers={"Content-Type": "application/x-yaml"})
        return api.call("POST", "/v1.0/commitconfigdocs")

    def _disturb(self, cloud: RealCloud, *disturbing: Disturbing) -> None:
        for one in disturbing:
            one.start()
        end, last = time.monotonic() + self.seconds, time.monotonic()
        while (left := end - time.monotonic()) > 0:
            if broken := cloud.broken():
                self.problems.append(f"the transport broke: {broken}")
                break
            if time.monotonic() - last > 60:
                last = time.monotonic()
                say(f"  {left:.0f} s left: {sum(self.counts.values())} things counted so far")
            time.sleep(min(1.0, left))
        for one in disturbing:
            one.end()
            self.problems += one.failures

    @contextmanager
    def _reading(self, cloud: RealCloud) -> Iterator[None]:
        """Read the notices, as somebody who is told of ends."""
        prefix = cloud.settings.topic_prefix
        name = Administration(cloud.settings.project, prefix).create_subscription(Subscription("soak-reader", "notices", 60))
        reader = Puller()

        def take(message: Any) -> None:
            self.notices.append(json.loads(message.data))
            message.ack()

        reader.follow(name, take, in_hand=100)
        try:
            yield
        finally:
            reader.close()

    def _come_to_rest(self, api: Api, cloud: RealCloud, world: World, strangers: Strangers) -> None:
        """Let what is under way end; then whatever a kill left half accepted, by its deadline; then one last relabel and version check."""
        actions = world.actions
        while strangers.away:
            strangers.creates()
        for step in cloud.functions:
            put_clock(self.clocks, step, 0)

        def confirmed_ones_ended() -> bool:
            for action in actions.open():
                if actions.paused(action) and actions.outcome(action) is None:
                    api.call("POST", f"/v1.0/actions/{action}/control/unpause")
            return all(actions.outcome(action) is not None for action in api.confirmed)

        self._until("every confirmed action ends without the help of its deadline", confirmed_ones_ended)
        self._publish(cloud, VersionCheck.TOPIC, force_window=True)
        self._until("the bus is empty", lambda: cloud.pump is not None and cloud.pump.idle())
        self.counts["actions left to their deadline (a kill came between their record and their message)"] = len(actions.open())
        for step in cloud.functions:
            put_clock(self.clocks, step, 2 * ACTION_SECONDS)

        def closed() -> bool:
            self._publish(cloud, DeadlineCheck.TOPIC)
            time.sleep(1)
            return not actions.open()

        self._until("nothing is open after the deadlines", closed)
        self.counts["nodes out of sync before the last relabel"] = len(list(self._out_of_sync(world)))
        asked = self._until(
            "a last relabel of the site is accepted", lambda: api.call("POST", "/v1.0/actions", json={"name": "update_site"})
        )
        self._until("the last relabel ends", lambda: not actions.open())
        outcome = actions.outcome(asked["id"]) if asked else None
        if outcome is None or outcome.result != "success":
            self.problems.append(f"the last relabel ended as {outcome.result if outcome else 'nothing'}")
        self._until("events are dealt with", lambda: cloud.pump is not None and cloud.pump.idle())
        self._until("every end is told", lambda: not list(invariants.every_end_told(actions, self._ends())))

    def _until(self, what: str, true: Callable[[], Any]) -> Any:
        """As `until`; what does not come true is one problem among others."""
        try:
            return until(what, true, REST_SECONDS)
        except TimeoutError as late:
            self.problems.append(str(late))
            return None

    def _publish(self, cloud: RealCloud, topic: str, **body: Any) -> None:
        cloud.bus.publish(topic, [Outgoing(json.dumps(body).encode())])

    def _ends(self) -> list[dict[str, Any]]:
        return [notice for notice in list(self.notices) if notice["type"] == ACTION_FINISHED.type]

    def _out_of_sync(self, world: World) -> Iterator[str]:
        return invariants.in_sync(world, world.cluster("default", None).nodes(), OWNER)

    def _judge(self, api: Api, cloud: RealCloud, world: World) -> None:
        self.problems += invariants.nothing_open(world.actions, api.confirmed)
        self.problems += invariants.no_result_lost(world.actions)
        self.problems += invariants.every_end_told(world.actions, self._ends())
        self.problems += self._out_of_sync(world)
        self.problems += [f"unexpected answer: {answer}" for answer in api.unexpected]
        if broken := cloud.broken():
            self.problems.append(f"the transport broke: {broken}")

    def _report(self, cloud: RealCloud, world: World, sizes: Sizes) -> None:
        results = Counter(outcome.result for action in world.actions.ids() if (outcome := world.actions.outcome(action)))
        say("\nwhat was done")
        for name, count in sorted(self.counts.items()):
            say(f"  {count:7} {name}")
        say("what came of it")
        say(f"  {world.revisions.newest():7} revisions, {len(world.actions.ids())} actions: {dict(results)}")
        say(f"  {len(self.notices):7} notices: {dict(Counter(notice['type'].split('.', 2)[2] for notice in self.notices))}")
        say(f"  {sum(process.restarts for process in cloud.functions.values()):7} processes started again")
        say("deliveries")
        for lane in cloud.pump.lanes if cloud.pump else ():
            say(f"  {lane.route.subscription.rpartition('/')[2]:36} {lane.counts}")
        say("memory")
        for line in sizes.lines():
            say(f"  {line}")


def described_with_clocks() -> Steps:
    """Every function as it is described, behind a clock that can be stepped."""
    known = steps.load()
    stepped = {name: Stepped.model_validate(step.model_dump()) for name, step in known.steps.items()}
    return known.model_copy(update={"steps": stepped})


def groups(cloud: RealCloud, ground: Ground) -> dict[str, int]:
    """Process groups by name; ours, which pumps, among them."""
    emulator = {"emulator": cloud.emulator.pid} if cloud.emulator else {}
    return {name: process.pid for name, process in cloud.functions.items()} | emulator | dict(ground.pids)


def until(what: str, true: Callable[[], Any], seconds: float) -> Any:
    """The first true answer. Raises TimeoutError, naming what was waited for."""
    end = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > end:
            raise TimeoutError(f"in {seconds:.0f} s it did not come true that {what}")
        time.sleep(0.2)
    return found


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--simulated", action="store_true", help="the simulated cluster, also where there is a kube-apiserver")
    asked = parser.parse_args()
    faulthandler.dump_traceback_later(asked.minutes * 60 + 2 * START_SECONDS + 5 * REST_SECONDS, exit=True)
    real = there_is_a_real_one() and not asked.simulated
    folder = Path(tempfile.mkdtemp(prefix="hullmark-soak-"))
    say(f"seed {asked.seed}, {asked.nodes} nodes of {'a real kube-apiserver' if real else 'the simulated cluster'}, in {folder}")
    soak = Soak(folder, asked.seed, asked.minutes, asked.nodes, real=real)
    began = time.monotonic()
    soak.run()
    faulthandler.cancel_dump_traceback_later()
    say(
        f"\n{time.monotonic() - began:.0f} s, seed {asked.seed}: {len(soak.problems)} problems"
        + (f"; see {folder}" if soak.problems else "")
    )
    for problem in soak.problems[:50]:
        say(f"  {problem}")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
