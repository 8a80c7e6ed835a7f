"""What waves make of a cluster's decisions: a version that has qualified instead of one that has not, and what holds it back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import CONTROL_PLANE, Decision, Update, VersionRules
from shared.domain.versions.held import Held, Waived
from shared.domain.versions.semver import InvalidVersion, parse
from shared.domain.waves.decisions import Ask, Move, Wave, line_of
from shared.domain.waves.sightings import WORKERS

AHEAD = "AheadOfLaterStages"


@dataclass
class Waves:
    """The waves of a check: a cluster that several of them mean goes when all of them let it."""

    waves: Sequence[Wave] = ()
    asks: dict[Ask, str] = field(default_factory=dict)
    """What people were found to have to say, and the rollout that waits for it."""

    def staged(self, cluster: FleetCluster, decisions: Sequence[Decision], rules: VersionRules, now: datetime) -> list[Decision]:
        """These decisions, each with the highest version that has qualified; one that is held keeps what the rules decided."""
        name, found = cluster.full_name, []
        if not any(name in wave.stage_of for wave in self.waves):
            return list(decisions)
        limit = cluster.kubernetes
        for decision in decisions:
            staged = self._staged(name, decision, cluster, rules, limit, now)
            if staged.component == CONTROL_PLANE and isinstance(staged.outcome, Update) and not self._held(name, staged):
                limit = staged.outcome.to
            found.append(staged if _within(staged, limit) else replace(staged, held=Held("ControlPlaneBehind", _behind(limit))))
        return found

    def holding(self, cluster: FleetCluster, decision: Decision, _now: datetime) -> Iterable[Held]:
        """What holds a decision back: the first wave that does."""
        held = self._held(cluster.full_name, decision)
        return (held,) if held else ()

    def _staged(
        self, name: str, decision: Decision, cluster: FleetCluster, rules: VersionRules, limit: str | None, now: datetime
    ) -> Decision:
        due = decision if decision.changes else self._ahead(name, decision, now)
        if due is None or not isinstance(due.outcome, Update):
            return decision
        for version in (due.outcome.to, *rules.below(due, cluster)):
            candidate = replace(due, outcome=replace(due.outcome, to=version))
            if _within(candidate, limit) and not self._held(name, candidate):
                return candidate
        return decision

    def _held(self, name: str, decision: Decision) -> Held | None:
        """The first wave's word against what a decision would do, or the rules would force it to."""
        target = decision.outcome if decision.changes else decision.forced
        if not isinstance(target, Update) or decision.current is None:
            return None
        move = Move(line_of(decision.component, decision.subject, decision.image), decision.current, target.to)
        for wave in self.waves:
            held, ask = wave.judged(name, move)
            if ask and decision.changes:
                self.asks[ask] = wave.name
            if held:
                return held
        return None

    def ahead_from(self, name: str, decision: Decision) -> datetime | None:
        """When a cluster begins to leave an expiring version ahead of its expiry; None where it is in no stage, or nothing is forced."""
        leads = [wave.lead(wave.stage_of[name]) for wave in self.waves if name in wave.stage_of]
        if decision.expires is None or decision.forced is None or not leads:
            return None
        return decision.expires - max(leads)

    def _ahead(self, name: str, decision: Decision, now: datetime) -> Decision | None:
        """The forced update of a stage that goes ahead of a version's expiry, so that the later stages can look on."""
        begins = self.ahead_from(name, decision)
        if begins is None or decision.forced is None or now < begins:
            return None
        said = f"{decision.current} expires on {decision.expires:%Y-%m-%d %H:%M} UTC; the later stages need the time until then"
        return replace(decision, outcome=decision.forced, waived=Waived(AHEAD, said))


def _behind(limit: str | None) -> str:
    return f"no pool goes above its control plane, and {limit} is the highest version that has qualified for it"


def _within(decision: Decision, limit: str | None) -> bool:
    """Whether a pool's Kubernetes version stays at or below what its control plane will run."""
    outcome = decision.outcome
    if line_of(decision.component, decision.subject, decision.image) != WORKERS or limit is None or not isinstance(outcome, Update):
        return True
    try:
        return parse(outcome.to).key <= parse(limit).key
    except InvalidVersion:
        return False
