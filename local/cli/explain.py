"""`hullmark explain` and `history`: why a node has its labels, and what happened to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import click

from local.cli.cloud import service
from local.cli.completion import node_names
from local.cli.output import emit, grid, output_option
from local.cli.stages import at
from shared.domain.documents.finding import Place
from shared.domain.labels.explanations import LabelExplanation, LabelWrite, NodeEvent, NodeExplanation, NodeHistory, RevisionAbout
from shared.work.explaining import LOOK_BACK, MOST

F = TypeVar("F", bound=Callable[..., Any])


def where_options(command: F) -> F:
    """`--cluster` and `--look-back`."""
    said = "Look through so many releases of the cluster, and so many actions, the newest."
    command = click.option("--look-back", type=click.IntRange(1, MOST), default=LOOK_BACK, show_default=True, metavar="N", help=said)(
        command
    )
    return click.option("--cluster", help="The cluster, if there are several.")(command)


@click.command()
@click.argument("node", shell_complete=node_names)
@click.argument("key", default="")
@where_options
@output_option
def explain(node: str, key: str, cluster: str | None, look_back: int, form: str) -> None:
    """Say why NODE has its labels, or KEY: who holds it, which document declares it, which revision and action brought it, over what."""
    found = service().nodes.explain(node, key, cluster, look_back)
    emit(form, found.model_dump(mode="json"), lambda: _one(found, key) if key else _all(found))


@click.command()
@click.argument("node", shell_complete=node_names)
@where_options
@output_option
def history(node: str, cluster: str | None, look_back: int, form: str) -> None:
    """Say what was released to NODE and what actions did to it, newest first."""
    found = service().nodes.history(node, cluster, look_back)
    emit(form, found.model_dump(mode="json"), lambda: _events(found))


def _all(found: NodeExplanation) -> Iterator[Any]:
    yield from _about(found)
    rows = [(key, _value(label), ", ".join(label.holders), _document(label), _write(label.written)) for key, label in found.labels.items()]
    yield grid(("label", "value", "held by", "declared by", "written"), rows) if rows else "it has no labels, and nothing declares any"


def _about(found: NodeExplanation) -> Iterator[str]:
    sync = "in sync" if found.in_sync else "out of sync"
    why = ": ".join(filter(None, (found.reason, found.message)))
    yield f"{found.node} of cluster {found.cluster}: {found.release}, {sync}{f' ({why})' if why else ''}"
    if found.revision:
        yield f"  {_revision(found.revision)}"
    if found.released:
        yield f"  {found.released.release_in_words}, {found.released.by}, {at(found.released.at)}"


def _one(found: NodeExplanation, key: str) -> Iterator[str]:
    yield from _about(found)
    label = found.labels[key]
    yield f"{key} = {label.value}" if label.value is not None else f"{key}: the node does not have it"
    yield f"  held by   {', '.join(label.holders) or 'nobody'}"
    yield f"  declared  {_declared(label)}"
    yield f"  written   {_write(label.written) or 'no action that is kept wrote it as it is'}"
    if label.written:
        yield f"  before    {_before(label.written)}"


def _value(label: LabelExplanation) -> str:
    if label.value is None:
        return f"(not there; declared {label.declared})"
    return label.value if label.declared in (None, label.value) else f"{label.value} (declared {label.declared})"


def _document(label: LabelExplanation) -> str:
    return f"{label.document}{f' ({_place(label.place)})' if label.place else ''}"


def _declared(label: LabelExplanation) -> str:
    return f"{label.declared!r} by {_document(label)}" if label.declared is not None else "by nothing that is released to it"


def _place(place: Place) -> str:
    return f"{place.file}:{place.line}, collection {place.collection}"


def _write(written: LabelWrite | None) -> str:
    if written is None:
        return ""
    rollout = f" of rollout {written.rollout}" if written.rollout else ""
    return f"{written.name} {written.action}{rollout} of {written.by}, {at(written.at)}"


def _before(written: LabelWrite) -> str:
    if not written.known:
        return "nobody recorded it: it was not there, or Hullmark's own"
    holders = f" ({', '.join(written.holders)})" if written.holders else ""
    return f"{written.before}{holders}" if written.before is not None else "it was not there"


def _revision(about: RevisionAbout) -> str:
    why = f": {about.message}" if about.message else ""
    source = f" ({about.source})" if about.source else ""
    return f"revision {about.number}, committed by {about.by} at {at(about.at)}{why}{source}"


def _events(found: NodeHistory) -> Iterable[Any]:
    rows = [(at(event.at), event.by, _what(event), _changed(event)) for event in found.events]
    yield grid(("when", "by", "what", "labels"), rows) if rows else "nothing is recorded of it"
    if found.looked_back_to:
        yield f"looked back to {at(found.looked_back_to)}; --look-back N looks further"
    yield from (f"{key} can't be read: what it says of the node is missing here" for key in found.unreadable)


def _what(event: NodeEvent) -> str:
    action = f"{event.name} {event.action}: {event.outcome}" if event.outcome else ""
    reason = f" ({event.reason})" if event.reason else ""
    return "; ".join(filter(None, (event.release_in_words, f"{action}{reason}" if action else "")))


def _changed(event: NodeEvent) -> str:
    put = [f"{key}={value}" for key, value in sorted((event.labels or {}).items())]
    return " ".join([*event.changes.in_words(), *put])
