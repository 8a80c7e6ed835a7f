"""Rollouts as people steer them, call by call: what somebody else may say before any outside call, and what may die at any of them.

Each path ends as it must where every fault is over in time. A word is said by another process, that knows nothing of this one, right before
an outside call of the rollout; afterwards whoever said it lets things go on, and everything has to end in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta

from shared.domain.rollouts.progress import WrongPhase
from shared.ledger.actions import WrongState
from shared.ledger.rollouts import UnknownRollout
from shared.messages import RolloutStep
from shared.work import holds
from shared.work.intake import Rejected
from shared.work.rollouts import Control, control, start
from tests.faults.harness import SECOND, Call, Finding, Interference, Site
from tests.faults.openings import HOLDS, Openings
from tests.faults.schedules import Schedule, calls_of, said
from tests.faults.site import FOREIGN, LABELS_1, LABELS_2, REVISION_1, REVISION_2, a_site, policy
from tests.faults.stories import Story, approves, everything_ended, labels_are, shown_impact, time_passes

TOO_LATE = (WrongPhase, WrongState, Rejected, UnknownRollout)
"""What somebody hears whose word comes too early or too late."""
ROLLOUT = """
apiVersion: hullmark.dev/v1
kind: Rollout
metadata: {name: careful}
spec:
  stages:
  - {name: canary, nodes: {names: [a-true, b-new]}, soak: 10m, approval: after}
  - {name: some, nodes: {names: [c-drops, d-taken, e-pruned]}, maxInFlight: 2}
"""
GONE = policy("gone", "g-gone", "ex.io/rack: r1")
LANE = policy("lane", "b-new", "ex.io/lane: fast")
TAKEN = {"ex.io/lane": "slow"}
"""What somebody else holds on b-new until the rollout takes it."""
BEFORE = {name: labels | (TAKEN if name == "b-new" else {}) for name, labels in LABELS_1.items()}
AFTER = {name: labels | ({"ex.io/lane": "fast"} if name == "b-new" else {}) for name, labels in LABELS_2.items()}
SWEEP = "01KAJ0000000000000000000C3"


def ready(site: Site) -> None:
    """Revision 1 on every node, a label of somebody else's on one; revision 2 committed, with a rollout that takes it."""
    a_site(site)
    site.ask()
    site.drain()
    site.nodes.set_labels("b-new", TAKEN, "someone")
    site.commit(REVISION_2 + GONE + LANE + ROLLOUT)


# --- what people do over HTTP


def starts(site: Site, **how: object) -> str:
    """Start one, and let the clock ring, should nobody have been told of it; its id."""
    answer = site.client("POST", "/v1.0/rollouts", json={"name": "careful", **how})
    site.drain()
    site.elapsed += 60
    site.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])
    site.drain()
    ids = site.untouched.rollouts.ids()
    return str(answer.body["id"]) if answer.status == 201 else ids[-1] if ids else ""


def says(site: Site, rollout: str, verb: str, **word: object) -> None:
    """Give it a word."""
    answer = site.client("POST", f"/v1.0/rollouts/{rollout}/control/{verb}", json=word)
    if answer.status == 202 and verb in HOLDS:
        openings(site).answered(rollout)
    site.drain()


def openings(site: Site) -> Openings:
    """What is known of what people were answered."""
    if "openings" not in vars(site):
        vars(site)["openings"] = Openings(site.truth)
    found: Openings = vars(site)["openings"]
    return found


# --- paths


def pause_and_go_on(site: Site) -> None:
    """Paused while it soaks, for longer than that; resumed; approved twice, and once too late."""
    rollout = starts(site)
    says(site, rollout, "pause", reason="a look")
    time_passes(site)
    time_passes(site)
    says(site, rollout, "resume")
    approves(site, rollout, "canary")
    site.drain()
    approves(site, rollout, "canary")
    site.drain()
    for _ in range(4):
        time_passes(site)
    approves(site, rollout, "canary")
    site.drain()


def done(site: Site, found: Finding) -> None:
    """Every node has the new labels, and the revision is the base."""
    in_order(site, found)
    labels_are(found, site, AFTER)
    head = site.untouched.releases.head("default")
    found.expect((head.base, head.about.next) == (2, None), f"released {head.about}")
    found.expect(phases(site) == ["done"], f"phases {phases(site)}")


def take_back(site: Site) -> None:
    """Reverted after its canary; its revision is asked for again by name, and the one before it is committed anew and asked for."""
    rollout = starts(site)
    says(site, rollout, "revert")
    time_passes(site)
    site.ask(SECOND, name="update_labels", target_nodes=["a-true", "c-drops"])
    site.drain()
    site.commit(REVISION_1 + GONE)
    site.ask(SWEEP, name="update_labels", target_nodes=["a-true", "c-drops"])
    site.drain()
    time_passes(site)


