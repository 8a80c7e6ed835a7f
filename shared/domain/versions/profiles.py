"""Validation of CloudProfiles, NamespacedCloudProfiles and Shoots: Gardener's rules, kinds and paths (docs/versions.md §6 to §8).

A profile that is not among the previous documents is created, otherwise updated. Creation drops inactive versions before it looks at
the rest, an update judges them too, unless nothing changed; a new version whose expiration date has passed is refused either way
(the original stopped doing so in v1.77; we did not).
`lifecycle` is admitted, as if the feature gate of the original were on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta

from shared.domain.documents.reading import Document, Path, Problem
from shared.domain.versions.catalogue import (
    ARCHITECTURE,
    CONTAINERD,
    CloudProfile,
    Image,
    ImageVersion,
    NamespacedCloudProfile,
    Runtime,
    read_namespaced_profile,
    read_profile,
)
from shared.domain.versions.classification import EXPIRED, ORDER, SUPPORTED, UNAVAILABLE, Offered, Stage
from shared.domain.versions.clusters import FleetCluster, check_window, read_shoot
from shared.domain.versions.fields import Fields
from shared.domain.versions.garden import ARCHITECTURES, namespaced_problems, profile_problems, shoot_problems
from shared.domain.versions.semver import InvalidVersion, Version, compare, constrain, parse

API_GROUP = "core.gardener.cloud/"
KINDS = ("CloudProfile", "NamespacedCloudProfile", "Shoot")
CLASSIFICATIONS = ORDER[1:]
"""What may be declared; `unavailable` only ever follows from a lifecycle."""
STRATEGIES = ("patch", "minor", "major")
ADOPTED = "hullmark.dev/adopted"
"""Annotation of a CloudProfile that a garden had before these documents did: the day it was taken over. Versions that had expired by then
are not new, so clusters that still run them do not keep the profile out.
"""
_KUBERNETES_VERSION = re.compile(r"(?:[0-9]+\.){2}[0-9]+", re.ASCII)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(slots=True)
class Gardener:
    """The Gardener documents of a set, as values. `problems` are fields that cannot be read."""

    profiles: dict[str, CloudProfile] = field(default_factory=dict)
    namespaced: dict[tuple[str, str], NamespacedCloudProfile] = field(default_factory=dict)
    clusters: dict[str, FleetCluster] = field(default_factory=dict)
    documents: dict[tuple[str, ...], Document] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unreadable: frozenset[tuple[str, ...]] = frozenset()
    """Profiles that the fleet has and that cannot be read, by their keys: nothing else may stand in for them."""

    def profile_of(self, cluster: FleetCluster) -> CloudProfile | None:
        """The profile that a cluster refers to, with its NamespacedCloudProfile's overrides; None where it is not among the documents."""
        if not cluster.own:
            return self.profiles.get(cluster.profile)
        own = self.namespaced.get((cluster.namespace, cluster.profile))
        parent = self.profiles.get(own.parent) if own else None
        return own.over(parent) if own and parent else None

    def profile_key(self, cluster: FleetCluster) -> tuple[str, ...]:
        """Which profile that is: clusters with the same key are decided by the same one."""
        return (cluster.namespace, cluster.profile) if cluster.own else (cluster.profile,)


def gardener(documents: Iterable[Document]) -> Gardener:
    """Read the Gardener documents among these; others are left alone."""
    read = Gardener()
    for document in documents:
        if not is_gardener(document):
            continue
        key: tuple[str, ...]
        if not document.name:
            read.problems.append(document.problem(("metadata", "name"), "Required", f"a {document.kind} has a name"))
        if document.kind == "CloudProfile":
            profile = read_profile(document, read.problems)
            key = (document.kind, profile.name)
            read.profiles[profile.name] = profile
        elif document.kind == "NamespacedCloudProfile":
            namespaced = read_namespaced_profile(document, read.problems)
            key = (document.kind, namespaced.namespace, namespaced.name)
            read.namespaced[namespaced.namespace, namespaced.name] = namespaced
        else:
            cluster = read_shoot(document, read.problems)
            key = (document.kind, cluster.id)
            read.clusters[cluster.id] = cluster
        read.documents[key] = document
    return read


