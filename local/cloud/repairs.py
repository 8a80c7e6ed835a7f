"""The embedded cloud behind a forwarder, for a person who watches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from local.cloud.embedded import Cloud
from shared.domain.notices import CONFLICT_DETECTED
from shared.domain.outcomes import Changes, Outcome
from shared.messages import Notice, Outgoing, PartResult
from shared.world import Settings


class Repairs(Cloud):
    """The embedded cloud, which says what it does to nodes and where writers fight."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        super().__init__(settings)
        self._say = say

    def publish(self, topic: str, messages: Sequence[Outgoing]) -> None:
        """Say it, and pass it on."""
        for message in messages:
            for line in lines(topic, message):
                self._say(line)
        super().publish(topic, messages)


def lines(topic: str, message: Outgoing) -> list[str]:
    """What a person watching should see of a message: outcomes other than `unchanged`, and conflicts."""
    if topic == PartResult.TOPIC:
        return [_line(outcome) for outcome in PartResult.parse(message.data).outcomes if outcome.outcome != "unchanged"]
    if topic == Notice.TOPIC:
        notice = Notice.parse(message.data)
        return [f"conflict: {notice.data.get('message', notice.subject)}"] if notice.type == CONFLICT_DETECTED.type else []
    return []


def _line(outcome: Outcome) -> str:
    changes = outcome.changes or Changes()
    words = [*(f"{key}={value}" for key, value in sorted(changes.set.items())), *(f"{key} removed" for key in sorted(changes.remove))]
    return ": ".join(filter(None, (f"{outcome.subject} {outcome.outcome}", ", ".join(words), outcome.message)))
