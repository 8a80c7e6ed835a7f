"""`hullmark validate` and `hullmark documents`: validate, stage and commit documents; inspect revisions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click

from local.cli.cloud import service
from local.cli.completion import revision_numbers
from local.cli.inputs import (
    accept_options,
    age,
    documents_option,
    now_option,
    read_collection,
    read_files,
    record_now_option,
    right_now,
)
from local.cli.output import ERROR, Failure, counted, emit, grid, output_option, output_option_and, problem_json, problem_lines, talk
from local.cli.service import CommittedSummary, ListedRevision, RevisionSummary
from shared.domain.documents.reading import Problem, as_stream
from shared.domain.labels.comparison import KeyDifference, RevisionDiff
from shared.domain.labels.impact import Accepting, RevisionImpact, in_words
from shared.domain.site import Site, examine
from shared.ledger.revisions import COLLECTION, DEFAULT_COLLECTION, TAG

F = TypeVar("F", bound=Callable[..., Any])
NAMED = 10
"""Nodes that a table names; JSON has them all."""


@click.command()
@documents_option
@click.option("--previous", multiple=True, metavar="FILE|DIR", help="The documents before the change, to validate an update.")
@now_option
@output_option_and("sarif", "github")
def validate(files: tuple[str, ...], previous: tuple[str, ...], now: datetime, form: str) -> int:
    """Validate documents: every problem at once, with file, line, document and path.

    `-o sarif` is for code scanning, `-o github` puts each problem beside its line in a pull request (workflow commands).
    """
    if not files:
        raise Failure("Usage", "nothing to validate: give -f FILE, a folder, or - for standard input")
    sources = read_files(files)
    site, problems = examine(sources, read_files(previous), now)
    warnings = site.warnings
    if form in ("sarif", "github"):
        from local.cli.annotations import Finding, github, sarif

        findings = [*(Finding("error", problem) for problem in problems), *(Finding("warning", warning) for warning in warnings)]
        for line in github(findings, sources) if form == "github" else [json.dumps(sarif(findings, sources), indent=2)]:
            click.echo(line)
        return ERROR if problems else 0
    answer = {
        "valid": not problems,
        "errors": [problem_json(problem) for problem in problems],
        "warnings": [problem_json(problem) for problem in warnings],
        "documents": site.document_count,
        "nodes": len(site.nodes),
    }
    emit(form, answer, lambda: _verdict(site, problems))
    return ERROR if problems else 0


def _verdict(site: Site, problems: list[Problem]) -> Iterable[str]:
    yield from problem_lines(map(problem_json, problems))
    for line in problem_lines(map(problem_json, site.warnings)):
        yield f"warning: {line}"
    looked_at = f"{counted(site.document_count, 'document')}, {counted(len(site.nodes), 'node')} named"
    yield f"{counted(len(problems), 'problem')} in {counted(site.document_count, 'document')}" if problems else f"valid: {looked_at}"


@click.group()
def documents() -> None:
    """Stage and commit documents; list, show, compare and tag revisions."""


@documents.command()
@documents_option
@click.option("-c", "--collection", default=DEFAULT_COLLECTION, show_default=True, help="The collection whose contents they replace.")
@record_now_option
@output_option
def stage(files: tuple[str, ...], collection: str, now: datetime, form: str) -> None:
    """Stage documents as the new contents of a collection."""
    if not re.fullmatch(COLLECTION, collection):
        raise Failure(
            "Usage", f"{collection!r} is not a valid collection name: letters, digits, ., _ and -, at most 100, a letter or digit first"
        )
    sources = read_collection(files)
    if not sources:
        raise Failure("Usage", "nothing to stage: give -f FILE, a folder, or - for standard input")
    staged = service().documents.stage(collection, sources, now)
    emit(
        form,
        staged.model_dump(mode="json"),
        lambda: [f"staged {counted(len(staged.files), 'file')} in collection {collection}; apply with `hullmark documents commit`"],
    )


@documents.command()
@click.argument("collection")
@record_now_option
@output_option
def remove(collection: str, now: datetime, form: str) -> None:
    """Stage the removal of a collection: the next commit removes all its documents."""
    staged = service().documents.remove(collection, now)
    said = f"the removal of collection {collection} is staged; apply with `hullmark documents commit`"
    emit(form, staged.model_dump(mode="json"), lambda: [said])


def why_options(command: F) -> F:
    """`--message` and `--source`, which a revision keeps."""
    given = click.option("--message", "-m", default="", metavar="TEXT", help="Reason for the change; stored with the revision.")(command)
    return click.option("--source", default="", metavar="COMMIT|URL", help="Where the documents come from; stored with the revision.")(
        given
    )


@documents.command()
@click.option("--dry-run", is_flag=True, help="Validate, and show the impact; commit nothing.")
@accept_options
@why_options
@record_now_option
@output_option
def commit(dry_run: bool, message: str, source: str, now: datetime, form: str, **accepting: int | None) -> None:
    """Validate everything, commit it as the next revision, and show what it does to the nodes once it is released."""
    accept = Accepting(**accepting)
    if dry_run:
        would = service().documents.would_commit(now, accept)
        _warn(would.warnings)
        answer = {
            "valid": True,
            "revision": None,
            "impact": would.impact.model_dump(mode="json"),
            "rollouts": [each.model_dump(mode="json") for each in would.rollouts],
            "warnings": [problem_json(warning) for warning in would.warnings],
        }
        lines = ["valid; dry run, nothing committed", *impact_lines(would.impact), *map(str, would.rollouts)]
        emit(form, answer, lambda: lines)
        _warn_of_limits(would.impact)
        return
    revision, warnings = service().documents.commit(now, message, source, accept)
    _warn(warnings)
    _emit_committed(form, revision)


@documents.command()
@click.argument("number", type=int, shell_complete=revision_numbers)
@accept_options
@why_options
@record_now_option
@output_option
def restore(number: int, message: str, source: str, now: datetime, form: str, **accepting: int | None) -> None:
    """Roll back: commit an earlier revision's documents as the next revision. What is staged stays staged.

    The revisions that it replaces are tagged `rejected`: no action releases one until `documents untag N rejected`.
    """
    restored = service().documents.restore(number, now, message, source, Accepting(**accepting))
    _emit_committed(form, restored)
    if restored.rejected:
        numbers = ", ".join(map(str, restored.rejected))
        click.echo(f"rejected: {numbers}; no action releases a rejected revision until `hullmark documents untag N rejected`", err=True)
    if not any(each.id for each in restored.rollouts):
        click.echo("nodes keep what is released to them until they are relabelled: `hullmark relabel --all`", err=True)


def _warn(warnings: Iterable[Problem]) -> None:
    for line in problem_lines(map(problem_json, warnings)):
        click.echo(f"warning: {line}", err=True)


def _emit_committed(form: str, revision: CommittedSummary) -> None:
    counts = f"{counted(revision.documents, 'document')} in {counted(len(revision.collections), 'collection')}"
    answer = {"revision": revision.number, **revision.model_dump(mode="json")}
    said = f"committed revision {revision.number} ({revision.by}): {counted(revision.nodes, 'node')} named, {counts}"
    impact = impact_lines(revision.impact) if revision.impact else ()
    emit(form, answer, lambda: [said, *impact, *map(str, revision.rollouts)])
    if revision.impact:
        _warn_of_limits(revision.impact)


def impact_lines(impact: RevisionImpact) -> Iterable[str]:
    """What a revision does to each cluster once it is released, and what could not be seen of that."""
    for each in impact.clusters.values():
        yield each.unseen if each.unseen and not each.nodes else in_words(each)
        if each.unseen and each.nodes:
            yield f"  {each.unseen}"


def _warn_of_limits(impact: RevisionImpact) -> None:
    for beyond in impact.beyond.values():
        click.echo(f"warning: beyond the limits: {beyond.message}; a relabel of the site is blocked without it", err=True)


@documents.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="The newest so many.")
@output_option_and("name", "wide")
def list_revisions(limit: int, form: str) -> None:
    """List the newest revisions, the newest first (-o json: the oldest), and what is staged on top of them."""
    listing = service().documents.list(limit)
    answer = {"revisions": [revision.model_dump(mode="json") for revision in listing.revisions], "staged": listing.staged}
    newest_first = listing.revisions[::-1]
    names = [str(revision.number) for revision in newest_first]
    emit(form, answer, lambda: _listing(newest_first, right_now(), wide=form == "wide"), names)
    if listing.staged:
        talk().print(f"staged but not committed: {', '.join(listing.staged)}")


def _listing(revisions: Sequence[ListedRevision], now: datetime, *, wide: bool) -> Iterable[Any]:
    """In 80 columns unless texts are long; `wide` adds counts and the time."""
    more = ("documents", "nodes", "committed") if wide else ()
    rows = [_revision_row(revision, now, wide=wide) for revision in revisions]
    yield grid(("rev", "age", "by", "tags", "released", "why", *more), rows) if rows else "no revision yet"


def _revision_row(one: ListedRevision, now: datetime, *, wide: bool) -> list[str]:
    more = [str(one.documents), str(one.nodes), one.at.isoformat(timespec="seconds")] if wide else []
    return [str(one.number), age(one.at, now), one.by, ",".join(one.tags), _where(one), _why(one), *more]


def _where(revision: ListedRevision) -> str:
    """`east, west (3 nodes)`: with every node of east, and with three of west; and where it waits."""
    known = ", ".join(cluster + (f" ({where})" if str(where) else "") for cluster, where in revision.released.items())
    return "; ".join(filter(None, (known, f"waits in {', '.join(revision.waits)}" if revision.waits else "")))


def _why(revision: ListedRevision) -> str:
    return " ".join(filter(None, (revision.message, f"({revision.source})" if revision.source else "")))


def collection_option(command: F) -> F:
    """`-c COLLECTION`."""
    return click.option("-c", "--collection", default="", help="Only the text of this collection.")(command)


@documents.command()
@click.argument("number", type=int, shell_complete=revision_numbers)
@collection_option
@output_option
def show(number: int, collection: str, form: str) -> None:
    """Show a revision's documents, in a form that can be staged again; with `-o json` or `yaml`, every file as it was."""
    revision = service().documents.get(number, collection)
    files = [
        {"collection": name, "file": source.file, "text": source.data.decode()}
        for name, sources in revision.files.items()
        for source in sources
    ]
    emit(form, revision.about.model_dump(mode="json") | {"files": files}, lambda: [as_stream(revision.sources).removesuffix("\n")])


