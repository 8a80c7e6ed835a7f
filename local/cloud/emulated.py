"""The cloud on one machine with real parts: the Pub/Sub emulator, one functions-framework process per function, push delivery.

`hullmark serve --bus pubsub` is `serve_pubsub`; tests use `RealCloud` as a context.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from local import steps
from local.cloud.clock import Clock
from local.cloud.emulator import Emulator, EmulatorMissing
from local.cloud.guard import SECRET, until_told
from local.cloud.presence import Presence
from local.cloud.processes import FunctionProcess, Processes
from local.cloud.pump import BACKOFF, Faults, Pump, Route
from local.steps import DEAD_LETTERS, FunctionStep, Steps
from shared.adapters.pubsub import Administration, Subscription, open_bus
from shared.messages import LAST_ATTEMPT
from shared.ports import Bus
from shared.world import Settings, SettingsError

PROJECT = "local"
"""How the emulator's project begins where HULLMARK_PROJECT names none. The emulator asks nobody who they are, so the project, without
which nothing can be published or pulled, is a name that cannot be guessed."""
ACK_MARGIN = 10
"""Seconds from a function's timeout to its subscription's ack deadline, as in terraform/."""


def to_stderr(line: str) -> None:
    """One line of talk, written whole: many threads tell."""
    sys.stderr.write(line + "\n")


class RealCloud:
    """Emulator, topics, subscriptions, processes, delivery, clock: started in this order, ended in the other.

    `push=True` leaves delivery to the emulator itself (two requests in flight per subscription) instead of the pump, which
    alone knows `faults`. `ports` fixes the TCP ports of functions. Where PUBSUB_EMULATOR_HOST names an emulator, that one is joined,
    unless it holds topics or subscriptions in this project and with this prefix that are not ours. `person` counts as the API's caller.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        only: Sequence[str] = (),
        world: dict[str, int] | None = None,
        emulator_port: int = 0,
        push: bool = False,
        faults: Faults | None = None,
        say: Callable[[str], None] = to_stderr,
        described: Steps | None = None,
        person: str = "",
    ) -> None:
        if settings.store.startswith("memory:"):
            raise SettingsError("HULLMARK_STORE=memory: is one process's own; functions in several need file:FOLDER or a bucket")
        self._secret = secrets.token_urlsafe(24)
        project = settings.project or f"{PROJECT}-{secrets.token_hex(8)}"
        self.settings = settings.model_copy(update={"bus": "pubsub", "project": project})
        self._person = person
        self._described = described or steps.load()
        self._steps = [step for step in self._described.steps.values() if step.source.exists() and (not only or step.name in only)]
        self._ports, self._emulator_port = world or {}, emulator_port
        self._push, self._faults, self._say = push, faults, say
        self._ending: list[Callable[[], None]] = []
        self._presence = Presence(settings.store)
        self.bus: Bus
        self.host = ""
        self.functions: dict[str, FunctionProcess] = {}
        self.pump: Pump | None = None
        self.emulator: Emulator | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _start(self) -> None:
        self._presence.arrive()  # commands leave alone what the functions here are working on
        before = os.environ.get("PUBSUB_EMULATOR_HOST", "")
        self.host = before
        if not before:
            emulator = Emulator(self._emulator_port)
            self._ending.append(emulator.stop)
            self.emulator = emulator
            self.host = os.environ["PUBSUB_EMULATOR_HOST"] = emulator.host
            self._ending.append(lambda: os.environ.__delitem__("PUBSUB_EMULATOR_HOST"))
        self.bus = open_bus(self.settings.project, self.settings.topic_prefix, "grpc")
        told = environment(self.settings, self.host)
        processes = Processes(self._steps, told, self._say, self._ports, person=self._person, secret=self._secret)
        self._ending.append(processes.stop)
        self.functions = processes.by_step
        routes = self._subscribe()
        processes.start()
        if not self._push:
            self.pump = Pump(routes, self.bus, self._say, self._faults)
            self._ending.append(self.pump.stop)
        clock = Clock(self._described.schedules.values(), self.bus, self._say)
        self._ending.append(clock.stop)
        clock.start()

    def _subscribe(self) -> list[Route]:
        administration = Administration(self.settings.project, self.settings.topic_prefix)
        self._nobody_elses(administration)
        administration.create_topics(self._described.topics)
        return [self._route(administration, step, topic) for step in self._steps for topic in step.topics]

    def _nobody_elses(self, administration: Administration) -> None:
        """Raises SettingsError where the emulator has what is not ours: pulling there would take somebody else's messages."""
        ours = {*self._described.topics, *(f"{topic}--{step.name}" for step in self._described.steps.values() for topic in step.topics)}
        foreign = sorted(set(administration.names()) - ours)
        if foreign:
            where = f"project {self.settings.project} with prefix {self.settings.topic_prefix!r}"
            cause = f"the emulator on {self.host} has {', '.join(foreign[:5])} in {where}, which are not Hullmark's"
            raise SettingsError(f"{cause}: set HULLMARK_PROJECT to a project of your own")

    def broken(self) -> BaseException | None:
        """Why nothing is delivered any more, if so."""
        if self.emulator and not self.emulator.running():
            return EmulatorMissing(
                f"the Pub/Sub emulator on {self.host} has ended; run serve again, unfinished actions resume from the store"
            )
        return self.pump.broken() if self.pump else None

    def _route(self, administration: Administration, step: FunctionStep, topic: str) -> Route:
        # The topic in the path is what functions-framework makes the event's source from.
        url = f"{self.functions[step.name].url}/projects/{self.settings.project}/topics/{topic}?{SECRET}={self._secret}"
        own = not self._push  # the pump keeps to the policy itself, to the tenth of a second
        wanted = Subscription(
            name=f"{topic}--{step.name}",
            topic=topic,
            ack_deadline=step.timeout + ACK_MARGIN,
            endpoint="" if own else url,
            backoff=(max(1.0, BACKOFF[0]), BACKOFF[1]),
            dead_letters="" if own or topic == DEAD_LETTERS else DEAD_LETTERS,
            max_attempts=LAST_ATTEMPT,
        )
        return Route(administration.create_subscription(wanted), topic, url, step.concurrency, step.timeout + ACK_MARGIN)

    def stop(self) -> None:
        """End everything, the last started first; an error of one does not keep the others alive."""
        while self._ending:
            end = self._ending.pop()
            try:
                end()
            except Exception as error:
                self._say(f"while ending: {type(error).__name__}: {error}")


