"""The real transport with a function of the tests behind it: emulator, process, push form, redelivery, dead letters, clean ends."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.cloud import pump
from local.cloud.emulated import RealCloud
from local.cloud.emulator import EmulatorMissing, find_jar
from local.cloud.processes import FunctionProcess, NotReady
from local.cloud.pump import Faults
from local.steps import FunctionStep, Steps
from shared.adapters.pubsub import Administration, Subscription
from shared.messages import Outgoing
from shared.world import Settings, SettingsError
from tests.pubsub import new_project, pulled, real_emulator


class TestStep(FunctionStep):
    """A step whose file lies with the tests."""

    __test__ = False

    @property
    def source(self) -> Path:
        return Path(__file__).parent / f"{self.name}.py"


def a_step(name: str = "echo", **changes: Any) -> FunctionStep:
    usual: dict[str, Any] = {
        "topics": ["echo-requests", "dead-letters"],
        "publishes": ["echo-replies"],
        "store": "write",
        "cluster": "none",
    }
    return TestStep(name=name, about="", memory="", timeout=5, concurrency=8, **{**usual, **changes})


DESCRIBED = Steps(steps={"echo": a_step()}, schedules={}, outlets=["echo-replies"])


def until(true: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait for something to be true, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
    return found


class Echoes:
    """A running cloud with the echo function, and what that function has seen."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder, self.said = folder, list[str]()
        settings = Settings(store=f"file:{folder}", project=new_project())
        self.cloud = RealCloud(settings, described=DESCRIBED, say=self.said.append, **options)

    def send(self, *bodies: dict[str, Any]) -> None:
        self.cloud.bus.publish("echo-requests", [Outgoing(json.dumps(body).encode(), {"type": "Echo"}) for body in bodies])

    def seen(self, name: str = "") -> list[dict[str, Any]]:
        found = [json.loads(text) for path in sorted(self.folder.glob("*.json")) if (text := path.read_text())]
        return [one for one in found if name in ("", one["name"])]


@pytest.fixture(scope="module")
def emulator() -> Iterator[None]:
    with real_emulator():
        yield


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "BACKOFF", (0.05, 0.2))


@pytest.fixture
def echoes(tmp_path: Path, emulator: None) -> Iterator[Echoes]:
    running = Echoes(tmp_path)
    with running.cloud:
        yield running


@pytest.mark.real
def test_a_message_reaches_its_function_in_the_form_of_a_push(echoes: Echoes) -> None:
    echoes.send({"name": "one"})
    (seen,) = until(echoes.seen)
    assert (seen["topic"], seen["attempt"], seen["attributes"]) == ("echo-requests", 1, {"type": "Echo"})
    assert seen["published"].startswith("20")
    claims = seen["authorization"].removeprefix("Bearer ").split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(claims + "=="))["aud"].startswith("http://127.0.0.1:")


@pytest.mark.real
def test_a_message_that_is_refused_comes_again_with_its_attempt_counted(echoes: Echoes) -> None:
    echoes.send({"name": "twice", "fails": 2})
    until(lambda: len(echoes.seen()) == 3)
    assert [one["attempt"] for one in echoes.seen()] == [1, 2, 3]
    assert len({one["id"] for one in echoes.seen()}) == 1
    until(echoes.cloud.pump.idle)  # type: ignore[union-attr]
    echoes.send({"name": "later"})
    until(lambda: echoes.seen("later"))
    assert len(echoes.seen("twice")) == 3, "what was taken does not come again"


