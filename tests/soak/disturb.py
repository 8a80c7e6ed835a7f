"""Those who disturb: operators over HTTP and the bus, others in the cluster, the machine. Each draws what it does by its own seed."""

from __future__ import annotations

import json
import os
import random
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import urllib3

from local.cloud.emulated import RealCloud
from shared.adapters.apiserver import StatusError
from shared.messages import DeadlineCheck, Outgoing, RelabelRequest, VersionCheck
from shared.ports import NodeGone
from shared.world import World
from tests.soak.cluster import Others
from tests.soak.documents import POOLS, PREFIX, drawn

STEP_SECONDS = 180
"""How far a function's clock is put off, either way."""
ANSWERED = frozenset({200, 201, 202, 204})
REFUSED = frozenset({400, 404, 409, 503})
"""Answers that refuse and say why."""


class Api:
    """The front door, from outside. A process that is killed answers nobody: what came of that call is unknown."""

    def __init__(self, cloud: RealCloud, counts: Counter[str]) -> None:
        self._cloud, self._counts = cloud, counts
        self._pool = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=5, read=90), maxsize=4)
        self.confirmed: set[str] = set()
        """Actions that were answered with 201, or with the Location of a retry."""
        self.unexpected: list[str] = []
        self.last_refusal = ""

    def call(self, method: str, path: str, *, step: str = "api", **sent: Any) -> dict[str, Any] | None:
        """The answer, where it is one."""
        try:
            answer = self._pool.request(method, f"{self._cloud.functions[step].url}{path}", **sent)
        except urllib3.exceptions.HTTPError:
            self._counts["calls without an answer"] += 1
            return None
        self._counts[f"answers {answer.status}"] += 1
        if answer.status == 400:
            self.last_refusal = f"{method} {path}: {answer.data[:500]!r}"
        if answer.status not in ANSWERED | REFUSED:
            self.unexpected.append(f"{method} {path}: {answer.status} {answer.data[:300]!r}")
        if location := answer.headers.get("Location", ""):
            self._confirm(location)
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        found = answer.json() if answer.status in ANSWERED and is_json else None
        return found if isinstance(found, dict) else None

    def _confirm(self, location: str) -> None:
        _, there, action = location.rpartition("/v1.0/actions/")
        if there:
            self.confirmed.add(action)

    def close(self) -> None:
        self._pool.clear()


class Disturbing(threading.Thread):
    """Does one thing after the other until told to end, what and when by its dice. `deeds`: how often each, as a share."""

    def __init__(self, name: str, seed: int, pause: float, counts: Counter[str]) -> None:
        super().__init__(name=name, daemon=True)
        self.dice = random.Random(f"{seed}/{name}")
        self.counts = counts
        self.failures: list[str] = []
        self._pause = pause
        self._ended = threading.Event()
        self.deeds: dict[str, tuple[float, Callable[[], object]]] = {}

    def run(self) -> None:
        names = list(self.deeds)
        shares = [self.deeds[name][0] for name in names]
        while not self._ended.wait(self.dice.expovariate(1 / self._pause)):
            (name,) = self.dice.choices(names, shares)
            try:
                if self.deeds[name][1]() is not False:
                    self.counts[name] += 1
            except Exception:
                self.failures.append(f"{self.name}: {name}: {traceback.format_exc()}")

    def end(self) -> None:
        self._ended.set()
        self.join()