def is_gardener(document: Document) -> bool:
    """Whether this is one of the three kinds that are read here."""
    return document.kind in KINDS and str(document.data.get("apiVersion", "")).startswith(API_GROUP)


def check_gardener(documents: Sequence[Document], previous_documents: Sequence[Document], now: datetime) -> list[Problem]:
    """Everything wrong with the Gardener documents, seen as a change from the previous ones.

    A document with fields that cannot be read is not looked at further: its other problems may be mere consequences.
    """
    new, old = gardener(documents), gardener(previous_documents)
    problems = [*new.problems, *_twice(documents)]
    unreadable = {(problem.file, problem.document) for problem in new.problems}
    for key, document in new.documents.items():
        if (document.file, document.title) in unreadable:
            continue
        problems += _garden_problems(document, new, old.documents.get(key), now)
        if document.kind == "CloudProfile":
            problems += _profile_problems(document, new.profiles[key[1]], old.profiles.get(key[1]), now)
            if key[1] in old.profiles:
                problems += _in_use(document, old.profiles[key[1]], new.profiles[key[1]], new, old)
        elif document.kind == "NamespacedCloudProfile":
            problems += _NamespacedCheck(document, now).all(new.namespaced[key[1], key[2]], new, old)
        else:
            problems += check_window(document) + _check_shoot(document, new.clusters[key[1]], old.clusters.get(key[1]))
    return problems


def _garden_problems(document: Document, documents: Gardener, old: Document | None, now: datetime) -> Iterable[Problem]:
    """What a garden refuses besides versions. A document that did not change stays acceptable, whatever became of a bastion's image."""
    if old is not None and old.data == document.data:
        return ()
    if document.kind == "CloudProfile":
        return profile_problems(document, documents.profiles[document.name], old, now)
    return shoot_problems(document) if document.kind == "Shoot" else namespaced_problems(document)


def _profile_problems(document: Document, new: CloudProfile, old: CloudProfile | None, now: datetime) -> list[Problem]:
    """What is wrong with a CloudProfile. Creation leaves inactive versions unjudged and an update does not; so a profile that did not
    change, and that creation could have accepted at some moment up to now, stays acceptable as it is.
    """
    problems = _ProfileCheck(document, now).all(new, old)
    if problems and new == old and any(not _ProfileCheck(document, moment).all(new, None) for moment in _moments(new, now)):
        return []
    return problems


def _moments(profile: CloudProfile, now: datetime) -> Iterator[datetime]:
    """`now`, and one moment in each earlier span of time in which the profile's versions counted as something else."""
    yield now
    yield from (start + timedelta(microseconds=1) for start in reversed(profile.transitions()) if start < now)
    yield datetime.min.replace(tzinfo=UTC)


def _twice(documents: Iterable[Document]) -> Iterator[Problem]:
    names: dict[tuple[str, str, str], Document] = {}
    for document in filter(is_gardener, documents):
        metadata = document.data.get("metadata")
        namespace = str(metadata.get("namespace", "")) if isinstance(metadata, dict) else ""
        first = names.setdefault((document.kind, namespace, document.name), document)
        if first is not document and document.name:
            message = f"{document.title} is there twice: the first is at {first.file}:{first.line}"
            yield document.problem(("metadata", "name"), "Duplicate", message)


