"""When each action was asked for, so that the newest are listed, and the oldest forgotten, without looking at all of them.

actions-by-day/<day>/<k>-<id>    an action that was asked for on this day; k falls as the day goes on, so that the last one is listed first
actions-by-day/<day>/<k>-<parent>-<id>   one cluster's action, of an action over several; lists leave it out
upgrades/actions-by-day/<day>    the days on which actions of a release that wrote no such entries were looked for
upgrades/actions-by-day/done     all of them have their entry; until then a list looks at every action there is
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from shared.ports import ObjectStore

DAYS = "actions-by-day/"
LOOKED_FOR = "upgrades/actions-by-day/"
DONE = f"{LOOKED_FOR}done"
FIRST_PAGE, PAGE = 100, 1000
"""Entries listed at a time: mostly the newest few are wanted."""
_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_LAST = timedelta(days=1) // timedelta(milliseconds=1) - 1


class History:
    """The entries in one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._whole = False

    def add(self, action: str, at: datetime, parent: str | None = None) -> None:
        """Give an action its entry."""
        self._store.create(entry_of(f"{parent}-{action}" if parent else action, at), b"")

    def newest_first(self) -> Iterator[str]:
        """Every action's id, without those that belong to a parent."""
        seen = set[str]()
        entries = filter(_stands_alone, self._entries() if self._is_whole() else self._of_all())
        for _, moment in itertools.groupby(entries, key=_moment):
            for action in sorted(map(action_of, moment), reverse=True):
                if action not in seen:
                    seen.add(action)
                    yield action

    def before(self, day: datetime) -> Iterator[str]:
        """The entries of the days before this one's, the oldest day first."""
        for name in self._store.folders(DAYS):
            if name >= f"{day.astimezone(UTC):%Y-%m-%d}":
                return
            yield from self._of_day(name)

    def between(self, since: datetime, until: datetime) -> Iterator[str]:
        """The ids of the actions that were asked for from `since` on and before `until`, less than a day later; newest first."""
        first, last = (entry_of("", moment - timedelta(milliseconds=1)) for moment in (since, until))
        for day in sorted({_day(first), _day(last)}, reverse=True):
            for key in self._of_day(day, after=last if day == _day(last) else ""):
                if day == _day(first) and key > first:
                    return
                yield action_of(key)

    def complete(self, asked_at: Callable[[str], datetime], now: datetime, most: int) -> None:
        """Give actions that an earlier release recorded their entries, `most` at a time. Functions of that release may be at work for
        some time after the first sweep of this one: it is done when nothing is left two days later.
        """
        if self._is_whole():
            return
        self._store.create(f"{LOOKED_FOR}{now.astimezone(UTC):%Y-%m-%d}", b"")
        unlisted = self._unlisted()
        for action in unlisted[:most]:
            self.add(action, asked_at(action))
        looked = self._store.keys(LOOKED_FOR)
        if not unlisted and looked and looked[0] <= f"{LOOKED_FOR}{now.astimezone(UTC) - timedelta(days=2):%Y-%m-%d}":
            self._store.create(DONE, b"")

    def _is_whole(self) -> bool:
        self._whole = self._whole or self._store.get(DONE) is not None
        return self._whole

    def _entries(self) -> Iterator[str]:
        for day in reversed(self._store.folders(DAYS)):
            yield from self._of_day(day)

    def _of_day(self, day: str, after: str = "") -> Iterator[str]:
        page = FIRST_PAGE
        while True:
            keys = self._store.keys(f"{DAYS}{day}/", after=after, limit=page)
            yield from keys
            if len(keys) < page:
                return
            after, page = keys[-1], PAGE

    def _unlisted(self) -> list[str]:
        actions = self._store.folders("actions/")  # first: an action that is recorded at this moment had its entry before
        listed = {action_of(key) for key in self._store.keys(DAYS)}
        return [action for action in actions if _ID.fullmatch(action) and action not in listed]

    def _of_all(self) -> Iterator[str]:
        """The entries, and those that actions without one would have by their ids."""
        from shared.domain.actions import began

        keys = {*self._store.keys(DAYS), *(entry_of(action, began(action)) for action in self._unlisted())}
        yield from sorted(sorted(keys), key=_day, reverse=True)


def action_of(key: str) -> str:
    """Whose entry it is."""
    return key.rpartition("-")[2]


def _stands_alone(key: str) -> bool:
    """Whether the entry is of an action without a parent."""
    return key.split("/")[2].count("-") == 1


def _moment(key: str) -> str:
    """The day and the millisecond of an entry: ids say which of one millisecond was the last."""
    return key.rpartition("-")[0]


def _day(key: str) -> str:
    return key.split("/")[1]


def entry_of(action: str, at: datetime) -> str:
    """The key of the entry of an action that was asked for at this time."""
    moment = at.astimezone(UTC)
    passed = (moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)) // timedelta(milliseconds=1)
    return f"{DAYS}{moment:%Y-%m-%d}/{_LAST - passed:08}-{action}"
