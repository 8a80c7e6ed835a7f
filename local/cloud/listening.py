"""What the functions of an embedded cloud say about the messages they handle, read from their log lines."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel, ConfigDict

from shared import telemetry


class Said(BaseModel):
    """One function's word about one message."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    step: str
    topic: str = ""
    outcome: str
    reason: str = ""
    action: str = ""
    trace: str


class Listening:
    """What was said since it began, in the order in which it was."""

    def __init__(self, text: io.StringIO) -> None:
        self._text = text

    def said(self) -> list[Said]:
        """Every function's word so far."""
        return [Said.model_validate(json.loads(line)) for line in self._text.getvalue().splitlines()]


@contextmanager
def listening() -> Iterator[Listening]:
    """Keep what the functions say meanwhile; afterwards nobody listens again, as in every command."""
    text = io.StringIO()
    telemetry.write_to(text)
    try:
        yield Listening(text)
    finally:
        telemetry.write_to(None)
