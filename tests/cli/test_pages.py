"""README and docs: every `hullmark` command in a block is run, and every one in the text is at least one that there is."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import click
import pytest

from local.cli import cli
from local.steps import ROOT
from tests.cli.conftest import Hullmark
from tests.pages import Command, Shell, parts, steps, words
from tests.versions.test_command import FLEET

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = ("gcloud", "aws", "kubectl", "docker", "terraform", "curl")
"""Programs that speak to what a test has not: their commands are not run."""
HERE = ("mkdir", "cat")
"""Programs that a test runs."""
INLINE = re.compile(r"`(?:\$ )?hullmark ([^`]+)`")
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  nodeSelector:\n    beta.kubernetes.io/os: linux\n"


WITH_BLOCKS = [page for page in PAGES if page.name != "team.md" and any(step.word == "command" for step in steps(page))]
"""The pages with commands, but for the team's, which has a test of its own."""


@pytest.fixture
def folder(hullmark: Hullmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a reader has: the examples, a simulated cluster, a chart, a garden."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "pod.yaml").write_text(POD)
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "garden.yaml").write_text(FLEET)
    monkeypatch.setenv("HULLMARK_NOW", "2026-11-21T12:00:00Z")
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{ROOT / 'examples' / 'nodes.json'}")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_do_what_it_says(page: Path, hullmark: Hullmark, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(hullmark, monkeypatch)
    for step in steps(page):
        if step.word == "with":
            shell.run(Command(step.value, 0))
        elif step.word == "command":
            check(step.command, page, shell)


def check(command: Command, page: Path, shell: Shell) -> None:
    """Run a command, or parse it where the page says that it needs something else, or where it is another program's."""
    where = f"{page.name}:{command.line}: {command.text}"
    for part in parts(command.text):
        program = part.split()[0]
        if program == "make":
            assert re.search(rf"^{part.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"{where}: no such target"
        elif program == "hullmark":
            with_words(where, words(part.removeprefix("hullmark").partition(" > ")[0]))
            if not command.needs:
                ran = shell.run(Command(part, command.line, command.comment))
                assert ran.code in command.codes, f"{where}\n{ran.out}{ran.err}"
        elif program in HERE:
            assert shell.run(command).code == 0, where
        else:
            assert program in (*ELSEWHERE, "export") or "=" in program, f"{where}: neither run nor known: see tests/pages.py"


def with_words(where: str, arguments: Iterable[str]) -> None:
    """What the command line makes of these words; nothing is done. Fails for a command or an option that there is not."""
    given = list(arguments)
    try:
        context = cli.make_context("hullmark", given)
        while isinstance(context.command, click.Group):
            _, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
            assert command is not None
            context = command.make_context(command.name, rest, parent=context)
    except click.exceptions.Exit:
        pass  # --help and --version have been said
    except click.UsageError as error:
        raise AssertionError(f"{where}: {error.format_message()}") from error


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_that_a_text_names_is_there_with_its_options(page: Path) -> None:
    for said in INLINE.findall(page.read_text(encoding="utf-8")):
        first, *others = re.split(r"\\?\||&&|;", said)  # `a|b|c`: any of them; `hullmark a && hullmark b`: both
        for one in (first, *(other.strip() for other in others if other.strip().startswith("hullmark "))):
            wrong = unknown(one.removeprefix("hullmark ").split())
            assert not wrong, f"{page.name}: `hullmark {said}`: {wrong}"


def unknown(given: list[str]) -> str:
    """What of a command in a text is not there: a subcommand (where it is a plain word), an option."""
    found: click.Command = cli
    context = click.Context(cli)
    while isinstance(found, click.Group) and given and re.fullmatch(r"[a-z]+", given[0]):
        under = found.get_command(context, given[0])
        if under is None:
            return f"no command {given[0]}"
        found, given = under, given[1:]
    known = {name for parameter in (*found.params, *cli.params) for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    said = {re.split("[=…\\]]", word)[0].strip("[](),.") for word in given if word.lstrip("[(").startswith("--")}
    return "" if isinstance(found, click.Group) else ", ".join(sorted(said - known))


@pytest.mark.parametrize("mistyped", [("plann",), ("plan", "--relased"), ("documents", "commit", "--massage", "x"), ("rollout", "begin")])
def test_a_mistyped_command_of_a_page_is_seen(mistyped: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError, match="page:1"):
        with_words("page:1", mistyped)
    assert len(mistyped) > 3 or unknown(list(mistyped))
