"""`hullmark serve`: the whole product on this machine, with the API and the status page."""

from __future__ import annotations

import logging
import sys

import click

from local.cli.inputs import who
from local.cli.output import Failure
from shared import telemetry
from shared.world import Settings


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="On 127.0.0.1; 0 takes any free one.")
@click.option(
    "--bus",
    type=click.Choice(["embedded", "pubsub"]),
    default="embedded",
    show_default=True,
    help="`pubsub`: the Pub/Sub emulator, and a process for each function.",
)
@click.option("--verbose", is_flag=True, help="Print a line for each message and request (JSON, on stderr).")
def serve(port: int, bus: str, verbose: bool) -> None:
    """The whole cloud on this machine: API, status page, functions, clock. Loopback only, no authentication. Ctrl-C ends it."""
    settings = Settings.from_environment()
    if bus == "pubsub":
        from local.cloud.emulated import serve_pubsub

        serve_pubsub(settings, port=port or 8080)
        return
    from local.cloud.server import serve_embedded

    telemetry.write_to(sys.stderr if verbose else None)
    logging.getLogger("hullmark").setLevel(logging.INFO if verbose else logging.ERROR)
    try:
        serve_embedded(settings, port=port, person=who(), say=lambda line: click.echo(line, err=True))
    except OSError as error:
        raise Failure("PortTaken", f"can't serve on 127.0.0.1:{port}: {error.strerror}; take another with --port N") from error
