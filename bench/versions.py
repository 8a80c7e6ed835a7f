"""Decisions a second for a fleet of 10,000 clusters with 3 pools each, on one core: `python -m bench.versions`.

The profile offers 60 Kubernetes versions and 10 machine images of 40; every cluster has its own window, and versions of its own in a
pool or two. `cold` includes compiling the profile and every decision that is remembered afterwards.
"""

from __future__ import annotations

import resource
import time
from datetime import UTC, datetime, timedelta
from random import Random

from shared.domain.versions.catalogue import CloudProfile, Image, ImageVersion, MachineType
from shared.domain.versions.classification import Offered
from shared.domain.versions.clusters import FleetCluster, Pool
from shared.domain.versions.forecast import forecast
from shared.domain.versions.plans import Planner
from shared.domain.versions.profiles import Gardener
from shared.domain.versions.windows import Window

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLUSTERS, POOLS = 10_000, 3


def fleet(clusters: int = CLUSTERS) -> Gardener:
    """The same fleet at every run."""
    random = Random(8)

    def life(spelling: str, position: int) -> tuple[str, str | None, datetime | None]:
        expiration = NOW + timedelta(days=random.randint(-200, 400)) if random.random() < 0.6 else None
        return spelling, ("preview" if position == 0 else random.choice([None, "supported", "deprecated"])), expiration

    kubernetes = tuple(Offered(*life(f"1.{25 + minor}.{patch}", patch - 9)) for minor in range(6) for patch in range(10))
    images = tuple(
        Image(
            f"image-{number}",
            tuple(
                ImageVersion(*life(f"{1000 + number}.{minor}.{patch}", patch - 9), kubelet=random.choice([None, ">= 1.26", "< 1.30"]))
                for minor in range(4)
                for patch in range(10)
            ),
            random.choice(["patch", "minor", "major"]),
        )
        for number in range(10)
    )
    profile = CloudProfile("p", kubernetes, images, tuple(MachineType(f"m{number}", "amd64") for number in range(20)))
    found = Gardener(profiles={"p": profile})
    for number in range(clusters):
        current = random.choice(kubernetes).version
        pools = []
        for pool in range(POOLS):
            image = random.choice(images)
            own = current if random.random() < 0.5 else None
            pools.append(Pool(f"pool-{pool}", f"m{random.randrange(20)}", image.name, random.choice(image.versions).version, own, "amd64"))
        begin = random.randrange(24) * 3600
        name = f"garden-{number % 97}/cluster-{number}"
        found.clusters[name] = FleetCluster(name, current, "p", pools=tuple(pools), window=Window(begin, begin + 7200))
    return found


def main() -> None:
    """Measure and print."""
    whole = fleet()
    for label in ("cold", "again"):
        planner, began = Planner(whole), time.process_time()
        decisions = sum(len(plan.decisions) for plan in planner.plan(NOW))
        spent = time.process_time() - began
        print(f"{label}: {decisions} decisions in {spent:.2f} s: {decisions / spent:,.0f} a second")
    some, began = fleet(200), time.process_time()
    events = forecast(Planner(some), NOW)
    print(f"forecast of 200 clusters to the end: {len(events)} events in {time.process_time() - began:.2f} s")
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
