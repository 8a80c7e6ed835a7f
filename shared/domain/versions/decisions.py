"""Which version a cluster, a pool or a machine image moves to, and why: Gardener's maintenance decisions (docs/versions.md §2 to §5).

A profile is compiled once (`Timeline`): versions parsed and sorted, with the moments at which each counts as something else. Nothing is
remembered from one decision to the next.
Three deliberate differences from the original: versions not released yet are never chosen; a forced image update prefers a version
that is not expired in the group it moves to; and a pool with an unknown image or machine type fails alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

from shared.domain.reasons.versions import sentence
from shared.domain.versions.catalogue import CloudProfile, Image, ImageVersion
from shared.domain.versions.classification import EXPIRED, PREVIEW, UNAVAILABLE
from shared.domain.versions.clusters import FleetCluster, Pool
from shared.domain.versions.demands import Definitions, Demands, Needs, architecture_of, numbered, reached_in_place
from shared.domain.versions.held import Held, Waived
from shared.domain.versions.reasons import AUTO_UPDATE, IMAGE_REASONS, KUBERNETES_REASONS, MISSING, TRIGGERS
from shared.domain.versions.reasons import EXPIRED as EXPIRED_TRIGGER
from shared.domain.versions.semver import InvalidVersion, Version, parse
from shared.domain.versions.tracks import Fits, Offer, Stretch, Track, anybody, best_of, highest_of, offer_of, parsed_or_none

CONTROL_PLANE = "controlPlane"
Subject = Literal["kubernetes", "machineImage"]
Kind = Literal["auto", "force"]
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


Outcomes = Callable[[datetime], VersionOutcome]
"""What becomes of one version of one cluster, at any moment."""


class Timeline:
    """What one profile makes of the versions of clusters, at any moment."""

    def __init__(self, profile: CloudProfile) -> None:
        self.profile = profile
        self.kubernetes_track = Track(map(offer_of, profile.kubernetes))
        self._machine_types = {machine.name: machine for machine in reversed(profile.machine_types)}
        self._architectures = {machine.name: architecture_of(machine, profile) for machine in self._machine_types.values()}
        images = [ImageOffers.of(image, profile) for image in reversed(profile.images)]
        self._exactly = {offers.image.name: offers for offers in images}
        self._whatever_case = {offers.image.name.casefold(): offers for offers in images}
        self._transitions: list[datetime] | None = None

    def at(self, now: datetime) -> VersionRules:
        """The rules at a moment."""
        return VersionRules(self, now)

    def decide(self, cluster: FleetCluster, now: datetime) -> list[Decision]:
        """Everything about one cluster, in the order it is applied: images, control plane, the pools' own Kubernetes versions.

        With the ends of its versions, and what it would be forced to by then.
        """
        decisions = [self._image_decision(pool, cluster, now) for pool in cluster.pools]
        auto = cluster.auto_kubernetes
        control_plane = partial(self.kubernetes, cluster.kubernetes, auto)
        decisions.append(self._kubernetes_decision(CONTROL_PLANE, cluster.kubernetes, control_plane, now))
        for pool in cluster.pools:
            if pool.kubernetes is not None:
                outcomes = partial(self.pool_kubernetes, pool.kubernetes, auto, cluster)
                decisions.append(self._kubernetes_decision(f"worker/{pool.name}", pool.kubernetes, outcomes, now))
        return decisions

    def _image_decision(self, pool: Pool, cluster: FleetCluster, now: datetime) -> Decision:
        component, image = f"worker/{pool.name}", pool.image or ""
        exactly = self._exactly.get(image)
        offer = exactly.track.spelled(pool.image_version) if exactly and pool.image_version is not None else None
        outcomes, expires = self.image(pool, cluster), offer.expires if offer else None
        outcome, forced = _foreseen(outcomes, expires, now)
        return Decision(component, "machineImage", pool.image_version, outcome, image, expires, forced)

    def _kubernetes_decision(self, component: str, current: str | None, outcomes: Outcomes, now: datetime) -> Decision:
        expires = self._end_of_kubernetes(current)
        outcome, forced = _foreseen(outcomes, expires, now)
        return Decision(component, "kubernetes", current, outcome, "", expires, forced)

    def _end_of_kubernetes(self, current: str | None) -> datetime | None:
        try:
            offer = None if current is None else self.kubernetes_track.listed_as(current)
        except InvalidVersion:
            return None
        return offer.expires if offer else None

    def kubernetes(self, current: str | None, auto: bool, now: datetime) -> VersionOutcome:
        """The control plane's Kubernetes version; also what a pool's own version would move to without the cap."""
        return Keep("VersionNotDeclared") if current is None else _decide_kubernetes(self.kubernetes_track, current, auto, now)

    def pool_kubernetes(self, current: str, auto: bool, cluster: FleetCluster, now: datetime) -> VersionOutcome:
        """A pool's own Kubernetes version: never above the control plane's after the same run, and printed normalised."""
        outcome = self.kubernetes(current, auto, now)
        if not isinstance(outcome, Update):
            return outcome
        return _capped(outcome, current, _reached(self.kubernetes(cluster.kubernetes, auto, now), cluster))

    def image(self, pool: Pool, cluster: FleetCluster) -> Outcomes:
        """A pool's machine image, decided with the Kubernetes versions as they are before the run."""
        if pool.image is None or pool.image_version is None:
            return lambda _: Keep(pool.no_image or "VersionNotDeclared")
        choice = self.choice(pool, cluster)
        if isinstance(choice, Stuck):
            return lambda _: choice
        return partial(_decide_image, choice.offers, choice.fits, pool.image, pool.image_version, cluster.auto_image)

    def choice(self, pool: Pool, cluster: FleetCluster) -> Choice | Stuck:
        """What a pool may choose its machine image from."""
        name = pool.image or ""
        machine = self._machine_types.get(pool.machine_type)
        if machine is None:
            error = f'machine type "{pool.machine_type}" of worker "{pool.name}" does not exist in cloudprofile'
            return Stuck("UnknownMachineType", _image_error(name, error))
        offers = self.image_offers(name)
        if offers is None:
            error = (
                "failure while determining the default machine image in the CloudProfile: no machineImage with name "
                f'"{name}" (specified in shoot) could be found in the cloudProfile "{self.profile.name}"'
            )
            return Stuck("UnknownMachineImage", _image_error(name, error))
        try:
            kubelet = self.kubernetes_track.parsed((cluster.kubernetes if pool.kubernetes is None else pool.kubernetes) or "")
        except InvalidVersion as error:
            return Stuck("InvalidVersion", _image_error(name, str(error)))
        architecture = pool.architecture or self._architectures[machine.name]
        in_place_from = pool.image_version if pool.in_place else None
        return Choice(offers, Needs(architecture, machine, pool.cri, pool.runtimes, kubelet, in_place_from), self.profile.capabilities)

    def image_offers(self, name: str) -> ImageOffers | None:
        """The first image of this name, whatever its case."""
        return self._whatever_case.get(name.casefold())

    def changes_after(self, now: datetime) -> datetime | None:
        """The next moment after which some version counts as something else."""
        if self._transitions is None:
            self._transitions = self.profile.transitions()
        stretch = bisect_left(self._transitions, now)
        return self._transitions[stretch] if stretch < len(self._transitions) else None