@dataclass(slots=True)
class _Check:
    """Collects the problems of one document."""

    document: Document
    now: datetime
    problems: list[Problem] = field(default_factory=list)
    adopted: datetime | None = None
    """What expired before then is not new, although no earlier document has it."""

    def say(self, path: Path, type_: str, message: str) -> None:
        self.problems.append(self.document.problem(path, type_, message))

    def expirable(self, version: Offered, path: Path) -> None:
        """Classification and lifecycle of one version."""
        if version.classification is not None and version.classification not in CLASSIFICATIONS:
            self.say((*path, "classification"), "NotSupported", f"{version.classification!r}: supported are {', '.join(CLASSIFICATIONS)}")
        if not version.lifecycle and version.classification == EXPIRED:
            self.say((*path, "classification"), "Forbidden", "a version expires by its expirationDate, not by its classification")
        if version.lifecycle and (version.classification is not None or version.expiration is not None):
            self.say(path, "Forbidden", "classification and expirationDate cannot stand beside a lifecycle")
        seen: set[str] = set()
        for number, stage in enumerate(version.lifecycle):
            where = (*path, "lifecycle", number)
            if stage.classification not in CLASSIFICATIONS:
                self.say(
                    (*where, "classification"), "NotSupported", f"{stage.classification!r}: supported are {', '.join(CLASSIFICATIONS)}"
                )
            if stage.classification in seen:
                self.say((*where, "classification"), "Duplicate", f"the stage {stage.classification} is listed twice")
            seen.add(stage.classification)
            if number and _order(version.lifecycle[number - 1]) > _order(stage):
                self.say((*where, "classification"), "Invalid", f"stages stand in the order {', '.join(CLASSIFICATIONS)}")
        self._starts(version.lifecycle, (*path, "lifecycle"))

    def _starts(self, lifecycle: tuple[Stage, ...], path: Path) -> None:
        latest = lifecycle[0].start if lifecycle else None
        for number, stage in enumerate(lifecycle[1:], 1):
            if stage.start is None:
                self.say((*path, number), "Required", "only the first stage may do without a startTime")
                continue
            if latest is not None and stage.start < latest:
                self.say((*path, number), "Invalid", "a stage starts no earlier than the one before it")
            latest = stage.start

    def kubernetes_versions(self, versions: Sequence[tuple[int, Offered]], path: Path) -> None:
        """Form, repetition and classification of Kubernetes versions."""
        seen: set[str] = set()
        for number, version in versions:
            where = (*path, number)
            if _KUBERNETES_VERSION.fullmatch(version.version) is None:
                self.say(where, "Invalid", f"{version.version!r}: a Kubernetes version is three numbers, such as 1.31.4")
            elif version.version in seen:
                self.say((*where, "version"), "Duplicate", f"the version {version.version} is listed twice")
            seen.add(version.version)
            self.expirable(version, where)

    def images(
        self, images: Sequence[tuple[int, Image, Sequence[tuple[int, ImageVersion]]]], architectures: Sequence[str], may_be_empty: bool
    ) -> None:
        """Names, strategies and versions of machine images."""
        path: Path = ("spec", "machineImages")
        broken = next((version for _, _, versions in images for _, version in versions if _unreadable(version.version)), None)
        if broken is not None:
            self.say(path, "Invalid", f"the version {broken.version!r} cannot be read")
        names: set[str] = set()
        versions_seen: set[str] = set()
        for number, image, versions in images:
            where = (*path, number)
            if image.name in names:
                self.say(where, "Duplicate", f"the machine image {image.name} is listed twice")
            names.add(image.name)
            if not image.name:
                self.say((*where, "name"), "Required", "a machine image has a name")
            elif _PLAIN_NAME.fullmatch(image.name) is None:
                message = f"{image.name!r}: at most 63 letters, digits, `-`, `_` and `.`, letters or digits at both ends"
                self.say((*where, "name"), "Invalid", message)
            if not versions and not may_be_empty:
                self.say((*where, "versions"), "Required", f"the machine image {image.name} has no version")
            if image.strategy is not None and image.strategy not in STRATEGIES:
                self.say((*where, "updateStrategy"), "NotSupported", f"{image.strategy!r}: supported are {', '.join(STRATEGIES)}")
            for index, version in versions:
                self.image_version(image, version, architectures, versions_seen, (*where, "versions", index))

    def image_version(self, image: Image, version: ImageVersion, architectures: Sequence[str], seen: set[str], path: Path) -> None:
        """One image version; `seen` holds `NAME-VERSION` of those before it."""
        key = f"{image.name}-{version.version}"
        if key in seen:
            self.say(path, "Duplicate", f"the version {version.version} of {image.name} is listed twice")
        seen.add(key)
        if not version.version:
            self.say((*path, "version"), "Required", "a version is missing")
        if _unreadable(version.version):
            self.say((*path, "version"), "Invalid", f"{version.version!r} is no semantic version such as 1443.10.0")
        if version.in_place_from is not None and _unreadable(version.in_place_from):
            self.say((*path, "minVersionForInPlaceUpdate"), "Invalid", f"{version.in_place_from!r} is no semantic version")
        for number, architecture in enumerate(version.architectures):
            if architecture not in architectures:
                self.say((*path, "architectures", number), "NotSupported", f"{architecture!r}: supported are {', '.join(architectures)}")
        if version.kubelet is not None:
            try:
                constrain(version.kubelet)
            except InvalidVersion as error:
                self.say((*path, "kubeletVersionConstraint"), "Invalid", f"{version.kubelet!r} is no version constraint: {error}")

    def additional(self, version: ImageVersion, siblings: Sequence[Offered], path: Path) -> None:
        """What only profiles that hold the whole image are checked for: runtimes, one supported version, classification."""
        names: set[str] = set()
        for number, runtime in enumerate(version.cri or (Runtime(CONTAINERD),)):
            where = (*path, "cri", number)
            if runtime.name in names:
                self.say(where, "Duplicate", f"{runtime.name} is listed twice")
            names.add(runtime.name)
            if runtime.name != CONTAINERD:
                self.say((*where, "name"), "NotSupported", f"{runtime.name!r}: supported is {CONTAINERD}")
            self._runtime_types(runtime.types, (*where, "containerRuntimes"))
        self.one_supported(version, siblings, path)
        self.expirable(version, path)

    def _runtime_types(self, types: tuple[str, ...], path: Path) -> None:
        for number, name in enumerate(types):
            if _PLAIN_NAME.fullmatch(name) is None:
                self.say((*path, number, "type"), "Invalid", f"{name!r} is no plain name")
            if name in types[:number]:
                self.say((*path, number, "type"), "Duplicate", f"{name} is listed twice")

    def one_supported(self, version: Offered, siblings: Sequence[Offered], path: Path) -> None:
        """A version classified `supported` stands alone in its minor, once for each other one that is, or will be, supported."""
        if version.classification is None or version.at(self.now) != SUPPORTED:
            return
        rivals = [
            sibling
            for sibling in siblings
            if sibling.classification == SUPPORTED or any(s.classification == SUPPORTED for s in sibling.lifecycle)
        ]
        try:
            own = parse(version.version)
            close = [contender for contender in rivals if _rivals(own, parse(contender.version))]
        except InvalidVersion:
            return  # said elsewhere
        for rival in close:
            if _overlap(version, rival):
                message = f"{version.version} and {rival.version} are both classified supported: one version per minor may be"
                self.say(path, "Forbidden", message)

    def not_born_expired(self, version: Offered, known: frozenset[str], path: Path) -> None:
        """A new version whose expiration date has passed is refused; one that was there before is not new."""
        expired = version.expiration
        if version.version in known or expired is None or expired >= self.now or (self.adopted and expired < self.adopted):
            return
        message = (
            f"{version.version} is new, and its expirationDate {expired:%Y-%m-%dT%H:%M:%SZ} has passed: leave it out. Where a garden "
            "offers it already and clusters run it, say when you took the profile over: "
            f'annotate it with {ADOPTED}: "{self.now:%Y-%m-%d}"'
        )
        self.say(path, "Forbidden", message)

    def adoption(self) -> None:
        """Reads the day on which a profile was taken over from its garden."""
        path = ("metadata", "annotations", ADOPTED)
        day = Fields(self.document, self.document.data, (), self.problems).inner("metadata").inner("annotations").text(ADOPTED)
        if day is None:
            return
        try:
            adopted = datetime.combine(date.fromisoformat(day), time(), UTC)
        except ValueError:
            self.say(path, "Invalid", f"{day!r} is not a date such as 2026-11-21")
            return
        if adopted > self.now:
            self.say(path, "Invalid", f"{day} is still to come: write the day on which the profile was taken over")
            return
        self.adopted = adopted + timedelta(days=1)


