"""Many callers at once: no action is lost, none is doubled, each is told its own."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click
import pytest
import urllib3

from local.cloud.server import EmbeddedServer
from shared import telemetry, wiring
from shared.domain.documents.reading import Source
from shared.domain.names import DRIFT_SWEEP
from shared.world import Settings
from tests.api.conftest import policies

CALLERS, ACTIONS, NODES = 8, 15, 24


def test_concurrent_actions_and_polls_lose_nothing_and_double_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    telemetry.write_to(None)
    names = [f"n{number:02}" for number in range(NODES)]
    (tmp_path / "nodes.json").write_text(
        '{"kind": "List", "items": [' + ", ".join(f'{{"metadata": {{"name": "{name}", "uid": "u-{name}"}}}}' for name in names) + "]}"
    )
    with EmbeddedServer(Settings(store="memory:", cluster=f"simulated:{tmp_path / 'nodes.json'}"), 0, "load", lambda _: None) as server:
        world = server.cloud.world
        now = world.clock()
        world.revisions.stage("site", [Source("site.yaml", policies({name: {"rack": "r7"} for name in names}).encode())], "load", now)
        world.revisions.commit("load", now)
        world.revisions.tag(1, "site-action-success", "load", now)
        pool = urllib3.PoolManager(maxsize=CALLERS, block=True, retries=False)
        asked: Counter[int] = Counter()

        def call(method: str, path: str, **body: Any) -> Any:
            answer = pool.request(method, server.url + path, **body)
            asked[answer.status] += 1
            return answer.json()

        def caller(number: int) -> list[tuple[str, str, str]]:
            told = []
            for turn in range(ACTIONS):
                name = names[(number * ACTIONS + turn) % NODES]
                action = call("POST", "/v1.0/actions", json={"name": "update_labels", "parameters": {"target_nodes": [name]}})["id"]
                while (shown := call("GET", f"/v1.0/actions/{action}"))["result"] is None:
                    time.sleep(0.02)
                told.append((action, name, shown["result"]))
                call("GET", "/v1.0/actions?limit=20")
            return told

        began = time.perf_counter()
        with ThreadPoolExecutor(CALLERS) as callers:
            told = [each for found in callers.map(caller, range(CALLERS)) for each in found]
        seconds = time.perf_counter() - began
        # The server's own clock sweeps at a minute of the hour, which may be this one.
        recorded = [action for action in world.actions.ids() if world.actions.request(action).name != DRIFT_SWEEP]
        outcomes = {action: world.actions.outcome(action) for action in recorded}
        until = time.monotonic() + 60
        while (left := world.actions.open()) and time.monotonic() < until:
            time.sleep(0.05)  # an end is seen before its notice is out
    wiring.install(None)

    assert set(asked) == {200, 201}
    assert asked[201] == CALLERS * ACTIONS
    assert sorted(action for action, _, _ in told) == sorted(recorded), "every accepted action is recorded once, and no other"
    assert {result for _, _, result in told} == {"success"}
    for action, name, _ in told:
        ended = outcomes[action]
        assert ended is not None
        assert [*ended.unchanged, *(each.subject for each in ended.outcomes)] == [name], "it did what its caller asked, once"
    assert left == []
    total = sum(asked.values())
    with capsys.disabled():
        click.echo(f"\n{total} requests ({asked[201]} actions) by {CALLERS} callers in {seconds:.1f} s: {total / seconds:.0f} requests/s")
