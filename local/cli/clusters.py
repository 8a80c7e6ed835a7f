"""`--cluster`, `--cluster-labels` and `--all-clusters`: which clusters a command is for; and what it says of several."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

from local.cli.output import Failure
from local.cli.service import Ledger
from shared.domain.actions import ActionOutcome
from shared.domain.clusters import EVERY, ClusterMatch
from shared.ledger.actions import UnknownAction

F = TypeVar("F", bound=Callable[..., Any])
Row = dict[str, Any]
NOT_YET: Row = {"outcome": None, "reason": "", "message": "", "retryable": False}
"""What is said of a cluster whose own action has not ended."""


def cluster_options(command: F) -> F:
    """The options; `clusters_asked` reads them."""
    options = (
        click.option("--cluster", metavar="A,B", help="The cluster, if there are several; or some of them, comma-separated."),
        click.option("--cluster-labels", metavar="K=V,…", help="Every cluster whose document has all of these labels."),
        click.option("--all-clusters", is_flag=True, help="Every cluster of the documents."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def clusters_asked(cluster: str | None, labels: str | None, every: bool) -> dict[str, Any]:
    """The fields of a request that the options mean. Raises Failure."""
    names = _listed(cluster, "--cluster names no cluster") if cluster is not None else []
    if every and (names or labels is not None):
        raise Failure("Usage", "--all-clusters means every cluster: leave --cluster and --cluster-labels out")
    if labels is not None:
        criteria = {"names": names or None, "matchLabels": dict(map(_pair, _listed(labels, "--cluster-labels names no label")))}
        return {"clusters": ClusterMatch.model_validate(criteria)}
    if every or len(names) > 1:
        return {"clusters": [EVERY] if every else names}
    return {"cluster": names[0]} if names else {}


def _listed(text: str, otherwise: str) -> list[str]:
    listed = [part.strip() for part in text.split(",") if part.strip()]
    if not listed:
        raise Failure("Usage", otherwise)
    return listed


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise Failure("Usage", f"--cluster-labels {text!r} is not KEY=VALUE")
    return key, value


def several(ledger: Ledger, action: str, outcome: ActionOutcome | None, answer_of: Callable[[str, Ledger], Row]) -> Row:
    """What is answered of an action over several clusters beside what it has itself: how each of them ended, and their nodes, as far as
    that is known.
    """
    told = {each.subject: each for each in outcome.outcomes} if outcome else {}
    clusters: dict[str, Row] = {}
    nodes: dict[str, Row] = {}
    for cluster, child in ledger.children(action).items():
        ended = told.get(cluster)
        clusters[cluster] = {"id": child} | (ended.model_dump(include={*NOT_YET}) if ended else NOT_YET)
        with suppress(UnknownAction):  # not recorded yet
            nodes |= {f"{cluster}/{name}": row for name, row in answer_of(child, ledger)["nodes"].items()}
    return {"clusters": clusters, "nodes": nodes}
