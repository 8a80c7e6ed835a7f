"""A GKE cluster and its node pools as a fleet of one: `shared.ports.Fleet` over google-cloud-container's REST transport.

What GKE offers is the valid versions of the cluster's release channel; one that is no longer valid counts as missing. The API has no dry
run, knows no request tokens and does one thing at a time: while an operation runs, everything else answers UpdateRunning. Its maintenance
exclusions hold updates of their scope back; its maintenance window is for Google's own upgrades, and the Cluster document's for these.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Self

from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError

from shared.adapters.kept import Kept
from shared.domain.documents.kinds import ClusterSpec
from shared.domain.versions.catalogue import CloudProfile, MachineType, NamespacedCloudProfile
from shared.domain.versions.classification import Offered
from shared.domain.versions.clusters import Exclusion, FleetCluster, Health, Pool, ProviderState, VersionStep, declared_cluster
from shared.domain.versions.ends import UNSAID, Progress, State
from shared.domain.versions.semver import parse
from shared.ports import Refused, Stale, Unavailable

WORKING = frozenset(["PROVISIONING", "RECONCILING"])
"""States of clusters and node pools in which GKE works on them."""
SECONDS = 30.0
"""One call."""


def client() -> Any:
    """The client, with the credentials of the environment."""
    from google.cloud import container_v1

    return container_v1.ClusterManagerClient(transport="rest")


class GkeVersions:
    """`shared.ports.Fleet` with the one cluster `gke/NAME` that a Cluster document stands for."""

    def __init__(
        self, name: str, location: str, gke_name: str, client: Callable[[], Any], spec: ClusterSpec, catalogues: Kept | None = None
    ) -> None:
        self.id = f"gke/{name}"
        self._location = location
        self._catalogues = catalogues or Kept()
        self._path = f"{location}/clusters/{gke_name}"
        self._spec = spec
        self._open = client
        self._client: Any = None
        self._left: Callable[[], float] = lambda: math.inf

    def within(self, left: Callable[[], float], tries: int = 1) -> Self:
        """Calls end when no time is left. Each is tried once anyway."""
        limited = copy.copy(self)
        limited._left = left
        return limited

    def clusters(self) -> Iterator[FleetCluster]:
        cluster = self.cluster(self.id)
        if cluster is not None:
            yield cluster

    def cluster(self, name: str) -> FleetCluster | None:
        if name != self.id:
            return None
        about = self._describe()
        for named, version in [("control plane", about.current_master_version), *((pool.name, pool.version) for pool in about.node_pools)]:
            if not version:
                raise _odd(f"GKE says no version of {named} of {self._path}")
        pools = tuple(Pool(pool.name, "node pool", kubernetes=pool.version) for pool in about.node_pools)
        return declared_cluster(self.id, self._spec, about.current_master_version, pools, self.id, _state(about))

    def profiles(self) -> tuple[list[CloudProfile], list[NamespacedCloudProfile]]:
        if self._spec.cloud_profile:  # a profile of the documents is meant
            return [], []
        channel = self._describe().release_channel.channel
        offered = self._catalogues.get(("gke", self._location), lambda: self._call("get_server_config", name=self._location))
        mine = next((offer for offer in offered.channels if channel and offer.channel == channel), None)
        versions = mine.valid_versions if mine else offered.valid_master_versions
        return [CloudProfile(self.id, tuple(Offered(version) for version in versions), machine_types=(MachineType("node pool"),))], []

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        about = self._describe()
        pool = next((candidate for candidate in about.node_pools if candidate.name == step.pool), None)
        if step.pool and pool is None:
            raise Refused("NotFound", f"{name} has no node pool {step.pool}")
        current = pool.version if pool else about.current_master_version
        if current == step.to:
            return False
        if current != step.current:
            raise Stale(f"{step.key} of {name} is {current} now, not {step.current}")
        if about.status.name != "RUNNING" or (pool and parse(about.current_master_version).key < parse(step.to).key):
            raise _busy(f"{name} is {about.status.name} on {about.current_master_version}")
        if dry_run:
            return True
        if pool:
            place = f"{self._path}/nodePools/{pool.name}"
            self._call("update_node_pool", name=place, node_version=step.to, image_type=pool.config.image_type)
        else:
            self._call("update_master", name=self._path, master_version=step.to)
        return True

    def progress(self, name: str, step: VersionStep) -> Progress:
        """What GKE says of its newest operation of a step's kind. An operation does not say which version it leads to, and names its target
        by the project's number.
        """
        kind, place = ("UPGRADE_NODES", f"/nodePools/{step.pool}") if step.pool else ("UPGRADE_MASTER", "")
        target = f"/clusters/{self._path.rpartition('/')[2]}{place}"
        listed = self._call("list_operations", parent=self._location).operations
        ours = [each for each in listed if each.operation_type.name == kind and each.target_link.endswith(target)]
        newest = max(ours, key=lambda each: str(each.start_time), default=None)
        if newest is None:
            return UNSAID
        state: State = "running" if newest.status.name != "DONE" else "failed" if newest.error.message else "done"
        return Progress(state, f"GKE {newest.name}: {newest.error.message or newest.status.name}")

    def _describe(self) -> Any:
        return self._call("get_cluster", name=self._path)

    def _call(self, method: str, **request: Any) -> Any:
        seconds = min(SECONDS, self._left())
        if seconds <= 0:
            raise Unavailable(f"{method}: not sent, no time was left")
        return answered(method, lambda: self._sent(method, request, seconds))

    def _sent(self, method: str, request: dict[str, Any], seconds: float) -> Any:
        self._client = self._client or self._open()
        return getattr(self._client, method)(request=request, timeout=seconds, retry=None)


def answered(method: str, call: Callable[[], Any]) -> Any:
    """The answer to a call. Raises Refused and Unavailable (`UpdateRunning` where another operation runs)."""
    try:
        return call()
    except (exceptions.ServerError, exceptions.TooManyRequests, exceptions.Aborted, exceptions.RetryError, OSError) as error:
        raise Unavailable(f"{method}: {error}") from error
    except exceptions.GoogleAPICallError as error:
        if _status(error) == "FAILED_PRECONDITION":  # another operation runs on the cluster
            raise _busy(f"{method}: {error.message}") from error
        raise Refused(type(error).__name__, f"{method}: {error.message}") from error
    except GoogleAuthError as error:
        raise Refused("Unauthorized", f"{method}: {error}") from error


def _state(about: Any) -> ProviderState:
    """What a cluster says of itself: whether something runs, what is wrong with it, and when it is not to be updated."""
    busy = [f"node pool {pool.name}" for pool in about.node_pools if pool.status.name in WORKING]
    running = ", ".join([*(["the cluster"] if about.status.name in WORKING else []), *busy])
    said = "; ".join(condition.message for condition in about.conditions if condition.message)
    broken = about.status.name in ("ERROR", "DEGRADED")
    sick = [f"{pool.name} is {pool.status.name}" for pool in about.node_pools if pool.status.name in ("ERROR", "RUNNING_WITH_ERROR")]
    sick += [f"the cluster is {about.status.name}{f' ({said})' if said else ''}"] if broken else []
    return ProviderState(
        deleting=about.status.name == "STOPPING",
        running=running,
        not_ready=f"the cluster is {about.status.name}{f' ({said})' if said else ''}" if broken else "",
        exclusions=tuple(_exclusion(name, each) for name, each in about.maintenance_policy.window.maintenance_exclusions.items()),
        health=Health(None, f"GKE works on {running}") if running else Health(not sick, "; ".join(sick)),
    )


def _exclusion(name: str, window: Any) -> Exclusion:
    scope = window.maintenance_exclusion_options.scope
    return Exclusion(name, _moment(window.start_time), _moment(window.end_time), getattr(scope, "name", str(scope)))


def _moment(time: Any) -> datetime:
    return datetime.fromtimestamp(time.timestamp(), UTC)


def _odd(message: str) -> Unavailable:
    error = Unavailable(message)
    error.reason = "UnexpectedAnswer"
    return error


def _status(error: exceptions.GoogleAPICallError) -> str:
    """google.rpc.Code's name in the answer: over REST, FAILED_PRECONDITION and INVALID_ARGUMENT are both a 400."""
    try:
        return str(error.response.json()["error"]["status"])
    except (AttributeError, ValueError, KeyError, TypeError):
        return ""


def _busy(message: str) -> Unavailable:
    error = Unavailable(message)
    error.reason = "UpdateRunning"
    return error