def environment(settings: Settings, host: str) -> dict[str, str]:
    """What the functions' processes are told."""
    told = {f"HULLMARK_{name.upper()}": str(value) for name, value in settings.model_dump().items() if value not in ("", None)}
    return {**told, "PUBSUB_EMULATOR_HOST": host}


def serve_pubsub(
    settings: Settings,
    *,
    port: int = 8080,
    person: str = "",
    join: bool = False,
    push: bool = False,
    faults: Faults | None = None,
    say: Callable[[str], None] = to_stderr,
) -> None:
    """Run until Ctrl-C, SIGTERM or SIGHUP, with an emulator of its own unless `join` says to use that of PUBSUB_EMULATOR_HOST.

    Raises SettingsError, EmulatorMissing, NotReady, PortTaken and BusError while starting.
    """
    there = os.environ.get("PUBSUB_EMULATOR_HOST", "")
    if there and not join:
        raise SettingsError(f"PUBSUB_EMULATOR_HOST={there} names another emulator: unset it for one of serve's own, or say --join-emulator")
    if join and not there:
        raise SettingsError("--join-emulator: set PUBSUB_EMULATOR_HOST to the emulator's host:port")
    with (
        until_told() as ended,
        RealCloud(settings, world={"api": port}, push=push, faults=faults, say=say, person=person) as cloud,
    ):
        say(greeting(cloud))
        while not ended.wait(1.0):
            if broken := cloud.broken():
                raise broken
        say("stopping: waiting for requests in flight")


def greeting(cloud: RealCloud) -> str:
    """What runs where, and how to publish to it."""
    where = [f"  {name:16} {process.url}" for name, process in sorted(cloud.functions.items())]
    project, prefix = cloud.settings.project, cloud.settings.topic_prefix
    say = [
        f"Pub/Sub emulator on {cloud.host}, project {project}",
        *where,
        "Request a relabel:",
        f"  CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB=http://{cloud.host}/ CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true \\",
        f'  gcloud --project {project} pubsub topics publish {prefix}relabel-requests --message=\'{{"name":"update_site"}}\'',
    ]
    return "\n".join(say)
