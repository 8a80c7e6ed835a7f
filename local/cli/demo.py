"""`hullmark demo`: release documents, repair drift, catch a mistake, try a change on one machine and go back; with our own commands."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import textwrap
import time
from contextlib import redirect_stderr
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from rich.markup import escape

from local import steps
from local.cli.cloud import SERVER, service
from local.cli.inputs import who
from local.cli.output import captured_for, talk
from local.steps import ROOT

EXAMPLES = ROOT / "examples"
STORY = """\
You run Halden: 27 machines, described by Airship documents, and a running cluster in which the kubelet, the GPU operator and
colleagues have put labels of their own. Hullmark sets the labels that documents declare and leaves the rest alone."""
MISTAKE = "one file was staged in place of the whole site"
CLOCK = "HULLMARK_NOW"
SPARE = {"halden.example.com/cpu": "amd", "halden.example.com/pool": "burn-in"}


@click.command()
@click.option("--pace", default=2.0, show_default=True, metavar="SECONDS", help="Pause before each step on a terminal; 0: none.")
def demo(pace: float) -> None:
    """Release documents, see drift repaired, a mistake caught, a canary fail and go back. On a simulated cluster, in under a minute."""
    folder = Path(tempfile.mkdtemp(prefix="hullmark-demo-"))
    for name in ("site", "rollout"):
        shutil.copytree(EXAMPLES / name, folder / name)
    os.environ["HULLMARK_STORE"] = f"file:{folder / 'store'}"
    os.environ["HULLMARK_CLUSTER"] = f"simulated:{EXAMPLES / 'nodes.json'}"
    os.environ.pop(SERVER, None)
    service.cache_clear()
    os.chdir(folder)
    talk().print(" ".join(STORY.split()))
    try:
        Telling(pace if talk().is_terminal else 0).story()
    finally:
        os.environ.pop(CLOCK, None)
    talk().print(
        "\n[bold]That's it.[/bold] For your own site: put documents in a folder, point HULLMARK_CLUSTER at a kubeconfig, "
        "and use the same commands.\n"
        f"This demo's store is {folder}/store; remove {folder} when you are done."
    )


class Telling:
    """Says what comes, then runs it and shows it as it would be typed."""

    def __init__(self, pace: float) -> None:
        self._pace = pace

    def story(self) -> None:
        """From the first commit to a night's exception."""
        self.say("Commit the documents. A commit is a proposal: it says what it would do, and no node changes yet.")
        self.run("documents stage -f site")
        self.run("documents commit")
        self.say("What exactly would one node get, and which document says so?")
        self.run("plan --target gpu01", expect=2)
        self.say("Release it to the whole site. compute17 is in the design but not in the cluster, and you are told.")
        self.run("relabel --all", expect=3, last=1)

        self.say("A colleague changes a label by hand. The cluster's event is enough: it is repaired at once, and their own label stays.")
        self.run("simulate label gpu01 accelerator=none team=ml --as a-colleague")
        self.say("Events get lost. Then the node says what is wrong, and the hourly sweep repairs it.")
        self.run("simulate label gpu02 accelerator- --no-event")
        self.run("nodes gpu02 gpu03")
        self.run("clock --once", expect=3)

        self.say("Now a mistake: one file is staged in place of the whole site. Look at what the commit says.")
        self.run("documents stage -f site/policies.yaml")
        self.run("documents commit")
        self.say("Revision 2 waits. Sweeps and events never bring what nobody released; and releasing it is blocked.")
        self.run("relabel --all", expect=4)
        self.run("nodes cp01 gpu01")
        self.say("The way back is one command. Revision 2 is rejected: no action can release it any more.")
        self.run(f"documents restore 1 -m '{MISTAKE}'")
        self.run("relabel --all", expect=3, last=1)
        self.run("documents list")

        self.say("One machine needs something else for a night? Put it there over HTTP: sweeps keep it until somebody relabels that node.")
        self.put("/v1.0/node-labels/spare01", SPARE)
        self.run("clock --once", expect=3, last=1)
        self.run("nodes spare01 compute01")
        self.run("relabel spare01")
        self.canary()

    def canary(self) -> None:
        """A rollout whose first machine does not bear the change."""
        self.say(
            "A risky change goes to one machine first. This one gives the GPU machines a label that brings them a new driver: gpu01, "
            "ten minutes later a person's yes, then the others."
        )
        self.run("documents stage --collection driver -f rollout")
        self.run("documents commit -m 'driver 570 for the GPU machines'")
        self.run("rollout start")
        rollout = service().rollouts.newest(1)[0].id
        self.say("The driver breaks gpu01: its kubelet reports it NotReady. The next look sees that, and nothing more opens.")
        self.run("simulate ready gpu01 false")
        self.later(minutes=1)
        self.run(f"rollout watch {rollout} --timeout 0", expect=4)
        self.say(
            "A second look, a minute later, says the same. The rollout stops and goes back by itself: its document says `onStop: revert`."
        )
        self.later(minutes=2)
        self.run(f"rollout watch {rollout}", expect=3)
        self.say("gpu01 has what it had before, the others never noticed, and nothing can release revision 4 again.")
        self.run("nodes gpu01 gpu02")
        self.run("rollout start", expect=1)

    def later(self, **span: float) -> None:
        """Put the demo's clock so far ahead of now."""
        os.environ[CLOCK] = (datetime.now(UTC) + timedelta(**span)).isoformat()
        service.cache_clear()

    def say(self, text: str) -> None:
        """Narrate, on stderr like all messages."""
        time.sleep(self._pace)
        talk().print(f"\n[bold cyan]#[/bold cyan] {escape(text)}")

    def run(self, words: str, expect: int = 0, last: int = 0) -> None:
        """Run one of our own commands. With `last`, only so many lines of what it prints."""
        import shlex

        from local.cli import main

        talk().print(f"[bold]$ hullmark {escape(words)}[/bold]")
        code, width = 0, min(max(talk().width, 100), 140)
        with captured_for(width) as printed, redirect_stderr(printed):
            try:
                main(shlex.split(words))
            except SystemExit as ending:
                code = int(ending.code or 0)
        for line in shortened(printed.getvalue(), width, last):
            click.echo(line)
        if code != expect:
            raise click.ClickException(f"the demo expected exit code {expect} of `hullmark {words}` and got {code}")
        if code:
            talk().print(f"[dim](exit code {code})[/dim]")

    def put(self, path: str, labels: dict[str, str]) -> None:
        """Send the api of the embedded cloud a request."""
        import functions_framework

        service()
        api = functions_framework.create_app("api", str(steps.load().steps["api"].source)).test_client()
        talk().print(f"[bold]PUT {path} {escape(json.dumps(labels))}[/bold]")
        answer = api.put(path, json=labels, environ_overrides={"REMOTE_USER": who()})
        if answer.status_code != 200:
            raise click.ClickException(f"the demo expected 200 of PUT {path} and got {answer.status_code}: {answer.text}")
        for line in shortened(f"200 OK, {answer.json['message']}", min(max(talk().width, 100), 140)):
            click.echo(line)


def shortened(text: str, width: int, last: int = 0) -> list[str]:
    """The lines of a text, long ones wrapped; with `last`, so many of them, and how many are left out."""
    kept = text.rstrip("\n").split("\n")
    if last and len(kept) > last:
        kept = [f"… {len(kept) - last} lines …", *kept[-last:]]
    return [part for line in kept for part in textwrap.wrap(line, width, subsequent_indent="  ") or [""]]
