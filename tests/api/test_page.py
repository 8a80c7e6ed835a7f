"""The page in a real browser: what is on it, at phone and desktop width, light and dark."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import functions_framework
import pytest
import yaml
from playwright.sync_api import Browser, Page, sync_playwright
from werkzeug.serving import make_server

from local import steps
from shared import telemetry, wiring
from shared.ports import Refused
from shared.work.holds import pause
from shared.work.rollouts import nudge, start
from tests.api.conftest import FrontDoor
from tests.conftest import require_real
from tests.rollouts.rolling import CANARY, HALF, a_rollout
from tests.stories.fleet import a_policy

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
SHOTS = os.environ.get("HULLMARK_SCREENSHOTS", "")
"""A folder to keep the pictures in."""
LOOKS: list[tuple[int, Literal["light", "dark"]]] = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]

VERSIONS = """
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata: {name: halden}
spec:
  kubernetes:
    versions:
    - {version: 1.34.2, classification: supported}
    - {version: 1.33.6, classification: deprecated, expirationDate: "2026-12-20T00:00:00Z"}
    - {version: 1.32.9, classification: deprecated, expirationDate: "2026-11-25T00:00:00Z"}
  machineTypes: [{name: m5.large}]
  machineImages:
  - {name: gardenlinux, updateStrategy: minor, versions: [{version: 1443.10.0}]}
---
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata: {name: north, namespace: garden-halden}
spec:
  cloudProfile: {kind: CloudProfile, name: halden}
  kubernetes: {version: 1.33.6}
  provider:
    workers:
    - {name: a, machine: {type: m5.large, image: {name: gardenlinux, version: 1443.10.0}}}
