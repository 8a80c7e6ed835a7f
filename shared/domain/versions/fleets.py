"""Fleets side by side: the documents, and every garden, EKS or GKE cluster that they lead to. Nothing that one says counts for another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from shared.domain.versions.answers import UnknownFleetCluster
from shared.domain.versions.catalogue import CloudProfile
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.identity import DOCUMENTS, full_name
from shared.domain.versions.profiles import Gardener, merged_profiles


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fleet, or one of its clusters or profiles, that is left alone because it cannot be read, and why."""

    fleet: str
    reason: str
    message: str
    part: str = ""
    """`NAMESPACE/NAME` of a cluster, `CloudProfile/NAME`; empty for the whole fleet."""

    @property
    def subject(self) -> str:
        """The full name of the part; of a whole fleet, its name."""
        return full_name(self.fleet, self.part) if self.part else self.fleet

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}"


@dataclass(frozen=True)
class FleetView:
    """What was read from every fleet, by the fleet's name."""

    fleets: Mapping[str, Gardener]

    @cached_property
    def clusters(self) -> Mapping[str, FleetCluster]:
        """Every cluster by its full name."""
        return {cluster.full_name: cluster for fleet in self.fleets.values() for cluster in fleet.clusters.values()}

    def profile_of(self, cluster: FleetCluster) -> CloudProfile | None:
        """The profile that a cluster refers to: its own fleet's, or else one of the documents; None where there is neither."""
        return self._fleet_of_profile(cluster).profile_of(cluster)

    def profile_key(self, cluster: FleetCluster) -> tuple[str, ...]:
        """Which profile that is: clusters with the same key are decided by the same one."""
        return (self._home(cluster), *Gardener().profile_key(cluster))

    def profiles(self) -> Iterator[tuple[str, CloudProfile, list[FleetCluster]]]:
        """Every profile, as people write its name, and the clusters that refer to it."""
        users: dict[tuple[str, ...], list[FleetCluster]] = {}
        for cluster in self.clusters.values():
            users.setdefault(self.profile_key(cluster), []).append(cluster)
        for fleet, seen in self.fleets.items():
            for name, profile in merged_profiles(seen).items():
                yield full_name(fleet, name), profile, users.get((fleet, *name.split("/", 1)), [])

    def named(self, text: str) -> FleetCluster:
        """The one cluster that a person means by FLEET:NAMESPACE/NAME, or by NAMESPACE/NAME or NAME where there is one of it.

        `:NAMESPACE/NAME` is the Shoot document. Raises UnknownFleetCluster.
        """
        fleet, colon, name = text.rpartition(":")
        there = [cluster for cluster in self.clusters.values() if not colon or cluster.fleet == fleet]
        matching = [cluster for cluster in there if cluster.id == name] or [each for each in there if each.id.partition("/")[2] == name]
        if len(matching) == 1:
            return matching[0]
        if matching:
            several = ", ".join(sorted(cluster.full_name if cluster.fleet else f":{cluster.id}" for cluster in matching)[:20])
            raise UnknownFleetCluster(f"no one cluster {text!r}; there are several: {several}")
        known = ", ".join(sorted(self.clusters)[:20]) or "none"
        raise UnknownFleetCluster(f"no one cluster {text!r}; known are {known}")

    def _home(self, cluster: FleetCluster) -> str:
        """The fleet whose profile a cluster refers to."""
        fleet = self.fleets.get(cluster.fleet, Gardener())
        name = (cluster.namespace, cluster.profile)
        has = name in fleet.namespaced if cluster.own else cluster.profile in fleet.profiles
        return cluster.fleet if has or fleet.profile_key(cluster) in fleet.unreadable else DOCUMENTS

    def _fleet_of_profile(self, cluster: FleetCluster) -> Gardener:
        return self.fleets.get(self._home(cluster), Gardener())
