"""A plan as a comment on a pull request: GitHub's and GitLab's Markdown.

Names, values and messages come from documents, clusters and whoever may write to them. They stand in code spans, where neither Markdown
nor HTML means anything and nobody is mentioned.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from shared.domain.labels.plans import LabelPlan, NodePlan
from shared.domain.outcomes import Before

ROWS = 40
"""Changes that the table shows; the rest is counted. A review reads no more."""
NAMED = 3
"""Nodes that a row names."""
TABLE, FOLDED = 20_000, 11_000
"""Characters of each of the two tables, and of each folded part: a comment on GitHub takes 65,536, and the whole stays below."""
MESSAGE = 600
"""Characters of one message."""
LABELS = {"removal": "remove", "takeover": "take over", "change": "change", "new": "set"}
"""The kinds of changes, in the order of what a reviewer should see first, as the table names them."""


class Change(NamedTuple):
    """What many nodes share: one key, what it becomes (None: it goes), what it is, and who holds it."""

    kind: str
    key: str
    to: str | None
    was: str | None
    holders: tuple[str, ...]
    why: str


class Touched(NamedTuple):
    """A node with this change, and when the label's holders last changed something on it."""

    node: str
    at: datetime | None


def grouped(plan: LabelPlan) -> dict[Change, list[Touched]]:
    """The plan by changes instead of nodes: removals first, the changes of most nodes first."""
    found: dict[Change, list[Touched]] = defaultdict(list)
    for name, node in plan.nodes.items():
        for key, to in (*node.set.items(), *((key, None) for key in node.remove)):
            there = node.from_.get(key)
            found[_change(node, key, to, there)].append(Touched(name, there.at if there else None))
    order = list(LABELS)
    return dict(sorted(found.items(), key=lambda each: (order.index(each[0].kind), -len(each[1]), each[0].key, str(each[0]))))


def _change(node: NodePlan, key: str, to: str | None, there: Before | None) -> Change:
    kind = "removal" if to is None else "takeover" if key in node.takeovers else "change" if there else "new"
    return Change(kind, key, to, there.value if there else None, tuple(there.holders) if there else (), node.reasons.get(key, ""))


def plan_markdown(plan: LabelPlan) -> Iterator[str]:
    """The plan's lines. The first is a comment by which a bot finds what it wrote before."""
    what = "drift" if plan.released else "plan"
    yield f"<!-- hullmark {what} -->"
    yield f"### Hullmark: {what} for cluster {code(plan.cluster)}"
    yield ""
    yield _summary(plan)
    yield from _limits(plan)
    changes = grouped(plan)
    if changes:
        yield ""
        yield from _table(changes, drifted=plan.released)
    yield from _stays(plan)
    if changes:
        yield from _folded("Nodes of each change", _nodes_of(changes))
    if plan.missing:
        yield from _folded(f"{_nodes(len(plan.missing))} declared but not in the cluster", [", ".join(map(code, plan.missing))])


def _summary(plan: LabelPlan) -> str:
    losing = sum(bool(node.remove) for node in plan.nodes.values())
    taken = sum(bool(node.takeovers) for node in plan.nodes.values())
    counts = (
        (losing, "lose labels"),
        (taken, "have others' values replaced"),
        (plan.unchanged, "unchanged"),
        (len(plan.missing), "missing"),
        (plan.failing, "blocked"),
        (len(plan.blocked) - plan.failing, "left to others"),
        (plan.unreleased, "unreleased"),
    )
    if plan.nodes:
        head = f"**{_nodes(len(plan.nodes))} {'drifted' if plan.released else 'to change'}**"
    else:
        head = "**No drift**" if plan.released else "**Nothing to change**"
    told = ", ".join([head, *(f"{count} {what}" for count, what in counts if count)])
    against = f" Revision {plan.revision}." if plan.revision else " These documents are not committed."
    return f"{told}.{against}" + (f" {plan.waits}." if plan.waits else "")


def _limits(plan: LabelPlan) -> Iterator[str]:
    if plan.beyond:
        yield ""
        yield f"> ⛔ **Beyond the limits** ({code(plan.beyond.reason)}): a relabel is blocked until somebody accepts it."
        yield f"> {code(plan.beyond.message)}"


