"""Several processes at work on one folder, for so many rounds: `make races`. What must hold is counted, and the figures are printed.

Here nothing is put in an order: the operating system interleaves what the schedules of the matrix interleave by hand.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.synchronize
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

from shared.adapters.simulated import Simulated
from shared.adapters.store import open_store
from shared.domain.actions import ActionRequest, Plan
from shared.domain.documents.reading import Source
from shared.domain.outcomes import Outcome
from shared.ledger.actions import Actions, WrongState
from shared.ledger.revisions import NothingStaged, Revisions
from shared.messages import PartResult

PROCESSES = 3
NOW = datetime(2026, 11, 21, tzinfo=UTC)
POLICY = """apiVersion: hullmark.dev/v1
kind: NodeLabelPolicy
metadata: {{name: p{0}}}
spec: {{nodes: {{names: [n{0}]}}, labels: {{ex.io/of: "{0}"}}}}
"""


def action_of(number: int) -> str:
    """The action that all processes work on in this round."""
    return f"{number:026}"


def work(folder: str, me: int, rounds: int, until: float, start: multiprocessing.synchronize.Barrier) -> None:
    """One process: in each round the same action, the same node and the same documents as all others."""
    store = open_store(f"file:{folder}")
    actions, revisions, cluster = Actions(store), Revisions(store), Simulated(store)
    start.wait()
    for number in range(rounds):
        if time.monotonic() > until:
            return
        action = action_of(number)
        actions.accept(
            ActionRequest(
                id=action, name="update_site", cluster="default", revision=1, requested_by=f"process {me}", requested_at=NOW,
                deadline=NOW + timedelta(hours=1),
            )
        )  # fmt: skip
        plan = actions.settle_plan(action, Plan(revision=1, planned_at=NOW, parts=[[f"of {me}"], [f"of {me}"]]))
        for verb in ("pause", "unpause"):
            with contextlib.suppress(WrongState):  # another process was first
                actions.control(action, verb, f"process {me}", NOW)
        for part in (1, 2):
            outcome = Outcome(subject=plan.parts[part - 1][0], outcome="changed", message=f"by {me}")
            actions.record(PartResult(action=action, part=part, revision=1, outcomes=[outcome]))
        if ended := actions.close_if_complete(action, NOW):
            store.create(f"witness/{action}/{me}", ended.to_bytes())
            actions.mark_announced(action)
        node = cluster.node("n")
        assert node
        cluster.apply_labels("n", node.uid, {f"ex.io/of-{me}": str(number)}, manager=f"process-{me}")
        if number % 50 == 0:
            revisions.stage(f"c{me}", [Source("c.yaml", POLICY.format(me).encode() + f"# {number}\n".encode())], f"process {me}", NOW)
            try:
                made, _ = revisions.commit(f"process {me}", NOW)
                store.create(f"witness/commits/{me}-{number:06}", str(made.number).encode())
            except NothingStaged:
                store.create(f"witness/commits/{me}-{number:06}", b"0")


def judged(folder: str) -> tuple[Counter[str], list[str]]:
    """What happened, and what should not have."""
    store = open_store(f"file:{folder}")
    actions, revisions = Actions(store), Revisions(store)
    counts: Counter[str] = Counter()
    broken = []
    for action in actions.ids():
        counts["actions"] += 1
        told = {store.get(key) for key in store.keys(f"witness/{action}/")}
        if len(told) != 1:
            broken.append(f"{action} ended in {len(told)} ways")
        counts["verbs"] += len(actions.commands(action))
        verbs = [command.verb for command in actions.commands(action)]
        if verbs != [("pause", "unpause")[place % 2] for place in range(len(verbs))]:
            broken.append(f"{action} was given {verbs}")
        if actions.paused(action) and actions.outcome(action) is None:
            broken.append(f"{action} was left paused")
    if left := actions.open():
        broken.append(f"open for ever: {left[:5]}")
    node = Simulated(store).node("n")
    counts["labels"] = len(node.labels) if node else 0
    if not node or any(f"ex.io/of-{me}" not in node.labels for me in range(PROCESSES)):
        broken.append("a process's label is lost")
    for number in revisions.numbers():
        counts["revisions"] += 1
        revisions.sources(number)
    for key in store.keys("witness/commits/"):
        counts["commits"] += 1
        me, committed = key.rpartition("/")[2].split("-")
        body = f"# {int(committed)}\n"
        held = [source.data.decode() for each in revisions.numbers() for source in revisions.sources(each)]
        if not any(POLICY.format(me) + body == text for text in held):
            broken.append(f"what process {me} committed in round {number} is in no revision")
    return counts, broken


def main(rounds: int = 3000, seconds: float = 240.0) -> int:
    """Run the processes, judge what they left, print the figures. The exit code."""
    with tempfile.TemporaryDirectory() as folder:
        Simulated(open_store(f"file:{folder}")).create("n")
        context = multiprocessing.get_context("spawn")
        start = context.Barrier(PROCESSES)
        began = time.monotonic()
        until = began + seconds
        processes = [context.Process(target=work, args=(folder, me, rounds, until, start)) for me in range(PROCESSES)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        took = time.monotonic() - began
        counts, broken = judged(folder)
    broken += [f"a process ended with {process.exitcode}" for process in processes if process.exitcode]
    figures = ", ".join(f"{count} {what}" for what, count in counts.items())
    sys.stdout.write(f"races: {PROCESSES} processes on one folder, {took:.0f} s: {figures}; {len(broken)} broken\n")
    sys.stdout.writelines(f"  {each}\n" for each in broken[:20])
    return 1 if broken or not counts["actions"] else 0


if __name__ == "__main__":
    sys.exit(main(*(int(each) for each in sys.argv[1:3])))