class _ProfileCheck(_Check):
    """The rules of CloudProfiles."""

    __slots__ = ()

    def all(self, new: CloudProfile, old: CloudProfile | None) -> list[Problem]:
        path: Path = ("spec", "kubernetes", "versions")
        kubernetes = [
            (number, offered) for number, offered in enumerate(new.kubernetes) if old or offered.at(self.now) not in (EXPIRED, UNAVAILABLE)
        ]
        images = [
            (number, image, [(index, offered) for index, offered in enumerate(image.versions) if old or offered.at(self.now) != EXPIRED])
            for number, image in enumerate(new.images)
        ]
        if old is None:
            self.adoption()
        known = frozenset(offered.version for offered in old.kubernetes) if old else frozenset[str]()
        for number, version in enumerate(new.kubernetes):
            self.not_born_expired(version, known, (*path, number))
        self._kubernetes(kubernetes, path)
        if not images:
            self.say(("spec", "machineImages"), "Required", "a profile has at least one machine image")
        self.images(images, new.capabilities.get(ARCHITECTURE, ()) if new.capabilities else ARCHITECTURES, may_be_empty=False)
        before = {image.name: image for image in old.images} if old else {}
        for number, image, versions in images:
            where = ("spec", "machineImages", number, "versions")
            siblings = [offered for _, offered in versions]
            for index, offered in versions:
                self.additional(offered, siblings, (*where, index))
            known_image = before.get(image.name)
            known = frozenset(offered.version for was in (old.images if old else ()) if was.name == image.name for offered in was.versions)
            for index, offered in enumerate(image.versions):
                self.not_born_expired(offered, known, (*where, index))
            if known_image:
                self._not_taken_back(image.versions, known_image.versions, where)
        if old:
            self._not_taken_back(new.kubernetes, old.kubernetes, path)
        return self.problems

    def _kubernetes(self, versions: Sequence[tuple[int, Offered]], path: Path) -> None:
        if not versions:
            self.say(path, "Required", "a profile has at least one Kubernetes version")
        if not versions or any(_unreadable(version.version) for _, version in versions):
            self.say(path, "Invalid", "the latest Kubernetes version cannot be told")
        else:
            latest = max((version for _, version in versions), key=lambda version: parse(version.version).key)
            self._latest(latest)
        self.kubernetes_versions(versions, path)
        siblings = [version for _, version in versions]
        for number, version in versions:
            self.one_supported(version, siblings, (*path, number))

    def _latest(self, latest: Offered) -> None:
        """The latest version must stay; the original's paths say `versions[]`."""
        for there, name in (
            (latest.expiration is not None, "expirationDate"),
            (bool(latest.lifecycle) and latest.lifecycle[-1].classification == EXPIRED, "lifecycle"),
        ):
            if there:
                message = f"the latest Kubernetes version ({latest.version}) must not expire: offer a higher one first"
                problem = self.document.problem(("spec", "kubernetes", "versions"), "Invalid", message)
                self.problems.append(replace(problem, path=f"spec.kubernetes.versions[].{name}"))

    def _not_taken_back(self, new: Sequence[Offered], old: Sequence[Offered], path: Path) -> None:
        before = {offered.version: offered for offered in old}
        for number, version in enumerate(new):
            known = before.get(version.version)
            if known and known.at(self.now) != UNAVAILABLE and version.at(self.now) == UNAVAILABLE:
                self.say((*path, number), "Forbidden", f"{version.version} was available already and cannot be taken back")


