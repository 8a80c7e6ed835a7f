"""How `versions plan`, `why` and `impact` read on a terminal: a paragraph for each cause, component or change, within 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from local.cli.output import grid
from shared.domain.reasons.versions import sentence
from shared.domain.versions.answers import DecisionEntry, DecisionList, Explanation, GroupEntry, ImpactGroup, ImpactList, ImpactMoment
from shared.domain.versions.groups import EXAMPLES, grouped
from shared.domain.versions.reasons import MISSING

WIDTH = 80
NO_PROFILE = "CloudProfileNotFound"
LISTED = 20
"""So many places are listed one by one; of more, each group names a few clusters."""
REFUSALS = 5
GROUPS = 20
"""Groups that are shown; the rest is counted."""


def plan_lines(answer: DecisionList, now: datetime) -> Iterator[str]:
    """The answer of `plan`."""
    groups = grouped(answer.decisions)
    each = len(answer.decisions) <= LISTED
    for group, members in groups[:GROUPS]:
        yield from _paragraph(group, members if each else [], now)
        yield ""
    if rest := groups[GROUPS:]:
        places = sum(group.places for group, _ in rest)
        yield f"and {len(rest)} more causes in {places} places (narrow with --profile, --kind, …)\n"
    due = sum(decision.changes for decision in answer.decisions)
    held = sum(decision.held is not None for decision in answer.decisions)
    stuck = sum(decision.error for decision in answer.decisions)
    yield f"{due} to update, {held} of them held, {stuck} stuck, {answer.unchanged} stay as they are"


def _paragraph(group: GroupEntry, members: list[DecisionEntry], now: datetime) -> Iterator[str]:
    yield from _wrapped(f"{_what(group)}: {_count(group)}", "  ")
    yield from _wrapped(f"  {_end(group, now)}", "  ")
    if group.kind == "stuck":
        yield from _wrapped(f"  stuck: {sentence(group.code)}", "  ")
    elif group.kind != "stays":
        yield from _wrapped(f"  {_windows(group)}", "  ")
    for count in group.held:
        until = f" until {count.until}" if count.until else ""
        yield from _wrapped(f"  {count.places} held: {count.reason}{until}", "  ")
    if members:
        for member in members:
            yield from _wrapped(f"    {_place(member)}", "      ")
    else:
        more = f" and {group.clusters - EXAMPLES} more" if group.clusters > EXAMPLES else ""
        yield from _wrapped(f"    {', '.join(group.examples)}{more}", "    ")


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _what(group: GroupEntry) -> str:
    moves = f"{group.from_ or '-'} → {group.to}" if group.to else f"{group.from_ or '-'}"
    cause = group.code if group.kind in ("stuck", "stays") else f"{group.kind}, {group.code}"
    return f"{group.image or group.subject} {moves} ({cause})"


def _count(group: GroupEntry) -> str:
    clusters = f"{group.clusters} cluster{'' if group.clusters == 1 else 's'} on {group.profile or 'no profile'}"
    return clusters if group.places == group.clusters else f"{group.places} places in {clusters}"


def _end(group: GroupEntry, now: datetime) -> str:
    forced = f"forced to {group.forcedTo}" if group.forcedTo else "there is nothing to be forced to"
    if group.code == NO_PROFILE:
        return "nobody knows when it expires"
    if group.trigger == MISSING:
        return f"{group.from_} is not in the profile, {forced}"
    if group.expires is None:
        return f"{group.from_ or 'it'} does not expire"
    verb = "expired" if datetime.fromisoformat(group.expires) < now else "expires"
    return f"{group.from_} {verb} {group.expires}, {forced}"


def _windows(group: GroupEntry) -> str:
    opened = f"window open in {group.open}" if group.open else "no window open"
    return f"{opened}; next {group.next}" if group.next else opened


def _place(decision: DecisionEntry) -> str:
    window = "open" if decision.window.open else f"opens {decision.window.next}"
    held = f", held: {decision.held.message}" if decision.held else f", goes: {decision.waived.message}" if decision.waived else ""
    return f"{decision.full_name} {decision.component} (window {window}{held})"


def why_lines(answer: Explanation) -> Iterator[Any]:
    """The answer of `why`."""
    yield f"{answer.full_name} on {answer.profile}"
    for decision in answer.decisions:
        what = decision.image or decision.subject
        target = f"→ {decision.to}" if decision.changes else "is stuck" if decision.error else "stays"
        yield f"\n{decision.component} {what} {decision.from_} {target} ({decision.code})"
        for text in decision.sentences or [decision.description]:
            yield from _wrapped(f"  {text}", "    ")
        yield grid(
            ("  version", "classification", "verdict"), ((f"  {c.version}", c.classification, c.verdict) for c in decision.candidates)
        )
    if answer.events:
        yield "\nIts windows, as long as documents and fleet stay as they are:"
    for event in answer.events:
        step = f"stuck on {event.from_} ({event.code})" if event.stuck else f"{event.from_} → {event.to} ({event.kind})"
        yield from _wrapped(f"  {event.at} {event.component} {event.image or event.subject} {step}", "    ")


def impact_lines(answer: ImpactList) -> Iterator[str]:
    """The answer of `impact`."""
    for group in answer.groups[:GROUPS]:
        yield from _wrapped(f"{group.image or group.subject} {group.from_}: {_count_of(group)}", "  ")
        yield from _wrapped(f"  today: {_moment(group.before)}", "    ")
        yield from _wrapped(f"  then:  {_moment(group.after)}", "    ")
        more = f" and {group.clusters - EXAMPLES} more" if group.clusters > EXAMPLES else ""
        yield from _wrapped(f"    {', '.join(group.examples)}{more}", "    ")
        yield ""
    if rest := answer.groups[GROUPS:]:
        yield f"and {len(rest)} more changes in {sum(group.places for group in rest)} places (-o json has all)\n"
    for gap in answer.gaps[:GROUPS]:
        used = f", {gap.inUse} in use" if gap.inUse else ""
        at = f"expires {gap.at}" if gap.at else "does not expire"
        yield from _wrapped(f"gap: {gap.profile} {gap.subject} {gap.version} ({at}{used}): {gap.message} ({gap.code})", "  ")
    if len(answer.gaps) > GROUPS:
        yield f"and {len(answer.gaps) - GROUPS} more gaps (-o json has all)"
    for problem in answer.problems[:REFUSALS]:
        yield from _wrapped(f"refused: {problem.file}:{problem.line}: {problem.path}: {problem.message}", "  ")
    if len(answer.problems) > REFUSALS:
        yield f"and {len(answer.problems) - REFUSALS} more that a commit would refuse (-o json has all)"
    moved = len({move.full_name for move in answer.moves})
    yield from _wrapped(
        f"{moved} of {answer.users} clusters on {', '.join(answer.profiles)} change course, {answer.stuck} places get stuck, "
        f"{len(answer.gaps)} gaps, {len(answer.problems)} refused",
        "  ",
    )


def _count_of(group: ImpactGroup) -> str:
    clusters = f"{group.clusters} cluster{'' if group.clusters == 1 else 's'}"
    return clusters if group.places == group.clusters else f"{group.places} places in {clusters}"


def _moment(moment: ImpactMoment | None) -> str:
    if moment is None:
        return "not left"
    return f"{moment.at} stuck ({moment.code})" if moment.stuck else f"{moment.at} → {moment.to} ({moment.kind}, {moment.code})"
