"""A relabel of every node through the whole chain, beside a bare Go loop and `kubectl label nodes --all` on the same server.

Run `python -m bench.relabel [--nodes N] [--rounds N]`. The chain is a request, its plan, its parts, their writes, the roll-up and the
notice, in one process of the embedded cloud; seconds are from the request to the finished action, listing included. The contestants
take turns: read the numbers as ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from bench.kube_clients import Run, _measured, go_loop, kubectl_label, listing, server_with
from tests.kube_apiserver import KubeApiserver

POLICY = "apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {{name: bench}}\nspec: {{labels: {{rack: {value}}}}}\n"


def chain(kube: KubeApiserver, store: str, value: str) -> tuple[Run, Run]:
    """The chain in a process of its own: the relabel, and the same again with nothing to change (its `mebibytes` are the first's)."""
    run, answer = _measured(kube, [sys.executable, "-m", "bench.relabel", "--chain", str(kube.kubeconfig()), store, value])
    first, again = (
        Run(told["nodes"], told["seconds"], told["cpu"], run.mebibytes, run.server_cpu)
        for told in map(json.loads, answer.decode().splitlines())
    )
    return first, again


def _chain(kubeconfig: str, store: str, value: str) -> None:
    from ulid import ULID

    from local.cloud.embedded import Cloud
    from shared import telemetry
    from shared.domain.documents.reading import Source
    from shared.messages import RelabelRequest
    from shared.world import Settings

    telemetry.write_to(None)
    cloud = Cloud(Settings(store=f"file:{store}", cluster=f"kubeconfig:{kubeconfig}"))
    cloud.world.revisions.stage("bench", [Source("bench.yaml", POLICY.format(value=value).encode())], "bench", cloud.world.clock())
    cloud.world.revisions.commit("bench", cloud.world.clock())
    for expected in ("changed", "unchanged"):
        action = str(ULID())
        began, before = time.perf_counter(), time.process_time()
        cloud.publish(RelabelRequest.TOPIC, [RelabelRequest(action=action, name="update_site").outgoing()])
        cloud.drain()
        seconds, cpu = time.perf_counter() - began, time.process_time() - before
        outcome = cloud.world.actions.outcome(action)
        if outcome is None or list(outcome.counts) != [expected]:
            raise SystemExit(f"expected every node {expected}, got {outcome and outcome.counts}")
        print(json.dumps({"nodes": outcome.counts[expected], "seconds": seconds, "cpu": cpu}), flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chain", nargs=3, metavar=("KUBECONFIG", "STORE", "VALUE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.chain:
        _chain(*given.chain)
        return
    with server_with(given.nodes) as kube, tempfile.TemporaryDirectory(prefix="hullmark-bench-") as store:
        again: list[Run] = []

        def hullmark(value: str) -> Run:
            first, second = chain(kube, store, value)
            again.append(second)
            return first

        contestants: dict[str, Callable[[str], Run]] = {
            "bare Go loop, 16 in flight": lambda value: go_loop(kube, value),
            "hullmark, request to finished action": hullmark,
            "kubectl label nodes --all": lambda value: kubectl_label(kube, value, given.nodes),
        }
        runs: dict[str, list[Run]] = {name: [] for name in contestants}
        for turn in range(given.rounds):
            for number, (name, run) in enumerate(contestants.items()):
                runs[name].append(run(f"r{turn}-{number}"))
        print(f"\n{given.nodes} nodes, median of {given.rounds}")
        print(f"{'':38} nodes/s  of Go  client CPU s/1,000  MiB")
        rates = {name: statistics.median(run.rate for run in results) for name, results in runs.items()}
        go = next(iter(rates.values()))
        for name, results in runs.items():
            cpu = statistics.median(run.cpu * 1000 / run.nodes for run in results)
            memory = statistics.median(run.mebibytes for run in results)
            print(f"{name:38} {rates[name]:7.0f}  {rates[name] / go:5.2f}  {cpu:18.2f}  {memory:4.0f}")
        names = list(contestants)
        ours, theirs = runs[names[1]], runs[names[2]]
        print(f"hullmark / kubectl: {rates[names[1]] / rates[names[2]]:.1f} times the rate, ", end="")
        print(f"{statistics.median(r.mebibytes for r in ours) / statistics.median(r.mebibytes for r in theirs):.2f} of the memory")
        raw, nodes, _ = listing(kube)
        unchanged = statistics.median(run.seconds for run in again)
        print(
            f"the same again, nothing to change: {unchanged:.2f} s, {unchanged / nodes:.2f} times the listing read into nodes "
            f"({nodes:.2f} s), {unchanged / raw:.2f} times the bytes of it alone ({raw:.2f} s)"
        )


if __name__ == "__main__":
    main()
