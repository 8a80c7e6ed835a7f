"""Which real cluster a command works on that runs on a laptop and in a pod alike."""

from __future__ import annotations

import os

from local.cli.cloud import kubeconfig_url
from local.cli.output import Failure
from shared.adapters import kubeconfig
from shared.adapters.apiserver import Login
from shared.domain.documents.access import KubeconfigFile, SeedFile
from shared.world import Settings, access_from_url


def reaching(settings: Settings, path: str, context: str) -> Settings:
    """The settings with the cluster that is meant: the options', else HULLMARK_CLUSTER's, else the pod's own, else kubectl's."""
    if path or context:
        return settings.model_copy(update={"cluster": kubeconfig_url(path, context)})
    if settings.cluster:
        return settings
    return settings.model_copy(update={"cluster": "in-cluster:" if "KUBERNETES_SERVICE_HOST" in os.environ else "kubeconfig:"})


def login(settings: Settings, lacks: str) -> Login:
    """How that cluster is reached. Raises Failure for a simulated one, which has none of what it `lacks`."""
    match access_from_url(settings.cluster):
        case SeedFile():
            raise Failure("ClusterUnknown", f"a simulated cluster has no {lacks}: name a real one with --context or HULLMARK_CLUSTER")
        case KubeconfigFile(path=path, context=context):
            return lambda: kubeconfig.from_kubeconfig(path, context)
        case _:
            return kubeconfig.in_cluster