@documents.command()
@click.argument("older", type=int)
@click.argument("newer", type=int)
@collection_option
@click.option("--cluster", default="", help="Only the nodes of this cluster. Default: of every one.")
@output_option
def diff(older: int, newer: int, collection: str, cluster: str, form: str) -> None:
    """Show what changes between two revisions: which labels on how many nodes, those of the clusters included; then the text."""
    found = service().documents.diff(older, newer, cluster, collection)
    emit(form, found.model_dump(mode="json"), lambda: _differences(found))
    for name, why in found.unseen.items():
        click.echo(f"note: cluster {name}'s own nodes were not looked at, only the documents: {why}", err=True)


def _differences(found: RevisionDiff) -> Iterable[Any]:
    rows = [(key, _counted(each), _exemplified(each)) for key, each in found.labels.items()]
    if rows:
        yield grid(("label", "nodes", "for example"), rows)
    nodes = len(found.nodes) + found.more_nodes
    yield f"{counted(nodes, 'node')} with different labels: {_few(list(found.nodes), nodes)}"
    yield from found.diff or ["no difference in the text"]


def _counted(label: KeyDifference) -> str:
    counts = {"set": label.set, "changed": label.changed, "removed": label.removed}
    return ", ".join(f"{what} on {count}" for what, count in counts.items() if count)