def taken_back(site: Site, found: Finding) -> None:
    """Every node has what it had, and what was taken from others is theirs again."""
    in_order(site, found)
    labels_are(found, site, BEFORE)
    found.expect(phases(site) == ["reverted"], f"phases {phases(site)}")
    found.expect("rejected" in site.untouched.revisions.tags(2), "its revision is not rejected")
    node, world = site.nodes.node("b-new"), site.untouched
    opened = any(
        world.rollouts.get(rollout).batches for rollout in world.rollouts.ids()
    )  # one whose start was not heard of may be ended first
    holder = ("hullmark-revert",) if opened else ("someone",)
    found.expect(node is not None and node.owners.get("ex.io/lane") == holder, f"lane is held by {node and node.owners}, not by {holder}")
    refused = site.untouched.actions.shown(SECOND)
    found.expect(refused is None, f"its revision was accepted again: {refused}")


def supersede(site: Site) -> None:
    """While its canary soaks another one takes its place, and is seen through."""
    starts(site)
    site.commit(REVISION_1 + GONE + ROLLOUT)
    second = starts(site, supersede=True)
    time_passes(site)
    approves(site, second, "canary")
    site.drain()
    for _ in range(4):
        time_passes(site)


def superseded(site: Site, found: Finding) -> None:
    """The first one opened nothing more, and every node has what the second brought."""
    in_order(site, found)
    labels_are(found, site, LABELS_1)
    found.expect(phases(site)[-1] == "done", f"phases {phases(site)}")
    found.expect({*phases(site)[:-1]} == {"superseded"}, f"phases {phases(site)}")


def abort_and_sweep(site: Site) -> None:
    """Aborted after its canary, and swept; a sweep finishes nothing that a person stopped."""
    rollout = starts(site)
    says(site, rollout, "abort")
    site.ask(SWEEP, name="drift_sweep")
    site.drain()
    time_passes(site)


def aborted(site: Site, found: Finding) -> None:
    """The canary has the new labels, and nobody else does."""
    in_order(site, found)
    labels_are(found, site, {name: (AFTER if name in ("a-true", "b-new") else BEFORE)[name] for name in BEFORE})
    found.expect(phases(site) == ["aborted"], f"phases {phases(site)}")


def in_order(site: Site, found: Finding, apart: timedelta = timedelta()) -> None:
    """Whatever happened: everything ends, nothing opened out of order, nor after somebody was answered that nothing opens."""
    everything_ended(site, found)
    site._interfere = None
    time_passes(site)
    everything_ended(site, found)
    found.broken += openings(site).broken(apart)
    halfway = {name: labels | FOREIGN for name, labels in AFTER.items()}
    given_back = ({name: labels | mixed for name, labels in each.items()} for each in (LABELS_1, LABELS_2) for mixed in ({}, TAKEN))
    lane = {name: labels | ({"ex.io/lane": "fast"} if name == "b-new" else {}) for name, labels in LABELS_1.items()}
    labels_are(found, site, BEFORE, AFTER, LABELS_1, LABELS_2, lane, halfway, *given_back)


def apart_in_order(site: Site, found: Finding) -> None:
    """The same, where clocks are up to ten minutes apart."""
    in_order(site, found, timedelta(minutes=20))


def phases(site: Site) -> list[str]:
    """What became of the rollouts, oldest first; of those that a client started twice, the first."""
    world = site.untouched
    return [world.rollouts.get(rollout).phase for rollout in world.rollouts.ids()]


PATHS = {
    story.name: story
    for story in (
        Story("a pause, and twice a yes", ready, pause_and_go_on, done, apart_in_order),
        Story("the way back", ready, take_back, taken_back, apart_in_order),
        Story("another one in its place", ready, supersede, superseded, apart_in_order),
        Story("an end, then a sweep", ready, abort_and_sweep, aborted, apart_in_order),
    )
}


# --- words of others at any outside call


def steady(site: Site) -> None:
    """Somebody at another desk starts a rollout, looks after it, and approves what waits."""
    with suppress(*TOO_LATE):
        start("careful", "a person", site.untouched, site.now())
    site.drain()
    time_passes(site)
    time_passes(site)
    word(site, "approve", "canary")
    for _ in range(4):
        time_passes(site)


def goes_on(site: Site) -> None:
    """The fleet and every rollout are let go on, and what waits is approved, until nothing is left; then the clock sweeps."""
    site._interfere = None
    site.drain()
    resume_all(site)
    site.drain()
    for _ in range(7):
        if not (unfinished := site.untouched.rollouts.open()):
            break
        for rollout in unfinished:
            word(site, "resume", rollout=rollout)
            word(site, "approve", "canary", rollout=rollout)
        time_passes(site)
    site.ask(SWEEP.replace("C3", "E5"), name="drift_sweep")
    site.drain()