def _table(changes: Mapping[Change, Sequence[Touched]], *, drifted: bool) -> Iterator[str]:
    yield f"| | label | from | to | held by | nodes | {'last written' if drifted else 'why'} |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    yield from _fitting([_row(*each, drifted=drifted) for each in changes.items()], TABLE, ROWS, "changes")


def _row(change: Change, touched: Sequence[Touched], *, drifted: bool) -> str:
    told = _when(touched) if drifted else cell(change.why)
    what = (_kind(change, drifted=drifted), cell(change.key), _value(change.was), _value(change.to))
    return f"| {' | '.join((*what, _holders(change), _named(touched), told))} |"


def _fitting(lines: Sequence[str], room: int, most: int, what: str) -> Iterator[str]:
    """As many lines as there is room for, and how many there are besides."""
    shown = 0
    for line in lines[:most]:
        room -= len(line) + 1
        if room < 0:
            break
        shown += 1
        yield line
    if left := len(lines) - shown:
        yield ""
        yield f"… and {left} more {what}: `hullmark plan` on the command line lists them."


def _kind(change: Change, *, drifted: bool) -> str:
    if drifted and change.kind == "new":
        return "missing"
    return f"**{LABELS[change.kind]}**" if change.kind in ("removal", "takeover") else LABELS[change.kind]


def _value(value: str | None) -> str:
    return "(none)" if value is None else cell(value) if value else "(empty)"


def _holders(change: Change) -> str:
    return ", ".join(map(cell, change.holders)) or ("unknown" if change.was is not None else "")


def _named(touched: Sequence[Touched]) -> str:
    names = ", ".join(cell(each.node) for each in touched[:NAMED])
    return f"{len(touched)}: {names}" + (", …" if len(touched) > NAMED else "")


def _when(touched: Sequence[Touched]) -> str:
    """Between when and when, where the cluster says so."""
    times = sorted(each.at for each in touched if each.at)
    if not times:
        return "not recorded"
    first, last = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (times[0], times[-1]))
    return first if first == last else f"{first} to {last}"


def _stays(plan: LabelPlan) -> Iterator[str]:
    """Why nodes stay as they are, by reason and words."""
    stays = [(why.reason, why.message, name) for name, why in plan.blocked.items()]
    stays += [("Conflict", node.conflict, name) for name, node in plan.nodes.items() if node.conflict]
    by_cause: dict[tuple[str, str], list[Touched]] = defaultdict(list)
    for reason, message, name in stays:
        by_cause[reason, message].append(Touched(name, None))
    if not by_cause:
        return
    yield ""
    yield "| stays as it is | nodes | because |"
    yield "| --- | --- | --- |"
    ordered = sorted(by_cause.items(), key=lambda each: (-len(each[1]), each[0]))
    rows = [f"| {cell(reason)} | {_named(names)} | {cell(message)} |" for (reason, message), names in ordered]
    yield from _fitting(rows, TABLE, ROWS, "causes")


def _nodes_of(changes: Mapping[Change, Sequence[Touched]]) -> Iterator[str]:
    for change, touched in changes.items():
        told = f"{code(change.key)}: {code(change.to) if change.to else '(removed)' if change.to is None else '(empty)'}"
        yield f"- {LABELS[change.kind]} {told}: {', '.join(code(each.node) for each in touched)}"


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Lines behind a fold."""
    yield from ("", f"<details><summary>{title}</summary>", "")
    cut = [line if len(line) <= FOLDED // 2 else f"{line[: FOLDED // 2].rpartition(', ')[0]}, …" for line in lines]
    yield from _fitting(cut, FOLDED, len(cut), "lines")
    yield from ("", "</details>")


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def code(text: str) -> str:
    """A code span with this text in it, whatever it holds."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:MESSAGE]) + ("…" if len(text) > MESSAGE else "")
    if not shown.strip():
        return "(empty)"
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    padded = f" {shown} " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) else shown
    return f"{fence}{padded}{fence}"


def cell(text: str) -> str:
    """The same in a table, where | ends a cell even in a code span: escapes of it differ from renderer to renderer."""
    return code(text.replace("|", "¦"))
