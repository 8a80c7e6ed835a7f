"""Every command that works on the cloud prints the same against a server as against the embedded cloud.

One seed, two stores; a day at the keyboard on each; then what was printed is compared command by command.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from local.cli import client, main
from local.cli.cloud import service
from local.cli.inputs import who
from local.cloud.clock import Clock
from local.cloud.server import EmbeddedServer
from local.steps import ROOT
from shared import telemetry, wiring
from shared.adapters.store import open_store
from shared.domain.actions import ActionOutcome, ActionRequest
from shared.ledger.actions import Actions
from shared.world import Settings

SITE = ROOT / "examples" / "site"
NODES = ROOT / "examples" / "nodes.json"
AT = "2026-11-21T12:00:00Z"
NEVER, PAUSED, WAITING, UPDATED, LOST = (f"01M7ZBXTWV1ZFW0GSK0VTJ4ER{number}" for number in range(5))
"""Ids: of no action; of two that were paused; of an update of versions; of one that ended before its plan."""
SOON = f"{datetime.now(UTC) + timedelta(days=60):%Y-%m-%dT00:00:00Z}"
FLEET = """
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata: {name: metal}
spec:
  kubernetes:
    versions:
    - {version: 1.33.2, classification: supported}
    - {version: 1.32.9, classification: supported, expirationDate: "2026-12-24T00:00:00Z"}
  machineTypes: [{name: m1}]
  machineImages:
  - {name: gardenlinux, updateStrategy: minor, versions: [{version: 1443.10.0, architectures: [amd64]}]}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: shop, namespace: garden-shop}
spec:
  cloudProfile: {kind: CloudProfile, name: metal}
  kubernetes: {version: 1.32.9}
  maintenance: {timeWindow: {begin: 220000+0000, end: 230000+0000}}
  provider:
    workers:
    - {name: a, machine: {type: m1, image: {name: gardenlinux, version: 1443.10.0}}}
