"""Two forwarders on a real kube-apiserver share a Lease: the active one is killed, the other takes over, and no event is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from local.cloud.emulator import free_port
from local.steps import ROOT
from shared.adapters.apiserver import ApiServer
from shared.adapters.kubernetes import Kubernetes
from shared.adapters.kubernetes_lease import ClusterLease
from shared.adapters.store import open_store
from shared.domain.documents.reading import Source
from shared.domain.leases import Lease
from shared.ledger.releases import Releases
from shared.ledger.revisions import Revisions
from shared.ports import Refused, Stale
from tests.kube_apiserver import Fleet, KubeApiserver
from tests.real.watched import until
from tests.stories.fleet import a_policy

pytestmark = pytest.mark.real
NOW = datetime(2026, 11, 22, tzinfo=UTC)


class Forwarding:
    """One process, as the Deployment runs it, but for where its cluster and its store are."""

    def __init__(self, name: str, kube: KubeApiserver, folder: Path) -> None:
        self.port = free_port()
        self.log = folder / f"{name}.log"
        options = ("--lease", "default/forwarder", "--lease-seconds", "3", "--listen", f"127.0.0.1:{self.port}")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HULLMARK_STORE": f"file:{folder}/store",
            "HULLMARK_CLUSTER": f"kubeconfig:{kube.kubeconfig()}?context=admin",
        }
        command = [sys.executable, "-m", "local.container", "events", "forward", *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def asked(self, path: str) -> tuple[int, str]:
        """What it answers; status 0 where it does not."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return 0, ""

    def is_ready(self) -> bool:
        return self.asked("/readyz")[0] == 200

    def metric(self, name: str) -> float:
        found = re.search(rf"^hullmark_forwarder_{name} (\S+)$", self.asked("/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else -1

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def forwarding(name: str, kube: KubeApiserver, folder: Path) -> Iterator[Forwarding]:
    one = Forwarding(name, kube, folder)
    try:
        yield one
    finally:
        one.kill()


def release(folder: Path) -> None:
    """Documents that are released to the cluster, in a store of this test."""
    store = open_store(f"file:{folder}/store")
    revisions = Revisions(store)
    policy = json.dumps(a_policy("rack", {"names": ["n1", "n2"]}, {"rack": "r7"}))  # JSON is YAML
    revisions.stage("default", [Source("rack.yaml", policy.encode())], "me", NOW)
    revisions.commit("me", NOW)
    Releases(store, revisions).adopt("default", 1, "me", NOW)


def test_the_one_that_stands_by_takes_over_and_mends_what_nobody_told(kube: KubeApiserver, real_fleet: Fleet, tmp_path: Path) -> None:
    release(tmp_path)
    cluster = Kubernetes(kube.access)

    def label(name: str) -> str:
        node = cluster.node(name)
        return node.labels.get("rack", "") if node else ""

    for name in ("n1", *(f"other-{number}" for number in range(8))):
        real_fleet.create(name, {"theirs": "x"})
    with forwarding("first", kube, tmp_path) as first:
        until("the first one is active", lambda: first.is_ready() and first.metric("active") == 1)
        with forwarding("second", kube, tmp_path) as second:
            until("the second one stands by", lambda: second.is_ready() and second.metric("active") == 0)
            until("n1 is in sync", lambda: label("n1") == "r7")

            first.kill()
            real_fleet.set_labels("n1", {"rack": "by-hand"})
            real_fleet.create("n2")

            until("n1 is mended", lambda: label("n1") == "r7")
            until("n2 is labelled", lambda: label("n2") == "r7")
            until("the second one is ready", lambda: second.is_ready() and second.metric("active") == 1)
            assert "2 of 10 nodes are not in sync" in second.log.read_text()
            assert "n1 changed: rack=r7" in second.log.read_text()
            lease = ClusterLease(ApiServer(kube.access), "default", "forwarder")
            assert (lease.read().transitions, lease.read().seconds) == (1, 3)

            second.process.terminate()
            assert second.process.wait(60) == 0
            assert lease.read().holder == ""


def test_a_lease_is_written_only_as_it_was_read(kube: KubeApiserver) -> None:
    lease = ClusterLease(ApiServer(kube.access), "default", "only-as-read")
    stamp = "2026-11-22T00:00:00.000000Z"
    assert lease.read() == Lease()

    made = lease.write(Lease("a", 15, stamp, stamp))
    assert (made, made.version != "") == (lease.read(), True)
    with pytest.raises(Stale):
        lease.write(Lease("b", 15, stamp, stamp))
    changed = lease.write(Lease("b", 15, stamp, stamp, 1, made.version))
    with pytest.raises(Stale):
        lease.write(Lease("c", 15, stamp, stamp, 1, made.version))
    assert lease.read() == changed
    with pytest.raises(Refused, match="leases"):
        ClusterLease(ApiServer(lambda: kube.access("nobody")), "default", "forwarder").read()
