"""The page's buttons for rollouts: who may press them, from where, and what they come to."""

from __future__ import annotations

import re
from typing import Any

import functions_framework
import pytest

from functions.api.buttons import buttons
from functions.api.rendering import ticked
from local import steps
from shared.work import rollouts
from tests.api.conftest import FrontDoor
from tests.api.test_rolling import Rolling, in_words
from tests.rollouts.rolling import CANARY, HALF

OWN = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
ADA = {"REMOTE_USER": "ada"}


@pytest.fixture
def rolling(door: FrontDoor) -> Rolling:
    return Rolling(door)


@pytest.fixture
def waiting(rolling: Rolling) -> str:
    """A rollout whose second stage waits for an approval."""
    rollout = rolling.starts(CANARY, HALF)
    rolling.later(minutes=10)
    return rollout


def shown(rolling: Rolling, rollout: str) -> str:
    """The digest of the impact that the page of the button shows, as its form sends it."""
    found = re.search(r'name="impact" value="(\w*)"', rolling.door.get(f"/rollouts/{rollout}/approve").text)
    assert found is not None
    return found[1]


def press(door: FrontDoor, rollout: str, verb: str, headers: dict[str, str] | None = None, client: Any = None, **form: str) -> Any:
    client = client or door.client
    path = f"/rollouts/{rollout}/{verb}"
    return client.post(path, data=form, headers=OWN if headers is None else headers, environ_overrides=ADA)


def phase(door: FrontDoor, rollout: str) -> str:
    return str(door.world.rollouts.get(rollout).phase)


def test_an_approval_is_recorded_and_the_page_of_the_rollout_says_by_whom(rolling: Rolling, waiting: str) -> None:
    answer = press(rolling.door, waiting, "approve", stage="half", impact=shown(rolling, waiting))
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/rollouts/{waiting}?told=approve")
    assert "Stage half is approved by ada." in in_words(rolling.door.get(answer.headers["Location"]).text)


def test_an_approval_is_for_the_impact_that_the_page_shows(rolling: Rolling, waiting: str) -> None:
    digest = shown(rolling, waiting)
    assert "An approval lets half, rest open: cluster default, 9 nodes: 9 change" in in_words(
        rolling.door.get(f"/rollouts/{waiting}/approve").text
    )
    rolling.door.cluster.set_labels("n5", {"tier": "taken"})
    refused = press(rolling.door, waiting, "approve", stage="half", impact=digest)
    assert (refused.status_code, "now 9 change" in refused.text) == (409, True)
    assert digest != shown(rolling, waiting)
    assert press(rolling.door, waiting, "approve", stage="half", impact=shown(rolling, waiting)).status_code == 303


def test_a_press_under_airships_prefix_leads_back_there(rolling: Rolling, waiting: str) -> None:
    answer = rolling.door.client.post(
        f"/api/rollouts/{waiting}/approve", data={"stage": "half", "impact": shown(rolling, waiting)}, headers=OWN
    )
    assert answer.headers["Location"] == f"/api/rollouts/{waiting}?told=approve"


def test_a_pause_without_a_reason_is_refused_on_a_page_and_with_one_it_holds(rolling: Rolling, waiting: str) -> None:
    refused = press(rolling.door, waiting, "pause", reason="  ")
    assert (refused.status_code, refused.mimetype, "say why" in refused.text) == (400, "text/html", True)
    assert phase(rolling.door, waiting) == "running"
    answer = press(rolling.door, waiting, "pause", reason="the night shift asks")
    assert phase(rolling.door, waiting) == "paused"
    assert "Paused by ada: the night shift asks" in in_words(rolling.door.get(answer.headers["Location"]).text)


def test_a_revert_is_told_while_it_is_brought_back_and_after_that(rolling: Rolling, waiting: str) -> None:
    where = press(rolling.door, waiting, "revert").headers["Location"]
    assert "Revision 1 is rejected, and its nodes are being brought back." in in_words(rolling.door.get(where).text)
    rolling.door.cloud.drain()
    rolling.later(minutes=1)
    assert "Revision 1 is rejected, and its nodes are back." in in_words(rolling.door.get(where).text)


def test_a_finished_rollout_can_be_reverted_from_its_page(rolling: Rolling) -> None:
    rollout = rolling.starts(CANARY)
    rolling.later(minutes=10)
    rolling.later(minutes=10)
    assert phase(rolling.door, rollout) == "done"
    assert f'<a href="/rollouts/{rollout}">careful</a>' in rolling.door.get("/").text
    assert press(rolling.door, rollout, "revert", reason="it was wrong").status_code == 303
    assert phase(rolling.door, rollout) == "reverted"


