"""The pages of nodes that are out of sync: by cause, a page at a time; of a cluster as it is now; and the search."""

from __future__ import annotations

import base64
import hashlib
import html
import re

import pytest

from shared.ports import Refused
from tests.api.conftest import FrontDoor
from tests.stories.fleet import a_policy
from tests.stories.test_adoption import a_design

NODES = [f"n{number:04}" for number in range(500)]


def text_of(page: str) -> str:
    """What a reader sees, on one line."""
    main = page.partition('<main id="main" tabindex="-1">')[2].partition("</main>")[0]
    main = re.sub(r"</?(?:code|ins|del)>", "", main)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", main)).split())


def tiles(page: str) -> dict[str, str]:
    """The first row of tiles: word to number."""
    found = re.findall(r"<strong>(\S+?)</strong>(in sync|failed|missing|skipped|waiting)", page.partition("</ul>")[0])
    return {word: number for number, word in found}


@pytest.fixture
def refusing(door: FrontDoor) -> FrontDoor:
    """500 nodes, 450 of which refuse the write; three are only in the documents; one more carries another's value."""
    door.has_nodes(**{name: {} for name in NODES})
    door.cluster.set_labels("n0499", {"rack": "mine"}, manager="kubectl")
    gone = ["gone1", "gone2", "gone3"]
    door.commits(
        a_policy("racks", {"names": [*NODES, *gone]}, {"rack": "r7"}, onConflict="skip"), a_policy("rows", {"names": NODES}, {"row": "7"})
    )

    def refuse(call: str, node: str) -> None:
        if call == "apply_labels" and node < "n0450":
            raise Refused("Forbidden", f"nodes {node!r} is forbidden: attempt 17")

    door.cluster.before = refuse
    door.sends(name="update_site")
    door.cloud.drain()
    return door


def test_the_first_page_counts_every_node_and_lists_each_cause_once(refusing: FrontDoor) -> None:
    page = refusing.get("/").text
    assert tiles(page) == {"in sync": "49", "failed": "450", "missing": "3", "skipped": "1", "waiting": "0"}
    assert "454 nodes out of sync" in text_of(page)
    assert page.count('<details class="cause"') == 3
    assert re.findall(r'<h3 id="(\w+)">', page)[:3] == ["failed", "missing", "skipped"]
    assert page.count("/nodes/n0") < 40, "of 450 nodes a few are listed"
    assert 'hullmark_nodes_not_true{cluster="default"} 454' in refusing.get("/metrics").text


def test_a_cause_has_a_page_that_lists_its_nodes_two_hundred_at_a_time(refusing: FrontDoor) -> None:
    link = re.search(r'href="(/causes/[0-9a-f]{12})">all 450', refusing.get("/").text)
    assert link is not None
    first, last = refusing.get(link[1]).text, refusing.get(f"{link[1]}?page=3").text
    assert "450 nodes: Forbidden" in text_of(first)
    assert [page.count("/nodes/n0") for page in (first, last)] == [200, 50]
    assert 'rel="next"' not in last
    for odd in ("0", "999999999999", "-1", "x"):
        assert refusing.get(f"{link[1]}?page={odd}").status_code == 200
    assert refusing.get("/causes/000000000000").status_code == 404


def test_an_action_lists_its_nodes_by_cause_too(refusing: FrontDoor) -> None:
    action = refusing.get("/v1.0/actions").json[0]["id"]
    page = refusing.get(f"/actions/{action}").text
    assert "Need attention: 454" in text_of(page)
    link = re.search(rf'href="(/actions/{action}/causes/[0-9a-f]{{12}})"', page)
    assert link is not None
    assert "450 nodes: Forbidden" in text_of(refusing.get(link[1]).text)