def _foreseen(outcomes: Outcomes, expires: datetime | None, now: datetime) -> tuple[VersionOutcome, Update | None]:
    """What becomes of a version now, and what it would be forced to when it expires."""
    outcome = outcomes(now)
    if isinstance(outcome, Update) and outcome.trigger != AUTO_UPDATE:
        return outcome, outcome
    if expires is None or expires >= NEVER or isinstance(outcome, Stuck):
        return outcome, None
    by_then = outcomes(expires + MOMENT)
    return outcome, by_then if isinstance(by_then, Update) else None


@dataclass(frozen=True, slots=True)
class VersionRules:
    """What a profile makes of versions at one moment."""

    timeline: Timeline
    now: datetime

    def decide(self, cluster: FleetCluster) -> list[Decision]:
        """Everything about one cluster."""
        return self.timeline.decide(cluster, self.now)

    def kubernetes(self, current: str | None, auto: bool) -> VersionOutcome:
        """A control plane's Kubernetes version."""
        return self.timeline.kubernetes(current, auto, self.now)

    def image(self, pool: Pool, cluster: FleetCluster) -> VersionOutcome:
        """A pool's machine image."""
        return self.timeline.image(pool, cluster)(self.now)

    def below(self, decision: Decision, cluster: FleetCluster) -> list[str]:
        """What a cluster may take instead of the version that was decided: between the current one and that, the highest first.

        Of Kubernetes only patches of the minor that it would move to. A pool's version is printed normalised.
        """
        pool = next((pool for pool in cluster.pools if f"worker/{pool.name}" == decision.component), None)
        current, outcome = decision.current or "", decision.outcome
        if not isinstance(outcome, Update):
            return []
        if pool is not None and decision.subject == "machineImage":
            choice = self.timeline.choice(pool, cluster)
            return [] if isinstance(choice, Stuck) else choice.offers.track.between(current, outcome.to, self.now, choice.fits)
        found = self.timeline.kubernetes_track.between(current, outcome.to, self.now, anybody, minor=True)
        return found if pool is None else [str(parse(version)) for version in found]

    def verdicts(self, cluster: FleetCluster, decision: Decision) -> list[tuple[str, str, str]]:
        """Every version on offer for what a decision is about: version, classification, and why it was chosen or not."""
        offers = self.timeline.kubernetes_track.offers
        refused: Callable[[Offer], str | None] = _never_refused
        if decision.subject == "machineImage":
            pool = next(pool for pool in cluster.pools if f"worker/{pool.name}" == decision.component)
            image = self.timeline.image_offers(pool.image or "")
            offers = image.track.offers if image else ()
            choice = self.timeline.choice(pool, cluster)
            refused = _never_refused if isinstance(choice, Stuck) else choice.refusal
        chosen = _listed(decision.outcome.to, offers) if isinstance(decision.outcome, Update) else None
        current = parsed_or_none(decision.current or "")
        stages = [(offer, offer.life.at(self.now)) for offer in offers]
        return [(offer.text, stage, refused(offer) or _verdict(offer, stage, current, chosen)) for offer, stage in stages]


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


