"""`hullmark demo`: the main job in one go, on a simulated cluster, with the command's own commands."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import click
from rich.markup import escape

from local.cli.cloud import SERVER, service
from local.cli.output import captured_for, talk
from local.steps import ROOT
from shared import wiring

EXAMPLES = ROOT / "examples"
STORY = """\
You run Halden: 27 machines in three racks, described by Airship documents, and a running cluster in which the kubelet, the GPU
operator, feature discovery and a colleague have put labels of their own. Hullmark sets the declared labels and leaves
the rest alone."""


@click.command()
def demo() -> None:
    """Commit, plan and relabel on a simulated cluster. Takes under a minute, needs no setup."""
    folder = Path(tempfile.mkdtemp(prefix="hullmark-demo-"))
    site = folder / "site"
    shutil.copytree(EXAMPLES / "site", site)
    os.environ["HULLMARK_STORE"] = f"file:{folder / 'store'}"
    os.environ["HULLMARK_CLUSTER"] = f"simulated:{EXAMPLES / 'nodes.json'}"
    os.environ.pop(SERVER, None)
    service.cache_clear()
    os.chdir(folder)
    talk().print(" ".join(STORY.split()))

    say("Validate the documents first: every problem would be reported with file and line.")
    run("validate -f site")
    say("Commit them as revision 1.")
    run("documents stage -f site")
    run("documents commit")
    say("What would change on three of the nodes? Nothing is written yet; every change names its document.")
    run("plan --target cp01,gpu01,compute03", expect=2)
    say("Bring the whole site in sync. compute17 is in the design but not in the cluster: reported, exit code 3.")
    run("relabel --all", expect=3, lines=12)
    say("Labels of other owners are untouched, and compute03 kept what a colleague set by hand (the policy says onConflict: skip):")
    show_labels("compute03")
    say("Now an edit: gpu nodes lose the label `accelerator`. Commit, and relabel one node by name.")
    edit(site / "halden.yaml", "      accelerator: hopper\n", "")
    run("documents stage -f site")
    run("documents commit")
    run("relabel gpu01")
    say("`accelerator` is gone from gpu01 because Hullmark was its only owner; a second owner would have kept it.")
    show_labels("gpu01")
    say("A second relabel changes nothing and writes nothing:")
    run("relabel gpu01")
    say("What ran, who requested it, and how it ended:")
    run("actions list")
    talk().print(
        "\n[bold]That's it.[/bold] For your own site: put documents in a folder, point HULLMARK_CLUSTER at a kubeconfig, "
        "and use the same commands.\n"
        f"This demo's store is {folder}/store; remove {folder} when you are done."
    )


def say(text: str) -> None:
    """Narrate, on stderr like all messages."""
    talk().print(f"\n[bold cyan]#[/bold cyan] {escape(text)}")


def run(words: str, expect: int = 0, lines: int = 0) -> None:
    """Run one of our own commands and show it as it would be typed. With `lines`, only so many lines of what it prints."""
    from local.cli import main

    talk().print(f"[bold]$ hullmark {escape(words)}[/bold]")
    code = 0
    with captured_for(max(talk().width, 100)) as printed:
        try:
            main(words.split())
        except SystemExit as ending:
            code = int(ending.code or 0)
    for line in shortened(printed.getvalue(), lines):
        click.echo(line.rstrip())
    if code != expect:
        raise click.ClickException(f"the demo expected exit code {expect} of `hullmark {words}` and got {code}")


def shortened(text: str, lines: int) -> list[str]:
    """The lines of a text; with `lines`, the first so many, how many are left out, and the last."""
    text_lines = text.rstrip("\n").split("\n")
    if lines and len(text_lines) > lines + 3:
        text_lines = [*text_lines[:lines], f"… {len(text_lines) - lines - 1} more …", text_lines[-1]]
    return text_lines


def show_labels(name: str) -> None:
    """A node's labels as the cluster has them, with who holds each."""
    node = wiring.world().cluster("default", None).node(name)
    if node is None:
        raise click.ClickException(f"the demo's cluster has no node {name}")
    for key, value in sorted(node.labels.items()):
        click.echo(f"  {key}={value}".ljust(72) + " " + ", ".join(node.owners.get(key, ())))


def edit(file: Path, old: str, new: str) -> None:
    """Change a document as an editor would."""
    file.write_text(file.read_text().replace(old, new))