class Operators(Disturbing):
    """People and the clock: documents, relabels, control, reads."""

    def __init__(self, seed: int, api: Api, cloud: RealCloud, world: World, names: list[str], counts: Counter[str]) -> None:
        super().__init__("operators", seed, 0.35, counts)
        self._api, self._bus, self._world, self._names = api, cloud.bus, world, names
        self.deeds = {
            "commits": (2, self.commits),
            "relabels of named nodes": (8, self.relabels_some),
            "relabels of the site": (2, self.relabels_site),
            "rehearsals": (1, self.rehearses),
            "requests published without an id": (1, lambda: self._publish(RelabelRequest.TOPIC, {"name": "update_site"})),
            "drift sweeps": (0.5, lambda: self._publish(RelabelRequest.TOPIC, {"name": "drift_sweep"})),
            "node labels put": (4, self.puts),
            "pauses": (3, lambda: self._controls("pause")),
            "unpauses": (4, lambda: self._controls("unpause")),
            "stops": (1, lambda: self._controls("stop")),
            "retries": (1, lambda: self._controls("retry")),
            "version checks": (2, self.checks_versions),
            "sweeps of deadlines": (1, lambda: self._publish(DeadlineCheck.TOPIC, {})),
            "reads": (6, self.reads),
        }

    def commits(self) -> object:
        self._api.call("POST", "/v1.0/configdocs/site", body=drawn(self.dice, self._names), headers={"Content-Type": "application/x-yaml"})
        return self._api.call("POST", "/v1.0/commitconfigdocs") is not None

    def _acts(self, name: str, **parameters: Any) -> object:
        return self._api.call("POST", "/v1.0/actions", json={"name": name, "parameters": parameters}) is not None

    def relabels_some(self) -> object:
        return self._acts("update_labels", target_nodes=self.dice.sample(self._names, self.dice.randint(1, 12)))

    def relabels_site(self) -> object:
        return self._acts("update_site")

    def rehearses(self) -> object:
        return self._acts("update_site", dry_run=True)

    def puts(self) -> object:
        labels = {PREFIX + pool: self.dice.choice("xyz") for pool in self.dice.sample(POOLS, 2)}
        return self._api.call("PUT", f"/v1.0/node-labels/{self.dice.choice(self._names)}", json=labels) is not None

    def _controls(self, verb: str) -> object:
        going = self._world.actions.open() if verb != "retry" else sorted(self._api.confirmed)[-30:]
        if verb == "unpause":
            going = [action for action in going if self._world.actions.paused(action)]
        if not going:
            return False
        return self._api.call("POST", f"/v1.0/actions/{self.dice.choice(going)}/control/{verb}") is not None

    def checks_versions(self) -> None:
        self._publish(VersionCheck.TOPIC, {"force_window": self.dice.random() < 0.7, "dry_run": self.dice.random() < 0.1})

    def reads(self) -> object:
        action = self.dice.choice(sorted(self._api.confirmed)[-50:] or ["none"])
        paths = ["/v1.0/actions?limit=20", f"/v1.0/actions/{action}", "/", "/metrics", f"/v1.0/node-labels/{self.dice.choice(self._names)}"]
        self._api.call("GET", self.dice.choice(paths), step=self.dice.choice(["api", "api_reader"]))
        return True

    def _publish(self, topic: str, body: Mapping[str, Any]) -> None:
        self._bus.publish(topic, [Outgoing(json.dumps(body).encode())])


class Strangers(Disturbing):
    """Others in the cluster: they take labels of ours over, remove them, delete nodes and bring new ones of the same name."""

    def __init__(self, seed: int, others: Others, told: Callable[[str, str], None], names: list[str], counts: Counter[str]) -> None:
        super().__init__("strangers", seed, 0.6, counts)
        self._others, self._told, self._names = others, told, names
        self.away: set[str] = set()
        self.deeds = {
            "labels taken over": (5, lambda: self._changes(self.dice.choice("uvw"))),
            "labels removed": (2, lambda: self._changes(None)),
            "nodes deleted": (1, self.deletes),
            "nodes brought back": (1.5, self.creates),
        }

    def _changes(self, value: str | None) -> object:
        name = self.dice.choice(self._names)
        try:
            self._others.set_labels(name, {PREFIX + self.dice.choice(POOLS): value})
        except NodeGone:
            return False
        except StatusError as error:  # a real server's word for it
            if error.code != 404:
                raise
            return False
        self._told(name, "changed")
        return True

    def deletes(self) -> object:
        name = self.dice.choice(self._names)
        if name in self.away or len(self.away) > len(self._names) // 10:
            return False
        self._others.delete(name)
        self.away.add(name)
        self._told(name, "deleted")
        return True

    def creates(self) -> object:
        if not self.away:
            return False
        name = self.dice.choice(sorted(self.away))
        self._others.create(name, {"kubernetes.io/hostname": name})
        self.away.remove(name)
        self._told(name, "added")
        return True


class Machine(Disturbing):
    """kill -9 of function processes, and clocks that jump."""

    def __init__(self, seed: int, cloud: RealCloud, clocks: Path, counts: Counter[str], *, kill_seconds: float) -> None:
        super().__init__("machine", seed, kill_seconds * 0.6, counts)
        self._cloud, self._clocks = cloud, clocks
        self.deeds = {"kills": (6, self.kills), "clock steps": (4, self.steps)}

    def kills(self) -> object:
        process = self._cloud.functions[self.dice.choice(sorted(self._cloud.functions))]
        if not process.pid:
            return False
        process.kill()
        return True

    def steps(self) -> None:
        step = self.dice.choice(sorted(self._cloud.functions))
        put_clock(self._clocks, step, self.dice.uniform(-STEP_SECONDS, STEP_SECONDS))


def put_clock(clocks: Path, step: str, seconds: float) -> None:
    """Step one function's clock to so many seconds from the system's; no reader sees half of it."""
    new = clocks / f".{step}.{os.getpid()}"
    new.write_text(f"{seconds:.3f}")
    new.replace(clocks / step)