@pytest.mark.real
def test_a_message_that_nobody_takes_arrives_as_a_dead_letter_that_says_where_from(echoes: Echoes) -> None:
    echoes.send({"name": "poison", "fails": 5})
    dead = until(lambda: [one for one in echoes.seen() if one["topic"] == "dead-letters"])[0]
    assert len([one for one in echoes.seen() if one["topic"] == "echo-requests"]) == 5
    assert dead["attributes"]["CloudPubSubDeadLetterSourceSubscription"] == "echo-requests--echo"
    assert dead["attributes"]["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"
    assert dead["attributes"]["type"] == "Echo"


@pytest.mark.real
def test_what_a_function_publishes_is_confirmed_and_in_the_same_trace(echoes: Echoes) -> None:
    reader = Administration(echoes.cloud.settings.project).create_subscription(Subscription("reader", "echo-replies", 10))
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    body = json.dumps({"name": "asked", "reply": True}).encode()
    echoes.cloud.bus.publish("echo-requests", [Outgoing(body, {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})])
    (reply,) = pulled(reader, 1)
    assert reply.data == body
    assert trace in reply.attributes["traceparent"]
    until(lambda: any(f'"trace": "{trace}"' in line and '"step": "echo"' in line for line in echoes.said))


@pytest.mark.real
def test_a_killed_process_comes_back_and_every_message_is_taken(echoes: Echoes) -> None:
    echoes.send(*[{"name": f"m{n}", "seconds": 0.02} for n in range(200)])
    until(lambda: len(echoes.seen()) > 30)
    echoes.cloud.functions["echo"].kill()
    until(lambda: len({one["name"] for one in echoes.seen()}) == 200)
    assert len({one["pid"] for one in echoes.seen()}) == 2
    assert echoes.cloud.functions["echo"].restarts == 1
    assert not [one for one in echoes.seen() if one["topic"] == "dead-letters"]


@pytest.mark.real
def test_injected_faults_lose_nothing_and_repeat_some(tmp_path: Path, emulator: None) -> None:
    running = Echoes(tmp_path, faults=Faults(duplicate=0.2, lost=0.1, unanswered=0.1, delay=0.1, seed=7))
    with running.cloud as cloud:
        running.send(*[{"name": f"m{n}"} for n in range(200)])
        until(lambda: len({one["name"] for one in running.seen()}) == 200 and cloud.pump and cloud.pump.idle())
        counts = next(lane.counts for lane in cloud.pump.lanes if lane.route.topic == "echo-requests")  # type: ignore[union-attr]
    assert counts.duplicates > 20
    assert counts.lost > 20
    assert len(running.seen()) > 220
    assert [one["name"] for one in running.seen()] != sorted((one["name"] for one in running.seen()), key=lambda name: int(name[1:]))


@pytest.mark.real
def test_the_emulators_own_push_reaches_the_function_too(tmp_path: Path, emulator: None) -> None:
    running = Echoes(tmp_path, push=True)
    with running.cloud:
        running.send({"name": "pushed"})
        (seen,) = until(running.seen)
    assert (seen["topic"], seen["authorization"]) == ("echo-requests", "")


@pytest.mark.real
def test_nothing_is_left_running(tmp_path: Path, emulator: None) -> None:
    running = Echoes(tmp_path)
    with running.cloud as cloud:
        process = cloud.functions["echo"]
        pid = process.pid
        assert pid
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    assert not process.answers()


@pytest.mark.real
def test_ctrl_c_ends_all_of_it_cleanly(tmp_path: Path, emulator: None) -> None:
    program = (
        "import sys; from local import steps; from local.cloud.emulated import serve_pubsub; from shared.world import Settings\n"
        "from tests.local.test_cloud import DESCRIBED\n"
        "steps.load = lambda: DESCRIBED\n"
        f"serve_pubsub(Settings(store='file:{tmp_path}', project='{new_project()}'), port=0, join=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": "."}, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "topics publish" in line:
            break
    process.send_signal(2)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0, rest
    assert "Traceback" not in rest


def test_a_function_that_cannot_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    step = a_step("missing")
    process = FunctionProcess(step, {}, lambda _: None)
    process.start()
    try:
        with pytest.raises(NotReady, match="missing"):
            process.wait_ready(30)
    finally:
        process.terminate()
        process.join()


def test_a_store_in_memory_is_refused_where_functions_are_processes() -> None:
    with pytest.raises(SettingsError, match="file:FOLDER"):
        RealCloud(Settings(store="memory:"))


def test_a_jar_that_is_not_there_is_told_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_JAR", "/nowhere/emulator.jar")
    with pytest.raises(EmulatorMissing, match="PUBSUB_EMULATOR_JAR=/nowhere"):
        find_jar()


def test_a_jar_is_found_in_the_sdk_that_gcloud_belongs_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sdk = tmp_path / "sdk"
    (sdk / "bin").mkdir(parents=True)
    (sdk / "bin" / "gcloud").write_text("#!/bin/sh\n")
    (sdk / "bin" / "gcloud").chmod(0o755)
    jar = sdk / "platform" / "pubsub-emulator" / "lib" / "cloud-pubsub-emulator-9.9.9-all.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    (tmp_path / "gcloud").symlink_to(sdk / "bin" / "gcloud")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PUBSUB_EMULATOR_JAR", raising=False)
    assert find_jar() == jar
