"""An EKS cluster and its managed node groups as a fleet of one: `shared.ports.Fleet` over boto3.

EKS knows minors only: `1.31` is the whole version, and it expires when its support ends: standard support, or extended support where the
cluster's upgradePolicy says EXTENDED. Its API has no dry run: what can be known beforehand is asked instead. A control plane takes minutes;
until it is through, nothing else is begun. An upgrade insight with status ERROR for the next minor keeps the control plane where it is.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from shared.adapters.eks_answers import EksCluster, EksInsight, EksNodeGroup, EksUpdate, EksVersion, read
from shared.adapters.kept import Kept
from shared.domain.documents.access import EKS_NAME
from shared.domain.documents.kinds import ClusterSpec
from shared.domain.versions.catalogue import CloudProfile, MachineType, NamespacedCloudProfile
from shared.domain.versions.classification import Offered
from shared.domain.versions.clusters import FleetCluster, Health, Pool, ProviderState, VersionStep, declared_cluster
from shared.domain.versions.semver import parse
from shared.ports import Refused, Stale, Unavailable

T = TypeVar("T")
CATALOGUE = "eks"
"""The name of the profile that EKS itself provides."""
WORKING = frozenset(["CREATING", "UPDATING", "PENDING"])
"""States of clusters and node groups in which EKS works on them."""
BLOCKING = "ERROR"
"""The state of an insight that says that an upgrade would break something; a WARNING lets it go."""
BUSY = frozenset(["ResourceInUseException"])
LATER = frozenset(["ThrottlingException", "TooManyRequestsException", "ServerException", "ServiceUnavailableException", "InternalFailure"])


def client_for(region: str, role: str | None = None) -> Any:
    """A boto3 client for EKS, whose calls end within half a minute. Credentials: a role for the function's Google identity, or as boto3
    finds them.
    """
    from botocore.config import Config

    from shared.adapters.aws import session

    bounded = Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 2, "mode": "standard"})
    return session(region, role).client("eks", region_name=region, config=bounded)


class EksVersions:
    """`shared.ports.Fleet` with the one cluster `eks/NAME` that a Cluster document stands for."""

    def __init__(self, name: str, eks_name: str, client: Callable[[], Any], spec: ClusterSpec, catalogues: Kept | None = None) -> None:
        self.id = f"eks/{name}"
        self._eks_name = eks_name
        self._spec = spec
        self._catalogues = catalogues or Kept()
        self._region = spec.access.eks.region if spec.access and spec.access.eks else ""
        self._open = client
        self._client: Any = None
        self._left: Callable[[], float] = lambda: math.inf

    def within(self, left: Callable[[], float], tries: int = 1) -> Self:
        """No call begins when no time is left. How often one is tried is the client's."""
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
        groups = {each: self._group(each) for page in self._pages("list_nodegroups", "nodegroups") for each in page}
        pools = tuple(Pool(name, "node group", kubernetes=group.version) for name, group in groups.items())
        deleting = about.status == "DELETING"
        busy = [f"node group {name}" for name, group in groups.items() if group.status in WORKING]
        running = ", ".join([*(["the control plane"] if about.status in WORKING else []), *busy])
        sick = [f"{name} is {group.status} ({group.health})" for name, group in groups.items() if not group.well]
        sick += [] if about.well else [f"the cluster is {about.status} ({about.health})"]
        health = Health(None, f"EKS works on {running}") if running else Health(not sick, "; ".join(sick))
        state = ProviderState(deleting, running, "" if deleting or running else self._obstacles(about), health=health)
        return declared_cluster(self.id, self._spec, about.version, pools, CATALOGUE, state)

    def _obstacles(self, about: EksCluster) -> str:
        """Why the control plane is not ready for the next minor: its state, or the insights of EKS that say ERROR."""
        if about.status != "ACTIVE":
            return f"the cluster is {about.status}{f' ({about.health})' if about.health.issues else ''}"
        current = parse(about.version)
        following = f"{current.major}.{current.minor + 1}"
        wanted = {"categories": ["UPGRADE_READINESS"], "kubernetesVersions": [following], "statuses": [BLOCKING]}
        try:
            listed = [each for page in self._pages("list_insights", "insights", filter=wanted) for each in page]
        except Refused as refused:  # what nobody may read might say no
            return f"the upgrade insights for {following} cannot be read: {refused}"
        found = [read(EksInsight, each, f"an insight on cluster {self._eks_name}") for each in listed]
        blocking = [each for each in found if each.insight_status.status == BLOCKING and each.kubernetes_version in ("", following)]
        return "; ".join(f"EKS upgrade insight for {following}: {each.name}: {each.insight_status.reason}" for each in blocking)

    def profiles(self) -> tuple[list[CloudProfile], list[NamespacedCloudProfile]]:
        if self._spec.cloud_profile:  # a profile of the documents is meant
            return [], []
        policy = self._describe().upgrade_policy
        found = self._catalogues.get(("eks", self._region), self._catalogue)
        offered = [Offered(version.version, version.classification, version.end(policy)) for version in found]
        return [CloudProfile(CATALOGUE, tuple(offered), machine_types=(MachineType("node group"),))], []

    def _catalogue(self) -> list[EksVersion]:
        """What the region offers."""
        listed = [version for page in self._pages("describe_cluster_versions", "clusterVersions", named=False) for version in page]
        return [read(EksVersion, version, "a version of the catalogue") for version in listed]

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        about = self._describe()
        current = self._group(step.pool).version if step.pool else about.version
        wanted = _minor(step.to)
        if _minor(current) == wanted:
            return False
        if _minor(current) != _minor(step.current):
            raise Stale(f"{step.key} of {name} is {current} now, not {step.current}")
        self._must_be_idle(about, step, wanted)
        if dry_run:
            return True
        known = {"clientRequestToken": step.token} if step.token else {}
        if step.pool:
            self._call("update_nodegroup_version", clusterName=self._eks_name, nodegroupName=step.pool, version=wanted, **known)
        else:
            self._call("update_cluster_version", name=self._eks_name, version=wanted, **known)
        return True

    def why_failed(self, name: str, step: VersionStep) -> str:
        """What EKS says of its newest update to a step's version."""
        place = {"name": self._eks_name} | ({"nodegroupName": step.pool} if step.pool else {})
        ids = [each for page in self._pages("list_updates", "updateIds", named=False, **place) for each in page]
        answers = (self._call("describe_update", updateId=each, **place).get("update") for each in ids)
        updates = [read(EksUpdate, answer, f"an update of cluster {self._eks_name}") for answer in answers]
        newest = max((each for each in updates if each.leads_to(_minor(step.to))), key=lambda each: each.created, default=None)
        if newest is None or newest.status not in ("Failed", "Cancelled"):
            return ""
        return "; ".join([f"EKS update {newest.id}: {newest.status}", *(f"{each.code}: {each.message}" for each in newest.errors)])

    def _must_be_idle(self, about: EksCluster, step: VersionStep, wanted: str) -> None:
        busy = about.status != "ACTIVE"
        if step.pool:
            group = self._group(step.pool)
            if group.ami_type == "CUSTOM":
                raise Refused("CustomImage", f"node group {step.pool} runs an image of its own: give its launch template a new one")
            if group.status not in ("ACTIVE", *WORKING):
                raise Refused("NotReady", f"node group {step.pool} is {group.status} ({group.health})")
            busy = busy or group.status != "ACTIVE" or parse(about.version).key < parse(wanted).key
        if busy:
            raise _busy(f"{self.id} is {about.status} on {about.version}")

    def _describe(self) -> EksCluster:
        return read(EksCluster, self._call("describe_cluster", name=self._eks_name).get("cluster"), f"cluster {self._eks_name}")

    def _group(self, group: str) -> EksNodeGroup:
        if not EKS_NAME.fullmatch(group):  # it comes in a message and becomes part of a URL
            raise Refused("NotFound", f"{group[:80]!r} is no name of a node group")
        answer = self._call("describe_nodegroup", clusterName=self._eks_name, nodegroupName=group)
        return read(EksNodeGroup, answer.get("nodegroup"), f"node group {group} of cluster {self._eks_name}")

    def _pages(self, operation: str, key: str, *, named: bool = True, **filters: Any) -> Iterator[list[Any]]:
        arguments = ({"clusterName": self._eks_name} if named else {}) | filters
        token = None
        while True:
            answer = self._call(operation, **arguments, **({"nextToken": token} if token else {}))
            yield answer.get(key) or []
            token = answer.get("nextToken")
            if not token:
                return

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        if self._left() <= 0:
            raise Unavailable(f"{operation}: not sent, no time was left")
        try:
            self._client = self._client or self._open()
            answer: dict[str, Any] = getattr(self._client, operation)(**arguments)
        except ClientError as error:
            code, message = error.response["Error"].get("Code", ""), f"{operation}: {error.response['Error'].get('Message', error)}"
            if code in BUSY:
                raise _busy(message) from error
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code in LATER or status >= 500:
                raise Unavailable(message) from error
            raise Refused("NotFound" if code == "ResourceNotFoundException" else code or "Refused", message) from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise Refused("Unauthorized", f"{operation}: {error}") from error
        except BotoCoreError as error:
            raise Unavailable(f"{operation}: {error}") from error
        return answer


def _busy(message: str) -> Unavailable:
    error = Unavailable(message)
    error.reason = "UpdateRunning"
    return error


def _minor(version: str) -> str:
    parsed = parse(version)
    return f"{parsed.major}.{parsed.minor}"
