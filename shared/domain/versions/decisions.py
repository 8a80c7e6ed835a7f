"""Which version a cluster, a pool or a machine image moves to, and why: Gardener's maintenance decisions (docs/versions.md §2 to §5).

A profile is compiled once for a moment (`Rules`): versions parsed and classified, decisions remembered by what they depend on.
Three deliberate differences from the original: versions not released yet are never chosen; a forced image update prefers a version
that is not expired in the group it moves to; and a pool with an unknown image or machine type fails alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar

from shared.domain.reasons.versions import sentence
from shared.domain.versions.catalogue import AMD64, ARCHITECTURE, CONTAINERD, CloudProfile, Image, ImageVersion, MachineType, Runtime
from shared.domain.versions.classification import DEPRECATED, EXPIRED, PREVIEW, SUPPORTED, UNAVAILABLE, Offered
from shared.domain.versions.clusters import FleetCluster, Pool
from shared.domain.versions.held import Held, Waived
from shared.domain.versions.reasons import AUTO_UPDATE, IMAGE_REASONS, KUBERNETES_REASONS, MISSING, TRIGGERS
from shared.domain.versions.reasons import EXPIRED as EXPIRED_TRIGGER
from shared.domain.versions.semver import InvalidVersion, Version, compare, constrain, normalize, parse

CONTROL_PLANE = "controlPlane"
Subject = Literal["kubernetes", "machineImage"]
Kind = Literal["auto", "force"]
Result = TypeVar("Result")
ZERO = parse("0.0.0").key
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""What is dated later (9999-12-31 is common) is meant not to come: nothing is foretold beyond."""
MOMENT = timedelta(seconds=1)
"""After its expiration date a version has expired; at it, it has not."""
AUTO_STEP, FORCE_STEP = "a higher patch version for automatic update", "version for forceful update"
"""What failed, in the original's words."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing to do. `trigger` is set where an update was attempted and nothing newer found."""

    code: str
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Move `to` a version (in the profile's spelling)."""

    to: str
    kind: Kind
    trigger: str
    reason: str

    @property
    def code(self) -> str:
        """The reason's code."""
        return TRIGGERS[self.trigger]


@dataclass(frozen=True, slots=True)
class Stuck:
    """An update is due and cannot be decided. `error` is the whole text, as the original reports it."""

    code: str
    error: str
    trigger: str | None = None
    reason: str = ""


VersionOutcome = Keep | Update | Stuck


@dataclass(frozen=True, slots=True)
class Decision:
    """What is decided for one version of one cluster. `component` is `controlPlane` or `worker/POOL`."""

    component: str
    subject: Subject
    current: str | None
    outcome: VersionOutcome
    image: str = ""
    expires: datetime | None = None
    """When the current version expires."""
    forced: Update | None = None
    """What it would be forced to by then; what it is forced to, where that is due. None: it never expires, or nothing would be there."""
    held: Held | None = None
    """What keeps it back."""
    waived: Waived | None = None
    """Why it goes although something would keep it back."""

    @property
    def changes(self) -> bool:
        """Whether it changes something. The cap may yield a pool's own version again, which changes nothing."""
        return isinstance(self.outcome, Update) and self.outcome.to != self.current

    @property
    def description(self) -> str:
        """One sentence for people; the original's where it has one."""
        match self.outcome:
            case Update(to=to):
                what = f'machine image "{self.image}"' if self.subject == "machineImage" else "Kubernetes version"
                return f'Updated {what} from "{self.current}" to "{to}"'
            case Stuck(error=error):
                return error
            case Keep(code=code):
                return sentence(code)


class VersionRules:
    """The decisions that one profile gives at one moment."""

    def __init__(self, profile: CloudProfile, now: datetime) -> None:
        self.profile = profile
        self._now = now
        self._kubernetes: Track | None = None
        self._machine_types = {machine.name: machine for machine in reversed(profile.machine_types)}
        self._architectures = {machine.name: architecture_of(machine, profile) for machine in self._machine_types.values()}
        self._images: dict[str, Image | None] = {}
        self._kept: dict[tuple[object, ...], Track | Stuck] = {}
        self._tracks: dict[tuple[str, tuple[int, ...]], Track] = {}
        self._known_kubernetes: dict[tuple[str, bool], VersionOutcome] = {}
        self._known_images: dict[tuple[object, ...], VersionOutcome] = {}
        self._capped: dict[tuple[Update, str], VersionOutcome] = {}
        self._expires: dict[tuple[str, str], datetime | None] = {}

    def decide(self, cluster: FleetCluster) -> list[Decision]:
        """Everything about one cluster, in the order it is applied: images, control plane, the pools' own Kubernetes versions."""
        decisions = [
            Decision(f"worker/{pool.name}", "machineImage", pool.image_version, self.image(pool, cluster), pool.image or "")
            for pool in cluster.pools
        ]
        control_plane = self.kubernetes(cluster.kubernetes, cluster.auto_kubernetes)
        decisions.append(Decision(CONTROL_PLANE, "kubernetes", cluster.kubernetes, control_plane))
        reached = _reached(control_plane, cluster)
        decisions += [
            Decision(
                f"worker/{pool.name}",
                "kubernetes",
                pool.kubernetes,
                self.pool_kubernetes(pool.kubernetes, cluster.auto_kubernetes, reached),
            )
            for pool in cluster.pools
            if pool.kubernetes is not None
        ]
        return decisions

    def kubernetes(self, current: str | None, auto: bool) -> VersionOutcome:
        """The control plane's Kubernetes version; also what a pool's own version would move to without the cap."""
        if current is None:
            return Keep("VersionNotDeclared")
        known = self._known_kubernetes.get((current, auto))
        if known is None:
            known = self._known_kubernetes[current, auto] = _decide_kubernetes(self._track(), current, auto)
        return known

    def pool_kubernetes(self, current: str, auto: bool, control_plane: str | None) -> VersionOutcome:
        """A pool's own Kubernetes version: never above the control plane's, and printed normalised."""
        outcome = self.kubernetes(current, auto)
        if not isinstance(outcome, Update):
            return outcome
        key = (outcome, control_plane or "")
        if key not in self._capped:
            self._capped[key] = _capped(outcome, current, control_plane)
        return self._capped[key]

    def image(self, pool: Pool, cluster: FleetCluster) -> VersionOutcome:
        """A pool's machine image, decided with the Kubernetes versions as they are before this run."""
        if pool.image is None or pool.image_version is None:
            return Keep(pool.no_image or "VersionNotDeclared")
        track = self._image_track(pool, cluster, pool.image)
        if isinstance(track, Stuck):
            return track
        decided = (track, pool.image, pool.image_version, cluster.auto_image)
        known = self._known_images.get(decided)
        if known is None:
            known = self._known_images[decided] = _decide_image(track, pool.image, pool.image_version, cluster.auto_image)
        return known

    def _image_track(self, pool: Pool, cluster: FleetCluster, name: str) -> Track | Stuck:
        """The versions of its image that a pool may run."""
        machine = self._machine_types.get(pool.machine_type)
        if machine is None:
            error = f'machine type "{pool.machine_type}" of worker "{pool.name}" does not exist in cloudprofile'
            return Stuck("UnknownMachineType", _image_error(name, error))
        architecture = pool.architecture or self._architectures[machine.name]
        kubelet = cluster.kubernetes if pool.kubernetes is None else pool.kubernetes
        capable = machine.name if self.profile.capabilities else ""
        key = (name, architecture, capable, pool.cri, pool.runtimes, kubelet, pool.image_version if pool.in_place else None)
        if key not in self._kept:
            self._kept[key] = self._keep(pool, cluster, name)
        return self._kept[key]

    def below(self, decision: Decision, cluster: FleetCluster) -> list[str]:
        """What a cluster may take instead of the version that was decided: between the current one and that, the highest first.

        Of Kubernetes only patches of the minor that it would move to. A pool's version is printed normalised.
        """
        pool = next((pool for pool in cluster.pools if f"worker/{pool.name}" == decision.component), None)
        if not isinstance(decision.outcome, Update):
            return []
        if pool is not None and decision.subject == "machineImage":
            track = self._image_track(pool, cluster, pool.image or "")
            return [] if isinstance(track, Stuck) else track.between(decision.current or "", decision.outcome.to)
        found = self._track().between(decision.current or "", decision.outcome.to, same_minor=True)
        return found if pool is None else [str(parse(version)) for version in found]

    def outcome_of(self, decision: Decision, cluster: FleetCluster) -> VersionOutcome:
        """The outcome, by these rules, for the component of a cluster that a decision is about."""
        pool = next((pool for pool in cluster.pools if f"worker/{pool.name}" == decision.component), None)
        if pool is not None and decision.subject == "machineImage":
            return self.image(pool, cluster)
        control_plane = self.kubernetes(cluster.kubernetes, cluster.auto_kubernetes)
        if pool is None or pool.kubernetes is None:
            return control_plane
        return self.pool_kubernetes(pool.kubernetes, cluster.auto_kubernetes, _reached(control_plane, cluster))

    def expires(self, decision: Decision) -> datetime | None:
        """When the version that a decision is about expires, as the profile says."""
        if decision.current is None:
            return None
        key = (decision.image, decision.current)
        if key not in self._expires:
            self._expires[key] = self._expiry(decision.image, decision.current)
        return self._expires[key]

    def _expiry(self, image: str, current: str) -> datetime | None:
        if image:
            versions = next((listed.versions for listed in self.profile.images if listed.name == image), ())
            return next((offered.expires for offered in versions if offered.version == current), None)
        try:
            offer = _listed_as(self._track(), current)
        except InvalidVersion:
            return None
        return offer.expires if offer else None

    def _track(self) -> Track:
        """The Kubernetes versions."""
        if self._kubernetes is None:
            self._kubernetes = Track(self.profile.kubernetes, self._now)
        return self._kubernetes

    def verdicts(self, cluster: FleetCluster, decision: Decision) -> list[tuple[str, str, str]]:
        """Every version on offer for what a decision is about: version, classification, and why it was chosen or not."""
        offered: Iterable[Offered] = self.profile.kubernetes
        refused: Callable[[Offered], str | None] = lambda _: None  # noqa: E731 - one of two, by subject
        if decision.subject == "machineImage":
            pool = next(pool for pool in cluster.pools if f"worker/{pool.name}" == decision.component)
            image = self._image(pool.image or "")
            offered = image.versions if image else ()
            if not isinstance(decision.outcome, Stuck) or decision.outcome.trigger:
                needs = self._needs(pool, cluster)
                refused = lambda version: refusal(version, needs, self.profile) if isinstance(version, ImageVersion) else None  # noqa: E731
        chosen = _listed(decision.outcome.to, offered) if isinstance(decision.outcome, Update) else None
        current = _parsed(decision.current or "")
        return [
            (version.version, version.at(self._now), refused(version) or _verdict(version.version, version.at(self._now), current, chosen))
            for version in offered
        ]

    def _keep(self, pool: Pool, cluster: FleetCluster, name: str) -> Track | Stuck:
        """The versions of an image that a pool may run. Pools that may run the same ones share a track, and so its decisions."""
        image = self._image(name)
        if image is None:
            error = (
                "failure while determining the default machine image in the CloudProfile: no machineImage with name "
                f'"{name}" (specified in shoot) could be found in the cloudProfile "{self.profile.name}"'
            )
            return Stuck("UnknownMachineImage", _image_error(name, error))
        try:
            needs = self._needs(pool, cluster)
        except InvalidVersion as error:
            return Stuck("InvalidVersion", _image_error(name, str(error)))
        kept = tuple(number for number, version in enumerate(image.versions) if refusal(version, needs, self.profile) is None)
        if (image.name, kept) not in self._tracks:
            versions = (image.versions[number] for number in kept)
            self._tracks[image.name, kept] = Track(versions, self._now, image.name, image.strategy or "major")
        return self._tracks[image.name, kept]

    def _needs(self, pool: Pool, cluster: FleetCluster) -> Needs:
        machine = self._machine_types[pool.machine_type]
        kubelet = parse((cluster.kubernetes if pool.kubernetes is None else pool.kubernetes) or "")
        current = pool.image_version if pool.in_place else None
        return Needs(pool.architecture or self._architectures[machine.name], machine, pool.cri, pool.runtimes, kubelet, current)

    def _image(self, name: str) -> Image | None:
        """The first image of this name, whatever its case."""
        if name not in self._images:
            wanted = name.casefold()
            self._images[name] = next((image for image in self.profile.images if image.name.casefold() == wanted), None)
        return self._images[name]


class Timeline:
    """One profile through time: rules are compiled once for every stretch in which no version changes its classification."""

    def __init__(self, profile: CloudProfile) -> None:
        self.profile = profile
        self.transitions = profile.transitions()
        self._rules: dict[int, VersionRules] = {}

    def at(self, now: datetime) -> VersionRules:
        """The rules at this moment."""
        stretch = bisect_left(self.transitions, now)
        if stretch not in self._rules:
            self._rules[stretch] = VersionRules(self.profile, now)
        return self._rules[stretch]

    def decide(self, cluster: FleetCluster, now: datetime) -> list[Decision]:
        """Everything about one cluster, with the ends of its versions and what it would be forced to by then."""
        rules = self.at(now)
        return [self._foreseen(decision, cluster, rules) for decision in rules.decide(cluster)]

    def _foreseen(self, decision: Decision, cluster: FleetCluster, rules: VersionRules) -> Decision:
        expires = rules.expires(decision)
        if isinstance(decision.outcome, Update) and decision.outcome.trigger != AUTO_UPDATE:
            return replace(decision, expires=expires, forced=decision.outcome)
        if expires is None or expires >= NEVER or isinstance(decision.outcome, Stuck):
            return replace(decision, expires=expires)
        by_then = self.at(expires + MOMENT).outcome_of(decision, cluster)
        return replace(decision, expires=expires, forced=by_then if isinstance(by_then, Update) else None)

    def changes_after(self, now: datetime) -> datetime | None:
        """The next moment after which some version counts as something else."""
        stretch = bisect_left(self.transitions, now)
        return self.transitions[stretch] if stretch < len(self.transitions) else None


def without_profile(cluster: FleetCluster) -> list[Decision]:
    """The decisions for a cluster whose profile is not there: each one an error that says so."""
    kind = "NamespacedCloudProfile" if cluster.own else "CloudProfile"
    stuck = Stuck("CloudProfileNotFound", f'{kind} "{cluster.profile}" of {cluster.id} is not among the documents')
    decisions = [Decision(f"worker/{pool.name}", "machineImage", pool.image_version, stuck, pool.image or "") for pool in cluster.pools]
    decisions.append(Decision(CONTROL_PLANE, "kubernetes", cluster.kubernetes, stuck))
    decisions += [
        Decision(f"worker/{pool.name}", "kubernetes", pool.kubernetes, stuck) for pool in cluster.pools if pool.kubernetes is not None
    ]
    return decisions


# --- choosing -------------------------------------------------------------------------------------------------------------------------

Keeps = Callable[[Version], bool]


@dataclass(frozen=True, slots=True)
class Offer:
    """A version on offer: its text, what it parses to (None: it doesn't), what it counts as, and when it expires."""

    text: str
    version: Version | None
    stage: str
    expires: datetime | None


class Track:
    """The versions that one thing may have, classified at one moment, in the profile's order; for an image its name and strategy too."""

    def __init__(self, versions: Iterable[Offered], now: datetime, name: str = "", strategy: str = "patch") -> None:
        self.name = name
        self.strategy = strategy
        self.offers = tuple(Offer(version.version, _parsed(version.version), version.at(now), version.expires) for version in versions)

    def _readable(self) -> Iterator[tuple[Offer, Version]]:
        """All but previews, which nothing ever chooses. Raises InvalidVersion at one that cannot be read."""
        for offer in self.offers:
            if offer.stage == PREVIEW:
                continue
            if offer.version is None:
                raise InvalidVersion(f"error while parsing version '{offer.text}': {_why(offer.text)}")
            if offer.stage != UNAVAILABLE:
                yield offer, offer.version

    def best(self, keeps: Keeps, without: frozenset[str]) -> str | None:
        """The highest version that qualifies, above 0.0.0; of equal ones the first listed."""
        best, key = None, ZERO
        for offer, version in self._readable():
            if offer.stage not in without and version.key > key and keeps(version):
                best, key = offer.text, version.key
        return best

    def between(self, current: str, target: str, *, same_minor: bool = False) -> list[str]:
        """The versions above one and below another that are neither expired nor in preview, the highest first."""
        low, high = _parsed(current), _parsed(target)
        if low is None or high is None:
            return []
        reach = _patches(parse(f"{high.major}.{high.minor}.0")) if same_minor else lambda _: True
        found = {
            offer.version.key: offer.text
            for offer in reversed(self.offers)
            if offer.version and offer.stage in (SUPPORTED, DEPRECATED) and low.key < offer.version.key < high.key and reach(offer.version)
        }
        return [found[key] for key in sorted(found, reverse=True)]

    def auto(self, current: Version, reach: Keeps) -> str | None:
        """The highest version above the current one within reach: one that is not deprecated, else a deprecated one."""

        def keeps(version: Version) -> bool:
            return version.key > current.key and reach(version)

        return self.best(keeps, frozenset([EXPIRED, DEPRECATED])) or self.best(keeps, frozenset([EXPIRED]))

    def next_group(self, group: Callable[[Version], int], keeps: Keeps) -> str | None:
        """The highest version of the lowest group that has any; one that is not expired, where the group has such a one."""
        for offer in self.offers:
            if offer.version is None:
                raise InvalidVersion(f"error while parsing version '{offer.text}': {_why(offer.text)}")
        kept = sorted(((version, offer) for offer, version in self._readable() if keeps(version)), key=lambda pair: pair[0].key)
        if not kept:
            return None
        lowest = group(kept[0][0])
        last = [offer for version, offer in kept if group(version) == lowest]
        return next((offer.text for offer in reversed(last) if offer.stage != EXPIRED), last[-1].text)

    def why_nothing(self, keeps: Keeps, code: str) -> str:
        """The code for finding nothing among the versions that `keeps` admits; `code` where it admits none at all."""
        stages = {offer.stage for offer in self.offers if offer.version is not None and keeps(offer.version)}
        if PREVIEW in stages:
            return "OnlyPreviewAvailable"
        if UNAVAILABLE in stages:
            return "NotYetAvailable"
        return "AllTargetsExpired" if EXPIRED in stages else code


def _parsed(text: str) -> Version | None:
    try:
        return parse(text)
    except InvalidVersion:
        return None


def _why(text: str) -> str:
    try:
        parse(text)
    except InvalidVersion as error:
        return str(error)
    return ""


def _patches(current: Version) -> Keeps:
    """Same minor, patch not lower, pre-releases cut off. From 0.0.0 everything: the compare helper's `~0.0.0` accepts all."""
    major, minor, patch = current.core
    if current.core == (0, 0, 0):
        return lambda _: True
    return lambda version: version.major == major and version.minor == minor and version.patch >= patch


def _no_suitable(current: str) -> str:
    return (
        f'cannot perform forceful update of expired version "{current}". No suitable version found in CloudProfile - '
        "this is most likely a misconfiguration of the CloudProfile"
    )


def _decide_kubernetes(track: Track, current: str, auto: bool) -> VersionOutcome:
    trigger: str | None = None
    try:
        trigger = _kubernetes_trigger(track, current, auto)
        if trigger is None:
            return Keep("AutoUpdateDisabled")
        reason = KUBERNETES_REASONS[trigger]
        version = parse_for_update(current)
        patches = _patches(version)
        target = _named(AUTO_STEP, lambda: track.auto(version, patches))
        if target is not None:
            return Update(target, "auto", trigger, reason)
        if trigger == AUTO_UPDATE:
            return Keep(track.why_nothing(lambda offer: offer.key > version.key and patches(offer), "AlreadyLatest"), trigger)
        target = _named(FORCE_STEP, lambda: _consecutive(track, version))
        if target is not None:
            return Update(target, "force", trigger, reason)
        code = track.why_nothing(lambda offer: _is_consecutive(offer, version), "NoConsecutiveMinor")
        return Stuck(code, _kubernetes_error(current, _no_suitable(current)), trigger, reason)
    except InvalidVersion as error:
        return Stuck("InvalidVersion", _kubernetes_error(current, str(error)), trigger, KUBERNETES_REASONS.get(trigger or "", ""))


def _kubernetes_trigger(track: Track, current: str, auto: bool) -> str | None:
    offer = _listed_as(track, current)
    if offer is None:
        return MISSING
    return EXPIRED_TRIGGER if offer.stage == EXPIRED else AUTO_UPDATE if auto else None


def _listed_as(track: Track, current: str) -> Offer | None:
    """The first version on offer that counts as the current one. Raises InvalidVersion."""
    if not track.offers:
        return None
    wanted = constrain(f"= {normalize(current)}")
    return next((offer for offer in track.offers if wanted.accepts(parse(normalize(offer.text)))), None)


def parse_for_update(current: str) -> Version:
    """The current version, parsed; the original notices here that it cannot be read. Raises InvalidVersion."""
    return _named(AUTO_STEP, lambda: parse(current))


def _named(what: str, act: Callable[[], Result]) -> Result:
    try:
        return act()
    except InvalidVersion as error:
        raise InvalidVersion(f"failed to determine {what}: {error}") from error


def _is_consecutive(version: Version, current: Version) -> bool:
    return version.major == current.major and version.minor == current.minor + 1


def _consecutive(track: Track, current: Version) -> str | None:
    def keeps(version: Version) -> bool:
        return _is_consecutive(version, current)

    return track.best(keeps, frozenset([EXPIRED])) or track.best(keeps, frozenset())


def _kubernetes_error(current: str, error: str) -> str:
    return f'could not determine higher suitable version than "{current}": {error}'


def _reached(control_plane: VersionOutcome, cluster: FleetCluster) -> str | None:
    """The control plane's version after this run."""
    return control_plane.to if isinstance(control_plane, Update) else cluster.kubernetes


def _capped(outcome: Update, current: str, control_plane: str | None) -> VersionOutcome:
    try:
        target, limit = parse(outcome.to), parse(control_plane or "")
    except InvalidVersion as error:
        return Stuck("InvalidVersion", _kubernetes_error(current, str(error)), outcome.trigger, outcome.reason)
    return Update(str(limit if target.key > limit.key else target), outcome.kind, outcome.trigger, outcome.reason)


# --- machine images -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Needs:
    """What a pool demands of an image version. `in_place_from` is the current version of a pool that is updated in place."""

    architecture: str
    machine: MachineType
    cri: str
    runtimes: tuple[str, ...]
    kubelet: Version
    in_place_from: str | None


def architecture_of(machine: MachineType, profile: CloudProfile) -> str:
    """A machine type's architecture: its one capability value, else its field, else amd64."""
    values = machine.capabilities.get(ARCHITECTURE, profile.capabilities.get(ARCHITECTURE, ()))
    if ARCHITECTURE in profile.capabilities and len(values) == 1:
        return values[0]
    return machine.architecture or AMD64


def architectures_of(version: ImageVersion, profile: CloudProfile) -> tuple[str, ...]:
    """The architectures an image version runs on."""
    if not version.flavors and profile.capabilities.get(ARCHITECTURE):
        return profile.capabilities[ARCHITECTURE]
    union = tuple(value for flavor in version.flavors for value in flavor.get(ARCHITECTURE, ()))
    return union or version.architectures or (() if profile.capabilities else (AMD64,))


def refusal(version: ImageVersion, needs: Needs, profile: CloudProfile) -> str | None:
    """Why a pool may not run this image version at all (docs/versions.md §5, the five filters in their order); None where it may."""
    if needs.architecture not in architectures_of(version, profile):
        return f"does not run on {needs.architecture}"
    if not _has_capabilities(version, needs.machine, profile.capabilities):
        return f"lacks a capability of machine type {needs.machine.name}"
    if not _has_runtimes(version.cri or (Runtime(CONTAINERD),), needs):
        return f"lacks {' with '.join([needs.cri, *needs.runtimes])}"
    if not _takes_kubelet(version, needs.kubelet):
        return f"takes Kubernetes {version.kubelet}, not {needs.kubelet}"
    if needs.in_place_from is not None and not _updates_in_place(version, needs.in_place_from):
        return f"cannot be reached in place from {needs.in_place_from}"
    return None


def _listed(target: str, offered: Iterable[Offered]) -> str:
    """How the profile spells a target: a pool's Kubernetes version is printed normalised (docs/versions.md §0)."""
    spellings = [offer.version for offer in offered]
    return target if target in spellings else next((text for text in spellings if _parsed(text) == _parsed(target)), target)


def _verdict(text: str, stage: str, current: Version | None, chosen: str | None) -> str:
    version = _parsed(text)
    if text == chosen:
        return "chosen"
    if version is None:
        return "cannot be read"
    if current is not None and version.key <= current.key:
        return "the current version" if version.key == current.key else "lower"
    never = {PREVIEW: "in preview: never chosen", UNAVAILABLE: "not released yet", EXPIRED: "expired: only a forced update may move there"}
    return never.get(stage, "out of reach, or another one is better" if chosen else "out of reach of this update")


def _has_capabilities(version: ImageVersion, machine: MachineType, definitions: Mapping[str, tuple[str, ...]]) -> bool:
    return not definitions or not version.flavors or any(
        all(
            set(flavor.get(name, every)) & set(machine.capabilities.get(name, every))
            for name, every in definitions.items()
        )
        for flavor in version.flavors
    )  # fmt: skip


def _has_runtimes(offered: tuple[Runtime, ...], needs: Needs) -> bool:
    runtime = next((listed for listed in offered if listed.name == needs.cri), None)
    return runtime is not None and set(needs.runtimes) <= set(runtime.types)


def _takes_kubelet(version: ImageVersion, kubelet: Version) -> bool:
    if version.kubelet is None:
        return True
    try:
        return constrain(version.kubelet).accepts(kubelet)
    except InvalidVersion:
        return False


def _updates_in_place(version: ImageVersion, current: str) -> bool:
    if not version.in_place:
        return False
    if version.version == current:
        return True
    if version.in_place_from is None:
        return False
    try:
        return compare(version.in_place_from, "<=", current)
    except InvalidVersion:
        return False


@dataclass(frozen=True, slots=True)
class Strategy:
    """How far automatic updates of an image reach beyond the patches of its minor, and where forced ones go."""

    reach: Callable[[Version, Version], bool] | None
    group: Callable[[Version], int] | None
    forced: Callable[[Version, Version], bool]
    stuck: str


def _same_major(version: Version, current: Version) -> bool:
    return version.major == current.major


STRATEGIES: dict[str, Strategy] = {
    "patch": Strategy(
        None,
        lambda version: version.minor,
        lambda version, current: _same_major(version, current) and version.minor > current.minor,
        "NoHigherMinor",
    ),
    "minor": Strategy(_same_major, lambda version: version.major, lambda version, current: version.major > current.major, "NoHigherMajor"),
    "major": Strategy(lambda *_: True, None, lambda version, current: version.key > current.key, "EndOfLife"),
}


def _decide_image(track: Track, name: str, current: str, auto: bool) -> VersionOutcome:
    trigger = _image_trigger(track, name, current, auto)
    if trigger is None:
        return Keep("AutoUpdateDisabled")
    reason = IMAGE_REASONS[trigger].format(strategy=track.strategy)
    strategy = STRATEGIES.get(track.strategy, STRATEGIES["major"])
    try:
        version = parse_for_update(current)
        patches, forced = _patches(version), _beside(strategy.forced, version)
        reach = patches if strategy.reach is None else _beside(strategy.reach, version)
        target = _named(AUTO_STEP, lambda: track.auto(version, patches) or track.auto(version, reach))
        if target is not None:
            return Update(target, "auto", trigger, reason)
        if trigger == AUTO_UPDATE:
            return Keep(track.why_nothing(lambda offer: offer.key > version.key and reach(offer), "AlreadyLatest"), trigger)
        group = strategy.group
        target = None if group is None else _named(FORCE_STEP, lambda: track.next_group(group, forced))
        if target is not None:
            return Update(target, "force", trigger, reason)
        code = track.why_nothing(forced, strategy.stuck)
        error = _no_suitable(current) if group is not None else f"failed to determine {FORCE_STEP}: {_end_of_life(name, current)}"
    except InvalidVersion as invalid:
        code, error = "InvalidVersion", str(invalid)
    error = (
        f'failed to determine the target version for maintenance of machine image "{track.name}" with strategy "{track.strategy}": {error}'
    )
    return Stuck(code, _image_error(name, error), trigger, reason)


def image_outcome(image: Image, version: str, now: datetime) -> VersionOutcome:
    """What becomes of an image version at a moment, in a pool that all versions of the image fit and that lets itself be updated."""
    return _decide_image(Track(image.versions, now, image.name, image.strategy or "major"), image.name, version, True)


def _image_trigger(track: Track, name: str, current: str, auto: bool) -> str | None:
    """The image's name and version are compared as they are written; a version that a filter removed does not exist."""
    if track.name == name:
        for offer in track.offers:
            if offer.text == current:
                return EXPIRED_TRIGGER if offer.stage == EXPIRED else AUTO_UPDATE if auto else None
    return MISSING


def _beside(relation: Callable[[Version, Version], bool], current: Version) -> Keeps:
    return lambda version: relation(version, current)


def _end_of_life(name: str, current: str) -> str:
    return (
        f'either the machine image "{name}" is reaching end of life and migration to another machine image is required or there '
        "is a misconfiguration in the CloudProfile. If it is the latter, make sure the machine image in the CloudProfile has at least one "
        f'version that is not expired, not in preview and greater or equal to the current Shoot image version "{current}"'
    )


def _image_error(name: str, error: str) -> str:
    return f'failed to update machine image "{name}": {error}'
