"""The documents of the soak, drawn anew for every commit, and by an arithmetic of their own what they declare for each node."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

KUBERNETES = ("1.29.0", "1.30.0", "1.31.0", "1.32.0")
IMAGES = ("1.0.0", "1.1.0", "1.2.0", "1.3.0")
POOLS = ("rack", "row", "ring", "team")
"""One policy for each: its nodes, and the value that it gives the key of this name."""
SHOOTS = 30
"""Always the same ones, as they were written first: what they run now is kept beside the documents."""
PREFIX = "soak.example.com/"


def drawn(dice: random.Random, names: list[str], *, first: bool = False) -> str:
    """Policies for random nodes, and Shoots with a profile whose older versions have expired (in the first one, none may), as one file."""
    policies = [a_policy(f"{pool}-{value}", nodes, {PREFIX + pool: f"{value}"}) for pool, value, nodes in _cut(dice, names)]
    shoots = [a_shoot(number) for number in range(SHOOTS)]
    return yaml.safe_dump_all([*policies, a_profile(dice, first=first), *shoots])


def _cut(dice: random.Random, names: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    for pool in POOLS:
        mixed = dice.sample(names, dice.randint(len(names) // 2, len(names)))
        half = dice.randint(1, len(mixed) - 1)
        for value, nodes in zip(dice.sample("abcdef", 2), (mixed[:half], mixed[half:]), strict=True):
            yield pool, value, sorted(nodes)


def declared(documents: Iterable[Any], name: str) -> dict[str, str]:
    """What the policies among these documents declare for a node. No two of them have a key and a node in common."""
    found: dict[str, str] = {}
    for document in documents:
        if document["kind"] == "NodeLabelPolicy" and name in document["spec"]["nodes"]["names"]:
            found |= document["spec"]["labels"]
    return found


def a_policy(name: str, nodes: list[str], labels: dict[str, str]) -> dict[str, Any]:
    """A NodeLabelPolicy."""
    spec = {"nodes": {"names": nodes}, "labels": labels}
    return {"apiVersion": "hullmark.dev/v1", "kind": "NodeLabelPolicy", "metadata": {"name": name}, "spec": spec}


def a_profile(dice: random.Random, *, first: bool) -> dict[str, Any]:
    """A CloudProfile: versions expire in order, the newest never does."""
    images = _expiring(IMAGES, 0 if first else dice.randrange(len(IMAGES)))
    spec = {
        "kubernetes": {"versions": _expiring(KUBERNETES, 0 if first else dice.randrange(len(KUBERNETES)))},
        "machineImages": [{"name": "linux", "updateStrategy": "minor", "versions": images}],
        "machineTypes": [{"name": "m"}],
    }
    return {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "p"}, "spec": spec}


def _expiring(versions: tuple[str, ...], expired: int) -> list[dict[str, str]]:
    now = datetime.now(UTC).replace(microsecond=0)
    dates = [
        now - timedelta(days=20 - place) if place < expired else now + timedelta(days=20 + place) for place in range(len(versions) - 1)
    ]
    ending = [{"version": version, "expirationDate": date.isoformat()} for version, date in zip(versions, dates, strict=False)]
    return [*ending, {"version": versions[-1]}]


def a_shoot(number: int) -> dict[str, Any]:
    """A cluster that lives in documents."""
    kubernetes = KUBERNETES[number % 2]
    image = {"name": "linux", "version": IMAGES[number % 3]}
    worker = {"name": "a", "kubernetes": {"version": kubernetes}, "machine": {"type": "m", "image": image}}
    spec = {
        "cloudProfile": {"kind": "CloudProfile", "name": "p"},
        "kubernetes": {"version": kubernetes},
        "maintenance": {
            "timeWindow": {"begin": "220000+0000", "end": "230000+0000"},
            "autoUpdate": {"kubernetesVersion": number % 5 == 0, "machineImageVersion": number % 7 == 0},
        },
        "provider": {"workers": [worker]},
    }
    metadata = {"name": f"s{number}", "namespace": "garden"}
    return {"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": metadata, "spec": spec}
