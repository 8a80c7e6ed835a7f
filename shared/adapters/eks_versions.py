"""An EKS cluster and its managed node groups as a fleet of one: `shared.ports.Fleet` over boto3.

EKS knows minors only: `1.31` is the whole version, and it expires when its support ends: standard support, or extended support where the
cluster's upgradePolicy says EXTENDED. The releases of the images that AWS makes are machine images (eks_images.py). Its API has no dry run:
what can be known beforehand is asked instead. A control plane takes minutes; until it is through, nothing else is begun. An upgrade insight
with status ERROR for the next minor keeps the control plane where it is.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from shared.adapters.eks_answers import EksCluster, EksInsight, EksNodeGroup, EksUpdate, EksVersion, SsmParameter, read
from shared.adapters.eks_images import CUSTOM, PATHS, image_name, image_of
from shared.adapters.kept import Kept
from shared.domain.documents.access import EKS_NAME
from shared.domain.documents.kinds import ClusterSpec
from shared.domain.versions.catalogue import CloudProfile, Image, MachineType, NamespacedCloudProfile
from shared.domain.versions.classification import Offered
from shared.domain.versions.clusters import OWN_IMAGE, FleetCluster, Health, Pool, ProviderState, VersionStep, declared_cluster
from shared.domain.versions.ends import UNSAID, Progress, State
from shared.domain.versions.semver import parse
from shared.ports import ClusterError, Refused, Stale, Unavailable

T = TypeVar("T")
CATALOGUE = "eks"
"""The name of the profile that EKS itself provides."""
MACHINE = "node group"
"""The machine type that all node groups count as."""
STATES: dict[str, State] = {"InProgress": "running", "Successful": "done", "Failed": "failed", "Cancelled": "failed"}
"""How far EKS is with an update, by the word that it has for that."""
WORKING = frozenset(["CREATING", "UPDATING", "PENDING"])
"""States of clusters and node groups in which EKS works on them."""
BLOCKING = "ERROR"
"""The state of an insight that says that an upgrade would break something; a WARNING lets it go."""
BUSY = frozenset(["ResourceInUseException"])
LATER = frozenset(["ThrottlingException", "TooManyRequestsException", "ServerException", "ServiceUnavailableException", "InternalFailure"])


RELEASES_MINUTES = 60.0
"""How old a listing of an image's releases may be: AWS makes one a week or so, and a listing has many pages."""
PAGING = {"eks": "nextToken", "ssm": "NextToken"}
"""By service, the name of what leads to the next page."""
IMAGES_UNREADABLE = "ImagesUnreadable"


def client_for(service: str, region: str, role: str | None = None) -> Any:
    """A boto3 client for a service, whose calls end within half a minute. Credentials: a role for the function's Google identity, or as
    boto3 finds them.
    """
    from botocore.config import Config

    from shared.adapters.aws import session

    bounded = Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 2, "mode": "standard"})
    return session(region, role).client(service, region_name=region, config=bounded)


