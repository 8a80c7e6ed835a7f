"""Rollouts, pauses and freezes on the status page and in the metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from shared.messages import RolloutStep
from shared.ports import Refused
from shared.work.holds import pause
from shared.work.rollouts import Control, control, start
from tests.api.conftest import FrontDoor
from tests.rollouts.rolling import CANARY, HALF, a_rollout
from tests.stories.fleet import a_policy
from tests.stories.test_holds import a_freeze


class Rolling:
    """Ten nodes, n0 to n9, and a rollout of what brings them their first label."""

    def __init__(self, door: FrontDoor) -> None:
        self.door = door
        door.has_nodes(**{f"n{number}": {} for number in range(10)})

    def commits(self, *stages: Mapping[str, Any], **spec: Any) -> None:
        self.door.commits(a_policy("tiers", {}, {"tier": "new"}), a_rollout(*stages, **spec), adopted=False)

    def starts(self, *stages: Mapping[str, Any], supersede: bool = False, **spec: Any) -> str:
        self.commits(*stages, **spec)
        rollout = start("careful", "ada", self.door.world, self.door.now, supersede=supersede).id
        self.door.cloud.drain()
        return rollout

    def says(self, rollout: str, verb: Control, stage: str = "", message: str = "") -> None:
        control(rollout, verb, "ada", self.door.world, self.door.now, stage=stage, message=message)
        self.door.cloud.drain()

    def later(self, **span: float) -> None:
        self.door.now += timedelta(**span)
        self.door.cloud.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])
        self.door.cloud.drain()

    def fails(self, *names: str) -> None:
        def refuse(call: str, node: str) -> None:
            if call == "apply_labels" and node in names:
                raise Refused("Forbidden", f"{node} is not to be touched")

        self.door.cluster.before = refuse

    def page(self) -> str:
        """The page's text, in one line."""
        answer = self.door.get("/")
        assert answer.status_code == 200
        return in_words(answer.text)

    def rollouts(self) -> str:
        """The text of its section."""
        found = re.search(r'<section id="rollouts">.*?</section>', self.door.get("/").text, re.DOTALL)
        return in_words(found[0]) if found else ""

    def buttons(self) -> list[str]:
        """What is written on its buttons, the search's left out."""
        return re.findall(r"<button[^>]*>([^<]*)</button>", re.sub(r'<form class="search".*?</form>', "", self.door.get("/").text))

    def waits(self, rollout: str) -> dict[str, tuple[str, str]]:
        """What its stages wait for."""
        stages = self.door.get(f"/v1.0/rollouts/{rollout}").json["stages"]
        return {stage["name"]: (stage["reason"], stage["message"]) for stage in stages if stage["reason"]}

    def metrics(self) -> list[str]:
        return [line for line in self.door.get("/metrics").text.splitlines() if not line.startswith("#")]

    def break_record(self, rollout: str) -> None:
        """Its newest state can't be read any more."""
        newest = max(key for key in self.door.world.store.keys(f"rollouts/{rollout}/") if key.count("/") == 2)
        following = int(newest.rpartition("/")[2].removesuffix(".json")) + 1
        self.door.world.store.create(f"rollouts/{rollout}/{following:06}.json", b"torn")


def in_words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


@pytest.fixture
def rolling(door: FrontDoor) -> Rolling:
    return Rolling(door)


def test_a_page_without_rollouts_has_no_section_for_them(rolling: Rolling) -> None:
    assert rolling.rollouts() == ""
    assert "paused" not in rolling.page()


def test_a_rollout_that_soaks_shows_its_stages_and_until_when(rolling: Rolling) -> None:
    rolling.starts(CANARY, HALF)
    rolling.door.now += timedelta(minutes=4)
    text = rolling.rollouts()
    for told in ("Waits: Soaking", "4 min ago", "in 6 min", "canary open 1 of 1 done", "half not open yet 0 of", "rest not open yet"):
        assert told in text
    assert "started by ada" in text


def test_a_rollout_that_waits_for_a_person_has_a_button_for_each_word_that_it_takes_and_prints_the_commands(rolling: Rolling) -> None:
    rollout = rolling.starts(CANARY, HALF)
    rolling.later(minutes=10)
    text = rolling.rollouts()
    for told in ("AwaitingApproval", "in 30 d", f"hullmark rollout approve {rollout} half", f"hullmark rollout revert {rollout}"):
        assert told in text
    assert rolling.buttons() == ["Approve half", "Pause", "Revert"]
    rolling.says(rollout, "pause", message="lunch")
    assert rolling.buttons() == ["Resume", "Abort", "Revert"]
    rolling.says(rollout, "revert")
    assert rolling.buttons() == []


def test_each_stage_says_what_it_waits_for(rolling: Rolling) -> None:
    rollout = rolling.starts(CANARY, HALF)
    assert rolling.waits(rollout) == {
        "canary": ("Soaking", "stage canary soaks"),
        "half": ("WaitingForStage", "opens after stage canary and an approval"),
        "rest": ("WaitingForStage", "opens after stage half"),
    }
    rolling.later(minutes=10)
    assert [*rolling.waits(rollout)] == ["half", "rest"]
    assert rolling.waits(rollout)["half"][0] == "AwaitingApproval"
    rolling.says(rollout, "abort")
    assert rolling.waits(rollout) == {}


def test_failures_are_grouped_by_cause_against_the_budget(rolling: Rolling) -> None:
    rolling.fails("n0", "n1")
    rollout = rolling.starts({"name": "some", "nodes": {"names": ["n0", "n1", "n2", "gone"]}}, stopWhen={"failed": 1})
    text = rolling.rollouts()
    for told in (
        "stopped",
        "TooManyFailures",
        "2 (1 may) 1",
        "some: 2 nodes Forbidden (n0, n1): n0 is not to be touched",
        "some: 1 node NodeNotFound (gone)",
        f"hullmark rollout retry {rollout}",
    ):
        assert told in text
    assert "Waits:" not in text