def test_an_approval_that_is_said_twice_or_for_another_stage_is_refused_and_says_so(rolling: Rolling, waiting: str) -> None:
    assert press(rolling.door, waiting, "approve", stage="canary").status_code == 409
    digest = shown(rolling, waiting)
    assert press(rolling.door, waiting, "approve", stage="half", impact=digest).status_code == 303
    rolling.door.cloud.drain()
    again = press(rolling.door, waiting, "approve", stage="half", impact=digest)
    assert (again.status_code, again.mimetype) == (409, "text/html")
    assert "nothing was approved" in again.text
    assert len(rolling.door.world.rollouts.get(waiting).approvals) == 1


def test_what_a_link_claims_is_not_told_unless_it_is_recorded(rolling: Rolling, waiting: str) -> None:
    for verb in ("approve", "revert", "pause", "<b>"):
        assert 'id="told"' not in rolling.door.get(f"/rollouts/{waiting}?told={verb}").text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 400),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_a_form_of_another_page_changes_nothing(rolling: Rolling, waiting: str, headers: dict[str, str], status: int) -> None:
    answer = press(rolling.door, waiting, "revert", headers)
    assert (answer.status_code, answer.mimetype, phase(rolling.door, waiting)) == (status, "text/html", "running")


def test_looking_at_a_button_presses_nothing(rolling: Rolling, waiting: str) -> None:
    for verb in ("approve", "pause", "revert"):
        assert rolling.door.get(f"/rollouts/{waiting}/{verb}?stage=half&reason=because").status_code == 200
    assert phase(rolling.door, waiting) == "running"
    assert not rolling.door.world.rollouts.get(waiting).approvals


def test_a_reader_sees_the_buttons_disabled_with_the_reason_and_is_refused_anyway(rolling: Rolling, waiting: str) -> None:
    reader = functions_framework.create_app("api_reader", str(steps.load().steps["api_reader"].source)).test_client()
    for page in ("/", f"/rollouts/{waiting}", f"/rollouts/{waiting}/revert"):
        html = reader.get(page).text.partition("<main")[2].partition("</main>")[0]
        assert html.count("<button") == html.count(" disabled aria-describedby=") > 0
        assert "A member of api_invokers presses" in in_words(html)
    refused = press(rolling.door, waiting, "revert", client=reader)
    assert (refused.status_code, refused.mimetype, phase(rolling.door, waiting)) == (403, "text/html", "running")
    assert "read-only" in refused.text


@pytest.mark.parametrize(("path", "status"), [("nothing", 404), ("retry", 409), ("resume", 409)])
def test_a_button_that_a_rollout_does_not_have_is_a_page_that_says_so(rolling: Rolling, waiting: str, path: str, status: int) -> None:
    answer = rolling.door.get(f"/rollouts/{waiting}/{path}")
    assert (answer.status_code, answer.mimetype) == (status, "text/html")


def test_a_rollout_for_versions_has_no_way_back_and_so_no_button_for_it(rolling: Rolling, waiting: str) -> None:
    status = rollouts.shown(rolling.door.world.rollouts.get(waiting), rolling.door.world, rolling.door.now)
    assert [button.verb for button in buttons(status)] == ["approve", "pause", "revert"]
    assert "revert" not in [button.verb for button in buttons(status.model_copy(update={"change": "versions"}))]


def test_an_unknown_rollout_is_a_page_too(door: FrontDoor) -> None:
    answer = door.get("/rollouts/01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert (answer.status_code, answer.mimetype) == (404, "text/html")


def test_commands_in_messages_are_shown_as_code_and_nothing_else_of_a_message_is_markup() -> None:
    assert ticked("say `hullmark resume`, <b>`x<`</b>") == "say <code>hullmark resume</code>, &lt;b&gt;<code>x&lt;</code>&lt;/b&gt;"
    assert ticked("a ` alone & <i>") == "a ` alone &amp; &lt;i&gt;"


def test_a_field_that_no_form_has_is_refused(rolling: Rolling, waiting: str) -> None:
    assert press(rolling.door, waiting, "revert", stage="half", supersede="yes").status_code == 400
    assert press(rolling.door, waiting, "pause", reason="x" * 2001).status_code == 400
    assert phase(rolling.door, waiting) == "running"
