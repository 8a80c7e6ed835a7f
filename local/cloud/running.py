"""How a forwarder fares, for probes and Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from local.cloud.election import Alone, Election
from local.cloud.forwarder import Forwarder
from shared import telemetry
from shared.domain.exposition import Family, Sample

DEAD_SECONDS = 600.0
"""An active forwarder that shows no sign of life for longer hangs: watches end after 300 s, and no pause is longer than 60 s."""
STUCK_SECONDS = 60.0
"""The same for whoever looks after the lease, every two seconds."""


@dataclass
class Running:
    """What a forwarder says of itself while it runs."""

    election: Election | Alone
    monotonic: Callable[[], float] = time.monotonic
    forwarder: Forwarder | None = None
    _stepped: float = field(init=False)

    def __post_init__(self) -> None:
        self._stepped = self.monotonic()

    def stepped(self, _active: bool) -> None:
        """Somebody looked after the lease."""
        self._stepped = self.monotonic()

    @property
    def published(self) -> int:
        """Events published so far."""
        return self.forwarder.published if self.forwarder else 0

    def alive(self) -> bool:
        """Whether it goes on: a restart mends what does not."""
        stuck = self.monotonic() - self._stepped >= STUCK_SECONDS
        return not stuck and (self.forwarder is None or self.forwarder.seconds_silent() < DEAD_SECONDS)

    def ready(self) -> bool:
        """Whether it watches, or stands by and would: the API server answers it."""
        if self.election.active:
            return self.forwarder is not None and self.forwarder.listings > 0
        return self.election.known

    def metrics(self) -> list[Family]:
        """For Prometheus, with the functions' counters where they run here."""
        one = self.forwarder
        numbers: list[tuple[str, str, float]] = [("active", "1: this process forwards; 0: it stands by.", int(self.election.active))]
        if one:
            numbers += [
                ("nodes", "Nodes that it knows.", one.nodes),
                ("silent_seconds", "How long nothing came of the watch, the bus or the API server.", one.seconds_silent()),
            ]
        counts = [
            ("published_total", "Events published.", self.published),
            ("listings_total", "Times that it listed all nodes: at the start, and after a gap.", one.listings if one else 0),
            ("pauses_total", "Times that it had to try again later.", one.pauses if one else 0),
        ]
        return [
            *(Family(f"hullmark_forwarder_{name}", about, "gauge", (Sample(value),)) for name, about, value in numbers),
            *(Family(f"hullmark_forwarder_{name}", about, "counter", (Sample(value),)) for name, about, value in counts),
            *telemetry.metrics(),
        ]