"""
FILES = {
    "fleet.yaml": FLEET,
    "edited.yaml": FLEET.split("---", maxsplit=1)[0].replace("1.33.2", "1.34.0"),
    "broken.yaml": "apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {name: x}\nspec: {labels: {'bad key': 1}}\n",
    "gpu.json": '{"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": ["gpu01", "cp01"]}]}',
    "nobody.json": '{"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": ["nobody"]}]}',
    "all.json": "null",
    "crooked.json": '{"filter_set_type": "some"}',
    "twice/a/fleet.yaml": FLEET,
    "twice/b/fleet.yaml": FLEET,
}


def both(*words: str) -> list[tuple[str, ...]]:
    """The command as a table and as JSON."""
    return [words, (*words, "-o", "json")]


BEFORE_A_COMMIT = [
    *both("documents", "list"),
    *both("actions", "list"),
    *both("documents", "commit"),
    *both("documents", "show", "1"),
    *both("plan"),
    *both("relabel", "--all"),
    *both("versions", "list"),
    ("versions", "why", "shop"),
    ("documents", "stage", "-f", "broken.yaml", "-c", "more"),
    *both("documents", "commit"),
    ("documents", "stage", "-f", "fleet.yaml", "-c", "more"),
    ("documents", "stage", "-f", str(SITE), "-o", "json"),
    *both("documents", "list"),
]
COMMITTED = [
    *both("documents", "commit", "--dry-run"),
    ("documents", "commit", "--message", "the first of it", "--source", "https://git.example.com/halden"),
    *both("documents", "list"),
    *both("documents", "show", "1"),
    *both("documents", "show", "7"),
    *both("documents", "tag", "7", "reviewed"),
    *both("plan", "--target", "cp01,gpu01, compute17"),
    *both("plan", "--target", "cp01,ghost1,ghost2"),
    *both("plan", "--target", " , "),
    *both("plan", "--filter", "gpu.json"),
    *both("plan", "--filter", "nobody.json"),
    *both("plan", "--filter", "all.json"),
    *both("plan", "--filter", "crooked.json"),
    *both("plan", "--impact", "--target", "cp01,gpu01"),
    *both("plan", "--cluster", "nowhere"),
    *both("plan", "--server-version", "1.17.3", "--target", "cp01"),
    *both("plan", "--nodes", str(NODES), "--target", "cp01"),
    *both("plan", "--released"),
    *both("plan", "--released", "--target", "ghost1"),
    *both("plan", "--released", "--server-version", "1.17.3"),
    *both("plan", "--summary"),
    *both("plan"),
    ("plan", "--target", "gpu01", "--out", "plan.json"),
    *both("relabel", "cp01"),
    *both("relabel", "--all", "--cluster", "nowhere"),
    *both("relabel", "--all", "--dry-run"),
    *both("relabel", "--all"),
    *both("relabel", "--plan", "plan.json"),
    *both("relabel", "--plan", "plan.json", "--dry-run"),
    *both("relabel", "--plan", "plan.json", "--all"),
    *both("relabel", "--plan", "plan.json", "cp01"),
    *both("plan"),
    *both("plan", "--released"),
    *both("nodes"),
    *both("nodes", "cp01,gpu01", "--labels"),
    *both("nodes", "ghost1", "cp01"),
    *both("nodes", "--out-of-sync"),
    *both("explain", "gpu01"),
    *both("explain", "gpu01", "accelerator"),
    *both("explain", "gpu01", "nobody.example.com/has-it"),
    *both("explain", "ghost1"),
    *both("history", "gpu01"),
    *both("history", "gpu01", "--look-back", "1"),
    *both("history", "gpu01", "--cluster", "nowhere"),
    *both("nodes", "--cluster", "nowhere"),
    *both("relabel", "cp01", "compute17"),
    *both("relabel", "--filter", "gpu.json"),
    *both("relabel", "--filter", "nobody.json"),
    ("relabel", "cp01", "--wait", "-o", "yaml"),
    *both("relabel", "ghost1,ghost2"),
    *both("documents", "tag", "1", "reviewed"),
    *both("documents", "tag", "1", "re/viewed"),
]
CHANGED = [
    ("documents", "stage", "-f", "halden.yaml"),
    *both("documents", "list"),
    ("documents", "commit", "-o", "json"),
    *both("documents", "diff", "1", "2"),
    *both("documents", "diff", "1", "9"),
    *both("documents", "diff", "1", "2", "-c", "more"),
    *both("documents", "diff", "1", "2", "-c", "none"),
    *both("documents", "diff", "1", "2", "--cluster", "nowhere"),
    *both("documents", "show", "2", "-c", "more"),
    *both("documents", "show", "2", "-c", "none"),
    ("documents", "stage", "-f", "twice/a", "-f", "twice/b", "-c", "twice"),
    *both("relabel", "--plan", "plan.json"),
    *both("plan"),
    *both("plan", "--released"),
    *both("nodes", "gpu01", "gpu02"),
    *both("relabel", "gpu01"),
    *both("nodes", "gpu01", "gpu02"),
    *both("versions", "list", "--now", AT),
    *both("versions", "list", "--live", "--now", AT),
    *both("versions", "plan", "--now", AT),
    *both("versions", "plan", "--all", "--now", AT),
    *both("versions", "plan", "--kind", "auto", "--cluster", "garden-*/*", "--now", AT),
    *both("versions", "calendar", "--now", AT),
    *both("versions", "calendar", "--cluster", "shop", "--now", AT),
    *both("versions", "impact", "--profile", "edited.yaml", "--now", AT),
    *both("versions", "impact", "--profile", "edited.yaml", "--fleet", "nowhere", "--now", AT),
    *both("versions", "impact", "--profile", "broken.yaml", "--now", AT),
    *both("versions", "calendar", "--days", "10", "--now", AT),
    ("versions", "calendar", "-o", "ics", "--now", AT),
    *both("versions", "why", "shop", "--now", AT),
    *both("versions", "why", "garden-shop/shop", "--now", AT),
    *both("versions", "why", "no/body", "--now", AT),
    *both("versions", "defer", "shop", "--until", SOON, "--reason", "quarter-end"),
    *both("versions", "defer", "no/body", "--until", SOON, "--reason", "quarter-end"),
    *both("versions", "defer", "shop", "--until", "2020-01-01T00:00:00Z", "--reason", "quarter-end"),
    *both("versions", "defer", "shop"),
    *both("versions", "deferrals"),
    *both("versions", "defer", "garden-shop/shop", "--cancel"),
    *both("versions", "deferrals"),
]
RESTORED = [
    *both("documents", "remove", "nothing"),
    ("documents", "remove", "more"),
    *both("documents", "list"),
    *both("documents", "commit", "--dry-run"),
    ("documents", "commit", "-m", "no versions any more"),
    ("documents", "remove", "default"),
    *both("documents", "commit", "--dry-run", "--accept-removals", "2"),
    ("documents", "commit", "-m", "no policies any more", "-o", "json"),
    *both("relabel", "--all"),
    *both("relabel", "--all", "--accept-removals", "2", "--accept-takeovers", "0", "--accept-changes", "0"),
    *both("relabel", "--all", "--accept-removals", "some"),
    *both("relabel", "--all", "--dry-run"),
    *both("versions", "plan", "--now", AT),
    *both("documents", "restore", "9"),
    ("documents", "restore", "2", "-m", "back", "-o", "json"),
    ("documents", "restore", "1"),
    *both("documents", "list"),
    *both("documents", "untag", "3", "rejected"),
    *both("documents", "untag", "1", "site-action-failure"),
    ("documents", "untag", "4", "rejected"),
    ("documents", "tag", "5", "rejected"),
    *both("relabel", "--all"),
    *both("relabel", "gpu01"),
    *both("documents", "untag", "5", "re/viewed"),
    ("documents", "untag", "5", "rejected"),
    *both("documents", "diff", "3", "4"),
]
STEERED = [
    *both("actions", "watch", PAUSED),
    *both("actions", "watch", WAITING),
    *both("actions", "pause", PAUSED),
    ("actions", "unpause", PAUSED, "-o", "json"),
    *both("actions", "show", PAUSED),
    ("actions", "stop", WAITING, "-o", "json"),
    *both("actions", "show", WAITING),
    *both("actions", "stop", WAITING),
    *both("actions", "retry", WAITING),
    *both("actions", "retry", UPDATED),
    *both("actions", "retry", LOST),
    *(each for verb in ("show", "watch", "stop", "pause", "unpause", "retry") for each in both("actions", verb, NEVER)),
    ("actions", "show", "../health"),
    *both("actions", "list", "--limit", "5"),
    *both("actions", "list"),
]


class Printed(NamedTuple):
    """What a command printed, with ids and times masked."""

    code: int
    out: str
    err: str


MASKS = [
    (re.compile(r"01M7ZBXTWV1ZFW0GSK0VTJ4ER(\d)"), r"SEED\1"),
    (re.compile(r"[0-9A-HJKMNP-TV-Z]{26}"), "ID"),
    (re.compile(r"\d{4}-\d{2}-\d{2}T[\d:.]+(\+00:00)?|\d{4}-\d{2}-\d{2} \d{2}:\d{2} UTC"), "TIME"),
    (re.compile(r"(?<=\s)\d+[smh](?=\s)"), "AGE"),
    (re.compile(r" +"), " "),
    (re.compile(r"going on with action SEED\d, which an earlier command left open\n"), ""),
]


def masked(text: str) -> str:
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def ran(words: tuple[str, ...], server: str = "") -> Printed:
    """The command as a process of its own would run it; versions are asked for one moment, which is no clock's business."""
    service.cache_clear()
    os.environ["HULLMARK_SERVER"] = ""
    out, err = io.TextIOWrapper(io.BytesIO(), newline=""), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ending:
        main([*words, *(["--server", server] if server else [])])
    out.flush()
    printed = out.buffer.getvalue().decode()  # some of it is written as bytes
    keep = (lambda text: text) if words[:1] == ("versions",) and "defer" not in words[1] else masked
    return Printed(int(ending.value.code or 0), keep(printed), masked(err.getvalue()))