def test_a_blocked_action_shows_how_many_nodes_wait_and_what_they_would_lose(door: FrontDoor) -> None:
    door.has_nodes(**{name: {} for name in NODES[:200]})
    door.commits(a_policy("racks", {"names": NODES[:200]}, {"rack": "r7", "row": "7"}))
    door.sends(name="update_site")
    door.cloud.drain()
    door.commits(
        a_policy("racks", {"names": NODES[:200]}, {"row": "7"}), a_policy("one", {"names": ["n0000"]}, {"rack": "r7"}), adopted=False
    )
    door.sends(name="update_site")
    door.cloud.drain()
    page = door.get("/").text
    assert tiles(page) == {"in sync": "1", "failed": "0", "missing": "0", "skipped": "0", "waiting": "199"}
    told = text_of(page)
    assert "199 blocked TooManyRemovals" in told
    assert "199 nodes lose labels: rack on 199" in told
    assert "<del><code>rack</code></del>" in page


def test_the_page_of_a_live_cluster_counts_every_node_that_was_stripped(door: FrontDoor) -> None:
    door.has_nodes(**{name: {} for name in NODES[:200]})
    door.commits(a_policy("racks", {"names": NODES[:200]}, {"rack": "r7"}))
    door.sends(name="update_site")
    door.cloud.drain()
    assert "Every node of cluster default is in sync" in text_of(door.get("/live").text)
    for node in door.cluster.nodes()[:199]:
        door.cluster.remove_labels(node.name, ["rack"], resource_version=node.resource_version)
    told = text_of(door.get("/live").text)
    assert "199 nodes of cluster default out of sync" in told
    assert "Drift" in told
    assert "and 99 more: hullmark nodes --out-of-sync" in told
    assert door.get("/live?cluster=nowhere").status_code == 400


def test_a_search_leads_to_the_one_thing_that_is_meant(refusing: FrontDoor) -> None:
    action = refusing.get("/v1.0/actions").json[0]["id"]
    for asked, there in (("n0007", "/nodes/n0007"), (action, f"/actions/{action}"), ("1", "/revisions/1"), (" gone1 ", "/nodes/gone1")):
        answer = refusing.get("/search", query_string={"q": asked})
        assert (answer.status_code, answer.headers.get("Location")) == (302, there), asked


def test_a_search_lists_what_it_found_or_says_how_to_ask(refusing: FrontDoor) -> None:
    many = refusing.get("/search?q=n04").text
    assert many.count('href="/nodes/n04') == 51, "fifty hits, and the name itself"
    action = refusing.get("/v1.0/actions").json[0]["id"]
    assert f"/actions/{action}" in refusing.get(f"/search?q={action[-6:]}").text
    assert "Nothing found" in refusing.get("/search?q=%3Cscript%3Ealert(1)%3C/script%3E").text
    assert "<script>alert" not in refusing.get("/search?q=%3Cscript%3Ealert(1)%3C/script%3E").text
    assert refusing.get("/search").status_code == 200


def test_in_the_documents_of_a_large_site_only_whole_names_are_found(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    door.commits(*a_design(rack="r7"))
    assert door.get("/search?q=n").text.count('href="/nodes/n1"') == 1
    monkeypatch.setattr("functions.api.search.SCANNED", 0)
    assert door.get("/search?q=n1").headers["Location"] == "/nodes/n1"
    assert "Nothing found" in door.get("/search?q=n").text


def test_a_page_that_did_not_change_is_not_sent_again(refusing: FrontDoor) -> None:
    first = refusing.get("/")
    assert refusing.get("/", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    refusing.create(target_nodes=["n0499"])
    again = refusing.get("/", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.headers["ETag"] == first.headers["ETag"]) == (200, False)


def test_the_policy_names_the_one_script_by_its_hash(door: FrontDoor) -> None:
    answer = door.get("/")
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = answer.headers["Content-Security-Policy"]
    assert f"script-src 'sha256-{known}';" in policy
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy


def test_the_script_of_the_api_page_is_kept_by_a_browser(door: FrontDoor) -> None:
    first = door.get("/reference/redoc.js")
    assert (first.status_code, first.mimetype, len(first.data) > 500_000) == (200, "text/javascript", True)
    assert door.get("/reference/redoc.js", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
