"""docs/team.md, run from its first command to its last: repository, pull request, canary, conflict, the way back, an audit question."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.steps import ROOT
from tests.cli.conftest import Hullmark
from tests.pages import Shell, steps

EXAMPLES = ROOT / "examples"
GITHUB = EXAMPLES / "ci" / "github"
GITLAB = EXAMPLES / "ci" / "gitlab-ci.yml"


def runs(file: Path) -> list[str]:
    """The scripts of a workflow, in order, but for what installs the command."""
    jobs = yaml.safe_load(file.read_text())["jobs"].values()
    scripts = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    return [script for script in scripts if "pip install" not in script]


SHIM = """\
#!/bin/bash
printf '%s\\0' "$@" > {folder}/arguments
echo asked > {folder}/request
read -r code < {folder}/answer
cat {folder}/out
cat {folder}/err >&2
exit "$code"
"""


class Runner:
    """A forge's runner: a workflow's scripts in bash, as GitHub runs it. `gh` writes down what it is asked; `hullmark` is the installed
    command, or for most of them this process, which is faster.
    """

    def __init__(self, folder: Path, hullmark: Hullmark) -> None:
        folder.mkdir()
        self._folder, self._hullmark = folder, hullmark
        self.asked, self.summary = folder / "asked", folder / "summary.md"
        self._program("gh", f'#!/bin/bash\nprintf "%s\\n" "$*" >> {self.asked}\ncase "$*" in *--edit-last*) exit 1;; esac\n')
        self._program("here/hullmark", SHIM.format(folder=folder))
        for fifo in ("request", "answer"):
            os.mkfifo(folder / fifo)

    def _program(self, name: str, text: str) -> None:
        file = self._folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def run(self, workflow: str, *, installed: bool = False) -> str:
        """Run a workflow's scripts. What they print."""
        return "".join(self._script(script, installed) for script in runs(GITHUB / f"{workflow}.yml"))

    def _script(self, script: str, installed: bool) -> str:
        found = Path(sys.executable).parent if installed else self._folder / "here"
        environment = os.environ | {
            "PATH": f"{self._folder}:{found}:{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_SERVER_URL": "https://git.example.com",
            "GITHUB_REPOSITORY": "platform/fleet",
            "GITHUB_SHA": git("rev-parse", "HEAD"),
            "RUNNER_TEMP": str(self._folder),
            "PULL_REQUEST": "7",
            "KUBECONFIG_TEXT": "",
        }
        ends = f"trap 'echo ended > {self._folder}/request' EXIT\n"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", ends + script]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            while (self._folder / "request").read_text() == "asked\n":
                self._answer()
            out, err = running.communicate()
        assert running.returncode == 0, f"{script}\n{out}{err}"
        return out

    def _answer(self) -> None:
        asked = (self._folder / "arguments").read_text().split("\0")[:-1]
        ran = self._hullmark(*asked)
        (self._folder / "out").write_text(ran.out)
        (self._folder / "err").write_text(ran.err)
        (self._folder / "answer").write_text(f"{ran.code}\n")


