"""The buttons that the page has for a rollout: what each does, what it asks for, and what became of the press. Without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from functions.api.rolling import words
from shared.domain.rollouts.progress import Progress
from shared.work.rollouts import Control, RolloutStatus

Asks = Literal["", "optional", "required"]


class Button(NamedTuple):
    """One word that a person may give a rollout."""

    verb: Control
    label: str
    does: str
    tone: str = ""
    reason: Asks = ""
    """Whether it asks why."""


BUTTONS: Sequence[Button] = (
    Button("approve", "Approve", "The rollout goes on as soon as nothing else holds it.", "good"),
    Button("pause", "Pause", "Nothing more opens. What was opened before goes on.", "warn", "required"),
    Button("resume", "Resume", "The rollout goes on where it was.", "good"),
    Button("retry", "Retry", "What failed, was blocked or did not answer is tried once more, and the rollout goes on.", "good"),
    Button("abort", "Abort", "The rollout ends where it is: what was released stays. It can still be reverted.", "warn", "optional"),
    Button(
        "revert",
        "Revert",
        "Its nodes get what they had before, at once and without soak. Its revision is rejected: nothing releases it until a person "
        "lifts that.",
        "bad",
        "optional",
    ),
)


class Press(BaseModel):
    """What the form of a button sends."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    stage: str = Field(default="", max_length=63)
    impact: str = Field(default="", max_length=64)
    """The digest of the impact that the page showed."""
    reason: str = Field(default="", max_length=2000)


def buttons(status: RolloutStatus) -> Sequence[Button]:
    """The buttons of a rollout as it is now."""
    takes = words(status)
    return [button for button in BUTTONS if button.verb in takes]


def named(button: Button, status: RolloutStatus) -> str:
    """What is written on a button."""
    return f"{button.label} {status.stage}" if button.verb == "approve" else button.label


def command(button: Button, status: RolloutStatus) -> str:
    """The same as a command."""
    impact = f" --impact {status.impact.digest}" if status.impact else ""
    said = {"approve": f" {status.stage}{impact}", "pause": " --reason …"}.get(button.verb, "")
    return f"hullmark rollout {button.verb} {status.id}{said}"


def pressed(verb: str, progress: Progress) -> str:
    """What a press came to, by what is recorded; empty where nothing of it is."""
    said = progress.said
    why = f": {said.message}" if said.message else ""
    match verb, progress.phase:
        case "approve", _ if progress.approvals:
            newest = progress.approvals[-1]
            return f"Stage {progress.stages[newest.stage].name} is approved by {newest.by}."
        case "pause", "paused":
            return f"Paused by {said.by}{why}"
        case (("resume" | "retry"), "running"):
            return "It goes on."
        case "abort", "aborted":
            return f"Aborted by {said.by}{why}"
        case "revert", "reverted":
            where = "its nodes are being brought back" if progress.pending else "its nodes are back"
            return f"Revision {progress.revision} is rejected, and {where}."
    return ""