def seeded(store: str) -> None:
    """Actions that others left behind: paused, or ended in other ways."""
    ledger, now = Actions(open_store(store)), datetime.now(UTC)

    def asked(action: str, name: str = "update_labels", **fields: list[str]) -> None:
        late = datetime(2040, 1, 1, tzinfo=UTC)
        request = ActionRequest(
            id=action, name=name, cluster="default", revision=2, requested_by="a colleague", requested_at=now, deadline=late, **fields
        )
        ledger.accept(request)

    for action in (PAUSED, WAITING):
        asked(action, target_nodes=["cp02", "compute17"])
        ledger.control(action, "pause", "a colleague", now)
    for action, name in ((UPDATED, "update_versions"), (LOST, "update_site")):
        asked(action, name)
        ledger.end(action, ActionOutcome(result="failure", finished_at=now, revision=2, reason="Unavailable", message="no cluster"))


Day = list[tuple[tuple[str, ...], Printed]]


def a_day(folder: Path, server: EmbeddedServer | None) -> Day:
    """Every command in turn, on a server or (none given) alone."""
    url = server.url if server else ""
    printed: Day = [(words, ran(words, url)) for words in (*BEFORE_A_COMMIT, *COMMITTED, *CHANGED, *RESTORED)]
    seeded(f"file:{folder / 'store'}")
    if server:
        server.cloud.resume(PAUSED, WAITING)  # a command alone goes on with them by itself
        server.cloud.drain()
    return printed + [(words, ran(words, url)) for words in STEERED]


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Day, Day]]:
    """The day alone, and the day with a server."""
    telemetry.write_to(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "PAGE", 7)  # 28 nodes are several pages
        patch.setattr(Clock, "tick", lambda *_: None)  # the hour's sweep would be an action more, on one side
        patch.setenv("HULLMARK_SERVER", "")  # the command's own option sets it: it goes with this fixture
        yield (one_day(tmp_path_factory.mktemp("alone"), patch, serve=False), one_day(tmp_path_factory.mktemp("served"), patch, serve=True))
    service.cache_clear()
    wiring.install(None)