"""

CONTRAST = """() => {
  const luminance = ([r, g, b]) => {
    const part = [r, g, b].map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const [r, g, b, a] = rgb(getComputedStyle(element).backgroundColor);
      if (a === undefined || a > 0) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || !element.offsetParent) continue;
    const [light, dark] = [luminance(rgb(getComputedStyle(element).color)), luminance(behind(element))].sort((a, b) => b - a);
    found.push({text: text.slice(0, 40), ratio: (light + 0.05) / (dark + 0.05)});
  }
  return found;
}"""


HEADINGS = """() => {
  const levels = [...document.querySelectorAll('h1, h2, h3, h4')].filter(each => each.offsetParent).map(each => Number(each.tagName[1]));
  const wrong = levels.filter((level, n) => n ? level > levels[n - 1] + 1 || level === 1 : level !== 1);
  return levels.length ? wrong : ['none'];
}"""
NAMELESS = """() => {
  const all = selector => [...document.querySelectorAll(selector)];
  const heads = all('th').filter(each => !each.scope);
  const fields = all('input:not([type=hidden]), textarea, progress').filter(each => !(each.labels.length || each.ariaLabel));
  const links = all('a, button').filter(each => !each.textContent.trim());
  const twice = all('[id]').filter((each, n, every) => every.findIndex(other => other.id === each.id) !== n);
  return [...heads, ...fields, ...links, ...twice].map(each => each.outerHTML.slice(0, 80));
}"""


BOTTOM = "document.querySelector('#out-of-sync').getBoundingClientRect().bottom"
"""Where the causes end, in pixels from the top."""


@dataclass
class Site:
    """A fleet with a bit of everything, and where its page is."""

    door: FrontDoor
    url: str
    failed: str
    open: str


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require_real("Chromium", CHROMIUM, "apt-get install chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


@pytest.fixture
def site(whole_site: Site) -> Site:
    """The site, served whichever other world a test has installed in between."""
    wiring.install(whole_site.door.world)
    return whole_site


@pytest.fixture(scope="module")
def whole_site() -> Iterator[Site]:
    telemetry.write_to(None)
    door = FrontDoor()
    nodes = {f"compute{number:02}": {"zone": "a"} for number in range(1, 13)}
    door.has_nodes(**nodes)
    zone = "openstack-availability-zone.halden.example.com/zone"
    door.cluster.set_labels("compute05", {zone: "by-hand"}, manager="a-colleague-with-kubectl")
    door.cluster.set_labels("compute06", {zone: "by-hand"}, manager="a-colleague-with-kubectl")
    others = [name for name in nodes if name != "compute06"]
    door.commits(
        a_policy("zones", {"names": [*nodes, "compute17"]}, {zone: "north-1"}, onConflict="skip"),
        a_policy("pools", {"names": others}, {"halden.example.com/pool": "general"}),
        a_policy("strict", {"names": ["compute05"]}, {zone: "north-1"}, onConflict="fail", priority=5),
    )
    ada = {"REMOTE_USER": "ada.lovelace@halden.example.com"}
    failed = door.post("/v1.0/actions", {"name": "update_site"}, environ_overrides=ada).json["id"]
    door.cloud.drain()
    door.now += timedelta(hours=2)
    door.create(target_nodes=["compute01", "compute02"])
    door.cloud.drain()
    door.now += timedelta(minutes=7)
    door.create(target_nodes=["compute01"], dry_run=True)
    door.cloud.drain()
    door.commits(
        a_policy("zones", {"names": [*nodes, "compute17"]}, {zone: "north-2"}, onConflict="skip"),
        *yaml.safe_load_all(VERSIONS),
        adopted=False,
    )
    door.now += timedelta(hours=3)
    waiting = door.post("/v1.0/actions", {"name": "update_labels", "parameters": {"target_nodes": [*nodes]}}, environ_overrides=ada).json[
        "id"
    ]
    door.post(f"/v1.0/actions/{waiting}/control/pause")
    door.cloud.drain()
    door.world.releases.override("default", "compute12", {}, "a person", door.now)
    door.now += timedelta(seconds=40)

    with served(door.app) as url:
        yield Site(door, url, failed, waiting)
    wiring.install(None)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address at which a browser finds the page."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def large() -> Iterator[str]:
    """5,000 nodes: the canary is through, of the second stage forty nodes refused the write, and the fleet is paused."""
    telemetry.write_to(None)
    door = FrontDoor()
    names = [f"compute{number:04}" for number in range(5000)]
    door.has_nodes(**{name: {} for name in names})
    stages = (
        {"name": "canary", "nodes": {"names": names[:10]}, "soak": "10m"},
        {"name": "row", "nodes": {"names": names[:2500]}, "maxInFlight": 500, "soak": "2h", "approval": "after"},
    )
    door.commits(a_policy("tiers", {}, {"tier": "new"}), a_rollout(*stages, stopWhen={"failed": "2%"}), adopted=False)

    def refuse(call: str, node: str) -> None:
        if call == "apply_labels" and node in names[100:140]:
            raise Refused("Forbidden", "nodes is forbidden: the admission webhook says no")

    door.cluster.before = refuse
    rollout = start("careful", "ada.lovelace@halden.example.com", door.world, door.now).id
    door.cloud.drain()
    door.now += timedelta(minutes=10)
    nudge(rollout, door.world)
    door.cloud.drain()
    door.now += timedelta(minutes=42)
    pause("the switches of row 7 are exchanged", "grace.hopper@halden.example.com", door.world, door.now)
    door.now += timedelta(minutes=5)
    with served(door.app) as url:
        yield url
    wiring.install(None)


def test_a_rollout_over_5000_nodes_shows_its_stages_what_it_waits_for_and_why_nodes_failed(large: str, browser: Browser) -> None:
    for width, scheme in LOOKS:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        page.goto(large)
        looked_at(page, "rollouts")
        if width == 1280:
            assert page.evaluate(BOTTOM) < 800, "the answer is above the fold"
        assert page.locator(".tiles li").all_inner_texts()[:2] == ["2460\nin sync", "40\nfailed"]
        assert page.locator("a[href*='/nodes/']").count() == 25, "of forty nodes the first few, closed"
        assert "paused by grace.hopper@halden.example.com" in page.inner_text("#paused")
        stages = [" ".join(row.split()) for row in page.locator("#rollouts tbody tr").all_inner_texts()]
        for row, told in zip(stages, ("10 of 10 done", "2490 of 2490 done", "0 of 2500 done"), strict=True):
            assert told in row
        assert "40 (49 may)" in stages[1]
        waits = page.inner_text(".waits")
        for told in ("Paused", "the switches of row 7"):
            assert told in waits
        causes = page.inner_text(".causes")
        for told in ("row: 40 nodes Forbidden (compute0", "the admission webhook says no"):
            assert told in causes
        page.click(".waits a")
        assert page.url == f"{large}/reasons/Paused"
        assert "hullmark resume" in looked_at(page, "reason")
        context.close()


@pytest.fixture
def two_doors(door: FrontDoor) -> Iterator[tuple[FrontDoor, str, str]]:
    """Ten nodes and no rollout; the addresses of writers and of readers."""
    door.has_nodes(**{f"n{number}": {} for number in range(10)})
    reading = functions_framework.create_app("api_reader", str(steps.load().steps["api_reader"].source))
    with served(door.app) as writers, served(reading) as readers:
        yield door, writers, readers


def waits_for_an_approval(door: FrontDoor) -> str:
    """A rollout whose canary has soaked."""
    door.commits(a_policy("tiers", {}, {"tier": "new"}), a_rollout(CANARY, HALF), adopted=False)
    rollout = start("careful", "ada", door.world, door.now, supersede=True).id
    door.cloud.drain()
    door.now += timedelta(minutes=10)
    nudge(rollout, door.world)
    door.cloud.drain()
    return rollout


def test_a_writer_presses_each_button_and_sees_what_it_came_to(two_doors: tuple[FrontDoor, str, str], page: Page) -> None:
    door, writers, _ = two_doors
    rollout = waits_for_an_approval(door)

    page.goto(writers)
    page.get_by_role("button", name="Pause").click()
    assert "Nothing more opens" in looked_at(page, "press")
    page.get_by_role("button", name="Pause").click()
    assert page.url.rstrip("?") == f"{writers}/rollouts/{rollout}/pause", "the browser asks for the reason"
    page.get_by_label("Why").fill("the night shift <b>asks</b>")
    page.get_by_role("button", name="Pause").click()
    assert page.url == f"{writers}/rollouts/{rollout}?told=pause"
    assert "Paused by unauthenticated: the night shift <b>asks</b>" in looked_at(page, "pressed")

    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Resume").click()
    assert "It goes on." in page.inner_text("#told")

    page.get_by_role("button", name="Approve half").click()
    looked_at(page, "approve")
    page.get_by_role("button", name="Approve half").click()
    assert "Stage half is approved" in page.inner_text("#told")
    door.cloud.drain()
    page.reload()
    assert "5 of 5 done" in page.inner_text(".rollout")

    page.get_by_role("button", name="Revert").click()
    page.get_by_role("button", name="Revert").click()
    door.cloud.drain()
    assert "is rejected" in page.inner_text("#told")
    assert door.world.rollouts.get(rollout).phase == "reverted"


def test_a_reader_sees_each_button_disabled_with_the_reason(two_doors: tuple[FrontDoor, str, str], page: Page) -> None:
    waits_for_an_approval(two_doors[0])
    page.goto(two_doors[2])
    for name in ("Approve half", "Pause", "Revert"):
        assert page.get_by_role("button", name=name).is_disabled()
    assert "ReadsOnly" in looked_at(page, "reader")


PRESS_ANYWAY = """button => {
  button.form.querySelectorAll('[disabled]').forEach(field => field.disabled = false);
  button.form.submit();
}"""


def test_a_reader_who_presses_a_disabled_button_anyway_is_refused(two_doors: tuple[FrontDoor, str, str], browser: Browser) -> None:
    door, _, readers = two_doors
    rollout = waits_for_an_approval(door)
    page = browser.new_context().new_page()
    for verb in ("approve", "pause", "revert"):
        page.goto(f"{readers}/rollouts/{rollout}/{verb}")
        button = page.locator("#press button")
        assert button.is_disabled()
        with page.expect_navigation() as answered:
            button.evaluate(PRESS_ANYWAY)
        assert answered.value.status == 403
        assert "read-only" in looked_at(page, "refused")
    assert door.world.rollouts.get(rollout).phase == "running"
    page.context.close()


def test_a_page_of_another_site_has_its_form_refused(two_doors: tuple[FrontDoor, str, str], browser: Browser) -> None:
    door, writers, readers = two_doors
    rollout = waits_for_an_approval(door)
    page = browser.new_context().new_page()
    evil = f'<form method="post" action="{writers}/rollouts/{rollout}/revert"><button>You have won</button></form>'
    page.route("**/evil.html", lambda route: route.fulfill(body=evil, content_type="text/html"))
    for elsewhere in (readers, "http://localhost:1"):
        page.goto(f"{elsewhere}/evil.html")
        with page.expect_navigation() as answered:
            page.click("button")
        assert answered.value.status == 403
    assert door.world.rollouts.get(rollout).phase == "running"
    page.context.close()


@pytest.fixture(params=LOOKS, ids=[f"{width}-{scheme}" for width, scheme in LOOKS])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=True)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("requestfailed", lambda asked: complaints.append(asked.url))
    yield opened
    context.close()
    assert complaints == []


def looked_at(page: Page, name: str) -> str:
    """What every page must be: no wider than the screen, readable; its visible text."""
    if SHOTS:
        size = page.viewport_size or {"width": 0}
        scheme = "dark" if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light"
        page.screenshot(path=str(Path(SHOTS) / f"{name}-{size['width']}-{scheme}.png"), full_page=True)
    page.wait_for_load_state("load")  # a page that moves loads itself anew
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), "wider than the screen"
    faint: list[Any] = [each for each in page.evaluate(CONTRAST) if each["ratio"] < 4.5]
    assert faint == [], "WCAG AA wants a contrast of 4.5"
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate(HEADINGS) == [], "headings in order, one h1"
    assert page.evaluate(NAMELESS) == [], "each table's header says what it heads, each field has a name"
    return page.inner_text("body")


def test_the_page_shows_what_is_out_of_sync_and_why_what_runs_and_what_happened(site: Site, page: Page) -> None:
    page.goto(site.url)
    text = looked_at(page, "index")
    out_of_sync = page.inner_text("#out-of-sync")
    for told in ("compute17", "missing", "NodeNotFound", "compute05", "failed", "a-colleague-with-kubectl", "compute06", "skipped"):
        assert told in out_of_sync
    assert "compute01" not in out_of_sync
    assert "3 nodes out of sync" in text
    tiles = page.locator(".tiles").first.inner_text().split("\n")
    assert dict(zip(tiles[1::2], tiles[::2], strict=True)) == {
        "in sync": "10",
        "failed": "1",
        "missing": "1",
        "skipped": "1",
        "waiting": "0",
    }
    assert "2\nnewest revision, waits to be released" in text
    releases = " ".join(page.inner_text("#releases tbody").split())
    assert releases == "default revision 1 11 nodes at revision 2, 1 override revision 2 committed 3 h ago"
    running = page.inner_text("#running")
    assert "Paused" in running
    assert "ada.lovelace@halden.example.com" in running
    recent = page.inner_text("#recent")
    for told in ("update_site", "partial success", "update_labels", "dry run", "5 h ago", "1 missing"):
        assert told in recent
    versions = page.inner_text("#versions")
    for told in ("kubernetes 1.32.9", "in 3 days", "not in use", "kubernetes 1.33.6", "in 28 days", "in 1 place"):
        assert told in versions
    assert "1.34.2" not in versions
    coming = page.inner_text("#coming")
    for told in ("garden-halden/north", "kubernetes", "1.33.6 → 1.34.2", "forced", "2026-12-20 00:00 UTC"):
        assert told in coming
    assert "1\nversion in use expires within 90 days" in text


def test_the_versions_of_the_fleet_have_a_page_and_each_cluster_one(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/versions")
    looked_at(page, "versions")
    assert "1.33.6 → 1.34.2" in page.inner_text("#coming")
    page.click("#coming a")
    assert "runs Kubernetes 1.33.6, which expires on" in looked_at(page, "version")


def test_an_action_has_a_page_of_its_own(site: Site, page: Page) -> None:
    page.goto(site.url)
    page.click("#recent a:has-text('update_site')")
    assert page.url == f"{site.url}/actions/{site.failed}"
    text = looked_at(page, "action")
    who, label = "ada.lovelace@halden.example.com", "halden.example.com/pool=general"
    for told in (site.failed, who, "partial success", "compute17", "Changed: 10", label):
        assert told in text
    assert f"hullmark actions retry {site.failed}" in text
    page.click("header a")
    assert page.url == f"{site.url}/"


def test_a_node_has_a_page_that_says_why_it_has_its_labels_and_what_happened_to_it(site: Site, page: Page) -> None:
    page.goto(site.url)
    page.click("#out-of-sync a:has-text('compute05')")
    assert page.url == f"{site.url}/nodes/compute05"
    text = looked_at(page, "node")
    for told in ("out of sync", "revision 2", "Labels of others: 1"):
        assert told in text
    page.goto(f"{site.url}/nodes/compute02")
    looked_at(page, "node")
    pool = page.inner_text("#labels tr:has-text('halden.example.com/pool')")
    for told in ("hullmark", "update_site", "ada.lovelace@halden.example.com"):
        assert told in pool
    past = page.inner_text("#history")
    for told in ("revision 2 released", "halden.example.com/pool=general", "update_site"):
        assert told in past


def test_an_action_that_has_not_ended_shows_its_progress(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/actions/{site.open}")
    text = looked_at(page, "running")
    assert "2 of 12 nodes" in text
    assert "pause" in text
    assert page.get_attribute("progress", "value") == "2"


def test_everything_works_without_scripts_and_under_airships_prefix(site: Site, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.url}/api/")
    page.click("#recent a:has-text('update_site')")
    assert page.url == f"{site.url}/api/actions/{site.failed}"
    assert "compute17" in page.inner_text("#out-of-sync")
    context.close()


def test_a_page_refreshes_only_while_an_action_runs(fleet: FrontDoor) -> None:
    again = '<meta http-equiv="refresh" content="3">'
    action = fleet.create(target_nodes=["n1"]).json["id"]
    pages = ("/", f"/actions/{action}")
    assert all(again in fleet.get(page).text for page in pages), "pending"
    fleet.post(f"/v1.0/actions/{action}/control/pause")
    assert not any(again in fleet.get(page).text for page in pages), "paused"
    fleet.post(f"/v1.0/actions/{action}/control/unpause")
    fleet.cloud.drain()
    assert not any(again in fleet.get(page).text for page in pages), "ended"


def test_a_page_looks_again_by_itself_and_keeps_what_a_reader_opened(refusing_site: tuple[FrontDoor, str], browser: Browser) -> None:
    door, url = refusing_site
    context = browser.new_context(timezone_id="Asia/Kolkata", locale="en-GB")
    page = context.new_page()
    page.clock.install()
    page.goto(url)
    page.locator("details.cause summary").first.click()
    page.locator("details.cause a[href*='/nodes/']").first.focus()
    focused = page.evaluate("document.activeElement.getAttribute('href')")
    assert "8:30" in page.inner_text("#as-of"), "the reader's zone"
    assert "03:00:00 UTC" in page.inner_text("#as-of"), "UTC beside it"

    door.create(target_nodes=["n1"])
    with page.expect_response(url + "/") as answered:
        page.clock.run_for(60_000)
    assert answered.value.status == 200
    page.locator("#running").wait_for()
    assert page.locator("details.cause").first.get_attribute("open") is not None
    assert page.evaluate("document.activeElement.getAttribute('href')") == focused

    with page.expect_response(url + "/") as answered:
        page.clock.run_for(3_000)
    assert answered.value.status == 304, "nothing has changed"
    context.close()


@pytest.fixture
def refusing_site(door: FrontDoor) -> Iterator[tuple[FrontDoor, str]]:
    """Sixty nodes, ten of which refuse the write."""
    names = [f"n{number}" for number in range(60)]
    door.has_nodes(**{name: {} for name in names})
    door.declares({name: {"rack": "r7"} for name in names})

    def refuse(call: str, node: str) -> None:
        if call == "apply_labels" and node.startswith("n1"):
            raise Refused("Forbidden", "the webhook says no")

    door.cluster.before = refuse
    door.sends(name="update_site")
    door.cloud.drain()
    with served(door.app) as url:
        yield door, url


def test_the_keyboard_reaches_the_content_first_and_opens_a_cause(refusing_site: tuple[FrontDoor, str], browser: Browser) -> None:
    page = browser.new_context().new_page()
    page.goto(refusing_site[1])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#failed", "the first tile that leads somewhere"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    assert page.locator("details.cause").first.get_attribute("open") is not None
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "focus is seen"
    page.context.close()


def test_the_pages_behind_the_first_one_are_as_readable(site: Site, page: Page) -> None:
    for name, path in (("revisions", "/revisions"), ("revision", "/revisions/2"), ("live", "/live"), ("search", "/search?q=compute")):
        page.goto(f"{site.url}{path}")
        looked_at(page, name)


def test_the_api_has_a_page_that_people_can_read_and_nothing_comes_from_elsewhere(site: Site, browser: Browser) -> None:
    page = browser.new_context(viewport={"width": 390, "height": 900}).new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("response", lambda answer: asked.append(answer.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(f"{site.url}/reference")
    page.get_by_role("heading", name="Hullmark (1.0)").wait_for()
    page.get_by_text("/v1.0/refused-requests").first.wait_for(state="attached")
    assert {url.removeprefix(site.url) for url in asked if url.startswith("http")} == {"/reference", "/reference/redoc.js", "/openapi.json"}
    assert all("cdn.redoc.ly/redoc/logo-mini.svg" in complaint for complaint in complaints), "its maker's logo stays away"
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.context.close()


def test_an_empty_house_says_what_to_do_first(door: FrontDoor) -> None:
    text = door.get("/").text
    for told in ("no documents committed yet", "Nothing has been relabeled yet", "hullmark relabel --all"):
        assert told in text


def test_an_unknown_action_is_a_page_too(door: FrontDoor) -> None:
    answer = door.get("/actions/01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert (answer.status_code, answer.mimetype) == (404, "text/html")


def test_what_others_wrote_is_text_and_never_markup(door: FrontDoor) -> None:
    door.has_nodes(n1={})
    door.declares({"n1": {"rack": "r7"}, "n9": {"rack": "r7"}})
    evil = "<img src=x onerror=alert(1)>"
    door.post(
        "/v1.0/actions",
        {"name": "update_labels", "parameters": {"target_nodes": ["n1", "n9"]}},
        environ_overrides={"REMOTE_USER": evil},
    )
    door.cloud.drain()
    answer = door.get("/")
    assert "<img" not in answer.text
    assert "&lt;img src=x" in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
