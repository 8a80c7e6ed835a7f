"""The done-when of deploying: what Terraform would upload, run as the cloud would run it.

The archive is unpacked in an empty folder, beside a virtual environment with only `requirements.txt`. Every function starts through the
console script that the buildpack runs, with the environment that Terraform sets and no other. Then the subscriptions that Terraform
makes are made on the emulator, the API server knows each function by its service account and `examples/rbac.yaml`, and a relabel runs.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from ulid import ULID

from local import steps
from local.cloud.emulator import free_port
from local.steps import ROOT
from shared import wiring
from shared.adapters.pubsub import Administration, Subscription
from shared.domain.actions import ActionOutcome
from shared.domain.documents.reading import Source
from shared.messages import RelabelRequest
from shared.world import Settings
from tests.api.identities import id_token
from tests.conftest import require_real
from tests.kube_apiserver import HOW, Fleet, KubeApiserver, assets
from tests.pubsub import new_project, real_emulator
from tests.terraform.deployed import installed, unpacked
from tests.terraform.running import PROJECT, Planned

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]
HERE = {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}


@dataclass
class Function:
    """One function of the plan, as a process."""

    step: str
    configuration: dict[str, Any]
    workspace: Path
    scripts: Path
    instead: dict[str, str]
    """What cannot be as in the cloud on this machine: the store, the cluster, the emulator."""
    port: int = field(default_factory=free_port)
    log: Path = Path()
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run what the buildpack's image runs."""
        build, service = self.configuration["build_config"][0], self.configuration["service_config"][0]
        environment = {**HERE, **build["environment_variables"], **service["environment_variables"], **self.instead}
        environment["PYTHONPATH"] = environment["PYTHONPATH"].replace("/workspace", str(self.workspace))
        self.log = self.workspace.parent / f"{self.step}.log"
        command = [str(self.scripts / "functions-framework"), "--source", environment.pop("GOOGLE_FUNCTION_SOURCE")]
        command += ["--target", build["entry_point"], "--host", "127.0.0.1", "--port", str(self.port)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=self.workspace, env=environment, stdout=log, stderr=log, start_new_session=True)

    def stop(self) -> None:
        """End it at once, with its workers."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> int:
        """The status that a POST is answered with; 0 while nobody listens."""
        url = f"http://127.0.0.1:{self.port}{path}"
        asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def answers(self, path: str, body: Any) -> int:
        """The first answer, once it listens."""

        def answer() -> int:
            assert self.process is None or self.process.poll() is None, f"{self.step} ended:\n{self.log.read_text()[-3000:]}"
            return self.post(path, body)

        return int(until(answer, lambda: f"{self.step} does not answer:\n{self.log.read_text()[-3000:]}"))


def until(true: Callable[[], Any], otherwise: Callable[[], str], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.1)
    return found


Start = Callable[..., dict[str, Function]]


@pytest.fixture(scope="module")
def scripts() -> Path:
    return installed()


@pytest.fixture
def start(deployment: Planned, scripts: Path, tmp_path: Path) -> Iterator[Start]:
    """Start the functions of the plan; they end with the test."""
    workspace = unpacked(tmp_path)
    running: list[Function] = []

    def call(instead: Callable[[str], dict[str, str]], *names: str) -> dict[str, Function]:
        planned = deployment.all("cloudfunctions2_function")
        made = {name: Function(name, planned[name], workspace, scripts, instead(name)) for name in names}
        running.extend(made.values())
        for function in made.values():
            function.start()
        return made

    yield call
    for function in running:
        function.stop()


def test_the_archive_holds_no_code_but_the_functions(start: Start, tmp_path: Path) -> None:
    assert sorted(path.name for path in (tmp_path / "workspace").iterdir()) == ["functions", "requirements.txt", "shared"]


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    with real_emulator() as running:
        yield running.host


@pytest.mark.parametrize("name", list(steps.load().steps))
def test_each_function_starts_and_answers_its_first_request(name: str, start: Start, emulator: str, tmp_path: Path) -> None:
    step = steps.load().steps[name]
    Administration(PROJECT).create_topics(steps.load().topics)
    function = start(lambda _: {"HULLMARK_STORE": f"file:{tmp_path / 'store'}", "PUBSUB_EMULATOR_HOST": emulator}, name)[name]
    if step.http:
        caller = {"Authorization": id_token(email="ada@example.com")}
        assert function.answers("/", {}) in (401, 400)
        assert function.post("/", {}, caller) in (400, 405)  # not its method or its body: told so in its own form
    else:
        message = {"data": "e30=", "messageId": "17", "publishTime": "2026-11-21T03:17:26.262Z", "attributes": {}}
        body = {"subscription": f"projects/{PROJECT}/subscriptions/{step.topics[0]}--{name}", "message": message}
        status = function.answers(f"/projects/{PROJECT}/topics/{step.topics[0]}", body)
        assert status in (200, 204, 500)  # 500: `{}` is no such message, and goes to the dead letters
        said = [json.loads(line) for line in function.log.read_text().splitlines() if line.startswith("{")]
        assert [line["step"] for line in said if line.get("message_id") == "17"] == [name]
        assert status != 500 or [line["reason"] for line in said if "reason" in line] == ["Malformed"], said
    log = function.log.read_text()
    assert not [wrong for wrong in ("ModuleNotFoundError", "ImportError", "SettingsError") if wrong in log], log[-3000:]


@pytest.fixture
def cluster(deployment: Planned) -> Iterator[KubeApiserver]:
    """An API server that knows every function by its service account, with only the rights of `examples/rbac.yaml`."""
    require_real("kube-apiserver", assets(), HOW)
    server = KubeApiserver()
    server.tokens.update({email: uuid.uuid4().hex for email in deployment.outputs["service_accounts"].values()})
    with server:
        for document in yaml.safe_load_all((ROOT / "examples" / "rbac.yaml").read_text().replace("PROJECT", PROJECT)):
            kind = f"{document['kind'].lower()}s"
            Fleet(server).post(f"/apis/{document['apiVersion']}/{kind}", document)
        yield server


def test_a_relabel_runs_through_the_deployed_functions(
    start: Start, deployment: Planned, emulator: str, cluster: KubeApiserver, tmp_path: Path
) -> None:
    accounts, project, store = deployment.outputs["service_accounts"], new_project(), f"file:{tmp_path / 'store'}"
    Fleet(cluster).create("n1", {"zone": "a"})
    Fleet(cluster).create("n2", {"rack": "r7"})
    kubeconfig = cluster.kubeconfig()

    def instead(name: str) -> dict[str, str]:
        reached = {"HULLMARK_CLUSTER": f"kubeconfig:{kubeconfig}?context={accounts[name]}"}
        return {
            "HULLMARK_STORE": store,
            "HULLMARK_PROJECT": project,
            "PUBSUB_EMULATOR_HOST": emulator,
            **(reached if steps.load().steps[name].cluster != "none" else {}),
        }

    functions = start(instead, "relabel_request", "node_apply", "result_rollup")
    for name, function in functions.items():
        assert function.answers("/healthz", {}), name
    subscribe(deployment, functions, project)

    world = wiring.build(Settings(store=store, bus="pubsub", project=project), bus(project))
    policies = [
        {
            "apiVersion": "hullmark.dev/v1",
            "kind": "NodeLabelPolicy",
            "metadata": {"name": "racks"},
            "spec": {"nodes": {"names": ["n1", "gone"]}, "labels": {"rack": "r7"}},
        }
    ]
    now = datetime.now(UTC)
    world.revisions.stage("site", [Source("site.yaml", yaml.safe_dump_all(policies).encode())], "an operator", now)
    revision, _ = world.revisions.commit("an operator", now)
    world.revisions.tag(revision.number, "site-action-success", "an operator", now)

    action = str(ULID())
    world.bus.publish(RelabelRequest.TOPIC, [RelabelRequest(action=action, target_nodes=["n1", "gone"]).outgoing()])
    outcome: ActionOutcome = until(
        lambda: world.actions.outcome(action),
        lambda: "no outcome:\n" + "\n".join(function.log.read_text()[-2000:] for function in functions.values()),
    )
    assert {each.subject: each.outcome for each in outcome.outcomes} == {"n1": "changed", "gone": "missing"}
    labels = {name: labels_of(cluster, name) for name in ("n1", "n2")}
    assert labels["n1"] == {"zone": "a", "rack": "r7"}
    assert labels["n2"] == {"rack": "r7"}

    for name, status in {"relabel_request": 403, "pod_binding": 403, "node_event": 403, "node_apply": 200}.items():
        assert patched(cluster, "n2", accounts[name]) == status, name


def patched(cluster: KubeApiserver, node: str, user: str) -> int:
    """The status that this user's patch of a node is answered with."""
    body = b'{"metadata": {"labels": {"by": "hand"}}}'
    headers = {"Authorization": f"Bearer {cluster.tokens[user]}", "Content-Type": "application/merge-patch+json"}
    asked = urllib.request.Request(f"{cluster.url}/api/v1/nodes/{node}", body, headers, method="PATCH")
    try:
        with urllib.request.urlopen(asked, timeout=10, context=ssl.create_default_context(cadata=cluster.ca)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def bus(project: str) -> Any:
    from shared.adapters.pubsub import open_bus

    return open_bus(project)


def labels_of(cluster: KubeApiserver, name: str) -> dict[str, str]:
    from shared.adapters.kubernetes import Kubernetes

    node = Kubernetes(cluster.access).node(name)
    assert node is not None
    return dict(node.labels)


def subscribe(deployment: Planned, functions: dict[str, Function], project: str) -> None:
    """Make Terraform's topics and subscriptions on the emulator, with the processes in place of the functions' addresses."""
    administration = Administration(project)
    administration.create_topics(topic["name"] for topic in deployment.each("pubsub_topic"))
    addresses = {function.configuration["service_config"][0]["uri"]: f"http://127.0.0.1:{function.port}" for function in functions.values()}
    for subscription in deployment.each("pubsub_subscription"):
        endpoint = subscription["push_config"][0]["push_endpoint"]
        uri = endpoint.partition("/projects/")[0]
        if uri not in addresses:
            continue
        dead = (subscription["dead_letter_policy"] or [{}])[0]
        administration.create_subscription(
            Subscription(
                name=subscription["name"],
                topic=subscription["topic"].rpartition("/")[2],
                ack_deadline=subscription["ack_deadline_seconds"],
                endpoint=endpoint.replace(uri, addresses[uri]),
                backoff=(1.0, 10.0),
                dead_letters=dead.get("dead_letter_topic", "").rpartition("/")[2],
                max_attempts=dead.get("max_delivery_attempts", 0),
            )
        )