def _exemplified(label: KeyDifference) -> str:
    shown = [f"{name}: {_value(each.before)} → {_value(each.after)}" for name, each in label.examples.items()]
    return ", ".join([*shown, *(["…"] if label.nodes > len(shown) else [])])


def _value(value: str | None) -> str:
    return "none" if value is None else value or '""'


def _few(names: Sequence[str], of: int) -> str:
    shown = ", ".join(names[:NAMED]) or "none"
    return f"{shown} and {of - NAMED} more" if of > NAMED else shown


@documents.command()
@click.argument("number", type=int, shell_complete=revision_numbers)
@click.argument("tag")
@record_now_option
@output_option
def tag(number: int, tag: str, now: datetime, form: str) -> None:
    """Tag a revision; `site-action-success` adopts a site that was deployed by other means, `rejected` keeps it from being released."""
    _emit_tags(form, service().documents.tag(number, _valid(tag), now))


@documents.command()
@click.argument("number", type=int, shell_complete=revision_numbers)
@click.argument("tag")
@output_option
def untag(number: int, tag: str, form: str) -> None:
    """Remove a tag that people set: without `rejected` a revision can be released again. Those of site actions stay."""
    _emit_tags(form, service().documents.untag(number, _valid(tag)))


def _valid(tag: str) -> str:
    """The tag itself. Raises Failure."""
    if not re.fullmatch(TAG, tag):
        raise Failure("Usage", f"{tag!r} is not a valid tag: letters, digits, ., _ and -, at most 100, a letter or digit first")
    return tag


def _emit_tags(form: str, about: RevisionSummary) -> None:
    emit(form, {"number": about.number, "tags": about.tags}, lambda: [f"revision {about.number}: {', '.join(about.tags)}"])
