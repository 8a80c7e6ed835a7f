"""A real kube-apiserver for this folder's tests, with a webhook server of our choosing behind TLS."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import functions_framework
import pytest
from werkzeug.serving import make_server

from shared import wiring
from shared.domain.documents.kinds import PodLabelPolicySpec
from shared.domain.pods.webhooks import Client, manifest
from shared.ports import Cluster
from shared.work.pod_topology import PodPolicies, PodTopology
from tests.conftest import require_real
from tests.kube_apiserver import HOW, Fleet, KubeApiserver, assets
from tests.pods.test_function import MAIN

MARKER = {
    "name": "marker.hullmark.dev",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"url": "https://127.0.0.1:1"},
    "sideEffects": "None",
    "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
}
"""Refuses every ConfigMap while its configuration is in force."""


@dataclass
class Real:
    """One API server and a person with kubectl."""

    kube: KubeApiserver

    def call(self, method: str, path: str, body: Any = None, content: str = "application/json") -> tuple[int, Any, list[str]]:
        """Status, answer, and the warnings that kubectl would print."""
        host = self.kube.url.removeprefix("https://")
        connection = http.client.HTTPSConnection(host, context=ssl.create_default_context(cadata=self.kube.ca), timeout=60)
        headers = {"Authorization": f"Bearer {self.kube.tokens['admin']}", "Content-Type": content}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        read = json.loads(answer.read())
        warnings = answer.headers.get_all("Warning") or []
        connection.close()
        return answer.status, read, warnings

    def pod(self, name: str, namespace: str = "default", **spec: Any) -> None:
        metadata = {"name": name} | ({"labels": spec.pop("labels")} if "labels" in spec else {})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
        status, answer, _ = self.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
        assert status == 201, answer

    def bind(self, name: str, node: str = "n1", namespace: str = "default", legacy: bool = False) -> list[str]:
        """Bind as a scheduler does; the pod must bind. Returns the warnings."""
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        path = f"/api/v1/namespaces/{namespace}/" + ("bindings" if legacy else f"pods/{name}/binding")
        status, answer, warnings = self.call("POST", path, binding)
        assert status == 201, answer
        assert self.get(name, namespace)["spec"]["nodeName"] == node
        return warnings

    def get(self, name: str, namespace: str = "default") -> dict[str, Any]:
        return cast("dict[str, Any]", self.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")[1])

    def labels(self, name: str, namespace: str = "default") -> dict[str, str]:
        return self.get(name, namespace)["metadata"].get("labels") or {}

    def annotations(self, name: str, namespace: str = "default") -> dict[str, str]:
        return self.get(name, namespace)["metadata"].get("annotations") or {}

    def namespace(self, name: str) -> None:
        self.call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    @contextmanager
    def webhook(self, url: str, *policies: PodLabelPolicySpec, **changes: Any) -> Iterator[None]:
        """Our manifest, applied and taken away again; `changes` are made to its one webhook."""
        wanted = manifest(Client(url=url, ca=self.kube.ca), policies)
        wanted["webhooks"][0] |= changes
        wanted["webhooks"].append(MARKER)
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        status, answer, _ = self.call("POST", path, wanted)
        assert status == 201, answer
        try:
            self._until_configured(True)
            yield
        finally:
            self.call("DELETE", f"{path}/{wanted['metadata']['name']}")
            self._until_configured(False)

    def _until_configured(self, wanted: bool) -> None:
        """The API server learns of a configuration a moment after it took it: the marker shows when."""
        end = time.monotonic() + 60
        probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}
        while (self.call("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", probe)[0] == 500) is not wanted:
            assert time.monotonic() < end
            time.sleep(0.02)

    @contextmanager
    def serving(self, application: Any, folder: Path | None = None) -> Iterator[str]:
        """A WSGI application behind TLS, with the certificate of a folder, else one that the API server trusts."""
        folder = folder or self.kube.folder
        files = str(folder / "server.crt"), str(folder / "server.key")
        server = make_server("127.0.0.1", 0, application, threaded=True, ssl_context=files)
        server.daemon_threads = True  # type: ignore[attr-defined]
        server.block_on_close = False  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    @contextmanager
    def hullmark(self, cluster: Cluster, *policies: PodLabelPolicySpec) -> Iterator[str]:
        """The function, with these policies committed."""
        topology = PodTopology(lambda: PodPolicies(policies, lambda _: cluster))
        wiring.install(None, topology)
        try:
            with self.serving(functions_framework.create_app("pod_binding", str(MAIN))) as url:
                yield url
        finally:
            wiring.install(None)


def with_nodes(kube: KubeApiserver) -> Real:
    """Two nodes, in two zones."""
    fleet = Fleet(kube)
    fleet.clear()
    for name, zone in (("n1", "z1"), ("n2", "z2")):
        fleet.create(name, {"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "r", "kubernetes.io/hostname": name,
                            "example.com/rack": "r7", "team": "nodes"})  # fmt: skip
    fleet._server.close()
    return Real(kube)


@pytest.fixture
def gate_on(kube: KubeApiserver) -> Real:
    """Kubernetes 1.35: the plugin and the copying of a Binding's labels are on."""
    return with_nodes(kube)


@pytest.fixture(scope="session")
def gate_off() -> Iterator[Real]:
    """As every server before 1.35 by default."""
    require_real("kube-apiserver", assets(), HOW)
    with KubeApiserver("--feature-gates=PodTopologyLabelsAdmission=false") as kube:
        yield with_nodes(kube)