def ended_in_order(site: Site, found: Finding) -> None:
    """Every rollout has ended in order, and each node has what is released to it."""
    everything_ended(site, found)
    found.broken += openings(site).broken()
    found.expect({*phases(site)} <= {"done", "aborted", "reverted", "superseded"}, f"phases {phases(site)}")
    found.expect(not site.untouched.rollouts.open(), f"open for ever: {site.untouched.rollouts.open()}")
    site.as_released(found, *BEFORE)


def word(site: Site, verb: Control, stage: str = "", rollout: str = "") -> None:
    """Somebody who knows nothing of the process at work gives the newest rollout a word."""
    world, now = site.untouched, site.now()
    rollout = rollout or max(world.rollouts.ids(), default="")
    with suppress(*TOO_LATE):
        impact = shown_impact(site, rollout) if verb == "approve" else ""
        control(rollout, verb, "a person", world, now, stage=stage, impact=impact, message="because")
        if verb in HOLDS:
            openings(site).answered(rollout)


def pause_fleet(site: Site) -> None:
    """Somebody pauses the whole fleet."""
    with suppress(*TOO_LATE):
        holds.pause("because", "a person", site.untouched, site.now())
        site.paused()


def resume_all(site: Site) -> None:
    """Somebody lets the whole fleet go on."""
    site.paused_at = None
    with suppress(*TOO_LATE):
        holds.resume("a person", site.untouched, site.now())


def replace(site: Site) -> None:
    """Somebody commits, and starts another one in its place."""
    site.commit(REVISION_1 + GONE + ROLLOUT)
    with suppress(*TOO_LATE):
        begun = start("careful", "a person", site.untouched, site.now(), supersede=True)
        for replaced in site.untouched.rollouts.get(begun.id).replaces:
            openings(site).answered(replaced)


def revert_and_relabel(site: Site) -> None:
    """Somebody takes it back, commits what was before, and asks for nodes that it had reached, and others."""
    word(site, "revert")
    site.commit(REVISION_1 + GONE)
    site.ask(SECOND, name="update_labels", target_nodes=["a-true", "d-taken"])


def relabel_some(site: Site) -> None:
    """Somebody asks for a node of the canary and one of the next stage; that is seen through right now."""
    site.ask(SECOND, name="update_labels", target_nodes=["b-new", "d-taken"])
    site.drain(SECOND)


def sweep(site: Site) -> None:
    """The clock's sweep, seen through right now."""
    site.ask(SWEEP, name="drift_sweep")
    site.drain(SWEEP)


def end_and_sweep(site: Site) -> None:
    """Somebody ends it, and the clock sweeps."""
    word(site, "abort")
    sweep(site)


def look_too(site: Site) -> None:
    """Another clock rings, and its step is taken right now."""
    for rollout in site.untouched.rollouts.open():
        body = RolloutStep(rollout=rollout).outgoing()
        site.publish(RolloutStep.TOPIC, [body])
        site.drain(body.data.decode())


def put(site: Site) -> None:
    """Somebody sets the labels of a node of the canary, and of one of a later stage."""
    for node in ("b-new", "d-taken"):
        site.request("api", "PUT", f"/v1.0/node-labels/{node}", "a person", json={"ex.io/rack": "mine"})


WORDS: Mapping[str, Callable[[Site], None]] = {
    "a pause": lambda site: word(site, "pause"),
    "a pause of the fleet": pause_fleet,
    "a yes": lambda site: word(site, "approve", "canary"),
    "an end, and a sweep": end_and_sweep,
    "the way back": lambda site: word(site, "revert"),
    "the way back, and a relabel": revert_and_relabel,
    "another one in its place": replace,
    "another clock": look_too,
    "a sweep": sweep,
    "a relabel of two nodes": relabel_some,
    "labels by hand": put,
}
STEADY = Story("steady", ready, steady, done, ended_in_order)


def spoken(name: str) -> Iterator[Schedule]:
    """A word of somebody else right before each outside call."""
    say = WORDS[name]
    for call in calls_of(STEADY):
        yield Schedule(f"{name} before {said(call)}", {"interfere": before(call, say)}, (call.step,), strict=False)


def before(wanted: Call, say: Callable[[Site], None]) -> Interference:
    """Somebody speaks right before a call."""

    def interfere(site: Site, call: Call, do: Callable[[], object]) -> object:
        if call.number == wanted.number:
            site.beside(lambda: say(site), None)
        return do()

    return interfere
