"""Watch a cluster's nodes and tell the bus what is news: `hullmark events forward`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from shared.adapters.kubernetes_watch import Expired, Seen
from shared.domain.labels.events import NodeChange, Watched
from shared.domain.nodes import Node
from shared.messages import NodeChanged
from shared.ports import Bus, BusError, Unavailable

BATCH = 100
"""Messages published at once after a listing."""
LONGEST_PAUSE = 60.0
"""Seconds between tries while the API server or the bus does not answer."""

_log = logging.getLogger("hullmark.forwarder")


class NodeSource(Protocol):
    """Where nodes are listed and watched."""

    def list(self) -> tuple[list[Node], str]:
        """All nodes, and the version to watch from."""
        ...

    def since(self, version: str) -> Iterator[Seen]:
        """What happens after it."""
        ...


Needed = Callable[[list[NodeChange]], list[NodeChange]]
"""Of the news of a listing, those that somebody has to act on."""


def _all(news: list[NodeChange]) -> list[NodeChange]:
    return news


class Forwarder:
    """List once, then watch; after a broken connection go on where it broke, after 410 Gone list again and tell the difference.

    Nothing is forgotten before the bus has confirmed it. `quiet_start`: take the first listing as known instead of telling any of it.
    """

    def __init__(
        self,
        cluster: str,
        source: NodeSource,
        bus: Bus,
        *,
        needed: Needed = _all,
        quiet_start: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._bus, self._sleep, self._quiet = source, bus, sleep, quiet_start
        self._needed, self._monotonic = needed, monotonic
        self._watched = Watched(cluster)
        self._failures = 0
        self._sign = monotonic()
        self.published = 0
        self.listings = 0
        self.pauses = 0

    @property
    def nodes(self) -> int:
        """How many nodes it knows."""
        return self._watched.count

    def seconds_silent(self) -> float:
        """How long nothing came of it: no line of a watch, no listing, no message, not even a failure."""
        return self._monotonic() - self._sign

    def run(self) -> None:
        """Forward until the process ends. Raises Refused: no later try will help."""
        version = ""
        while True:
            version = self.round(version)

    def round(self, version: str) -> str:
        """List (without a version) or watch from it until that ends; returns the version to go on from, empty to list again."""
        try:
            if not version:
                return self._list()
            for seen in self._source.since(version):
                if seen.node is not None and seen.deleted:
                    self._watched.gone(seen.node.name)
                elif seen.node is not None and (news := self._watched.saw(seen.node)):
                    self._publish([news])
                version = seen.version or version
                self._went_on()
        except Expired:
            _log.info("the watch expired: listing again")
            return ""
        except Unavailable as error:
            self._pause(str(error), error.retry_after)
        return version

    def _list(self) -> str:
        nodes, version = self._source.list()
        news = list(self._watched.listed(nodes))
        if self._quiet:
            self._quiet, news = False, []
        news = self._needed(news) if news else news
        for start in range(0, len(news), BATCH):
            self._publish(news[start : start + BATCH])
        self.listings += 1
        self._went_on()
        return version

    def _publish(self, news: Sequence[NodeChange]) -> None:
        messages = [NodeChanged.model_validate(one.model_dump()).outgoing() for one in news]
        while True:
            try:
                self._bus.publish(NodeChanged.TOPIC, messages)
            except BusError as error:
                self._pause(f"the bus did not take {len(messages)} events: {error}")
                continue
            self.published += len(messages)
            self._went_on()
            return

    def _went_on(self) -> None:
        self._failures, self._sign = 0, self._monotonic()

    def _pause(self, why: str, seconds: float | None = None) -> None:
        self._failures += 1
        self.pauses += 1
        self._sign = self._monotonic()
        pause = min(LONGEST_PAUSE, seconds or 0.5 * 2 ** min(self._failures, 10))
        _log.warning("%s; trying again in %.1f s", why, pause)
        self._sleep(pause)
