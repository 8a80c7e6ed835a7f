"""`versions why`: what becomes of one cluster's versions, sentence by sentence, with dates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from shared.domain.reasons.versions import sentence
from shared.domain.versions.answers import AutoUpdate, CandidateEntry, ExplainedDecision, Explanation, Opening
from shared.domain.versions.clusters import FleetCluster
from shared.domain.versions.decisions import CONTROL_PLANE, NEVER, Decision, Keep, Stuck, Update, VersionRules
from shared.domain.versions.plans import ClusterPlan, decision_entry, time_text
from shared.domain.versions.reasons import AUTO_UPDATE, EXPIRED, MISSING

CAUSES = {
    EXPIRED: "because {} has expired",
    MISSING: "because the profile does not offer {}",
    AUTO_UPDATE: "because automatic updates are on",
}


def explained(plan: ClusterPlan, rules: VersionRules | None, now: datetime) -> Explanation:
    """Everything about one cluster: each decision in sentences, and every version that was looked at with its verdict."""
    return Explanation(
        cluster=plan.cluster.id,
        fleet=plan.cluster.fleet,
        profile=plan.cluster.profile,
        autoUpdate=AutoUpdate(kubernetesVersion=plan.cluster.auto_kubernetes, machineImageVersion=plan.cluster.auto_image),
        window=Opening(open=plan.open, next=time_text(plan.next)),
        decisions=[_explained(plan, decision, rules, now) for decision in plan.decisions],
    )


def _explained(plan: ClusterPlan, decision: Decision, rules: VersionRules | None, now: datetime) -> ExplainedDecision:
    verdicts = [] if rules is None else rules.verdicts(plan.cluster, decision)
    return ExplainedDecision(
        **decision_entry(plan, decision).model_dump(by_alias=False),
        advice=sentence(decision.outcome.code),
        sentences=list(sentences(plan, decision, now)),
        candidates=[CandidateEntry(version=v, classification=c, verdict=w) for v, c, w in verdicts],
    )


def sentences(plan: ClusterPlan, decision: Decision, now: datetime) -> Iterator[str]:
    """What runs, when that expires, what happens in which window, what holds it back, and what it would be forced to."""
    if decision.current is None:
        yield f"{_place(decision)} names no version: {sentence(decision.outcome.code)}."
        return
    yield f"{_place(decision)} runs {_subject(decision)} {decision.current}, {_end(decision, now)}."
    match decision.outcome:
        case Update(to=to, kind=kind) if decision.changes:
            cause = CAUSES[decision.outcome.trigger].format(decision.current)
            yield f"{_window(plan, now)}: {'forced' if kind == 'force' else 'updated'} to {to}, {cause}."
        case Update(to=to):
            yield f"It stays: it would be updated to {to}, which it has; it never goes above its control plane."
        case Stuck(error=error):
            yield f"It should be updated and cannot be: {sentence(decision.outcome.code)} ({error})."
        case Keep():
            yield f"No window changes it: {sentence(decision.outcome.code)}."
    if decision.held:
        until = f" until {_moment(decision.held.until)}" if decision.held.until else ""
        yield f"That is held back{until} ({decision.held.reason}): {decision.held.message}."
    elif decision.waived:
        yield f"It goes although something would hold it back ({decision.waived.reason}): {decision.waived.message}."
    yield from _then(plan.cluster, decision, now)


def _place(decision: Decision) -> str:
    return "The control plane" if decision.component == CONTROL_PLANE else f"Pool {decision.component.partition('/')[2]}"


def _subject(decision: Decision) -> str:
    return f"machine image {decision.image}" if decision.subject == "machineImage" else "Kubernetes"


def _end(decision: Decision, now: datetime) -> str:
    end = decision.expires
    if decision.outcome.code == "CloudProfileNotFound":
        return "and nobody knows when that expires"
    if decision.outcome.trigger == MISSING:
        return "which the profile does not offer"
    if end is None or end >= NEVER:
        return "which does not expire"
    return f"which expired on {_moment(end)}{_ago(now - end)}" if end < now else f"which expires on {_moment(end)}{_ahead(end - now)}"


def _ago(passed: timedelta) -> str:
    return f" ({_days(passed.days)} ago)" if passed.days else ""


def _ahead(left: timedelta) -> str:
    return f" (in {_days(left.days)})" if left.days else " (within a day)"


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


def _window(plan: ClusterPlan, now: datetime) -> str:
    """When an update may happen next."""
    if plan.cluster.maintain:
        return "At once, as a person asked"
    if plan.cluster.window.always and plan.open:
        return "At any time, because the cluster has no window"
    opening = next(plan.cluster.window.openings(now), None)
    if opening is None:
        return "In no window that is in sight"
    begin, end = opening
    which = "In the window that is open now" if begin <= now else f"In the window that opens on {_moment(begin)}"
    return f"{which} and shuts on {_moment(end)}"


def _then(cluster: FleetCluster, decision: Decision, now: datetime) -> Iterator[str]:
    """What it would be forced to when its version expires, and in which window."""
    if decision.expires is None or decision.expires >= NEVER or decision.expires < now:
        return
    if decision.forced is None:
        yield f"If it still runs {decision.current} when that expires, there is nothing to be forced to: it will be stuck."
        return
    opening = next(cluster.window.openings(decision.expires + timedelta(seconds=1)), None)
    when = f" in the window of {_moment(max(opening[0], decision.expires))}" if opening else ""
    yield f"If it still runs {decision.current} when that expires, it is forced to {decision.forced.to}{when}."


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