def test_a_batch_that_a_limit_blocked_is_not_done(rolling: Rolling) -> None:
    for number in range(5):
        rolling.door.cluster.set_labels(f"n{number}", {"tier": "mine"}, manager="a-colleague")
    rolling.starts({"name": "all"})
    text = rolling.rollouts()
    assert "TooManyTakeovers" in text
    assert "all open 0 of 10 done, 10 released" in text


def test_stages_link_to_their_actions_and_reasons_to_their_page(rolling: Rolling) -> None:
    rollout = rolling.starts(CANARY, HALF)
    (batch,) = rolling.door.world.rollouts.get(rollout).batches
    html = rolling.door.get("/").text
    assert f'<a href="/actions/{batch.action}">' in html
    assert '<a href="/reasons/Soaking">' in html
    told = in_words(rolling.door.get("/reasons/Soaking").text)
    assert "the next one opens at the time given" in told


def test_a_reason_that_several_parts_report_shows_each_meaning_and_a_foreign_one_is_not_found(door: FrontDoor) -> None:
    assert door.get("/reasons/Stopped").text.count("<dt>Means</dt>") == 3
    answer = door.get("/reasons/%3Cb%3E")
    assert (answer.status_code, answer.mimetype, "<b>" in answer.text) == (404, "text/html", False)


def test_one_rollout_that_cannot_be_read_hides_no_other(rolling: Rolling) -> None:
    torn = rolling.starts(CANARY)
    rolling.break_record(torn)
    rolling.starts(CANARY, supersede=True)
    text = rolling.rollouts()
    assert f"…{torn[-6:]} RecordUnreadable rollouts/{torn}/" in text
    assert "Waits: Soaking" in text
    assert "hullmark_records_unreadable 1" in rolling.metrics()
    assert "hullmark_rollouts_unfinished 2" in rolling.metrics()


def test_the_newest_finished_rollouts_are_listed_and_older_ones_are_not(rolling: Rolling) -> None:
    for _ in range(6):
        rollout = rolling.starts(CANARY)
        rolling.says(rollout, "abort", message="enough of that")
        rolling.door.now += timedelta(minutes=1)
    text = rolling.rollouts()
    assert text.count("aborted") == 5
    for told in ("canary 1 of 1, rest 0 of 9", "enough of that", "ada"):
        assert told in text
    assert "hullmark rollout abort" not in text


def test_what_the_words_of_a_person_say_is_text_and_never_markup(rolling: Rolling) -> None:
    rollout = rolling.starts(CANARY)
    rolling.says(rollout, "pause", message="<img src=x>")
    pause("<img src=y>", "<b>eve</b>", rolling.door.world, rolling.door.now)
    html = rolling.door.get("/").text
    assert ("<img" in html, "<b>eve" in html, "&lt;img src=x&gt;" in html, "&lt;img src=y&gt;" in html) == (False, False, True, True)


def test_a_paused_fleet_has_a_banner_and_a_metric(rolling: Rolling) -> None:
    assert "hullmark_paused 0" in rolling.metrics()
    pause("the network is rebuilt", "grace", rolling.door.world, rolling.door.now)
    rolling.door.now += timedelta(minutes=5)
    assert "The fleet is paused by grace since" in rolling.page()
    assert "5 min ago ): the network is rebuilt." in rolling.page()
    assert "hullmark_paused 1" in rolling.metrics()


def test_a_pause_that_cannot_be_read_is_a_banner_without_a_time(rolling: Rolling) -> None:
    rolling.door.world.store.create("pauses/000001.json", b"torn")
    text = rolling.page()
    assert "The fleet is paused by unknown: pauses/000001.json" in text
    assert "1970" not in text


def test_a_freeze_that_holds_now_has_a_banner_and_one_that_comes_has_none(rolling: Rolling) -> None:
    now = rolling.door.now
    begins = {"harvest": now - timedelta(hours=1), "winter": now + timedelta(hours=5)}
    documents = [
        a_freeze(name, **{"from": at.isoformat()}, until=(at + timedelta(hours=3)).isoformat(), reason=f"{name} season")
        for name, at in begins.items()
    ]
    rolling.door.commits(a_policy("tiers", {}, {"tier": "new"}), *documents, adopted=False)
    text = rolling.page()
    assert "Frozen by Freeze/harvest until" in text
    assert "(in 2 h), changes of labels and versions in every cluster: harvest season" in text
    assert "winter" not in text


def test_metrics_say_where_an_unfinished_rollout_stands_and_forget_a_finished_one(rolling: Rolling) -> None:
    rollout = rolling.starts(CANARY, HALF)
    rolling.door.now += timedelta(minutes=4)
    which = f'rollout="{rollout}",name="careful"'
    for line in (
        f'hullmark_rollout_state{{{which},phase="running",reason="Soaking"}} 1',
        f"hullmark_rollout_nodes{{{which}}} 10",
        f"hullmark_rollout_nodes_done{{{which}}} 1",
        f"hullmark_rollout_nodes_failed{{{which}}} 0",
        f"hullmark_rollout_waiting_seconds{{{which}}} 240",
        "hullmark_rollouts_unfinished 1",
    ):
        assert line in rolling.metrics()
    rolling.says(rollout, "abort")
    assert "hullmark_rollouts_unfinished 0" in rolling.metrics()
    assert not any(rollout in line for line in rolling.metrics())
