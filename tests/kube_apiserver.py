"""A real kube-apiserver with its etcd on this machine, for tests and benchmarks: loopback, free ports, own CA, nothing left behind."""

from __future__ import annotations

import atexit
import base64
import contextlib
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shared.adapters.apiserver import Access, ApiServer, StatusError
from shared.ports import NodeGone, Refused, Taint

PROGRAMS = ("kube-apiserver", "etcd")
VERSION = "1.35.4"
"""What kube/go.mod pins."""
READY_SECONDS = 60.0
HOW = "run `make kube`, or set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd (`setup-envtest use -p path`)"


def assets() -> Path | None:
    """The folder with the programs: $KUBEBUILDER_ASSETS, else where `make kube` puts them; None where neither has them."""
    built = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hullmark" / "kube" / VERSION
    named = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in [Path(named)] if named else [built]:
        if all(os.access(folder / program, os.X_OK) for program in PROGRAMS):
            return folder
    return None


class KubeApiserver:
    """One API server and its etcd, started on entry and ended, with their data, on exit.

    `flags` are added to kube-apiserver's; `bare_ca` makes a CA without keyUsage and a leaf without authority key identifier, as EKS's and
    microk8s's are. Users: the token `admin` (system:masters), the token `nobody` (no rights), and the client certificate `admin`.
    """

    def __init__(self, *flags: str, bare_ca: bool = False, gogc: int = 100, memory_mib: int = 3000) -> None:
        folder = assets()
        if folder is None:
            raise FileNotFoundError(f"no kube-apiserver here: {HOW}")
        self.programs = folder
        self._flags = flags
        self._environment = {"PATH": os.environ.get("PATH", ""), "GOGC": str(gogc), "GOMEMLIMIT": f"{memory_mib}MiB", "GOMAXPROCS": "2"}
        shm = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="hullmark-kube-", dir=shm if os.access(shm, os.W_OK) else None))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._reaper: subprocess.Popen[bytes] | None = None
        self._pki = Pki(self.folder, bare_ca)
        self.tokens = {"admin": uuid.uuid4().hex, "nobody": uuid.uuid4().hex}
        self.url = self.etcd = ""

    def __enter__(self) -> Self:
        atexit.register(self.stop)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def ca(self) -> str:
        """PEM of the server's CA."""
        return self._pki.ca

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by program, for measuring."""
        return {Path(str(process.args[0])).name: process.pid for process in self._processes if isinstance(process.args, list)}

    def access(self, user: str = "admin") -> Access:
        """Access by a user's token."""
        header = f"Bearer {self.tokens[user]}"
        return Access(self.url, ca=self.ca, authorization=lambda: header)

    def kubeconfig(self) -> Path:
        """A kubeconfig with the contexts `admin`, `nobody` (tokens) and `certificate`."""
        path = self.folder / "kubeconfig"
        contents = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "admin",
            "clusters": [{"name": "kube", "cluster": {"server": self.url, "certificate-authority-data": _base64(self.ca)}}],
            "users": [
                *({"name": name, "user": {"token": token}} for name, token in self.tokens.items()),
                {"name": "certificate", "user": {"client-certificate": "admin.crt", "client-key": "admin.key"}},
            ],
            "contexts": [{"name": name, "context": {"cluster": "kube", "user": name}} for name in (*self.tokens, "certificate")],
        }
        path.write_text(json.dumps(contents, indent=1))  # JSON is YAML
        return path

    def _start(self) -> None:
        tokens = "".join(f"{token},{name},{name},{'system:masters' if name == 'admin' else ''}\n" for name, token in self.tokens.items())
        (self.folder / "tokens.csv").write_text(tokens)
        for attempt in range(3):  # another process may take a free port before we do
            client, peer, https = _free_ports(3)
            self._run("etcd", *_etcd_flags(self.folder, client, peer))
            self._run("kube-apiserver", *_apiserver_flags(self.folder, client, https), *self._flags)
            self._watch()
            self.url, self.etcd = f"https://127.0.0.1:{https}", f"http://127.0.0.1:{client}"
            if self._ready():
                return
            self._end_processes()
            if attempt == 2 or "address already in use" not in self.log():
                break
        raise RuntimeError(f"kube-apiserver did not become ready:\n{self.log()[-3000:]}")

    def _run(self, program: str, *flags: str) -> None:
        with (self.folder / f"{program}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(self.programs / program), *flags], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self._environment,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)

    @contextlib.contextmanager
    def beside(self, program: str, *flags: str) -> Iterator[None]:
        """Another program of the cluster, as its administrator, until the block ends. It ends with this process, too, however that does."""
        until_closed = '"$@" & read -r _; kill -s KILL $!'
        command = ["/bin/sh", "-c", until_closed, "sh", str(self.programs / program), f"--kubeconfig={self.kubeconfig()}", *flags]
        with (self.folder / f"{program}.log").open("wb") as log:
            shell = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=self._environment, cwd=self.folder, start_new_session=True
            )
        try:
            yield
        finally:
            shell.communicate(timeout=10)

    def _watch(self) -> None:
        """End both programs and remove their data even where this process is killed: a shell waits for its end of a pipe to close."""
        script = 'read -r _; kill -s KILL -- "$@"; rm -rf "$0"'
        groups = [f"-{process.pid}" for process in self._processes]
        command = ["/bin/sh", "-c", script, str(self.folder), *groups]
        self._reaper = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)

    def log(self) -> str:
        """What both programs wrote."""
        return "".join(f.read_text(errors="replace") for f in sorted(self.folder.glob("*.log")))

    def _ready(self) -> bool:
        server = ApiServer(self.access, connect_seconds=1)
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end and all(process.poll() is None for process in self._processes):
            with contextlib.suppress(Exception):
                server.request("GET", "/readyz")
                server.close()
                return True
            time.sleep(0.1)
        return False

    def stop(self) -> None:
        """End both programs and remove their data. Safe to call twice."""
        atexit.unregister(self.stop)
        self._end_processes()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end_processes(self) -> None:
        if self._reaper is not None and self._reaper.stdin is not None:
            self._reaper.kill()
            self._reaper.wait(10)
            self._reaper.stdin.close()
            self._reaper = None
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # nothing of their data is kept
            process.wait(10)
        self._processes.clear()