class _NamespacedCheck(_Check):
    """The rules of NamespacedCloudProfiles: a parent, and only the parent's expiration dates overridden."""

    __slots__ = ()

    def all(self, new: NamespacedCloudProfile, documents: Gardener, previous: Gardener) -> list[Problem]:
        if new.parent_kind != "CloudProfile":
            self.say(("spec", "parent", "kind"), "NotSupported", f"{new.parent_kind!r}: supported is CloudProfile")
        if not new.parent:
            self.say(("spec", "parent", "name"), "Required", "the name of the parent CloudProfile is missing")
        for number, version in enumerate(new.kubernetes):
            if version.classification is not None:
                self.say(("spec", "kubernetes", "versions", number, "classification"), "Forbidden", "only expirationDate may be overridden")
        self.kubernetes_versions(list(enumerate(new.kubernetes)), ("spec", "kubernetes", "versions"))
        images = [(number, image, list(enumerate(image.versions))) for number, image in enumerate(new.images)]
        self.images(images, ARCHITECTURES, may_be_empty=True)
        parent = documents.profiles.get(new.parent) or previous.profiles.get(new.parent)
        if new.parent and parent is None:
            self.say(("spec", "parent", "name"), "NotFound", f"there is no CloudProfile {new.parent!r} among the documents")
        if parent:
            old = previous.namespaced.get((new.namespace, new.name))
            before = old.over(previous.profiles.get(old.parent, parent)) if old else None
            self._kubernetes_overrides(new, parent, before)
            self._image_overrides(new, parent, before, old)
        return self.problems

    def _kubernetes_overrides(self, new: NamespacedCloudProfile, parent: CloudProfile, before: CloudProfile | None) -> None:
        offered = {version.version for version in parent.kubernetes}
        dates = {version.version: version.expiration for version in before.kubernetes} if before else {}
        for number, version in enumerate(new.kubernetes):
            where = ("spec", "kubernetes", "versions", number)
            if version.version not in offered:
                self.say((*where, "version"), "Invalid", f"{version.version} is not in the parent CloudProfile and cannot be overridden")
            elif version.expiration is None:
                self.say((*where, "expirationDate"), "Required", f"the override of {version.version} sets no expirationDate")
            elif before and version.at(self.now) == EXPIRED and dates.get(version.version) != version.expiration:
                self.say((*where, "expirationDate"), "Invalid", f"the expirationDate of {version.version} is in the past")

    def _image_overrides(
        self, new: NamespacedCloudProfile, parent: CloudProfile, before: CloudProfile | None, old: NamespacedCloudProfile | None
    ) -> None:
        offered = {image.name: {version.version for version in image.versions} for image in parent.images}
        declared = {(image.name, version.version) for image in (old.images if old else ()) for version in image.versions}
        dates = {
            (image.name, version.version): version.expiration for image in (before.images if before else ()) for version in image.versions
        }
        for number, image in enumerate(new.images):
            for index, version in enumerate(image.versions):
                where = ("spec", "machineImages", number, "versions", index)
                if image.name not in offered:
                    self.additional(version, image.versions, where)
                elif version.version in offered[image.name]:
                    if (image.name, version.version) not in declared:
                        self._only_a_date(version, where)
                    if before and version.at(self.now) == EXPIRED and dates.get((image.name, version.version)) != version.expiration:
                        self.say((*where, "expirationDate"), "Invalid", f"the expirationDate of {version.version} is in the past")

    def _only_a_date(self, version: ImageVersion, path: Path) -> None:
        for name, value in (
            ("classification", version.classification),
            ("cri", version.cri),
            ("architectures", version.architectures),
            ("capabilityFlavors", version.flavors),
            ("kubeletVersionConstraint", version.kubelet),
            ("inPlaceUpdates", version.in_place or version.in_place_from),
        ):
            if value:
                self.say((*path, name), "Forbidden", "the parent CloudProfile has this version: only its expirationDate may be overridden")
        if version.expiration is None:
            self.say((*path, "expirationDate"), "Invalid", f"the override of {version.version} sets no expirationDate")


