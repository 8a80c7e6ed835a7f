"""`hullmark serve`: the whole product on this machine, with the API and the status page."""

from __future__ import annotations

import logging
import sys

import click

from local.cli.cloud import settings
from local.cli.inputs import who
from local.cli.output import Failure
from shared import telemetry
from shared.world import Settings


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port on 127.0.0.1; 0: any free one.")
@click.option(
    "--bus",
    type=click.Choice(["embedded", "pubsub"]),
    default="embedded",
    show_default=True,
    help="`pubsub`: the Pub/Sub emulator, with one process per function.",
)
@click.option("--verbose", is_flag=True, help="Print a line per message and request (JSON, on stderr).")
@click.option("--join-emulator", "join", is_flag=True, help="With `--bus pubsub`: use the emulator that PUBSUB_EMULATOR_HOST names.")
def serve(port: int, bus: str, verbose: bool, join: bool) -> None:
    """Run everything on this machine: API, status page, functions, schedules. Reachable from this machine only. Ctrl-C stops it."""
    from local.cloud.emulator import EmulatorMissing
    from local.cloud.processes import NotReady, PortTaken

    try:
        serving(settings(), port, bus, verbose, join)
    except (EmulatorMissing, NotReady, PortTaken) as error:
        raise Failure(type(error).__name__, str(error)) from error


def serving(settings: Settings, port: int, bus: str, verbose: bool, join: bool) -> None:
    """Serve until told to end. Raises EmulatorMissing, NotReady and PortTaken."""
    if bus == "pubsub":
        from local.cloud.emulated import serve_pubsub

        serve_pubsub(settings, port=port, person=who(), join=join)
        return
    from local.cloud.server import serve_embedded

    telemetry.write_to(sys.stderr if verbose else None)
    logging.getLogger("hullmark").setLevel(logging.INFO if verbose else logging.ERROR)
    serve_embedded(settings, port=port, person=who(), say=lambda line: click.echo(line, err=True))
