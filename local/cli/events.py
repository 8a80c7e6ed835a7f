"""`hullmark events`: forward a cluster's node events to the bus."""

from __future__ import annotations

import re
import signal
import socket
import uuid

import click

from local.cli.output import Failure
from local.cli.reaching import login, reaching
from local.cloud.election import Alone, Election, Ended, Post
from local.cloud.forwarder import Forwarder
from local.cloud.listing import Needed
from local.cloud.probes import Probes
from local.cloud.running import Running
from shared import telemetry, wiring
from shared.adapters.apiserver import ApiServer, Login
from shared.adapters.kubernetes import Kubernetes
from shared.adapters.kubernetes_lease import ClusterLease
from shared.adapters.kubernetes_watch import NodeWatch
from shared.domain.leases import Terms
from shared.world import Settings, World


@click.group()
def events() -> None:
    """Forward a cluster's node events to the bus."""


@events.command()
@click.option("--cluster", default="default", show_default=True, help="The cluster's name in the documents; sent with every event.")
@click.option("--kubeconfig", "path", default="", metavar="FILE", help="Default: HULLMARK_CLUSTER, else in-cluster, else kubectl's.")
@click.option("--context", default="", metavar="C", help="The kubeconfig's context.")
@click.option("--quiet-start", is_flag=True, help="Skip the nodes that are already there; forward changes only.")
@click.option("--lease", default="", metavar="NS/NAME", help="Share this Lease with other forwarders: one is active, the others stand by.")
@click.option(
    "--lease-seconds", default=15, show_default=True, type=click.IntRange(3, 300), help="How long it is good; the next one waits so long."
)
@click.option("--listen", default="", metavar="[HOST]:PORT", help="Answer GET /livez, /readyz and /metrics there.")
def forward(cluster: str, path: str, context: str, quiet_start: bool, lease: str, lease_seconds: int, listen: str) -> int:
    """Watch the nodes and publish a NodeChanged for every node that is new or changed its labels, until stopped.

    At the start, and after a gap, only nodes are published that are not in sync with what is released to them (HULLMARK_STORE). What
    kubelets report never is. Without Pub/Sub it does the repairs itself, and prints them, and where others write the same labels.
    """
    settings = reaching(Settings.of_the_command_line(), path, context)
    reach = login(settings, "events to watch")
    election = Election(_lease(reach, lease), _identity(), Terms(lease_seconds)) if lease else Alone()
    running = Running(election)

    def work() -> None:
        say(f"watching the nodes of {cluster}")
        world = _world(settings)
        needed = Needed(cluster, Kubernetes(reach, settings.field_managers), world, say)
        running.forwarder = Forwarder(cluster, NodeWatch(ApiServer(reach)), world.bus, needed=needed, quiet_start=quiet_start)
        running.forwarder.run()

    post = Post(election, work)
    signal.signal(signal.SIGTERM, lambda *_: post.end())
    signal.signal(signal.SIGINT, lambda *_: post.end())
    probes = _probes(listen, running) if listen else None
    try:
        post.keep(running.stepped)
    except Ended as ended:
        raise Failure("LeaseLost", str(ended)) from ended
    finally:
        if probes:
            probes.close()
        say(f"{running.published} events published")
    return 0


def say(text: str) -> None:
    """One line for people, whatever names and values in it would do to a terminal."""
    click.echo("".join(character if character.isprintable() else "\ufffd" for character in text), err=True)


def _probes(listen: str, running: Running) -> Probes:
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise Failure("Usage", f"--listen {listen}: [HOST]:PORT")
    try:
        return Probes(host.strip("[]"), int(port), running.alive, running.ready, running.metrics)
    except OSError as error:
        raise Failure("Usage", f"--listen {listen}: {error.strerror}") from error


def _lease(reach: Login, lease: str) -> ClusterLease:
    match = re.fullmatch(r"([a-z0-9-]{1,63})/([a-z0-9.-]{1,253})", lease)
    if not match:
        raise Failure("Usage", f"--lease {lease}: NAMESPACE/NAME")
    return ClusterLease(ApiServer(reach), match[1], match[2])


def _identity() -> str:
    """A container that is started again in the same pod is somebody else: what the one before held, it holds no more."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


def _world(settings: Settings) -> World:
    """The store with Pub/Sub as its bus, or this process's own embedded cloud at work behind the watch."""
    if settings.bus == "pubsub":
        from shared.adapters.pubsub import open_bus

        return wiring.build(settings, open_bus(settings.project, settings.topic_prefix, settings.publisher))
    from local.cloud.repairs import Repairs

    telemetry.write_to(None)  # the functions' lines; stdout is for data
    cloud = Repairs(settings, say)
    cloud.start()
    return cloud.world
