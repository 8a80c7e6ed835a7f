"""Every route and every port that is opened, called as somebody else; docs/security.md has a row for each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import functions_framework
import pytest

from functions.api.app import application
from functions.api.rights import needed
from local import steps
from local.cloud.emulated import RealCloud
from local.steps import ROOT
from shared import telemetry, wiring
from shared.world import Settings
from tests.api.conftest import FrontDoor
from tests.api.identities import id_token
from tests.local.test_serving import BROKEN, EVIL, status
from tests.pubsub import new_project, real_emulator

TABLE = (ROOT / "docs" / "security.md").read_text().partition("## Who may call what")[2]
ROUTES = sorted(
    (method, rule.rule) for rule in application().url_map.iter_rules() for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
)
ADA = {"Authorization": id_token(email="ada@example.com")}
SAMPLES = {"revision": "1", "verb": "stop"}


def path_of(route: str) -> str:
    """A path of the route."""
    return re.sub(r"<(?:\w+:)?(\w+)>", lambda name: SAMPLES.get(name[1], "n1"), route)


def described() -> dict[tuple[str, str], str]:
    """(method, route) → right, as the table says."""
    rows = re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| (\w+) \|$", TABLE, re.M)
    return {(method, route): right for method, route, right in rows}


def test_every_route_has_a_row_that_says_its_right() -> None:
    assert described() == {(method, route): needed(method, route) for method, route in ROUTES}


@pytest.fixture(scope="module")
def doors() -> Iterator[dict[str, Any]]:
    """Both entries of the api, where Cloud Run verifies callers."""
    telemetry.write_to(None)
    door = FrontDoor(identity="cloud-run")
    door.declares({"n1": {"rack": "r7"}})
    door.has_nodes(n1={"zone": "a"})
    source = str(steps.load().steps["api_reader"].source)
    yield {name: functions_framework.create_app(name, source).test_client() for name in ("api", "api_reader")}
    wiring.install(None)


def asked(client: Any, method: str, route: str, headers: dict[str, str]) -> int:
    return int(client.open(path_of(route), method=method, headers=headers).status_code)


@pytest.mark.parametrize("prefix", ["", "/api"])
@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_a_reader_reads_and_changes_nothing(doors: dict[str, Any], method: str, route: str, prefix: str) -> None:
    answered = asked(doors["api_reader"], method, prefix + route, ADA)
    assert (answered == 403) == (needed(method, route) == "changing")
    assert asked(doors["api"], method, prefix + route, ADA) != 403


@pytest.mark.parametrize("name", ["api", "api_reader"])
@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_a_caller_that_nothing_vouches_for_gets_nothing(doors: dict[str, Any], method: str, route: str, name: str) -> None:
    forged = {"Authorization": id_token(email="ada@example.com", signature="x"), "X-Goog-Authenticated-User-Email": "x:ada@example.com"}
    assert [asked(doors[name], method, route, headers) for headers in ({}, forged)] == [401, 401]


@pytest.mark.parametrize(("method", "route"), [each for each in ROUTES if needed(*each) == "changing"])
def test_a_page_of_another_site_changes_nothing(doors: dict[str, Any], method: str, route: str) -> None:
    for origin in ("https://evil.example", "null"):
        assert asked(doors["api"], method, route, {**ADA, "Origin": origin}) == 403


def test_a_head_is_no_way_around(doors: dict[str, Any]) -> None:
    for override in ("X-HTTP-Method-Override", "X-Method-Override"):
        assert asked(doors["api_reader"], "POST", "/v1.0/commitconfigdocs", {**ADA, override: "GET"}) == 403


# --- serve --bus pubsub, as processes


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCloud]:
    with real_emulator():
        there = os.environ.pop("PUBSUB_EMULATOR_HOST")
        try:
            settings = Settings(store=f"file:{tmp_path_factory.mktemp('store')}", project=new_project())
            with RealCloud(settings, person="ada", say=lambda _: None) as running:
                yield running
        finally:
            os.environ["PUBSUB_EMULATOR_HOST"] = there


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
"""127.0.0.1 as /proc writes it, on a little-endian machine; as IPv4 and mapped into IPv6."""


def listening(groups: set[int]) -> set[tuple[str, int]]:
    """The TCP addresses and ports that processes of these groups listen on."""
    sockets: dict[str, tuple[str, int]] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                address, _, port = fields[1].rpartition(":")
                sockets[f"socket:[{fields[9]}]"] = address, int(port, 16)
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) in groups:
                found |= {sockets[link] for fd in (process / "fd").iterdir() if (link := os.readlink(fd)) in sockets}
        except OSError:
            continue  # it has ended
    return found


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="ports are read from /proc")
def test_every_port_that_serve_opens_has_its_row(cloud: RealCloud) -> None:
    emulator = cloud.emulator
    assert emulator is not None
    functions = listening({process.pid for process in cloud.functions.values()})
    its_own = listening({emulator.pid})
    assert {port for _, port in functions} == {process.port for process in cloud.functions.values()}
    assert {address for address, _ in functions | its_own} <= LOOPBACK
    assert int(emulator.host.rpartition(":")[2]) in {port for _, port in its_own}
    assert len(its_own) == 2
    assert "| `serve --bus pubsub`: Pub/Sub emulator (two ports: the second is its gRPC server, behind the first) |" in TABLE
    assert "| `serve --bus pubsub`: every other function |" in TABLE
    assert f"| `serve --bus pubsub`: {', '.join(f'`{n}`' for n, s in steps.load().steps.items() if s.http)} |" in TABLE


@pytest.mark.real
@pytest.mark.parametrize("name", list(steps.load().steps))
def test_every_process_of_serve_refuses_strangers(cloud: RealCloud, name: str) -> None:
    port, step = cloud.functions[name].port, steps.load().steps[name]
    secret = f"?run={cloud.functions[name].secret}"
    path = "/v1.0/actions" if step.http else f"/projects/{cloud.settings.project}/topics/{step.topics[0]}{secret}"
    assert [status(port, "POST", path, headers) for headers in EVIL] == [403] * 3
    assert [status(port, "POST", path, headers) for headers in BROKEN] == [400] * len(BROKEN)
    if not step.http:
        assert status(port, "POST", path.removesuffix(secret)) == 403


@pytest.mark.real
def test_the_readers_process_changes_nothing_and_the_other_says_who_serves(cloud: RealCloud) -> None:
    reader, api = cloud.functions["api_reader"].port, cloud.functions["api"].port
    for method, route in ROUTES:
        if needed(method, route) == "changing":
            assert status(reader, method, path_of(route)) == 403
    assert status(reader, "GET", "/v1.0/actions") == 200
    assert status(api, "POST", "/v1.0/commitconfigdocs") == 409