def _order(stage: Stage) -> int:
    return ORDER.index(stage.classification) if stage.classification in ORDER else 0


def _unreadable(version: str) -> bool:
    try:
        parse(version)
    except InvalidVersion:
        return True
    return False


def _rivals(one: Version, other: Version) -> bool:
    return one.key != other.key and (one.major, one.minor) == (other.major, other.minor)


def _overlap(one: Offered, other: Offered) -> bool:
    """Whether two versions are supported at the same time; versions without a lifecycle always are."""
    if not one.lifecycle or not other.lifecycle:
        return True
    (first, ends), (second, other_ends) = _supported_stage(one), _supported_stage(other)
    if first is None or second is None:
        return False
    if ends is None and other_ends is None:
        return True
    return (ends is None and _starts_before(first, other_ends)) or (other_ends is None and _starts_before(second, ends))


def _supported_stage(version: Offered) -> tuple[Stage | None, Stage | None]:
    """The supported stage, and the first listed stage that is further on."""
    supported = next((stage for stage in version.lifecycle if stage.classification == SUPPORTED), None)
    beyond = next((stage for stage in version.lifecycle if _order(stage) > ORDER.index(SUPPORTED)), None)
    return supported, beyond


def _starts_before(stage: Stage, other: Stage | None) -> bool:
    if stage.start is None:
        return True
    return other is not None and other.start is not None and stage.start < other.start


