"""`hullmark events`: forward a cluster's node events to the bus."""

from __future__ import annotations

import os
import signal
import sys

import click

from local.cli.output import Failure, talk
from local.cloud.forwarder import Forwarder
from shared import telemetry
from shared.adapters import kubeconfig
from shared.adapters.apiserver import ApiServer, Login
from shared.adapters.kubernetes_watch import NodeWatch
from shared.domain.documents.access import KubeconfigFile, SeedFile
from shared.ports import Bus
from shared.world import Settings, access_from_url


@click.group()
def events() -> None:
    """Forward a cluster's node events to the bus."""


@events.command()
@click.option("--cluster", default="default", show_default=True, help="The cluster's name in the documents; sent with every event.")
@click.option("--kubeconfig", "path", default="", metavar="FILE", help="Default: HULLMARK_CLUSTER, else in-cluster, else kubectl's.")
@click.option("--context", default="", metavar="C", help="The kubeconfig's context.")
@click.option("--quiet-start", is_flag=True, help="Skip the nodes that are already there; forward changes only.")
def forward(cluster: str, path: str, context: str, quiet_start: bool) -> int:
    """Watch the nodes and publish a NodeChanged for every node that is new or changed its labels, until stopped.

    Runs on a laptop or as a Deployment (one replica; it only needs list and watch of nodes). Status updates of kubelets are ignored.
    """
    settings = _reaching(Settings.of_the_command_line(), path, context)
    forwarder = Forwarder(cluster, NodeWatch(ApiServer(_login(settings))), _bus(settings), quiet_start=quiet_start)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    talk().print(f"watching the nodes of {cluster}")
    try:
        forwarder.run()
    except KeyboardInterrupt:
        pass
    finally:
        talk().print(f"{forwarder.published} events published")
    return 0


def _reaching(settings: Settings, path: str, context: str) -> Settings:
    """The settings with the cluster to watch: the options', else HULLMARK_CLUSTER's, else the pod's own, else kubectl's."""
    if path or context:
        return settings.model_copy(update={"cluster": f"kubeconfig:{path}?context={context}"})
    if settings.cluster:
        return settings
    return settings.model_copy(update={"cluster": "in-cluster:" if "KUBERNETES_SERVICE_HOST" in os.environ else "kubeconfig:"})


def _login(settings: Settings) -> Login:
    match access_from_url(settings.cluster):
        case SeedFile():
            raise Failure(
                "ClusterUnknown", "a simulated cluster has no events to watch: name a real one with --context or HULLMARK_CLUSTER"
            )
        case KubeconfigFile(path=path, context=context):
            return lambda: kubeconfig.from_kubeconfig(path, context)
        case _:
            return kubeconfig.in_cluster


def _bus(settings: Settings) -> Bus:
    """Pub/Sub, or this process's own embedded cloud at work behind the watch."""
    if settings.bus == "pubsub":
        from shared.adapters.pubsub import open_bus

        return open_bus(settings.project, settings.topic_prefix, settings.publisher)
    from local.cloud.embedded import Cloud

    telemetry.write_to(None)  # the functions' lines; stdout is for data
    cloud = Cloud(settings)
    cloud.start()
    return cloud
