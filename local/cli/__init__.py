"""The `hullmark` command. Data on stdout, messages on stderr; exit codes as in docs/command-line.md."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from local.cli.output import Exit, Failure

COMMANDS = {
    "init": ("local.cli.init:init", "Make a folder of policies from the labels that nodes have today."),
    "validate": ("local.cli.documents:validate", "Validate documents: every problem at once, with file and line."),
    "labels": ("local.cli.labels:labels", "Show the labels that the documents declare, and where they come from."),
    "select": ("local.cli.labels:select", "Show the nodes that a filter selects from the design."),
    "plan": ("local.cli.plan:plan", "Show what would change on which node, and why."),
    "relabel": ("local.cli.relabel:relabel", "Bring nodes in sync with the newest committed documents."),
    "nodes": ("local.cli.nodes:nodes", "Show each node's release, whether it is in sync, and why not."),
    "actions": ("local.cli.actions:actions", "List, show and watch actions; stop, pause, unpause and retry them."),
    "rollout": ("local.cli.rollout:rollout", "Bring a change to a fleet in stages; approve, pause, revert it."),
    "pause": ("local.cli.holds:pause", "Hold every write in the whole fleet, repairs too."),
    "resume": ("local.cli.holds:resume", "Let everything go on that `pause` held."),
    "freeze": ("local.cli.holds:freeze", "List the times in which nothing changes."),
    "documents": ("local.cli.documents:documents", "Stage and commit documents; list, show, compare and tag revisions."),
    "versions": ("local.cli.versions:versions", "Show which versions a fleet runs, and which updates are due, when and why."),
    "docs": ("local.cli.kinds:docs", "Show the kinds of documents, and the fields of one."),
    "schema": ("local.cli.kinds:schema", "Print the JSON Schema of a kind of document, for editors."),
    "reasons": ("local.cli.reasons:reasons", "Explain a reason code, and what to do about it."),
    "explain": ("local.cli.explain:explain", "Say why a node has a label: document, line, revision, action, who else holds it."),
    "history": ("local.cli.explain:history", "Say what was released to a node and what actions did to it."),
    "export": ("local.cli.export:export", "Print what the template of a pool of nodes needs: labels and startup taints."),
    "pools": ("local.cli.pools:pools", "Show and set the labels of EKS node groups and GKE node pools."),
    "migrate": ("local.cli.migrate:migrate", "Find deprecated label keys in manifests and rewrite them."),
    "events": ("local.cli.events:events", "Forward a cluster's node events to the bus."),
    "webhook": ("local.cli.webhook:webhook", "Print or check the configuration of the webhook that labels pods."),
    "pods": ("local.cli.pods:pods", "Add topology labels to pods that are already bound."),
    "clock": ("local.cli.clock:clock", "Send what the schedules send, once: for a cron job on a machine where nothing serves."),
    "simulate": ("local.cli.simulate:simulate", "Change a simulated cluster as colleagues, kubelets and failures do."),
    "serve": ("local.cli.serve:serve", "Run everything on this machine, with the API and the status page."),
    "demo": ("local.cli.demo:demo", "Try it all on a simulated cluster, in under a minute."),
}
"""Command → where it is defined, and its line in the help. Imported only when it is called: `hullmark --help` starts in a blink."""


OWN_CONTEXT = ("migrate", "webhook", "pods", "events")
"""Commands with a --context of their own: for them it names one cluster of several, or one more place to look."""
NO_CLUSTER = {
    **dict.fromkeys(("validate", "labels", "select", "export", "docs", "schema", "reasons"), "reads documents, and no cluster"),
    **dict.fromkeys(("simulate", "demo"), "works on a simulated cluster"),
    "versions": "works on the clusters that documents declare",
}
"""Commands for which --context would mean nothing, and why."""
CHOOSING = ("--cluster", "--cluster-labels", "--all-clusters")
"""Options that choose among declared clusters."""


class Hullmark(click.Group):
    """The group of all commands, loaded lazily, with one place where errors become words and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            ctx.fail(f"no command {args[0]!r}." + (f" Did you mean `hullmark {near[0]}`?" if near else ""))
        return super().resolve_command(ctx, args)


@click.command(cls=Hullmark, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="hullmark", message="hullmark %(version)s")
@click.option(
    "--server",
    metavar="URL",
    help="Work on a server instead of the embedded cloud (HULLMARK_SERVER; its token: HULLMARK_TOKEN, else gcloud's).",
)
@click.option("--context", metavar="C", help="Work on the cluster of this kubeconfig context.")
@click.option("--kubeconfig", metavar="FILE", help="The kubeconfig. Default: $KUBECONFIG, else ~/.kube/config.")
@click.pass_context
def cli(ctx: click.Context, server: str | None, context: str | None, kubeconfig: str | None) -> None:
    """Keep the labels and versions of Kubernetes fleets in sync with documents."""
    if server is not None:
        os.environ["HULLMARK_SERVER"] = server
    if context is not None or kubeconfig is not None:
        if "" in (context, kubeconfig):  # an unset variable of a script must not become kubectl's current context
            raise Failure("Usage", "--context and --kubeconfig take a name that is not empty")
        from local.cli.cloud import at_context

        ctx.with_resource(at_context(kubeconfig or "", context or ""))


def options_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--server URL`, `--context C` and `--kubeconfig FILE` in front, where click looks for them: people write them
    at the end. Raises Failure where a context says nothing, or something else than --cluster.
    """
    server, words = _taken(list(arguments), "--server")
    context, rest = _taken(words, "--context")
    kubeconfig, rest = _taken(rest, "--kubeconfig")
    command = next((word for word in rest if not word.startswith("-")), "")
    if not (context or kubeconfig):
        return [*server, *words]
    if command in OWN_CONTEXT:
        return [*server, *rest, *context, *kubeconfig]
    option = (context or kubeconfig)[0].partition("=")[0]
    if why := NO_CLUSTER.get(command):
        raise Failure("Usage", f"`hullmark {command}` {why}: leave {option} out")
    if chosen := [word for word in rest if word.partition("=")[0] in CHOOSING]:
        chooses = f"{chosen[0].partition('=')[0]} chooses among the clusters that documents declare"
        raise Failure("Usage", f"{option} says which cluster, and {chooses}: give one of them")
    return [*server, *context, *kubeconfig, *rest]


def _taken(words: list[str], option: str) -> tuple[list[str], list[str]]:
    """The first such option with its value, and all other words."""
    for place, word in enumerate(words):
        if word == option and place + 1 < len(words):
            return words[place : place + 2], [*words[:place], *words[place + 2 :]]
        if word.startswith(f"{option}="):
            return [word], [*words[:place], *words[place + 1 :]]
    return [], words


def _fail(error: BaseException, arguments: Sequence[str]) -> int:
    from local.cli.errors import fail

    return fail(error, arguments)


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with the code that its outcome has."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        code = cli.main(args=options_first(arguments), prog_name="hullmark", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except Exit as ending:
        sys.exit(ending.code)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as nothing_asked:
        click.echo(nothing_asked.format_message())
        sys.exit(0)
    except click.UsageError as error:
        hint = f" (see `{error.ctx.command_path} --help`)" if error.ctx else ""
        sys.exit(_fail(Failure("Usage", error.format_message() + hint), arguments))
    except click.ClickException as error:
        sys.exit(_fail(Failure("Error", error.format_message()), arguments))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        sys.exit(_fail(error, arguments))
