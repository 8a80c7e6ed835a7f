"""Decisions a second on one core: `python -m bench.versions`.

A profile offers 60 Kubernetes versions and 10 machine images of 40. Nothing is remembered from one decision to the next but what belongs to
the profile: its versions parsed and sorted, with the moments at which each counts as something else. With every decision goes when its
version expires, what it would be forced to by then, and what holds it back.

distinct     no two decisions alike: each profile's versions and images once with each switch; the profiles are compiled before
compiled     the same, and compiling the 100 profiles counts
a fleet      10,000 clusters with 3 pools each under one profile; compiling included

Seconds are this process' own time on the processor, so that others on the machine count as little as may be; the best of three runs.
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
from shared.domain.versions.semver import constrain, parse
from shared.domain.versions.windows import Window

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLUSTERS, POOLS, PROFILES = 10_000, 3, 100
RUNS = 3


def offered(name: str, random: Random) -> CloudProfile:
    """A profile with many versions, some deprecated, some expired."""

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
    return CloudProfile(name, kubernetes, images, tuple(MachineType(f"m{number}", "amd64") for number in range(20)))


def fleet(clusters: int = CLUSTERS) -> Gardener:
    """The same fleet at every run."""
    random = Random(8)
    profile = offered("p", random)
    kubernetes, images = profile.kubernetes, profile.images
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


def distinct(profiles: int = PROFILES) -> Gardener:
    """A fleet in which no two decisions depend on the same: each version of each profile with and without automatic updates."""
    random = Random(9)
    found = Gardener()
    for number in range(profiles):
        profile = found.profiles[f"p{number}"] = offered(f"p{number}", random)
        images = [(image.name, version.version) for image in profile.images for version in image.versions]
        random.shuffle(images)
        for auto in (True, False):
            for place, version in enumerate(profile.kubernetes):
                pools = [Pool(f"pool-{each}", "m0", *images[place * POOLS + each], None, "amd64") for each in range(POOLS)]
                name = f"garden/cluster-{number}-{auto}-{place}"
                found.clusters[name] = FleetCluster(
                    name, version.version, profile.name, False, tuple(pools), auto, auto, window=Window(0, 7200)
                )
    return found


def taken(planner: Planner) -> tuple[int, float]:
    """How many decisions, in how many seconds of the processor."""
    began = time.process_time()
    return sum(len(plan.decisions) for plan in planner.plan(NOW)), time.process_time() - began


def compiled(planner: Planner) -> float:
    """Compile every profile. Texts parsed before are forgotten."""
    parse.cache_clear()
    constrain.cache_clear()
    began = time.process_time()
    for cluster in planner.fleet.clusters.values():
        planner.timeline(cluster)
    return time.process_time() - began


def main() -> None:
    """Measure and print."""
    apart, many = distinct(), fleet()
    lines: dict[str, list[tuple[int, float]]] = {"distinct": [], "compiled": [], "a fleet": []}
    for _ in range(RUNS):
        planner = Planner(apart)
        before = compiled(planner)
        decisions, spent = taken(planner)
        lines["distinct"].append((decisions, spent))
        lines["compiled"].append((decisions, before + spent))
        parse.cache_clear()
        lines["a fleet"].append(taken(Planner(many)))
    for label, runs in lines.items():
        decisions, spent = min(runs, key=lambda run: run[1])
        print(f"{label}: {decisions} decisions in {spent:.2f} s: {decisions / spent:,.0f} a second")
    some, began = fleet(200), time.process_time()
    events = forecast(Planner(some), NOW)
    print(f"forecast of 200 clusters to the end: {len(events)} events in {time.process_time() - began:.2f} s")
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
