"""`functions/steps.yaml`, read: every function, its trigger, and what it needs to run."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

ROOT = Path(__file__).resolve().parent.parent
"""The source root: what PYTHONPATH must name for a function to find `shared`."""
DEAD_LETTERS = "dead-letters"


class FunctionStep(BaseModel):
    """One deployed function."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    about: str
    code: str = ""
    """The folder of its main.py where it is another's."""
    topics: list[str] = []
    http: bool = False
    publishes: list[str]
    store: Literal["read", "write"]
    cluster: Literal["label", "read", "none"]
    memory: str
    timeout: int
    concurrency: int

    @property
    def folder(self) -> str:
        """Where its main.py lies, under functions/."""
        return self.code or self.name

    @property
    def source(self) -> Path:
        """The file that functions-framework loads."""
        return ROOT / "functions" / self.folder / "main.py"


class Schedule(BaseModel):
    """A message that a clock sends."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    topic: str
    cron: str
    body: dict[str, Any]
    spread: int | None = None
    """Minutes between two messages in the cloud, each for a share of the clusters."""


class Steps(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    steps: dict[str, FunctionStep]
    schedules: dict[str, Schedule]
    outlets: list[str]

    def subscribers(self, topic: str) -> list[FunctionStep]:
        """The functions that a topic is pushed to."""
        return [step for step in self.steps.values() if topic in step.topics]

    @property
    def topics(self) -> list[str]:
        """Every topic that is published to, pushed or read, sorted."""
        named = {topic for step in self.steps.values() for topic in (*step.topics, *step.publishes)}
        return sorted({*named, *self.outlets, DEAD_LETTERS})


@functools.cache
def load() -> Steps:
    """Read the file that lies beside the functions."""
    document = yaml.safe_load((ROOT / "functions" / "steps.yaml").read_text())
    for name, step in document["steps"].items():
        step["name"] = name
    return Steps.model_validate(document)
