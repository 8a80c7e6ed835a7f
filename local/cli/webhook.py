"""`hullmark webhook`: print the configuration that calls pod_binding, and refuse dangerous ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import click

from local.cli.inputs import documents_option, read_bytes, read_files
from local.cli.output import BLOCKED, Failure, emit, grid, output_option
from shared.adapters.apiserver import StatusError
from shared.adapters.kubernetes import Kubernetes
from shared.domain.documents.kinds import PodLabelPolicy, PodLabelPolicySpec, parsed
from shared.domain.documents.reading import Document, DocumentsRefused, read
from shared.domain.pods.webhooks import GATE, CheckResult, Client, Object, ServerFacts, bundle, judge, manifest
from shared.domain.site import check_pod_policies
from shared.ports import ClusterError

CONFIGURATION = "MutatingWebhookConfiguration"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@click.group()
def webhook() -> None:
    """Print or check the configuration of the webhook that puts topology labels on pods."""


@webhook.command("manifest")
@documents_option
@click.option("--url", default="", help="The function's URL, if the API server can reach it: https://host[:port][/CLUSTER].")
@click.option("--service", default="", metavar="NS/NAME[:PORT]", help="The service in front of the function, inside the cluster.")
@click.option("--cluster", default="", help="The cluster's name in the documents, if the function serves several.")
@click.option(
    "--ca-file",
    "ca_files",
    multiple=True,
    metavar="FILE",
    help="PEM of the CA that signed the function's certificate; while it changes, both.",
)
@click.option("--cert-manager", default="", metavar="NS/NAME", help="A cert-manager Certificate that injects the CA.")
@click.option("--server-version", default="", metavar="V", help="The API server's version; below 1.28 matchConditions are left out.")
@click.option("-o", "--output", "form", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Output format.")
def manifest_command(
    files: tuple[str, ...],
    url: str,
    service: str,
    cluster: str,
    ca_files: tuple[str, ...],
    cert_manager: str,
    server_version: str,
    form: str,
) -> None:
    """Print the MutatingWebhookConfiguration to apply; with -f, limited to the namespaces that the policies select."""
    _, policies = documents_in(files)
    if policies and not any(policy.enabled for policy in policies):
        raise Failure("NothingEnabled", "no PodLabelPolicy is enabled: delete the configuration instead of applying one")
    name, _, port = service.partition(":")
    if port and not port.isdecimal():
        raise Failure("Usage", f"--service {service}: namespace/name[:port]")
    path = f"/{cluster}" if cluster else ""
    ca = bundle(read_bytes(file).decode("utf-8", "replace") for file in ca_files)
    client = Client(f"{url.rstrip('/')}{path}" if url else "", name, int(port or 443), path or "/", ca, cert_manager)
    if problems := client.problems():
        raise Failure("Usage", "; ".join(problems))
    minor = ServerFacts(server_version).minor
    emit(form, manifest(client, policies, conditions=minor is None or minor >= (1, 28)), tuple)


@webhook.command("check")
@documents_option
@click.option("--context", default="", help="Check the live configurations of this kubeconfig context.")
@click.option("--kubeconfig", default="", metavar="FILE", help="The kubeconfig. Default: $KUBECONFIG, else ~/.kube/config.")
@click.option("--server-version", default="", metavar="V", help="The API server's version, if it isn't asked.")
@click.option(
    "--feature-gate", "gates", multiple=True, metavar="NAME=true|false", help=f"A feature gate of the server, such as {GATE}=true."
)
@output_option
def check_command(files: tuple[str, ...], context: str, kubeconfig: str, server_version: str, gates: tuple[str, ...], form: str) -> int:
    """Refuse configurations that endanger scheduling or do nothing (exit 4), in files next to their policies, or live."""
    configurations, policies = documents_in(files)
    given = bool(configurations)
    server = ServerFacts(server_version, dict(map(_gate, gates)))
    if context or kubeconfig:
        live, seen = _live(kubeconfig, context)
        configurations = configurations or live
        server = ServerFacts(server_version or seen.version, {**seen.gates, **server.gates})
    elif not configurations:
        raise Failure("Usage", f"nothing to check: give -f FILE with a {CONFIGURATION}, or --context")
    verdicts = judge(configurations, policies, server, given=given)
    refused = any(verdict.severity == "error" for verdict in verdicts)
    answer = {"ok": not refused, "server": server.version, "findings": [asdict(verdict) for verdict in verdicts]}
    emit(form, answer, lambda: _check_lines(verdicts, configurations))
    return BLOCKED if refused else 0


def _check_lines(verdicts: Sequence[CheckResult], configurations: Sequence[Object]) -> Iterable[Any]:
    if verdicts:
        yield grid(("severity", "webhook", "check", "why"), [(v.severity, v.webhook, v.check, v.message) for v in verdicts])
    elif not configurations:
        yield "no mutating webhook is configured"
    else:
        yield "no problems"


def documents_in(files: Sequence[str]) -> tuple[list[Object], list[PodLabelPolicySpec]]:
    """Configurations and policies among the files' documents; other documents are left alone. Raises DocumentsRefused."""
    documents, problems = read(read_files(files))
    written: list[tuple[Document, PodLabelPolicy]] = []
    for document in documents:
        model = parsed(document) if document.kind == "PodLabelPolicy" else None
        if isinstance(model, list):
            problems += model
        elif isinstance(model, PodLabelPolicy):
            written.append((document, model))
    problems += check_pod_policies(written)
    if problems:
        raise DocumentsRefused(problems)
    return [document.data for document in documents if document.kind == CONFIGURATION], [model.spec for _, model in written]


def _gate(text: str) -> tuple[str, bool]:
    name, _, value = text.partition("=")
    if value not in ("true", "false"):
        raise Failure("Usage", f"--feature-gate {text}: NAME=true or NAME=false")
    return name, value == "true"


def _live(kubeconfig: str, context: str) -> tuple[list[Object], ServerFacts]:
    """The configurations of a running cluster, and what its server says of itself."""
    from shared.adapters.kubeconfig import from_kubeconfig

    cluster = Kubernetes(lambda: from_kubeconfig(kubeconfig, context))
    try:
        items = json.loads(cluster.server.request("GET", CONFIGURATIONS))["items"]
        configurations: list[Object] = [{"apiVersion": "admissionregistration.k8s.io/v1", **item} for item in items]
        return configurations, ServerFacts(cluster.server_version(), _gates(cluster))
    finally:
        cluster.server.close()


def _gates(cluster: Kubernetes) -> dict[str, bool]:
    """The gate as the server's metrics show it; empty where they may not be read: then the version decides."""
    try:
        metrics = cluster.server.request("GET", "/metrics").decode()
    except (StatusError, ClusterError):
        return {}
    match = re.search(rf'^kubernetes_feature_enabled{{name="{GATE}"[^}}]*}} ([01])', metrics, re.MULTILINE)
    return {GATE: match[1] == "1"} if match else {}
