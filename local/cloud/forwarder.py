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


class Forwarder:
    """List once, then watch; after a broken connection go on where it broke, after 410 Gone list again and tell the difference.

    Nothing is forgotten before the bus has confirmed it. `quiet_start`: take the first listing as known instead of telling all of it.
    """

    def __init__(
        self, cluster: str, source: NodeSource, bus: Bus, *, quiet_start: bool = False, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._source, self._bus, self._sleep, self._quiet = source, bus, sleep, quiet_start
        self._watched = Watched(cluster)
        self._failures = 0
        self.published = 0

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
                self._failures = 0
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
        for start in range(0, len(news), BATCH):
            self._publish(news[start : start + BATCH])
        self._failures = 0
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
            self._failures = 0
            return

    def _pause(self, why: str, seconds: float | None = None) -> None:
        self._failures += 1
        pause = min(LONGEST_PAUSE, seconds or 0.5 * 2 ** min(self._failures, 10))
        _log.warning("%s; trying again in %.1f s", why, pause)
        self._sleep(pause)