def git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def as_a_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git of its own, with somebody's name."""
    (tmp_path / "gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.com\n[advice]\ndetachedHead = false\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    shutil.copy(EXAMPLES / "nodes.json", tmp_path)


@pytest.mark.usefixtures("as_a_person")
def test_the_page_of_a_team_is_true(hullmark: Hullmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell, runner = Shell(hullmark, monkeypatch), Runner(tmp_path / "runner", hullmark)
    jobs: dict[str, list[str]] = {}
    for step in steps(ROOT / "docs" / "team.md"):
        if step.word == "clock":
            monkeypatch.setenv("HULLMARK_NOW", step.value)
        elif step.word == "job":
            jobs.setdefault(step.value, []).append(runner.run(step.value, installed=step.value == "drift"))
        else:
            ran = shell.run(step.command)
            assert ran.code in step.command.codes, f"docs/team.md:{step.command.line}: {step.command.text}\n{ran.out}{ran.err}"

    merge = f"https://git.example.com/platform/fleet/commit/{git('log', '-1', '--format=%H', '--merges', 'HEAD')}"
    drift_is_told_before_it_is_repaired(shell, runner)
    the_pull_request_is_commented(runner, jobs)
    assert "committed revision 2" in jobs["merge"][0]
    assert "AwaitingApproval" in shell.said("rollout status ID").out
    assert f"Driver 570 for the GPU machines (#7) ({merge})" in shell.said("explain gpu01").out
    stopped = shell.said("rollout status ID", 1).out
    assert "TooManyFailures" in stopped
    assert "Conflict" in stopped
    assert "0 to change" in shell.said("plan --released", 2).out
    assert "27 unchanged" in shell.said("relabel --all", 1).out
    the_audit_question_is_answered(shell, merge)


def drift_is_told_before_it_is_repaired(shell: Shell, runner: Runner) -> None:
    before, after = shell.said("plan --released -o markdown").out, shell.said("plan --released -o markdown", 1).out
    row = "| **take over** | `example.com/pool` | `web` | `gpu` | `a-colleague` | 1: `gpu02` | 2026-11-24 02:10 UTC |"
    assert row in before
    assert row in runner.summary.read_text()
    assert "issue create --title Labels have drifted --body-file drift.md" in runner.asked.read_text()
    assert "No drift" in after


def the_pull_request_is_commented(runner: Runner, jobs: dict[str, list[str]]) -> None:
    asked = runner.asked.read_text().splitlines()
    assert asked[-2:] == ["pr comment 7 --edit-last --body-file plan.md", "pr comment 7 --body-file plan.md"]
    comment = Path("plan.md").read_text()
    assert "| set | `example.com/driver` | (none) | `570` |  | 7: `gpu01`, `gpu02`, `gpu03`, … |" in comment
    assert jobs["pull-request"] == [""], "there are no problems to show"


def the_audit_question_is_answered(shell: Shell, merge: str) -> None:
    events = shell._hullmark("history", "gpu01", "-o", "json").json["events"]
    ours = [(event["at"][:16], event["changes"]["set"], event["changes"]["remove"]) for event in events if event["changes"]]
    driver = [each for each in ours if "example.com/driver" in (*each[1], *each[2])]
    assert driver == [("2026-11-25T15:45", {}, ["example.com/driver"]), ("2026-11-25T14:00", {"example.com/driver": "570"}, [])]
    shown = shell.said("documents show 2").out
    assert merge in shown
    assert "example.com/driver" in shown
    told = shell.said("rollout status ID", 2).out
    assert "gpu05 runs a job that needs driver 535" in told
    explained = shell.said("explain gpu02").out
    assert re.search(r"declared +'gpu' by NodeLabelPolicy/pool-gpu \(labels.yaml:\d+, collection default\)", explained)
    assert "web (a-colleague)" in explained


# --- the files that a team copies


def test_every_workflow_file_is_yaml_with_jobs_and_asks_for_no_more_than_it_needs() -> None:
    files = sorted(GITHUB.glob("*.yml"))
    assert [file.stem for file in files] == ["drift", "merge", "pull-request"]
    for file in files:
        workflow = yaml.safe_load(file.read_text())
        assert workflow["permissions"]["contents"] == "read", file
        assert all("${{" not in script for script in runs(file)), "what a forge puts into a script can be code: settings come by `env`"


def hullmarks(scripts: list[str]) -> set[str]:
    """Every `hullmark` command in these scripts, but for what differs between forges: output for one, and where values come from."""
    found = re.findall(r"hullmark [^|>\n]*", "\n".join(scripts))
    return {re.sub(r'"[^"]*"', '""', re.sub(r" -o (github|sarif)", "", command)).strip() for command in found}


def test_gitlab_runs_the_commands_that_github_does() -> None:
    gitlab: dict[str, Any] = yaml.safe_load(GITLAB.read_text())
    jobs = {name: job["script"] for name, job in gitlab.items() if isinstance(job, dict) and "script" in job}
    assert set(jobs) == {"validate", "plan", "commit", "drift"}
    assert hullmarks([line for script in jobs.values() for line in script]) == hullmarks(
        [script for file in GITHUB.glob("*.yml") for script in runs(file)]
    )


def test_the_pre_commit_hook_is_a_command_that_runs(hullmark: Hullmark) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *arguments = hook["entry"].split()
    shutil.copytree(EXAMPLES / "site", "site")
    assert (program, hook["pass_filenames"]) == ("hullmark", False)
    assert hullmark(*arguments, "site").code == 0
    Path("site/bad.yaml").write_text("kind: NodeLabelPolicy\n")
    assert hullmark(*arguments, *hook["args"]).code == 1


@pytest.mark.parametrize("workflow", ["merge", "drift"])
def test_a_workflow_without_its_settings_writes_to_no_store_of_its_own(workflow: str, tmp_path: Path) -> None:
    """An unset variable of GitHub's is an empty one; the command would take a store in the runner's folder, and all would look well."""
    (script,) = runs(GITHUB / f"{workflow}.yml")
    ran = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        env={"PATH": str(tmp_path), "HULLMARK_SERVER": "", "GITHUB_STEP_SUMMARY": "/dev/null"},
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode != 0
    assert "set the variable HULLMARK_SERVER" in ran.stderr
