"""The command of examples/pod-binding really serves HTTPS, reads committed policies, and lets the API server bind pods with it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.cli import main
from shared.adapters.store import open_store
from shared.domain.documents.reading import Source
from shared.ledger.revisions import Revisions
from tests.pods.conftest import Real
from tests.pods.reviews import HOST, REGION, ZONE, a_binding, a_policy, a_review, patched

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/pod-binding"


def the_deployment() -> dict[str, Any]:
    (found,) = [d for d in yaml.safe_load_all((EXAMPLE / "in-cluster.yaml").read_text()) if d["kind"] == "Deployment"]
    container: dict[str, Any] = found["spec"]["template"]["spec"]["containers"][0]
    return container


@pytest.fixture
def served(gate_on: Real, tmp_path: Path) -> Iterator[int]:
    """The example's own command, with the certificate, the store and the cluster of this machine. Yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    container = the_deployment()
    for file, name in (("server.crt", "tls.crt"), ("server.key", "tls.key")):
        shutil.copy(gate_on.kube.folder / file, tmp_path / name)
    revisions = Revisions(open_store(f"file:{tmp_path}/store"))
    policy = EXAMPLE / "policy.yaml"
    revisions.stage("default", [Source(policy.name, policy.read_bytes())], "me", datetime.now(UTC))
    revisions.commit("me", datetime.now(UTC))
    environment = {entry["name"]: entry["value"] for entry in container["env"]} | {
        "HULLMARK_STORE": f"file:{tmp_path}/store",
        "HULLMARK_CLUSTER": f"kubeconfig:{gate_on.kube.kubeconfig()}?context=admin",
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
    }
    arguments = [argument.replace("0.0.0.0:8443", f"127.0.0.1:{port}").replace("/tls/", f"{tmp_path}/") for argument in container["args"]]
    command = [str(Path(sys.executable).parent / container["command"][0]), *arguments]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while not is_ready(gate_on, port):
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < end, (tmp_path / "log").read_text()
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def ask(real: Real, port: int, method: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=ssl.create_default_context(cadata=real.kube.ca), timeout=60)
    try:
        connection.request(method, "/", None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def is_ready(real: Real, port: int) -> bool:
    try:
        return ask(real, port, "GET")[0] == 200
    except OSError:
        return False


@pytest.mark.real
def test_the_deployments_command_serves_https_and_the_api_server_binds_with_it(gate_on: Real, served: int) -> None:
    review = a_review(a_binding("n1"))
    status, answer = ask(gate_on, served, "POST", review)
    assert status == 200
    assert patched(review, answer["response"])["metadata"]["labels"] == {ZONE: "z1", REGION: "r", HOST: "n1"}

    with gate_on.webhook(f"https://127.0.0.1:{served}", a_policy()):
        gate_on.pod("by-gunicorn")
        assert gate_on.bind("by-gunicorn", "n2") == []
        assert gate_on.labels("by-gunicorn") == {ZONE: "z2", REGION: "r", HOST: "n2"}


@pytest.mark.real
def test_the_examples_objects_are_what_the_api_server_takes(gate_on: Real) -> None:
    kinds = {
        "Namespace": "/api/v1/namespaces",
        "ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
        "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Deployment": "/apis/apps/v1/namespaces/default/deployments",
        "Service": "/api/v1/namespaces/default/services",
        "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    }
    for document in yaml.safe_load_all((EXAMPLE / "in-cluster.yaml").read_text()):
        if document["kind"] in kinds:
            document["metadata"].pop("namespace", None)
            status, answer, warnings = gate_on.call("POST", f"{kinds[document['kind']]}?dryRun=All&fieldValidation=Strict", document)
            assert (status, warnings) == (201, []), answer
        else:
            assert document["apiVersion"] == "cert-manager.io/v1"


def test_the_examples_policy_is_valid_and_its_secret_and_service_are_the_ones_mounted(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["validate", "-f", str(EXAMPLE / "policy.yaml")])
    assert ended.value.code == 0, capsys.readouterr()
    written = list(yaml.safe_load_all((EXAMPLE / "in-cluster.yaml").read_text()))
    documents = {d["kind"]: d for d in written}  # of several, the last
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    assert pod["volumes"][0]["secret"]["secretName"] == documents["Certificate"]["spec"]["secretName"]
    assert documents["Certificate"]["spec"]["dnsNames"] == ["pod-binding.hullmark.svc"]
    assert (documents["Service"]["metadata"]["name"], documents["Service"]["metadata"]["namespace"]) == ("pod-binding", "hullmark")
    (authority,) = [d["spec"] for d in written if d["kind"] == "Certificate" and d["spec"].get("isCA")]
    assert authority["privateKey"]["rotationPolicy"] == "Never"
    assert documents["Issuer"]["spec"]["ca"]["secretName"] == authority["secretName"]
    assert pod["priorityClassName"] == documents["PriorityClass"]["metadata"]["name"]
    assert documents["Service"]["spec"]["selector"] == documents["Deployment"]["spec"]["selector"]["matchLabels"]
