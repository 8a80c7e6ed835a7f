"""A command that is cut off leaves nothing behind that stays so: the next command goes on with it. Real processes, real signals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from local.cloud.presence import Presence
from tests.stories.fleet import a_policy

NODES = [f"n{number}" for number in range(6)]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(__file__).parents[2]),
    "HULLMARK_STORE": "file:store",
    "HULLMARK_CLUSTER": "simulated:nodes.json",
}


class Ran(NamedTuple):
    """What one command did."""

    returncode: int
    stdout: str
    stderr: str


class Hullmark:
    """The command, each time in a process of its own; with `cut`, until its call of that number meets the signal."""

    def __init__(self) -> None:
        program = [sys.executable, "-m", "tests.local.cut_off"]
        self._process = subprocess.Popen(program, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, folder: Path, *words: str, cut: tuple[int, str] = (0, "SIGKILL")) -> Ran:
        asked = {"folder": str(folder), "number": cut[0], "signal": cut[1], "words": words}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Ran(int(self._process.stdout.readline()), (folder / "out").read_text(), (folder / "err").read_text())

    def listed(self, folder: Path) -> list[dict[str, Any]]:
        """The actions, by the next command."""
        ran = self(folder, "actions", "list", "-o", "json")
        assert ran.returncode == 0, ran.stderr
        found: list[dict[str, Any]] = json.loads(ran.stdout)["actions"]
        return found

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def command() -> Iterator[Hullmark]:
    hullmark = Hullmark()
    yield hullmark
    hullmark.close()


@pytest.fixture(scope="module")
def committed(command: Hullmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store: six nodes, and documents for them that nobody has applied."""
    folder = tmp_path_factory.mktemp("committed")
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}} for name in NODES]
    (folder / "nodes.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": nodes}))
    (folder / "site.yaml").write_text(yaml.safe_dump(a_policy("p", {}, {"rack": "r1"})))
    assert command(folder, "documents", "stage", "-f", "site.yaml").returncode == 0
    assert command(folder, "documents", "commit").returncode == 0
    return folder


@pytest.fixture(scope="module")
def calls(command: Hullmark, committed: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many calls of the store a whole relabel makes."""
    whole = shutil.copytree(committed, tmp_path_factory.mktemp("whole") / "site")
    return int(command(whole, "relabel", "--all").stderr.splitlines()[-1])


def ended_as_asked(command: Hullmark, folder: Path) -> None:
    """Every node has its label, once; the one action that was recorded, if any, has ended well, and nothing is open."""
    actions = command.listed(folder)
    assert [(each["result"], each["lifecycle"]) for each in actions] in ([("success", "Complete")], [])
    assert list((folder / "store" / "open-actions").glob("*")) == []
    if not actions:
        return
    (outcome,) = (folder / "store" / "actions").glob("*/outcome.json")
    assert {told["subject"]: told["outcome"] for told in json.loads(outcome.read_text())["outcomes"]} == dict.fromkeys(NODES, "changed")
    for name in NODES:
        newest = max((folder / "store" / "clusters" / "default" / "nodes" / name).iterdir())
        assert json.loads(newest.read_text())["labels"] == {"rack": "r1"}


@pytest.mark.parametrize("sixth", range(6))
def test_a_relabel_that_is_killed_anywhere_is_taken_up_by_the_next_command(
    sixth: int, command: Hullmark, committed: Path, calls: int, tmp_path: Path
) -> None:
    folder = shutil.copytree(committed, tmp_path / "site")
    number = 1 + sixth * (calls - 10) // 5  # how many calls a run makes differs by a few: threads look for work while others finish it
    assert command(folder, "relabel", "--all", cut=(number, "SIGKILL")).returncode == -9
    ended_as_asked(command, folder)


@pytest.mark.parametrize("part", [4, 7])
def test_a_relabel_that_is_interrupted_says_how_to_follow_and_ends_with_the_next_command(
    part: int, command: Hullmark, committed: Path, calls: int, tmp_path: Path
) -> None:
    folder = shutil.copytree(committed, tmp_path / "site")
    ran = command(folder, "relabel", "--all", cut=(calls * part // 10, "SIGINT"))
    assert ran.returncode == 130, ran.stderr
    (action,) = [path.name for path in (folder / "store" / "actions").iterdir()]
    assert f"hullmark actions watch {action}" in ran.stderr
    watched = command(folder, "actions", "watch", action, "-o", "json")
    assert (watched.returncode, json.loads(watched.stdout)["result"]) == (0, "success")
    ended_as_asked(command, folder)


def test_a_killed_action_that_is_stopped_is_stopped_before_it_is_taken_up(
    command: Hullmark, committed: Path, calls: int, tmp_path: Path
) -> None:
    folder = shutil.copytree(committed, tmp_path / "site")
    command(folder, "relabel", "--all", cut=(calls * 3 // 10, "SIGKILL"))
    (action,) = [path.name for path in (folder / "store" / "actions").iterdir()]
    assert command(folder, "actions", "stop", action).returncode == 0
    assert [each["result"] for each in command.listed(folder)] == ["stopped"]


def test_what_another_process_works_on_is_not_taken_up(command: Hullmark, committed: Path, calls: int, tmp_path: Path) -> None:
    folder = shutil.copytree(committed, tmp_path / "site")
    command(folder, "relabel", "--all", cut=(calls * 3 // 10, "SIGKILL"))
    working = Presence(f"file:{folder / 'store'}")
    assert working.arrive()
    assert [each["result"] for each in command.listed(folder)] == [None]
    del working
    assert [each["result"] for each in command.listed(folder)] == ["success"]