class Fleet:
    """Nodes of a real cluster made and changed as others do it: kubelets, people with kubectl, other controllers."""

    def __init__(self, kube: KubeApiserver) -> None:
        self._server = ApiServer(kube.access, in_flight=16)

    def _request(self, *call: Any, **fields: Any) -> bytes:
        """One call, whose refusal is worded as the port words it."""
        try:
            return self._server.request(*call, **fields)
        except StatusError as rejected:
            if rejected.code == 404:
                raise NodeGone(str(rejected)) from rejected
            raise rejected.refused() from rejected

    def create(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        manager: str = "kubelet",
        *,
        ready: bool | None = None,
        taints: Iterable[Taint] = (),
    ) -> str:
        """A node, registered by `manager`; to its taints the API server adds that it is not ready. Returns its uid."""
        metadata = {"name": name, "labels": dict(labels or {}), "annotations": {"node.alpha.kubernetes.io/ttl": "0"}}
        status = {} if ready is None else {"status": {"conditions": [_ready_condition(ready)]}}
        spec = {"taints": [taint._asdict() for taint in taints]}
        return self._create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, **status}, manager)

    def fill(self, names: Sequence[str]) -> None:
        """Realistic nodes of about 12 KB with 15 labels, many at a time."""
        chunks = [names[start::8] for start in range(8)]
        failures: list[Exception] = []

        def some(chunk: Iterable[str]) -> None:
            try:
                for name in chunk:
                    self._create(realistic_node(name), "kubelet")
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=some, args=(chunk,)) for chunk in chunks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def _create(self, node: Mapping[str, Any], manager: str) -> str:
        answer = self._request(
            "POST", "/api/v1/nodes", {"fieldManager": manager}, json.dumps(node).encode(), {"Content-Type": "application/json", **_METADATA}
        )
        return str(json.loads(answer)["metadata"]["uid"])

    def delete(self, name: str) -> None:
        """Delete one node."""
        self._request("DELETE", f"/api/v1/nodes/{name}")

    def set_labels(self, name: str, labels: Mapping[str, str | None], manager: str = "kubectl-label") -> None:
        """Set (or, with None, remove) labels by Update, as `kubectl label` and kubelets do."""
        self.patch(name, {"metadata": {"labels": dict(labels)}}, manager)

    def set_taints(self, name: str, taints: Iterable[Taint], manager: str = "kubectl-taint") -> None:
        """Put these taints in the place of a node's, as `kubectl taint` does."""
        self.patch(name, {"spec": {"taints": [taint._asdict() for taint in taints]}}, manager)

    def apply_taints(self, name: str, taints: Iterable[Taint], manager: str) -> None:
        """Server-Side Apply of a node's taints by another manager, forced."""
        self._apply(name, {"metadata": {"name": name}, "spec": {"taints": [taint._asdict() for taint in taints]}}, manager)

    def apply(self, name: str, labels: Mapping[str, str], manager: str) -> None:
        """Server-Side Apply of another manager, forced."""
        metadata = {"name": name, **({"labels": dict(labels)} if labels else {})}
        self._apply(name, {"metadata": metadata}, manager)

    def _apply(self, name: str, body: Mapping[str, Any], manager: str) -> None:
        node = {"apiVersion": "v1", "kind": "Node", **body}
        query, kind = {"fieldManager": manager, "force": "true"}, {"Content-Type": "application/apply-patch+yaml"}
        self._request("PATCH", f"/api/v1/nodes/{name}", query, json.dumps(node).encode(), {**kind, **_METADATA})

    def set_ready(self, name: str, ready: bool) -> None:
        """Report the Ready condition, as a kubelet does."""
        kind, status = {"Content-Type": "application/strategic-merge-patch+json"}, {"status": {"conditions": [_ready_condition(ready)]}}
        self._request("PATCH", f"/api/v1/nodes/{name}/status", {"fieldManager": "kubelet"}, json.dumps(status).encode(), kind)

    def ready(self, name: str) -> bool | None:
        """The Ready condition; None where there is none, and for no node."""
        try:
            node = json.loads(self._request("GET", f"/api/v1/nodes/{name}"))
        except NodeGone:
            return None
        said = {condition["type"]: condition["status"] == "True" for condition in node["status"].get("conditions", [])}
        return said.get("Ready")

    def patch(self, name: str, body: Mapping[str, Any], manager: str = "kubectl-edit") -> None:
        """Any merge patch."""
        kind = {"Content-Type": "application/merge-patch+json"}
        self._request("PATCH", f"/api/v1/nodes/{name}", {"fieldManager": manager}, json.dumps(body).encode(), {**kind, **_METADATA})

    def forget_managers(self, name: str) -> None:
        """Drop managedFields, as an object from before Server-Side Apply has none."""
        self.patch(name, {"metadata": {"managedFields": [{}]}})

    def set_daemon_set(self, name: str, daemon_set: str, available: bool) -> None:
        """Have a DaemonSet, `NAMESPACE/NAME`, with a pod on a node that is available, or is not, as its controller and a kubelet do."""
        namespace, _, named = daemon_set.partition("/")
        labels = {"name": named}
        template = {"metadata": {"labels": labels}, "spec": _pod_spec()}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        self._have(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", {"metadata": {"name": named}, "spec": spec})
        pod = f"{named}-{sum(map(ord, name)) % 100_000:05}"
        body = {"metadata": {"name": pod, "labels": labels}, "spec": {"nodeName": name, **_pod_spec()}}
        self._have(f"/api/v1/namespaces/{namespace}/pods", body)
        self.set_pod(namespace, pod, running_status(available))

    def set_unschedulable(self, namespace: str, count: int) -> None:
        """Have so many pods of a namespace that the scheduler found no node for, and one that it has not looked at yet."""
        pods = f"/api/v1/namespaces/{namespace}/pods"
        self.delete_pods(namespace, "spec.nodeName=")
        for number in range(count + 1):
            self._have(pods, {"metadata": {"name": f"waits-{number}", "labels": {"name": "waits"}}, "spec": _pod_spec()})
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
        for number in range(count):
            self.set_pod(namespace, f"waits-{number}", {"phase": "Pending", "conditions": [condition]})

    def delete_pods(self, namespace: str, selected: str = "") -> None:
        """Delete the pods of a namespace that a field selector means, at once."""
        query = {"gracePeriodSeconds": "0", **({"fieldSelector": selected} if selected else {})}
        self._request("DELETE", f"/api/v1/namespaces/{namespace}/pods", query)

    def set_pod(self, namespace: str, name: str, status: Mapping[str, Any]) -> None:
        """Report a pod's status."""
        kind, body = {"Content-Type": "application/merge-patch+json"}, json.dumps({"status": status}).encode()
        self._request("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"fieldManager": "kubelet"}, body, kind)

    def patch_pod(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        """Any merge patch of a pod."""
        kind = {"Content-Type": "application/merge-patch+json"}
        self._request("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", {"fieldManager": "c"}, json.dumps(body).encode(), kind)

    def _have(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object, unless there is one."""
        try:
            self.post(path, body)
        except Refused as refused:
            if refused.reason != "AlreadyExists":
                raise

    def clear(self) -> None:
        """Delete every node, and the DaemonSets and pods that tests have made."""
        self._request("DELETE", "/api/v1/nodes")
        for namespace in ("default", "kube-system"):
            self._request("DELETE", f"/apis/apps/v1/namespaces/{namespace}/daemonsets", {"propagationPolicy": "Background"})
            self.delete_pods(namespace)

    def post(self, path: str, body: Mapping[str, Any]) -> None:
        """Create any object. Raises Refused, where it is there already too."""
        self._request("POST", path, body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})


def _ready_condition(ready: bool) -> dict[str, str]:
    why = "KubeletReady" if ready else "KubeletNotReady"
    return {"type": "Ready", "status": str(ready), "reason": why, "message": "as a test has it"}


def _pod_spec() -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "registry.example/main:1"}], "tolerations": [{"operator": "Exists"}]}


def running_status(ready: bool) -> dict[str, Any]:
    """The status of a pod that runs, its container ready or not."""
    state = {"running": {"startedAt": "2026-11-21T00:00:00Z"}}
    container = {"name": "main", "image": "main:1", "imageID": "sha256:0", "ready": ready, "restartCount": 0, "state": state}
    conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
    return {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}


_METADATA = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"}


_NODE_INFO = (
    *("kubeletVersion", "kubeProxyVersion", "containerRuntimeVersion", "kernelVersion", "osImage"),
    *("machineID", "systemUUID", "bootID", "operatingSystem", "architecture"),
)


def realistic_node(name: str) -> dict[str, Any]:
    """A Node as a cloud's kubelet registers it: 15 labels, conditions, capacity, and the long list of images that makes it 12 KB."""
    number = sum(map(ord, name))
    zone = "abc"[number % 3]
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": "m6i.2xlarge",
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": "eu-west-1",
        "failure-domain.beta.kubernetes.io/zone": f"eu-west-1{zone}",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m6i.2xlarge",
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": f"eu-west-1{zone}",
        "topology.ebs.csi.aws.com/zone": f"eu-west-1{zone}",
        "eks.amazonaws.com/nodegroup": "workers",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "vendor.example/gpu.count": "0",
    }
    sizes = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    images = [
        {"names": [f"registry.example/team-{i % 7}/service-{i}@sha256:{uuid.uuid5(uuid.NAMESPACE_URL, str(i)).hex * 2}",
                   f"registry.example/team-{i % 7}/service-{i}:v1.{i}.0"], "sizeBytes": 100_000_000 + i}
        for i in range(45)
    ]  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
        "spec": {"providerID": f"aws:///eu-west-1{zone}/{name}"},
        "status": {
            "capacity": sizes,
            "allocatable": sizes,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "conditions": [
                {"type": kind, "status": "False", "reason": f"KubeletHasNo{kind}", "message": f"kubelet has no {kind}"}
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
            ],
            "images": images,
            "nodeInfo": dict.fromkeys(_NODE_INFO, "v1.35.4"),
        },
    }


def _etcd_flags(folder: Path, client: int, peer: int) -> list[str]:
    here = f"http://127.0.0.1:{peer}"
    return [
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={8 << 30}",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls={here}",
        f"--initial-advertise-peer-urls={here}",
        f"--initial-cluster=default={here}",
        "--log-level=warn",
    ]


def _apiserver_flags(folder: Path, etcd: int, https: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={https}",
        "--advertise-address=127.0.0.1",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--disable-admission-plugins=ServiceAccount",  # no controller makes the default account
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'service-account.key'}",
        f"--service-account-signing-key-file={folder / 'service-account.key'}",
    ]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Pki:
    """A CA, the server's certificate, the admin's, and the service-account key, as files in `folder`."""

    def __init__(self, folder: Path, bare: bool) -> None:
        self._folder, self._bare = folder, bare
        self._ca_key = ec.generate_private_key(ec.SECP256R1())
        self._ca_name = _name("hullmark-test-ca")
        ca = self._sign(self._ca_name, self._ca_key, authority=True)
        self.ca = ca.public_bytes(serialization.Encoding.PEM).decode()
        (folder / "ca.crt").write_text(self.ca)
        self._issue("server", _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH)
        self._issue("admin", _name("admin", "system:masters"), ExtendedKeyUsageOID.CLIENT_AUTH)
        self._key("service-account", ec.generate_private_key(ec.SECP256R1()))

    def _issue(self, file: str, subject: x509.Name, usage: x509.ObjectIdentifier) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self._key(file, key)
        certificate = self._sign(subject, key, usage=usage)
        (self._folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _key(self, file: str, key: ec.EllipticCurvePrivateKey) -> None:
        form = serialization.PrivateFormat.TraditionalOpenSSL  # the only one that kube-apiserver takes for service accounts
        path = self._folder / f"{file}.key"
        path.touch(0o600)
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool = False, usage: x509.ObjectIdentifier | None = None
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self._ca_name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=2))
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        if usage is not None:
            names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.DNSName("kubernetes.default")]
            names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if not self._bare:
            unused = ["content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"]
            allowed = x509.KeyUsage(digital_signature=True, key_cert_sign=authority, crl_sign=authority, **dict.fromkeys(unused, False))
            builder = builder.add_extension(allowed, critical=True)
            builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._ca_key.public_key())
            builder = builder.add_extension(issuer, critical=False)
        return builder.sign(self._ca_key, hashes.SHA256())


def _name(common: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    return x509.Name([*parts, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else parts)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
