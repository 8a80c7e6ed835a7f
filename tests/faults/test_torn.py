"""Each record is judged alone: every kind of object in the store × every way to be damaged, and what still answers.

A site in the middle of its life is written once, copied for each case, and one object of the copy is damaged. What can't be read ends as
failed with `RecordUnreadable` and its key; everything else is shown and ends as if nothing had happened.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import local.cli.actions
from local.cli.embedded import EmbeddedLedger
from shared import telemetry, wiring
from shared.adapters.simulated import Simulated
from shared.domain import actions
from shared.domain.labels.events import change_of
from shared.ledger import releases
from shared.ledger.acceptances import Accepted
from shared.messages import DeadlineCheck, NodeChanged, Outgoing, RelabelRequest, VersionCheck
from shared.ports import ObjectStore
from shared.work.control import control
from shared.work.deferrals import defer
from shared.work.holds import pause, resume
from shared.work.intake import accept
from tests.api.conftest import FrontDoor
from tests.stories.fleet import a_policy
from tests.versions.test_functions import EVENING, cloud_profile, shoot

NODES = ("n1", "n2", "n3", "n4")
ENDED, RUNNING, STOPPED, PLANNED, ACCEPTED, FRESH = (f"01KAJ00000000000000000000{number}" for number in "123456")
LOST = "01KAJ000000000000000000009"
"""An action that was marked, and whose request never came."""

PATTERNS = {
    "request": r"actions/ID/request\.json",
    "plan": r"actions/ID/plan\.json",
    "part": r"actions/ID/parts/\d{4}\.json",
    "control": r"actions/ID/control/\d{4}-(un)?pause\.json",
    "parked": r"actions/ID/parked/\d{4}\.json",
    "stop": r"actions/ID/stop\.json",
    "outcome": r"actions/ID/outcome\.json",
    "announced": r"actions/ID/announced\.json",
    "day": r"actions-by-day/\d{4}-\d\d-\d\d/\d{8}-(ID-)?ID",
    "upgraded": r"upgrades/actions-by-day/(\d{4}-\d\d-\d\d|done)",
    "swept": r"sweeps/\d{4}-\d\d-\d\dT\d\d",
    "open": r"open-actions/ID",
    "revision": r"revisions/\d{6}/revision\.json",
    "policies": r"revisions/\d{6}/ID/policies\.json",
    "clusters": r"revisions/\d{6}/ID/clusters\.json",
    "gardener": r"revisions/\d{6}/ID/gardener\.json",
    "shard": r"revisions/\d{6}/ID/nodes/\d{5}\.json",
    "head": r"heads/\d{6}",
    "cleared": r"staged-cleared/\d{6}",
    "staged": r"staged/[^/]+/\d{6}\.json",
    "tag": r"tags/[^/]+/\d{6}\.json",
    "refusal": r"refusals/ID-[A-Za-z]+\.json",
    "acceptance": r"acceptances/\d{6}/[^/]+/ID\.json",
    "budget": r"budget/[^/]+/\d{4}-\d\d-\d\dT\d\d/\d{6}\.json",
    "drift": r"drift/[^/]+/[^/]+/\d+/[^/]+/\d\.json",
    "told": r"told/.+\.json",
    "fleet": r"fleet/[^/]+/[^/]+/\d{6}\.json",
    "version notice": r"notices/versions/\d\d/\d{4}-\d\d/[0-9a-f]{40}",
    "release": r"releases/[^/]+/\d{6}\.json",
    "names": r"releases/[^/]+/names/ID\.json",
    "under": r"releases/[^/]+/under/ID\.json",
    "release head": r"release-heads/[^/]+/\d{6}",
    "releases began": r"upgrades/releases",
    "override": r"overrides/ID\.json",
    "deferral": r"deferrals/[^/]+/\d{6}\.json",
    "pause": r"pauses/\d{6}\.json",
    "pause head": r"pause-heads/\d{6}",
    "quiet": r"quiet-sweeps/[^/]+/ID",
    "node": r"clusters/[^/]+/nodes/[^/]+/\d{10}\.json",
    "seal": r"clusters/[^/]+/sealed/[^/]+/\d{10}",
    "seed": r"clusters/[^/]+/seed\.json",
}
"""Every kind of object in the store. A new kind must be put here, and into what is expected below."""


def _newer(body: bytes) -> bytes:
    """What a later version might write: fields that nobody here knows."""
    try:
        found = json.loads(body)
    except ValueError:
        return body + b"; and more"
    if found and all(isinstance(entry, dict) for entry in found.values()):  # a map of names
        return json.dumps({name: {**entry, "from_later": [1]} for name, entry in found.items()}).encode()
    return json.dumps({**found, "from_later": {"a": [1]}}).encode()


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "truncated": lambda body: body[: len(body) // 2],
    "empty": lambda body: b"",
    "garbage": lambda body: b"\x00\xff\x13 not ours",
    "missing": lambda body: None,
    "from the future": _newer,
}


@functools.cache
def written() -> dict[str, bytes]:
    """Every object of a site in the middle of its life: one action ended, one paused in its middle, one stopped, one planned only."""
    telemetry.write_to(None)
    fleet = FrontDoor()
    fleet.now = datetime.fromisoformat("2026-08-01T00:00:00Z")
    fleet.commits(
        a_policy("p", {"names": list(NODES)}, {"rack": "r1"}),
        cloud_profile(),
        shoot("s"),
        shoot("t"),
    )
    fleet.now = EVENING - timedelta(minutes=50)
    fleet.has_nodes(**{name: {} for name in NODES})
    fleet.sends(action=ENDED, name="update_site")
    fleet.cloud.drain()
    for _ in range(4):
        fleet.cluster.set_labels("n1", {"rack": "theirs"}, "other-operator")
        change = change_of("changed", "default", fleet.node("n1"))
        fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged.model_validate(change.model_dump()).outgoing()])
        fleet.cloud.drain()
    pause("wait", "an operator", fleet.world, fleet.now)
    resume("an operator", fleet.world, fleet.now)
    defer("garden/t", fleet.now + timedelta(days=1), "quarter-end", "an operator", fleet.world, fleet.now)
    fleet.cloud.publish(VersionCheck.TOPIC, [VersionCheck(clusters=["garden/s"], force_window=True).outgoing()])
    fleet.cloud.drain()
    for _ in range(2):
        fleet.cloud.publish(RelabelRequest.TOPIC, [Outgoing(b'{"name": "drift_sweep"}')])
        fleet.cloud.drain()
    fleet.commits(a_policy("p", {"names": list(NODES)}, {"rack": "r2"}), cloud_profile(), shoot("s"), shoot("t"), adopted=False)

    def at_first_write(action: str, verb: str) -> Callable[[str, str], None]:
        def before(call: str, _node: str) -> None:
            if call == "apply_labels" and not fleet.world.actions.paused(action):
                control(action, verb, "an operator", fleet.world, fleet.now)

        return before

    fleet.cluster.before = at_first_write(RUNNING, "pause")
    fleet.sends(action=RUNNING, target_nodes=list(NODES))
    fleet.cloud.drain()
    fleet.cluster.before = lambda _call, _node: None
    fleet.sends(action=STOPPED, target_nodes=["n3"])
    control_on_plan(fleet, STOPPED, "stop")
    fleet.sends(action=PLANNED, target_nodes=["n4"])
    control_on_plan(fleet, PLANNED, "pause")
    request = RelabelRequest(action=ACCEPTED, target_nodes=["n2"])
    accept(request, ACCEPTED, fleet.world, fleet.now)
    fleet.cloud.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])
    fleet.cloud.drain()
    fleet.world.losses.claim("default", ["n1"], lambda count: count < 2, fleet.now, single=True)
    fleet.world.releases.override("default", "n3", {"rack": "mine"}, "an operator", fleet.now)
    stopped_in_turn(fleet)
    fleet.world.acceptances.add(Accepted(revision=2, cluster="default", base=1, removals=4, by="an operator", at=fleet.now))
    fleet.cloud.publish(RelabelRequest.TOPIC, [Outgoing(b"no request")])
    fleet.cloud.drain()
    fleet.world.store.create(f"open-actions/{LOST}", (fleet.now + timedelta(hours=1)).isoformat().encode())
    store = fleet.world.store
    found = {key: store.get(key) or b"" for key in store.keys("")}
    wiring.install(None)
    return found


def stopped_in_turn(fleet: FrontDoor) -> None:
    """In another cluster: a site action is stopped under another one that runs."""
    chain = fleet.world.releases
    for revision, action in enumerate((LOST, ACCEPTED), 2):
        chain.to_all("afar", action, revision, since=0, by="an operator", at=fleet.now)
    chain.take_back("afar", LOST, ["n1"], since=0, by="an operator", at=fleet.now)


def control_on_plan(fleet: FrontDoor, action: str, verb: str) -> None:
    """Deliver the request alone, give the action the verb, and let go of what it sent out."""
    queue = fleet.cloud._queue
    fleet.cloud._deliver(queue.pop())
    control(action, verb, "an operator", fleet.world, fleet.now)
    if verb == "pause":
        fleet.cloud.drain()
    queue.clear()


def kind_of(key: str, patterns: Mapping[str, str] = PATTERNS) -> str:
    """The kind of an object, by its key."""
    plain = re.sub(r"(?<=[/-])[0-9A-HJKMNP-TV-Z]{26}(?=[/.-]|$)", "ID", key)
    kinds = [kind for kind, pattern in patterns.items() if re.fullmatch(pattern, plain)]
    assert len(kinds) == 1, f"{key} is of no kind that the table of torn objects knows: {kinds}"
    return kinds[0]


@dataclass(frozen=True)
class Row:
    """What becomes of the actions when one object of this kind, one of `of` where it belongs to an action, is damaged.

    By action: its result where that is not as without the damage; `says`: it tells `RecordUnreadable` and the object's key; None:
    not listed.
    """

    kind: str
    of: str = ""
    torn: Mapping[str, str | None] = field(default_factory=dict)
    """Truncated, empty or garbage."""
    missing: Mapping[str, str | None] = field(default_factory=dict)
    future: Mapping[str, str | None] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    """What stays open until the object can be read again, where it is torn or missing."""

    def changed(self, damage: str) -> Mapping[str, str | None]:
        return {"missing": self.missing, "from the future": self.future}.get(damage, self.torn)

    @property
    def victim(self) -> str:
        """The object to damage: the newest of its kind."""
        return max(key for key in written() if kind_of(key) == self.kind and self.of in key)


UNDAMAGED = {ENDED: "success", RUNNING: "success", STOPPED: "expired", PLANNED: "success", ACCEPTED: "expired", FRESH: "success"}
SAYS_FAILURE, SAYS_PARTLY = "failure says", "partial_success says"
HELD = {RUNNING: "expired", PLANNED: "expired", FRESH: None}
TABLE = (
    Row("request", ACCEPTED, torn={ACCEPTED: SAYS_FAILURE}, missing={ACCEPTED: None}),
    Row("request", RUNNING),  # its parts end it as planned; it is shown by a stand-in
    Row("plan", RUNNING, torn={RUNNING: SAYS_PARTLY}, missing={RUNNING: "expired"}),
    Row("part", RUNNING, torn={RUNNING: SAYS_PARTLY}, missing={RUNNING: "expired"}),
    Row("control", RUNNING, missing={RUNNING: "expired"}),  # nobody knows that it is paused, and lets it go on
    Row("parked", RUNNING, torn={RUNNING: SAYS_PARTLY}, missing={RUNNING: "expired"}),
    Row("stop", STOPPED),
    Row("outcome", ENDED, torn={ENDED: SAYS_FAILURE}, missing={ENDED: SAYS_FAILURE}),
    Row("announced", ENDED),
    Row("open", LOST),
    Row("day", RUNNING),  # while the store is being upgraded; from then on it is found by its id alone
    Row("upgraded"),
    Row("swept"),
    Row("open", RUNNING),
    Row("open", ACCEPTED),  # the sweep looks back, and marks it again
    Row(
        "revision",
        torn={RUNNING: SAYS_PARTLY, PLANNED: SAYS_FAILURE, FRESH: None},
        missing={RUNNING: SAYS_PARTLY, FRESH: SAYS_FAILURE},  # the other part has with it what is released
    ),
    Row("policies", torn={RUNNING: SAYS_PARTLY, FRESH: SAYS_FAILURE}, missing={RUNNING: SAYS_PARTLY, FRESH: SAYS_FAILURE}),
    Row(
        "clusters",
        torn={RUNNING: SAYS_PARTLY, PLANNED: SAYS_FAILURE, FRESH: None},
        missing={RUNNING: SAYS_PARTLY, PLANNED: SAYS_FAILURE, FRESH: None},
    ),
    Row("gardener"),
    Row("shard", torn={RUNNING: SAYS_PARTLY, FRESH: SAYS_FAILURE}, missing={RUNNING: SAYS_PARTLY, FRESH: SAYS_FAILURE}),
    Row("head"),
    Row("cleared"),
    Row("staged"),
    Row("tag"),
    Row("refusal"),
    Row("acceptance"),
    Row("budget"),
    Row("drift"),
    Row("told"),
    Row("fleet"),
    Row("version notice"),
    Row(
        "release",
        "default/",
        torn={RUNNING: SAYS_PARTLY, PLANNED: SAYS_FAILURE, FRESH: SAYS_FAILURE},
        missing={RUNNING: SAYS_PARTLY, PLANNED: SAYS_FAILURE, FRESH: SAYS_FAILURE},
        waiting=(STOPPED,),
    ),
    Row("release", "default/000001"),
    Row(
        "names",
        torn={RUNNING: SAYS_PARTLY, FRESH: SAYS_FAILURE},
        missing={RUNNING: SAYS_PARTLY, FRESH: SAYS_FAILURE},
        waiting=(STOPPED,),
    ),
    Row("under"),
    Row("release head"),
    Row("releases began"),
    Row("override"),
    Row("deferral"),  # it counts as one without an end
    Row("pause", "000001"),
    Row("pause", "000002", torn=HELD, missing=HELD),  # it counts as a pause
    Row("pause head"),
    Row("quiet"),
    Row("node", torn={RUNNING: SAYS_PARTLY, PLANNED: SAYS_FAILURE, FRESH: SAYS_FAILURE}),
    Row("seal"),
    Row("seed", torn={RUNNING: SAYS_PARTLY, FRESH: SAYS_FAILURE}),
)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(actions, "PART_SIZE", 2)
    monkeypatch.setattr(releases, "NAMES_INLINE", 1)
    yield
    wiring.install(None)


def copied(damaged: str = "", damage: str = "") -> FrontDoor:
    """The site on a store of its own, one object of it damaged."""
    telemetry.write_to(None)
    fleet = FrontDoor()
    store: ObjectStore = fleet.world.store
    for key, body in written().items():
        kept = DAMAGES[damage](body) if key == damaged else body
        if kept is not None:
            store.create(key, kept)
    fleet.now = EVENING
    fleet.cluster = Simulated(store, "default")
    return fleet


class Seen:
    """What everybody is answered, before and after the site has gone on."""

    def __init__(self, fleet: FrontDoor, monkeypatch: pytest.MonkeyPatch, *of: str) -> None:
        self.fleet = fleet
        self.of = {*of}
        """The actions that are looked at one by one, too."""
        monkeypatch.setattr(local.cli.actions, "service", lambda: SimpleNamespace(ledger=EmbeddedLedger(fleet.cloud)))

    def answers(self) -> dict[str, dict[str, object]]:
        """Every action as the API lists it; every way to look at them answers, and shows the same ones."""
        listed = self.fleet.get("/v1.0/actions")
        assert listed.status_code == 200, listed.text
        found = {each["id"]: each for each in listed.json}
        for path in ("/", "/metrics", "/health", "/v1.0/tasks", "/v1.0/revisions"):
            answer = self.fleet.get(path)
            assert answer.status_code == 200, f"{path}: {answer.text}"
        for action in self.of & found.keys():
            for path in (f"/actions/{action}", f"/v1.0/actions/{action}", f"/v1.0/actions/{action}/outcome", f"/v1.0/tasks/{action}"):
                answer = self.fleet.get(path)
                assert answer.status_code == 200, f"{path}: {answer.text}"
        printed = CliRunner().invoke(local.cli.actions.list_actions, ["-o", "json"], standalone_mode=False)
        assert printed.exception is None, printed.exception
        rows = {row["id"]: row for row in json.loads(printed.output)["actions"]}
        assert {action: row["result"] for action, row in rows.items()} == {action: each["result"] for action, each in found.items()}
        return found

    def goes_on(self, *waiting: str) -> None:
        """The paused actions go on, then time passes and the clock sweeps, twice; in between there is no more to tell. Only those that are
        `waiting`, to take back what can't be read, stay open.
        """
        for action in (RUNNING, PLANNED):
            if self.fleet.world.actions.paused(action) and self.fleet.world.actions.lifecycle(action) == "Paused":
                self.fleet.post(f"/v1.0/actions/{action}/control/unpause")
        self.fleet.cloud.drain()
        self.sweep()
        self.fleet.now += timedelta(days=2)
        self.sweep()
        told = {notice.id for notice in self.fleet.cloud.notices}
        self.sweep()
        assert {notice.id for notice in self.fleet.cloud.notices} == told, "a sweep tells of something new"
        assert self.fleet.world.actions.open() == sorted(waiting), "open for ever"
        assert not self.fleet.cloud.dead, [(dead.step, dead.error) for dead in self.fleet.cloud.dead]

    def sweep(self) -> None:
        self.fleet.cloud.publish(DeadlineCheck.TOPIC, [DeadlineCheck().outgoing()])
        self.fleet.cloud.drain()

    def starts_afresh(self) -> None:
        """A new relabel of everything, and a check of versions while the windows are open."""
        self.fleet.sends(action=FRESH, name="update_site")
        self.fleet.cloud.publish(VersionCheck.TOPIC, [VersionCheck().outgoing()])
        self.fleet.cloud.drain()


def results(found: dict[str, dict[str, object]]) -> dict[str, object]:
    return {action: each["result"] for action, each in found.items()}


def test_every_kind_of_object_that_a_full_run_writes_is_in_the_table() -> None:
    assert {kind_of(key) for key in written()} == set(PATTERNS)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.kind} {row.of[-1:]}")
def test_one_damaged_object_stops_nothing_but_itself(row: Row, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(copied(row.victim, damage), monkeypatch, row.of if row.of in UNDAMAGED else RUNNING)
    seen.answers()
    seen.starts_afresh()
    seen.goes_on(*(() if damage == "from the future" else row.waiting))
    found = seen.answers()
    for action, result in UNDAMAGED.items():
        expected = row.changed(damage).get(action, result)
        if expected is None:
            assert action not in found
            continue
        assert (found[action]["result"] or "") == expected.removesuffix(" says"), action
        told = seen.fleet.get(f"/v1.0/actions/{action}/outcome").text
        assert ("RecordUnreadable" in told and row.victim in told) == expected.endswith(" says"), told


def test_undamaged_everything_ends_as_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(copied(), monkeypatch)
    seen.starts_afresh()
    seen.goes_on()
    assert {action: result for action, result in results(seen.answers()).items() if action in UNDAMAGED} == UNDAMAGED


AGAIN = "01KAJ00000000000000000000A"


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage", "missing"])
@pytest.mark.parametrize("kind", ["release", "names"])
def test_a_cluster_whose_release_can_not_be_read_is_left_alone_and_told_of_until_it_is_restored(
    kind: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (torn,) = (row.victim for row in TABLE if row.kind == kind and row.of != "default/000001")
    fleet = copied(torn, damage)
    store = fleet.world.store
    seen = Seen(fleet, monkeypatch)
    for name in NODES:
        fleet.cluster.set_labels(name, {"rack": "theirs"}, "other-operator")
        fleet.cloud.publish(NodeChanged.TOPIC, [NodeChanged(name=name, kind="changed", cluster="default").outgoing()])
    fleet.sends(action=AGAIN, name="drift_sweep")
    seen.starts_afresh()
    left_alone = [name for name in NODES if fleet.labels(name)["rack"] == "theirs"]
    assert len(left_alone) == len(NODES) if kind == "release" else left_alone
    assert torn in fleet.get(f"/v1.0/actions/{AGAIN}/outcome").text
    assert torn in fleet.get(f"/v1.0/actions/{FRESH}/outcome").text
    assert torn in fleet.get(f"/actions/{FRESH}").text
    assert not [key for key in store.keys("releases/default/") if key not in written()]

    store.delete(torn)
    store.create(torn, written()[torn])
    seen.goes_on()
    seen.fleet.sends(action=LOST, name="drift_sweep")
    fleet.cloud.drain()
    assert fleet.ended(LOST).result == "success"
    assert {fleet.labels(name)["rack"] for name in NODES} == {"r2", "mine"}
