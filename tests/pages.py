"""The command blocks of README and docs, and how they are run: `hullmark` in this process, everything else by a shell.

In a page, comments steer it (nobody sees them):

    <!-- clock: TIME -->     the time from here on
    <!-- with: COMMANDS -->  run before the next block, whatever comes of it
    <!-- needs: WHAT -->     the next block needs what a test has not (Google Cloud, AWS, a cluster): its commands are parsed, not run

`# exit N` behind a command is the exit code that it has; `# exit N when` that it may have. ID is the newest rollout.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

BLOCK = re.compile(r"<!-- (?P<word>[a-z]+): (?P<value>.*?) -->|^```(?P<language>[a-z]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
HEREDOC = re.compile(r"<<'?(\w+)'?")
COMMENT = re.compile(r"(?:^|\s)#\s(?P<words>.*)$")
EXIT = re.compile(r"exit (?P<code>\d)(?P<may> when)?")


@dataclass(frozen=True)
class Command:
    """One command of a page."""

    text: str
    line: int
    comment: str = ""
    needs: str = ""

    @property
    def codes(self) -> frozenset[int]:
        """The exit codes that it may have."""
        said = EXIT.search(self.comment)
        if not said:
            return frozenset({0})
        return frozenset({int(said["code"]), *([0] if said["may"] else [])})


@dataclass(frozen=True)
class Step:
    """What a page says at one place: a comment that steers, or a command."""

    word: str
    value: str = ""
    command: Command = field(default_factory=lambda: Command("", 0))


def steps(page: Path) -> Iterator[Step]:
    """Everything that a page says to a test, in order."""
    text, needs = page.read_text(encoding="utf-8"), ""
    for found in BLOCK.finditer(text):
        if found["word"] == "needs":
            needs = found["value"]
        elif found["word"]:
            yield Step(found["word"], found["value"])
        else:
            if found["language"] in ("console", "sh"):
                first = text[: found.start("text")].count("\n") + 1
                yield from (Step("command", command=command) for command in commands(found["text"], first, needs))
            needs = ""


def commands(block: str, first: int = 1, needs: str = "") -> Iterator[Command]:
    """The commands of a block: what stands behind `$ `, with lines that go on after a backslash and here-documents."""
    lines = iter(enumerate(block.splitlines(), first))
    for number, line in lines:
        if not line.startswith("$ "):
            continue
        text = line[2:]
        while text.endswith("\\"):
            text = text[:-1] + next(lines)[1].strip()
        comment = COMMENT.search(text)
        text = text[: comment.start()].rstrip() if comment else text
        if ends := HEREDOC.search(text):
            for _, more in lines:
                text += f"\n{more}"
                if more == ends[1]:
                    break
        yield Command(text, number, comment["words"] if comment else "", needs)


def parts(text: str) -> list[str]:
    """The commands of a line with `&&`, `;` or a pipe between them; of none where it is a here-document."""
    return [text] if HEREDOC.search(text) else [part.strip() for part in re.split(r"\s*(?:&&|;|\|)\s*", text) if part.strip()]


def words(text: str) -> list[str]:
    """A command's arguments, as the shell expands them."""
    script = f"printf '%s\\0' {text}"
    expanded = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    return expanded.split("\0")[:-1]


Hullmark = Callable[..., Any]
"""Runs the command in this process: `code`, `out` and `err` of it."""


@dataclass
class Ran:
    """What a command of a page did."""

    command: Command
    code: int
    out: str
    err: str


class Shell:
    """Runs commands of a page as a reader would, in the current folder; all that they did is kept."""

    def __init__(self, hullmark: Hullmark, monkeypatch: pytest.MonkeyPatch) -> None:
        self._hullmark, self._monkeypatch = hullmark, monkeypatch
        self.ran: list[Ran] = []

    def run(self, command: Command) -> Ran:
        """Run a command, and what is joined to it, up to the first that fails."""
        done = Ran(command, 0, "", "")
        for part in parts(command.text):
            done = self._one(command, part)
            self.ran.append(done)
            if done.code:
                break
        return done

    def _one(self, command: Command, part: str) -> Ran:
        name, _, rest = part.partition(" ")
        if name == "hullmark":
            arguments, _, file = rest.partition(" > ")
            ran = self._hullmark(*(self._newest_rollout() if word == "ID" else word for word in words(arguments)))
            if file:
                Path(file).write_text(ran.out)
            return Ran(command, ran.code, ran.out, ran.err)
        if name == "export":
            for setting in words(rest):
                self._monkeypatch.setenv(*setting.split("=", 1))
            return Ran(command, 0, "", "")
        if name == "cd":
            self._monkeypatch.chdir(rest)
            return Ran(command, 0, "", "")
        done = subprocess.run(["bash", "-c", part], capture_output=True, text=True, check=False)
        return Ran(command, done.returncode, done.stdout, done.stderr)

    def _newest_rollout(self) -> str:
        rollouts = self._hullmark("rollout", "status", "-o", "json").json["rollouts"]
        return str(rollouts[0]["id"])

    def said(self, text: str, nth: int = 0) -> Ran:
        """What the command with this text did; of several the `nth`."""
        return [ran for ran in self.ran if text in ran.command.text][nth]