def _in_use(document: Document, old: CloudProfile, new: CloudProfile, documents: Gardener, previous: Gardener) -> list[Problem]:
    """Versions taken away that a cluster of this profile still runs; pools' own Kubernetes versions are not protected (versions.md §9)."""
    offered = {version.version for version in new.kubernetes}
    gone = {version.version for version in old.kubernetes} - offered
    offered_images = {(image.name, version.version) for image in new.images for version in image.versions}
    gone_images = {(image.name, version.version) for image in old.images for version in image.versions} - offered_images
    problems = []
    for cluster in ({**previous.clusters, **documents.clusters} if gone or gone_images else {}).values():
        if cluster.deleting or _parent_of(cluster, documents, previous) != new.name:
            continue
        if cluster.kubernetes in gone:
            message = (
                f'unable to delete Kubernetes version "{cluster.kubernetes}" from CloudProfile "{new.name}" - '
                f"version is still in use by shoot '{cluster.id}'"
            )
            problems.append(document.problem((), "Forbidden", message))
        for pool in cluster.pools:
            if (pool.image, pool.image_version) in gone_images:
                message = (
                    f"unable to delete Machine image version '{pool.image}/{pool.image_version}' from CloudProfile \"{new.name}\" - "
                    f"version is still in use by shoot '{cluster.id}' by worker \"{pool.name}\""
                )
                problems.append(document.problem((), "Forbidden", message))
    return problems


def _parent_of(cluster: FleetCluster, documents: Gardener, previous: Gardener) -> str:
    if not cluster.own:
        return cluster.profile
    key = (cluster.namespace, cluster.profile)
    own = documents.namespaced.get(key) or previous.namespaced.get(key)
    return own.parent if own else ""


def _check_shoot(document: Document, new: FleetCluster, old: FleetCluster | None) -> list[Problem]:
    """What the API server refuses about a Shoot's versions, seen alone and as a change (docs/versions.md §6)."""
    check = _Check(document, datetime.min.replace(tzinfo=UTC))
    control_plane = new.kubernetes or ""
    where: Path = ("spec", "kubernetes", "version")
    if control_plane and _unreadable(control_plane):
        check.say(where, "Invalid", f"{control_plane!r} is no version such as 1.31.4")
        return check.problems
    if control_plane and old and old.kubernetes and not _unreadable(old.kubernetes):
        _check_step(check, where, control_plane, old.kubernetes, may_skip=False)
    before = {pool.name: pool for pool in old.pools} if old else {}
    for number, name in enumerate(pool.name for pool in new.pools):
        if Counter(pool.name for pool in new.pools[:number])[name]:
            check.say(("spec", "provider", "workers", number, "name"), "Duplicate", f"the pool {name} is listed twice")
    for number, pool in enumerate(new.pools):
        path: Path = ("spec", "provider", "workers", number, "kubernetes", "version")
        if pool.kubernetes is None:
            continue
        if _unreadable(pool.kubernetes):
            check.say(path, "Invalid", f"{pool.kubernetes!r} is no version such as 1.31.4")
            continue
        if control_plane:
            _check_skew(check, path, pool.kubernetes, control_plane)
        known = before.get(pool.name)
        if known and known.kubernetes and not _unreadable(known.kubernetes):
            _check_step(check, path, pool.kubernetes, known.kubernetes, may_skip=not pool.in_place)
    return check.problems


def _check_step(check: _Check, path: Path, new: str, old: str, may_skip: bool) -> None:
    if compare(new, "<", old):
        check.say(path, "Forbidden", f"a Kubernetes version never goes down (from {old} to {new})")
    before = parse(old)
    if not may_skip and compare(new, ">=", f"{before.major}.{before.minor + 2}.0"):
        check.say(path, "Forbidden", f"an update never skips a minor (from {old} to {new})")


def _check_skew(check: _Check, path: Path, pool: str, control_plane: str) -> None:
    if compare(pool, ">", control_plane):
        check.say(path, "Forbidden", f"a pool is never above the control plane ({pool} above {control_plane})")
    own = parse(pool)
    if compare(control_plane, ">=", f"{own.major}.{own.minor + 4}.0"):
        check.say(path, "Forbidden", f"a pool is at most three minors behind the control plane ({pool} behind {control_plane})")


def merged_profiles(gardener: Gardener) -> Mapping[str, CloudProfile]:
    """Every profile by the name people give it: `NAME`, or `NAMESPACE/NAME` for merged NamespacedCloudProfiles."""
    merged = dict(gardener.profiles)
    for (namespace, name), own in gardener.namespaced.items():
        parent = gardener.profiles.get(own.parent)
        if parent is not None:
            merged[f"{namespace}/{name}"] = own.over(parent)
    return merged
