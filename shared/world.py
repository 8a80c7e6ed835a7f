"""What work is given: the ports, the settings, the clock. A value; it builds nothing."""

from __future__ import annotations

import copy
import functools
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from shared.domain.documents.access import ENTRY, KUBECONFIGS, SIMULATED, Access, KubeconfigFile, OperatorAccess, Outdated, SeedFile
from shared.domain.nodes import owner_error
from shared.ledger.acceptances import Acceptances
from shared.ledger.actions import Actions
from shared.ledger.deferrals import Deferrals
from shared.ledger.losses import Losses
from shared.ledger.pauses import Pauses
from shared.ledger.releases import Releases
from shared.ledger.revisions import Revisions
from shared.ports import ONE_BY_ONE, OWNER, Bus, Cluster, ObjectStore, Owner, Refused, Workers, in_time

if TYPE_CHECKING:
    from shared.domain.labels.policies import Policies
    from shared.ledger.begun import BegunUpdates
    from shared.ledger.fleets import Fleets, Opener
    from shared.ledger.refusals import RefusedRequests
    from shared.ledger.revisions import Revision
    from shared.ledger.rollouts import Rollouts
    from shared.ledger.sightings import Sightings

KUBECTL = "kubectl:"
"""In HULLMARK_KUBECONFIGS: the kubeconfig that kubectl would use. The command line's default; functions have none."""
DEFAULT_KUBECONFIG = "default"
"""The entry for a Cluster document that names none."""
WORKING_SHARE = 0.75
"""Of a function's timeout: what is left serves to say what was done, and calls that end a little late."""
VERSION_SECONDS = 600
"""How long a cluster's version is taken as known; upgrades take longer."""


class Declaring(Protocol):
    """Documents, as far as they say how clusters are reached: a committed revision, or files that were read."""

    @property
    def clusters(self) -> Mapping[str, Access | Outdated]: ...


class Labelled(Declaring, Protocol):
    """Documents that say how clusters are labelled, too."""

    @property
    def policies(self) -> Policies: ...


class SettingsError(Exception):
    """A HULLMARK_* variable that can't be used; the message names it and what it takes."""