class EksVersions:
    """`shared.ports.Fleet` with the one cluster `eks/NAME` that a Cluster document stands for."""

    def __init__(self, name: str, eks_name: str, client: Callable[[str], Any], spec: ClusterSpec, catalogues: Kept | None = None) -> None:
        """`client`: by the name of a service (`eks`, `ssm`), its client."""
        self.id = f"eks/{name}"
        self._eks_name = eks_name
        self._spec = spec
        self._catalogues = catalogues or Kept()
        self._region = spec.access.eks.region if spec.access and spec.access.eks else ""
        self._open = client
        self._clients: dict[str, Any] = {}
        self._left: Callable[[], float] = lambda: math.inf
        self._listed_groups: Mapping[str, EksNodeGroup] = {}
        """What `profiles` has read, for the listing of the cluster that follows it."""
        self.unreadable: Mapping[str, str] = {}
        """The images whose releases could not be read for the last `profiles`, and why."""

    def within(self, left: Callable[[], float], tries: int = 1) -> Self:
        """No call begins when no time is left. How often one is tried is the client's."""
        limited = copy.copy(self)
        limited._left = left
        return limited

    def clusters(self) -> Iterator[FleetCluster]:
        """The one; nothing is decided about an image whose releases `profiles` could not read."""
        groups, self._listed_groups = self._listed_groups or self._groups(), {}
        cluster = self._cluster(groups)
        lost = {what.rpartition(" ")[2] for what in self.unreadable}
        yield replace(cluster, pools=tuple(_without_image(pool) if pool.image in lost else pool for pool in cluster.pools))

    def cluster(self, name: str) -> FleetCluster | None:
        return self._cluster(self._groups()) if name == self.id else None

    def _cluster(self, groups: Mapping[str, EksNodeGroup]) -> FleetCluster:
        about = self._describe()
        pools = tuple(self._pool(name, group) for name, group in groups.items())
        deleting = about.status == "DELETING"
        busy = [f"node group {name}" for name, group in groups.items() if group.status in WORKING]
        running = ", ".join([*(["the control plane"] if about.status in WORKING else []), *busy])
        sick = [f"{name} is {group.status} ({group.health})" for name, group in groups.items() if not group.well]
        sick += [] if about.well else [f"the cluster is {about.status} ({about.health})"]
        health = Health(None, f"EKS works on {running}") if running else Health(not sick, "; ".join(sick))
        state = ProviderState(deleting, running, "" if deleting or running else self._obstacles(about), health=health)
        return declared_cluster(self.id, self._spec, about.version, pools, CATALOGUE, state)

    def _pool(self, name: str, group: EksNodeGroup) -> Pool:
        """A node group. Its image is left out where a profile of the documents is meant, which knows nothing of AWS' releases."""
        image = None if self._spec.cloud_profile else image_name(group.ami_type, _minor(group.version))
        why = OWN_IMAGE if group.ami_type == CUSTOM else ""
        release = group.release_version if image else None
        return Pool(name, MACHINE, image, release, kubernetes=group.version, no_image=why)

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
        self._listed_groups = self._groups()
        images = tuple(self._images(self._listed_groups.values()))
        return [CloudProfile(CATALOGUE, tuple(offered), images, (MachineType(MACHINE),))], []

    def _images(self, groups: Iterable[EksNodeGroup]) -> Iterator[Image]:
        """The images that node groups run, with their releases; without those that can't be read, which keep no Kubernetes update back."""
        running: dict[tuple[str, str], set[str]] = {}
        for group in groups:
            if group.ami_type in PATHS and group.release_version:
                running.setdefault((group.ami_type, _minor(group.version)), set()).add(group.release_version)
        lost: dict[str, str] = {}
        for (ami_type, minor), releases in sorted(running.items()):
            try:
                yield image_of(ami_type, minor, self._releases(PATHS[ami_type].format(minor=minor)), releases)
            except ClusterError as error:
                lost[f"machine image {image_name(ami_type, minor)}"] = str(error)
        self.unreadable = lost

    def _releases(self, path: str) -> list[SsmParameter]:
        """What AWS publishes of an image in the region."""
        return self._catalogues.get(("eks image", self._region, path), lambda: [*self._listed(path)], RELEASES_MINUTES)

    def _listed(self, path: str) -> Iterator[SsmParameter]:
        pages = self._pages("get_parameters_by_path", "Parameters", service="ssm", Path=path, Recursive=True)
        return (read(SsmParameter, each, f"a parameter below {path}") for page in pages for each in page)

    def _catalogue(self) -> list[EksVersion]:
        """What the region offers."""
        listed = [version for page in self._pages("describe_cluster_versions", "clusterVersions", named=False) for version in page]
        return [read(EksVersion, version, "a version of the catalogue") for version in listed]

    def apply(self, name: str, step: VersionStep, *, dry_run: bool = False) -> bool:
        about = self._describe()
        if step.subject == "machineImage":
            return self._apply_release(name, about, step, dry_run=dry_run)
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

    def _apply_release(self, name: str, about: EksCluster, step: VersionStep, *, dry_run: bool) -> bool:
        """Move a node group to a release of its image, on the minor that it runs."""
        group = self._group(step.pool)
        if group.release_version == step.to:
            return False
        if group.release_version != step.current:
            raise Stale(f"{step.key} of {name} is {group.release_version} now, not {step.current}")
        self._must_be_idle(about, step, group.version)
        if not dry_run:
            token = {"clientRequestToken": step.token} if step.token else {}
            place = {"clusterName": self._eks_name, "nodegroupName": step.pool}
            self._call("update_nodegroup_version", **place, releaseVersion=step.to, **token)
        return True

    def progress(self, name: str, step: VersionStep) -> Progress:
        """What EKS says of its newest update to a step's version."""
        place = {"name": self._eks_name} | ({"nodegroupName": step.pool} if step.pool else {})
        ids = [each for page in self._pages("list_updates", "updateIds", named=False, **place) for each in page]
        answers = (self._call("describe_update", updateId=each, **place).get("update") for each in ids)
        updates = [read(EksUpdate, answer, f"an update of cluster {self._eks_name}") for answer in answers]
        newest = max((each for each in updates if each.leads_to(*_parameter(step))), key=lambda each: each.created, default=None)
        if newest is None:
            return UNSAID
        words = [f"EKS update {newest.id}: {newest.status}", *(f"{each.code}: {each.message}" for each in newest.errors)]
        return Progress(STATES.get(newest.status, "unknown"), "; ".join(words))

    def _must_be_idle(self, about: EksCluster, step: VersionStep, wanted: str) -> None:
        busy = about.status != "ACTIVE"
        if step.pool:
            group = self._group(step.pool)
            if group.ami_type == CUSTOM:
                raise Refused("CustomImage", f"node group {step.pool} runs an image of its own: give its launch template a new one")
            if group.status not in ("ACTIVE", *WORKING):
                raise Refused("NotReady", f"node group {step.pool} is {group.status} ({group.health})")
            busy = busy or group.status != "ACTIVE" or parse(about.version).key < parse(wanted).key
        if busy:
            raise _busy(f"{self.id} is {about.status} on {about.version}")

    def _describe(self) -> EksCluster:
        return read(EksCluster, self._call("describe_cluster", name=self._eks_name).get("cluster"), f"cluster {self._eks_name}")

    def _groups(self) -> dict[str, EksNodeGroup]:
        return {each: self._group(each) for page in self._pages("list_nodegroups", "nodegroups") for each in page}

    def _group(self, group: str) -> EksNodeGroup:
        if not EKS_NAME.fullmatch(group):  # it comes in a message and becomes part of a URL
            raise Refused("NotFound", f"{group[:80]!r} is no name of a node group")
        answer = self._call("describe_nodegroup", clusterName=self._eks_name, nodegroupName=group)
        return read(EksNodeGroup, answer.get("nodegroup"), f"node group {group} of cluster {self._eks_name}")

    def _pages(self, operation: str, key: str, *, named: bool = True, service: str = "eks", **filters: Any) -> Iterator[list[Any]]:
        arguments = ({"clusterName": self._eks_name} if named and service == "eks" else {}) | filters
        more, following = PAGING[service], None
        while True:
            answer = self._call(operation, service, **arguments, **({more: following} if following else {}))
            yield answer.get(key) or []
            following = answer.get(more)
            if not following:
                return

    def _call(self, operation: str, service: str = "eks", /, **arguments: Any) -> dict[str, Any]:
        if self._left() <= 0:
            raise Unavailable(f"{operation}: not sent, no time was left")
        return answered(operation, lambda: getattr(self._opened(service), operation)(**arguments))

    def _opened(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._open(service)
        return self._clients[service]


def answered(operation: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer to a call. Raises Refused and Unavailable (`UpdateRunning` where an update runs already)."""
    try:
        return call()
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


def _busy(message: str) -> Unavailable:
    error = Unavailable(message)
    error.reason = "UpdateRunning"
    return error


def _without_image(pool: Pool) -> Pool:
    return replace(pool, image=None, image_version=None, no_image=IMAGES_UNREADABLE)


def _parameter(step: VersionStep) -> tuple[str, str]:
    """What an update of EKS says that a step is to."""
    return ("ReleaseVersion", step.to) if step.subject == "machineImage" else ("Version", _minor(step.to))


def _minor(version: str) -> str:
    parsed = parse(version)
    return f"{parsed.major}.{parsed.minor}"
