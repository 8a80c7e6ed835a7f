"""What a shell completes behind a command: ids and names out of the store, or from the server that is worked on.

Only read: an action that an earlier command left unfinished stays as it is. What can't be read completes nothing, in silence: whoever
presses TAB is in the middle of a line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from shared.ports import ObjectStore

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
MOST = 50


def _from_store(read: Callable[[ObjectStore], Iterable[str]], ask: Callable[[], Sequence[str]] = tuple) -> Complete:
    """Complete with what `read` takes from the store or, where a server is named, with what `ask` hears from it."""

    def complete(_ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        from shared.adapters.store import open_store
        from shared.world import Settings

        try:
            there = ask() if os.environ.get("HULLMARK_SERVER") else read(open_store(Settings.from_environment().store))
            return [name for name in there if name.startswith(incomplete)][:MOST]
        except Exception:
            return []

    return complete


def _actions(store: ObjectStore) -> Iterable[str]:
    from shared.ledger.actions import Actions

    return reversed(Actions(store).ids(limit=MOST))


def _asked_actions() -> Sequence[str]:
    from local.cli.cloud import service

    return [action.id for action in reversed(service().ledger.newest(MOST))]


def _rollouts(store: ObjectStore) -> Iterable[str]:
    return sorted(store.folders("rollouts/"), reverse=True)


def _asked_rollouts() -> Sequence[str]:
    from local.cli.cloud import service

    return [rollout.id for rollout in reversed(service().rollouts.newest(MOST))]


def _revisions(store: ObjectStore) -> Iterable[str]:
    from shared.ledger.revisions import Revisions

    return (str(about.number) for about, _ in reversed(Revisions(store).listed(MOST)))


def _nodes(store: ObjectStore) -> Iterable[str]:
    from shared.ledger.revisions import Revisions

    revisions = Revisions(store)
    newest = revisions.newest()
    return (node.name for node in revisions.get(newest).nodes()) if newest else ()


action_ids = _from_store(_actions, _asked_actions)
rollout_ids = _from_store(_rollouts, _asked_rollouts)
revision_numbers = _from_store(_revisions)
node_names = _from_store(_nodes)
"""Those of the newest revision's design; a cluster is not asked for a TAB."""