class Settings(BaseModel):
    """Read once from `HULLMARK_*`; each field says unit, default and why."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    store: str = "file:.hullmark"
    """`file:FOLDER`, `memory:`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`. A folder beside you, so that a first try needs nothing."""
    bus: Literal["embedded", "pubsub"] = "embedded"
    """`embedded`: one process plays the cloud. `pubsub`: Google Cloud Pub/Sub, or its emulator (PUBSUB_EMULATOR_HOST)."""
    cluster: str = ""
    """The cluster of requests that name none: `kubeconfig:PATH?context=C`, `in-cluster:` or `simulated:FILE`."""
    undeclared: str = ""
    """The cluster of requests that name none, where `cluster` is empty and no document declares any. The command line takes kubectl's
    where KUBECONFIG is set."""
    owner: str = OWNER
    """The field manager under which labels are applied; for aliases `-aliases` stands behind it. Another name for each Hullmark that
    works on one cluster, so that they leave each other's labels alone. What was applied under one name is not ours under another.
    """
    kubeconfigs: str = ""
    """What Cluster documents may name as `kubeconfig: {name: NAME}`: a folder with NAME/kubeconfig in it, or `NAME=PATH,…`. A document that
    gives no name means `default`. `kubectl:` is $KUBECONFIG or ~/.kube/config under no name."""
    simulated: str = ""
    """What Cluster documents may name as `simulated: {name: NAME}`: `NAME=FILE,…`, each a list as `kubectl get nodes -o json` writes it."""
    project: str = ""
    """Google Cloud project of the topics; needed by `pubsub`."""
    topic_prefix: str = ""
    """Put before every topic name, so that two deployments can share a project."""
    publisher: Literal["rest", "grpc"] = "rest"
    """How `pubsub` publishes: `rest` starts faster, `grpc` is google-cloud-pubsub, for a process that lives long."""
    identity: str = "none"
    """What the api believes of who calls: `none` (no header names anybody), `cloud-run` (the ID token that Cloud Run checked),
    `iap:AUDIENCE` (Identity-Aware Proxy's signed header for that audience). `none`, so that nothing is believed by accident."""
    now: str = ""
    """RFC 3339. Stops the clock, for tests only."""
    action_seconds: float = Field(default=3600, gt=0, le=31_536_000)
    """Seconds after which an action that has not ended is closed as expired. 100,000 nodes take about three minutes."""
    provider_update_seconds: float = Field(default=86_400, gt=0, le=31_536_000)
    """Seconds after which an update that EKS or GKE has not ended is closed as expired. A control plane takes up to an hour, and node
    groups whose pods are hard to evict take many."""
    keep_actions_days: int = Field(default=90, ge=7)
    """Days that the records of ended actions are kept. At least 7: a message lives that long, and must find its action."""
    timeout_seconds: float = Field(default=120, gt=0, allow_inf_nan=False)
    """Seconds after which a request to this function is cut off, as functions/steps.yaml has it; it stops by itself before that."""
    in_flight: int = Field(default=8, ge=1)
    """Requests to one cluster at a time, from one process. Four to eight saturate two server cores; 32 is the most."""
    writes_per_second: float = Field(default=0, ge=0, allow_inf_nan=False)
    """Writes a second to one cluster from one process; 0 leaves the pace to the server's answers (429, Retry-After)."""

    @field_validator("owner")
    @classmethod
    def _a_field_manager(cls, value: str) -> str:
        if wrong := owner_error(value):
            raise ValueError(wrong)
        return value

    @property
    def field_managers(self) -> Owner:
        """Under which names we write."""
        return Owner(self.owner)

    @field_validator("identity")
    @classmethod
    def _known_proof(cls, value: str) -> str:
        if value not in ("none", "cloud-run") and not re.fullmatch(r"iap:\S+", value):
            raise ValueError("`none`, `cloud-run` or `iap:AUDIENCE`")
        return value

    @field_validator("kubeconfigs", "simulated")
    @classmethod
    def _entries_can_be_read(cls, value: str, info: ValidationInfo) -> str:
        if "=" in value or info.field_name == "simulated":
            _entries(value)
        return value

    @classmethod
    def of_the_command_line(cls) -> Settings:
        """The environment's; documents that name no kubeconfig mean the one that kubectl would use, and without HULLMARK_CLUSTER and
        Cluster documents KUBECONFIG's current context is the cluster. Raises SettingsError.
        """
        settings = cls.from_environment()
        kubectl = {"kubeconfigs": settings.kubeconfigs or KUBECTL}
        if os.environ.get("KUBECONFIG"):
            kubectl["undeclared"] = settings.undeclared or "kubeconfig:"
        return settings.model_copy(update=kubectl)

    @classmethod
    def from_environment(cls, environment: dict[str, str] | None = None) -> Settings:
        """Read the variables. Raises SettingsError naming the variable."""
        source = os.environ if environment is None else environment
        values = {name: source[f"HULLMARK_{name.upper()}"] for name in cls.model_fields if source.get(f"HULLMARK_{name.upper()}")}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            said = [(str(e["loc"][0]).upper(), e["msg"].removeprefix("Value error, ")) for e in error.errors()]
            raise SettingsError("; ".join(f"HULLMARK_{name}: {why}" for name, why in said)) from error

    def kubeconfig(self, name: str | None, context: str | None) -> KubeconfigFile:
        """The kubeconfig that a document names. Raises Refused, saying what to configure."""
        if self.kubeconfigs == KUBECTL and name is None:
            return KubeconfigFile("", context or "")
        entry = name or DEFAULT_KUBECONFIG
        if self.kubeconfigs and self.kubeconfigs != KUBECTL and "=" not in self.kubeconfigs:
            return KubeconfigFile(f"{self.kubeconfigs.rstrip('/')}/{entry}/kubeconfig", context or "")
        entries = _entries(self.kubeconfigs) if "=" in self.kubeconfigs else {}
        return KubeconfigFile(_entry(entry, entries, KUBECONFIGS, "a folder with NAME/kubeconfig in it, or NAME=PATH,…"), context or "")

    def seed(self, name: str) -> SeedFile:
        """The node list that a document names. Raises Refused, saying what to configure."""
        return SeedFile(_entry(name, _entries(self.simulated), SIMULATED, "NAME=FILE,…"))


def _entries(setting: str) -> dict[str, str]:
    """`NAME=PATH,…` as a mapping. Raises ValueError."""
    entries: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in setting.split(","))):
        name, _, path = part.partition("=")
        if not ENTRY.fullmatch(name) or not path:
            raise ValueError(f"{part!r} is no NAME=PATH whose name has lower-case letters, digits and - only")
        if name in entries:
            raise ValueError(f"{name} is there twice")
        entries[name] = path
    return entries


def _entry(name: str, entries: dict[str, str], setting: str, form: str) -> str:
    if name not in entries:
        raise Refused("ClusterUnknown", f"{setting} has no entry {name!r} (there: {', '.join(sorted(entries)) or 'none'}); it takes {form}")
    return entries[name]


@dataclass
class World:
    """What a function may use of the outside world."""

    store: ObjectStore
    bus: Bus
    open_cluster: Callable[[Access | OperatorAccess, str], Cluster]
    """(how it is reached, name) → the cluster; the same object for the same arguments. Raises Refused."""
    settings: Settings
    clock: Callable[[], datetime]
    open_fleet: Opener
    """(name, spec of a Cluster document with a `provider`) → the fleet behind it. Raises Refused."""

    workers: Workers = ONE_BY_ONE
    monotonic: Callable[[], float] = time.monotonic
    """Seconds that only go forward, for how long something takes."""
    versions: dict[str, tuple[datetime, str]] = field(default_factory=dict)
    whole: World | None = None
    """The world that this one is for the time of one message: what it comes to know of rollouts outlives that."""

    def time_left(self) -> Callable[[], float]:
        """How many seconds are left of those that a function may work on the message which it takes up now."""
        end = self.monotonic() + self.settings.timeout_seconds * WORKING_SHARE
        return lambda: end - self.monotonic()

    def within(self, left: Callable[[], float]) -> World:
        """The same world, whose clusters and fleets answer, or say that they can't, while there are seconds left."""
        _ = (
            self.actions,
            self.revisions,
            self.releases,
            self.pauses,
            self.losses,
            self.deferrals,
        )  # made before the copy, so that both share what they know
        limited = copy.copy(self)
        limited.whole = self.whole or self
        limited.open_cluster = lambda access, name: in_time(self.open_cluster(access, name), left)
        limited.open_fleet = lambda name, spec: in_time(self.open_fleet(name, spec), left)
        return limited

    def server_version(self, name: str, cluster: Cluster) -> str:
        """A cluster's version, asked again after VERSION_SECONDS: an event costs no call for it."""
        asked, version = self.versions.get(name, (None, ""))
        if asked is None or (self.clock() - asked).total_seconds() >= VERSION_SECONDS:
            version = cluster.server_version()
            self.versions[name] = self.clock(), version
        return version

    @functools.cached_property
    def actions(self) -> Actions:
        """The ledger of actions."""
        return Actions(self.store)

    @functools.cached_property
    def rollouts(self) -> Rollouts:
        """The ledger of rollouts. Imported here, because few messages are about one."""
        from shared.ledger.rollouts import Rollouts

        return self.whole.rollouts if self.whole else Rollouts(self.store, self.releases.places)

    @functools.cached_property
    def sightings(self) -> Sightings:
        """What is known of the clusters of rollouts for versions. Imported here, because most fleets have none."""
        from shared.ledger.sightings import Sightings

        return Sightings(self.store)

    @functools.cached_property
    def deferrals(self) -> Deferrals:
        """Which clusters' updates are put off."""
        return Deferrals(self.store)

    @functools.cached_property
    def begun(self) -> BegunUpdates:
        """The updates of versions that providers work on."""
        from shared.ledger.begun import BegunUpdates

        return BegunUpdates(self.store, self.workers)

    @functools.cached_property
    def pauses(self) -> Pauses:
        """Whether the whole fleet is paused."""
        return Pauses(self.store)

    @functools.cached_property
    def acceptances(self) -> Acceptances:
        """What people accepted beyond the limits."""
        return Acceptances(self.store)

    @functools.cached_property
    def refused_requests(self) -> RefusedRequests:
        """The newest messages that were refused."""
        from shared.ledger.refusals import RefusedRequests  # for whom a message is refused, and who shows that

        return RefusedRequests(self.store)

    @functools.cached_property
    def losses(self) -> Losses:
        """How many nodes lost labels that no release took."""
        return Losses(self.store)

    @functools.cached_property
    def revisions(self) -> Revisions:
        """The committed documents."""
        return Revisions(self.store)

    def knows(self, name: str, revision: Declaring | None) -> bool:
        """Whether a document or a setting declares a cluster of this name."""
        return (revision is not None and name in revision.clusters) or (name == "default" and bool(self._default(revision)))

    def _default(self, revision: Declaring | None) -> str:
        """What the settings say that `default` is, beside these documents; empty where they say nothing."""
        return self.settings.cluster or ("" if revision and revision.clusters else self.settings.undeclared)

    @functools.cached_property
    def releases(self) -> Releases:
        """What is released to which node."""
        return Releases(self.store, self.revisions, self.has_ended, self.monotonic)

    def has_ended(self, action: str) -> bool:
        """Whether an action has ended and nothing more happens to it, or is forgotten by now: what it released is released for good."""
        return self.actions.announced(action) or not self.actions.begun(action)

    def cluster(self, name: str, revision: Declaring | None) -> Cluster:
        """The cluster that a message names: a Cluster document of the revision, or `default` from the settings.

        Raises Refused for a name that neither knows.
        """
        declared = revision.clusters if revision else {}
        if self.must_know(name, revision) in declared:
            return self.opened(name, declared[name])
        return self.open_cluster(access_from_url(self._default(revision)), name)

    def labelled_clusters(self, revision: Labelled) -> dict[str, dict[str, str]]:
        """Every cluster that a document or a setting declares, with its labels."""
        labels = revision.policies.cluster_labels
        return {name: labels.get(name, {}) for name in revision.clusters} | ({"default": {}} if self._default(revision) else {})

    def must_know(self, name: str, revision: Declaring | None) -> str:
        """The name itself, where a document or a setting declares it. Raises Refused."""
        if not self.knows(name, revision):
            known = ", ".join(sorted(revision.clusters if revision else ())) or "none"
            raise Refused(
                "ClusterUnknown",
                f"no cluster {name[:80]!r}: set HULLMARK_CLUSTER, or name a Cluster document of the revision (there: {known})",
            )
        return name

    def opened(self, name: str, access: Access | Outdated) -> Cluster:
        """The cluster of a document. Raises Refused."""
        if isinstance(access, Outdated):
            raise Refused("ClusterUnknown", access.message)
        return self.open_cluster(access, name)

    def fleets(self, revision: Revision | None) -> Fleets:
        """Every cluster whose versions the revision watches over: its Shoots, and what its Cluster documents' providers hold."""
        from shared.ledger.fleets import Fleets

        if revision is None:
            return Fleets(self.store, [], {}, self.open_fleet)
        return Fleets(self.store, revision.gardener, revision.policies.clusters, self.open_fleet, self.workers)

    def default_cluster(self, revision: Declaring | None) -> str:
        """The name of the cluster that a request means when it names none. Raises Refused where several could be meant."""
        declared = sorted(revision.clusters) if revision else []
        if self.settings.cluster or not declared:
            return "default"
        if len(declared) == 1:
            return declared[0]
        raise Refused("ClusterUnknown", f"name the cluster: the revision declares {', '.join(declared)}")


def access_from_url(url: str) -> Access | OperatorAccess:
    """What HULLMARK_CLUSTER names; it is the operator's, so that it may hold paths. Raises Refused."""
    kind, _, rest = url.partition(":")
    if kind == "kubeconfig":
        path, _, query = rest.partition("?")
        return KubeconfigFile(path, parse_qs(query).get("context", [""])[0])
    if kind == "in-cluster":
        return Access.model_validate({"inCluster": {}})
    if kind == "simulated" and rest:
        return SeedFile(rest)
    raise Refused("ClusterUnknown", f"HULLMARK_CLUSTER={url!r} is none of kubeconfig:PATH?context=C, in-cluster:, simulated:FILE")
