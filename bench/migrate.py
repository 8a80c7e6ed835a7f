"""How fast `hullmark migrate` looks through a tree of 20,000 manifests, beside `grep -rn` for the same keys.

    python -m bench.migrate [--files N] [--old SHARE] [--runs N]

Makes the tree in a temporary folder: multi-document manifests of about 4 KB, SHARE of the files with old keys in them, one in ten a Helm
template. Prints one JSON document: MB/s, seconds and CPU seconds (median of the runs) of each contestant, in turn, with the files in the
page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATTERN = r"beta\.kubernetes\.io/(os|arch|instance-type)|failure-domain\.beta\.kubernetes\.io/(zone|region)"

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels: {{app: {name}, tier: backend}}
spec:
  replicas: 3
  selector:
    matchLabels:
      app: {name}
  template:
    metadata:
      labels:
        app: {name}
    spec:
      nodeSelector:
        {os}: linux
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: {zone}
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {{matchLabels: {{app: {name}}}}}
      containers:
      - name: main
        image: registry.example.com/{name}:1.2.3
        args: ["--port=8080", "--log-level=info"]
        env:
        - name: DATABASE_URL
          valueFrom: {{secretKeyRef: {{name: {name}, key: url}}}}
        readinessProbe:
          httpGet: {{path: /ready, port: 8080}}
          periodSeconds: 10
        resources:
          requests: {{cpu: 100m, memory: 128Mi}}
          limits: {{memory: 256Mi}}
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector:
    app: {name}
  ports:
  - port: 80
    targetPort: 8080
"""


def main() -> None:
    """Build the tree, time the contestants in turn, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--old", type=float, default=0.05, help="share of the files that hold old keys")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size = build(Path(folder), options.files, options.old)
        grep = ["grep", "-rnE", PATTERN, folder]
        hullmark = [sys.executable, "-c", "from local.cli import main; main()", "migrate", "--check", folder]
        contestants = {"grep -rn": grep, "hullmark migrate --check": hullmark}
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        cpu: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(options.runs + 1):  # the first round fills the page cache and is not counted
            for name, command in contestants.items():
                start, before = time.perf_counter(), cpu_of_children()
                subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
                seconds[name].append(time.perf_counter() - start)
                cpu[name].append(cpu_of_children() - before)
    medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    worked = {name: statistics.median(times[1:]) for name, times in cpu.items()}
    print(
        json.dumps(
            {
                "files": options.files,
                "megabytes": round(size / 1e6, 1),
                "with_old_keys": options.old,
                "load": os.getloadavg(),
                "results": {
                    name: {"seconds": round(s, 3), "cpu_seconds": round(worked[name], 3), "mb_per_second": round(size / 1e6 / s, 1)}
                    for name, s in medians.items()
                },
                "times_grep": round(medians["hullmark migrate --check"] / medians["grep -rn"], 1),
                "times_grep_cpu": round(worked["hullmark migrate --check"] / worked["grep -rn"], 1),
            },
            indent=2,
        )
    )


def cpu_of_children() -> float:
    """Seconds that the programs run so far have computed: on a busy machine they say more than the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build(folder: Path, files: int, old: float) -> int:
    """Write the tree; returns its size in bytes. The same every time."""
    chance = random.Random(793)
    size = 0
    for number in range(files):
        keys = (
            {"os": "beta.kubernetes.io/os", "zone": "failure-domain.beta.kubernetes.io/zone"}
            if chance.random() < old
            else {"os": "kubernetes.io/os", "zone": "topology.kubernetes.io/zone"}
        )
        text = "---\n".join(DEPLOYMENT.format(name=f"app-{number}-{part}", **keys) for part in range(3))
        if number % 10 == 0:
            text = f"{{{{- if .Values.enabled }}}}\n{text}{{{{- end }}}}\n"
        path = folder / f"team-{number % 97}" / f"app-{number}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        size += len(text)
    return size


if __name__ == "__main__":
    main()