# --- Kubernetes -----------------------------------------------------------------------------------------------------------------------


def _decide_kubernetes(track: Track, current: str, auto: bool, now: datetime) -> VersionOutcome:
    trigger: str | None = None
    try:
        trigger = _trigger(track.listed_as(current), auto, now)
        if trigger is None:
            return Keep("AutoUpdateDisabled")
        version = parsed_for_update(track, current, now, anybody)
    except InvalidVersion as error:
        return Stuck("InvalidVersion", _kubernetes_error(current, str(error)), trigger, KUBERNETES_REASONS.get(trigger or "", ""))
    reason = KUBERNETES_REASONS[trigger]
    patches = track.highest(track.same_minor(version), now, anybody)
    if target := best_of(patches):
        return Update(target.text, "auto", trigger, reason)
    if trigger == AUTO_UPDATE:
        return Keep(_why_nothing(patches, "AlreadyLatest"), trigger)
    following = track.highest(track.next_minor(version), now, anybody)
    if target := highest_of(following):
        return Update(target.text, "force", trigger, reason)
    return Stuck(_why_nothing(following, "NoConsecutiveMinor"), _kubernetes_error(current, _no_suitable(current)), trigger, reason)


def _trigger(offer: Offer | None, auto: bool, now: datetime) -> str | None:
    """What makes an update be attempted, if anything does (docs/versions.md §2)."""
    if offer is None:
        return MISSING
    return EXPIRED_TRIGGER if offer.life.at(now) == EXPIRED else AUTO_UPDATE if auto else None


def parsed_for_update(track: Track, current: str, now: datetime, fits: Fits) -> Version:
    """The current version, parsed; the original notices here that it, or one on offer, cannot be read. Raises InvalidVersion."""
    try:
        version = track.parsed(current)
        track.check(now, fits)
    except InvalidVersion as error:
        raise InvalidVersion(f"failed to determine {AUTO_STEP}: {error}") from error
    return version


def _why_nothing(found: Mapping[str, Offer], code: str) -> str:
    """The code for finding nothing where only such versions are; `code` where there are none at all."""
    if PREVIEW in found:
        return "OnlyPreviewAvailable"
    if UNAVAILABLE in found:
        return "NotYetAvailable"
    return "AllTargetsExpired" if EXPIRED in found else code


def _no_suitable(current: str) -> str:
    return (
        f'cannot perform forceful update of expired version "{current}". No suitable version found in CloudProfile - '
        "this is most likely a misconfiguration of the CloudProfile"
    )


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
class Strategy:
    """How far automatic updates of an image reach beyond the patches of its minor, and where forced ones go: to the next `group`."""

    reach: Callable[[Track, Version], Stretch]
    forced: Callable[[Track, Version], Stretch]
    group: Callable[[Track, Version], Stretch] | None
    stuck: str


STRATEGIES: dict[str, Strategy] = {
    "patch": Strategy(Track.same_minor, Track.later_minors, Track.same_minor, "NoHigherMinor"),
    "minor": Strategy(Track.same_major, Track.later_majors, Track.same_major, "NoHigherMajor"),
    "major": Strategy(Track.above, Track.above, None, "EndOfLife"),
}


@dataclass(frozen=True, slots=True)
class ImageOffers:
    """A machine image of a profile, compiled: its versions, and what they demand, once for all that demand the same."""

    image: Image
    track: Track
    versions: Mapping[Offer, ImageVersion]
    demands: Sequence[Demands]
    reasons: Mapping[str, str]
    """Why an update of it is attempted, by trigger: Gardener's sentences with the strategy in them."""

    @classmethod
    def of(cls, image: Image, profile: CloudProfile) -> ImageOffers:
        """Compile an image."""
        demands, numbers = numbered(image.versions, profile)
        offers = list(map(offer_of, image.versions, numbers))
        reasons = {trigger: text.format(strategy=image.strategy or "major") for trigger, text in IMAGE_REASONS.items()}
        return cls(image, Track(offers), dict(zip(offers, image.versions, strict=True)), demands, reasons)

    @property
    def strategy(self) -> str:
        """Its update strategy's name."""
        return self.image.strategy or "major"