def one_day(folder: Path, patch: pytest.MonkeyPatch, *, serve: bool) -> Day:
    patch.chdir(folder)
    edited = (SITE / "halden.yaml").read_text().replace("      accelerator: hopper\n", "")
    for name, text in {**FILES, "halden.yaml": edited}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    settings = {"HULLMARK_STORE": f"file:{folder / 'store'}", "HULLMARK_CLUSTER": f"simulated:{NODES}"}

    with environment(patch, {} if serve else settings):
        if not serve:
            return a_day(folder, None)
        served = Settings(store=settings["HULLMARK_STORE"], cluster=settings["HULLMARK_CLUSTER"])
        with EmbeddedServer(served, 0, who(), lambda _: None) as running:
            return a_day(folder, running)


@contextlib.contextmanager
def environment(patch: pytest.MonkeyPatch, values: Mapping[str, str]) -> Iterator[None]:
    """With a server, the command line knows neither the store nor the cluster."""
    for name in ("HULLMARK_STORE", "HULLMARK_CLUSTER"):
        patch.delenv(name, raising=False)
    for name, value in values.items():
        patch.setenv(name, value)
    yield


COMMANDS = [*BEFORE_A_COMMIT, *COMMITTED, *CHANGED, *RESTORED, *STEERED]


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=[" ".join(words) for words in COMMANDS])
def test_a_command_prints_the_same_for_a_server(days: tuple[Day, Day], number: int) -> None:
    (words, alone), (_, served) = (day[number] for day in days)
    assert words == COMMANDS[number]
    assert served == alone


def test_the_day_is_one_of_work_and_not_of_errors(days: tuple[Day, Day]) -> None:
    codes = [(" ".join(words), said.code) for words, said in days[1] if words[:1] in (("plan",), ("relabel",), ("versions",))]
    succeeded = {words for words, code in codes if code != 1}
    assert {"plan", "plan --filter gpu.json -o json", "relabel --all", "relabel --filter gpu.json", "relabel gpu01"} <= succeeded
    assert {f"versions {which} --now {AT}" for which in ("list", "plan", "calendar", "why shop")} <= succeeded
    assert [code for words, code in codes if words == "plan --released"] == [0, 0, 0], "nothing released yet; in sync; no drift for an edit"
    assert [code for words, code in codes if words == "relabel --plan plan.json"] == [0, 5], "nothing to do any more; another revision"
    every_plan = [code for words, code in codes if words == "plan"]
    assert every_plan == [1, 2, 0, 2], "no revision; everything pending; all in sync after the relabel, seen from outside; an edit"
