"""How errors look: one line each on stderr, and the one JSON document where JSON was asked for. Imported when something goes wrong."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import click

from local.cli.output import ERROR, Failure, problem_json, problem_lines
from shared.domain.documents.reading import DocumentsRefused
from shared.domain.rollouts.progress import WrongPhase
from shared.domain.versions.answers import UnknownFleetCluster
from shared.ledger.actions import UnknownAction, WrongState
from shared.ledger.revisions import EmptyStage, NothingStaged, TagStays, UnknownCollection, UnknownRevision, UnknownTag
from shared.ledger.rollouts import UnknownRollout
from shared.ports import BusError, ClusterError, StoreError
from shared.work.intake import Rejected
from shared.world import SettingsError

_PLAIN = (
    StoreError,
    SettingsError,
    BusError,
    WrongState,
    WrongPhase,
    UnknownRollout,
    UnknownRevision,
    UnknownCollection,
    UnknownTag,
    TagStays,
    EmptyStage,
    NothingStaged,
)
"""Errors whose name is the reason, and whose text says it all."""


def fail(error: BaseException, arguments: Sequence[str]) -> int:
    """Word an error on stderr (and as the one JSON document where json was asked for); the exit code. Unexpected ones are raised again."""
    wants_json = asked_for_json(arguments)
    if isinstance(error, DocumentsRefused):
        listed = refused(error)
        if wants_json:
            click.echo(json.dumps(listed, indent=2, ensure_ascii=False))
        else:
            for line in problem_lines(listed["errors"]):
                click.echo(line, err=True)
        return ERROR
    reasons = _reasons(error)
    if wants_json:
        click.echo(json.dumps({"errors": [{"reason": reason, "message": message} for reason, message in reasons]}, indent=2))
    for _, message in reasons:
        click.echo(f"error: {message}", err=True)
    return ERROR


def _reasons(error: BaseException) -> list[tuple[str, str]]:
    """Reason and message of each thing that an error says. Raises it again where nobody foresaw it."""
    if isinstance(error, Rejected):
        return [(problem.reason, problem.message) for problem in error.problems]
    if isinstance(error, (ClusterError, Failure)):
        return [(error.reason, str(error))]
    if isinstance(error, UnknownAction):
        return [("UnknownAction", f"{error}; `hullmark actions list` shows the existing ones")]
    if isinstance(error, UnknownFleetCluster):
        return [("ClusterUnknown", str(error))]
    if isinstance(error, ModuleNotFoundError) and (extra := extra_of(error.name or "")):
        return [("MissingExtra", f"{error.name} is not installed: `pipx install 'hullmark[{extra}]'`, or pip, brings it")]
    if isinstance(error, _PLAIN):
        return [(type(error).__name__, str(error))]
    if isinstance(error, OSError) and error.filename:
        return [("File", f"{error.filename}: {error.strerror}")]
    raise error


def extra_of(module: str) -> str:
    """The extra of the package that brings a module; empty for what every installation has."""
    extras = {"boto3": "aws", "botocore": "aws", "google": "gcp"}
    return extras.get(module.partition(".")[0], "")


def refused(error: DocumentsRefused) -> dict[str, Any]:
    """`validate`'s answer for documents that are refused (docs/command-line.md)."""
    return {"valid": False, "errors": [problem_json(problem) for problem in error.problems]}


def asked_for_json(arguments: Sequence[str]) -> bool:
    """Whether `-o json` is among the arguments, in any of its spellings (needed before they are parsed)."""
    joined = [f"{first}={second}" for first, second in itertools.pairwise(arguments)]
    return any(word in ("-o=json", "--output=json", "-ojson") for word in (*arguments, *joined))