class Choice:
    """The versions of an image that one pool may run."""

    def __init__(self, offers: ImageOffers, needs: Needs, definitions: Definitions) -> None:
        self.offers = offers
        self._refusals = [demands.refusal(needs, definitions) for demands in offers.demands]
        self._in_place_from = needs.in_place_from
        self.fits: Fits = self._fits if needs.in_place_from is not None or any(self._refusals) else anybody

    def refusal(self, offer: Offer) -> str | None:
        """Why the pool may not run a version at all; None where it may."""
        if refusal := self._refusals[offer.demands]:
            return refusal
        current = self._in_place_from
        if current is not None and not reached_in_place(self.offers.versions[offer], current):
            return f"cannot be reached in place from {current}"
        return None

    def _fits(self, offer: Offer) -> bool:
        return self.refusal(offer) is None


def _decide_image(offers: ImageOffers, fits: Fits, name: str, current: str, auto: bool, now: datetime) -> VersionOutcome:
    track = offers.track
    # the name and the version are compared as they are written; a version that a filter removed does not exist
    trigger = _trigger(track.spelled(current, fits) if offers.image.name == name else None, auto, now)
    if trigger is None:
        return Keep("AutoUpdateDisabled")
    reason, strategy = offers.reasons[trigger], STRATEGIES.get(offers.strategy, STRATEGIES["major"])
    try:
        version = parsed_for_update(track, current, now, fits)
        found = track.highest(track.same_minor(version), now, fits)
        if not best_of(found) and strategy.reach is not Track.same_minor:
            found = track.highest(strategy.reach(track, version), now, fits)
        if target := best_of(found):
            return Update(target.text, "auto", trigger, reason)
        if trigger == AUTO_UPDATE:
            return Keep(_why_nothing(found, "AlreadyLatest"), trigger)
        if target := _next_group(track, strategy, version, now, fits):
            return Update(target.text, "force", trigger, reason)
        code = _why_nothing(track.highest(strategy.forced(track, version), now, fits), strategy.stuck)
        error = f"failed to determine {FORCE_STEP}: {_end_of_life(name, current)}" if strategy.group is None else _no_suitable(current)
    except InvalidVersion as invalid:
        code, error = "InvalidVersion", str(invalid)
    what = f'machine image "{offers.image.name}" with strategy "{offers.strategy}"'
    return Stuck(code, _image_error(name, f"failed to determine the target version for maintenance of {what}: {error}"), trigger, reason)


def _next_group(track: Track, strategy: Strategy, version: Version, now: datetime, fits: Fits) -> Offer | None:
    """What an update is forced to. Raises InvalidVersion."""
    if strategy.group is None:
        return None
    try:
        return track.next_group(strategy.forced(track, version), strategy.group, now, fits)
    except InvalidVersion as error:
        raise InvalidVersion(f"failed to determine {FORCE_STEP}: {error}") from error


def image_outcome(offers: ImageOffers, version: str, now: datetime) -> VersionOutcome:
    """What becomes of an image version at a moment, in a pool that all versions of the image fit and that lets itself be updated."""
    return _decide_image(offers, anybody, offers.image.name, version, True, now)


def _end_of_life(name: str, current: str) -> str:
    return (
        f'either the machine image "{name}" is reaching end of life and migration to another machine image is required or there '
        "is a misconfiguration in the CloudProfile. If it is the latter, make sure the machine image in the CloudProfile has at least one "
        f'version that is not expired, not in preview and greater or equal to the current Shoot image version "{current}"'
    )


def _image_error(name: str, error: str) -> str:
    return f'failed to update machine image "{name}": {error}'


# --- every version and its verdict ----------------------------------------------------------------------------------------------------


def _never_refused(_: Offer) -> str | None:
    return None


def _listed(target: str, offers: Iterable[Offer]) -> str:
    """How the profile spells a target: a pool's Kubernetes version is printed normalised (docs/versions.md §0)."""
    spellings = [offer.text for offer in offers]
    return target if target in spellings else next((text for text in spellings if parsed_or_none(text) == parsed_or_none(target)), target)


def _verdict(offer: Offer, stage: str, current: Version | None, chosen: str | None) -> str:
    if offer.text == chosen:
        return "chosen"
    if offer.version is None:
        return "cannot be read"
    if current is not None and offer.version.key <= current.key:
        return "the current version" if offer.version.key == current.key else "lower"
    never = {PREVIEW: "in preview: never chosen", UNAVAILABLE: "not released yet", EXPIRED: "expired: only a forced update may move there"}
    return never.get(stage, "out of reach, or another one is better" if chosen else "out of reach of this update")
