"""What the matrix of faults runs: one story for each thing that Hullmark does, and what must be true when it has ended.

`right` holds where whatever went wrong was over in time: the end is the one without faults. `safe` holds of every run, however broken
the world was: nothing hangs, nothing is told in two ways, nothing is done twice or undone.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import yaml

from shared.adapters.simulated import Simulated
from shared.domain.documents.reading import Document
from shared.domain.labels.bound import STALE_PLAN
from shared.domain.labels.plans import PlanRequest
from shared.domain.names import SITE_ACTION_SUCCESS
from shared.domain.nodes import Taint
from shared.domain.outcomes import STARTUP_TAINT
from shared.domain.rollouts.progress import Progress
from shared.domain.versions.clusters import FleetCluster, Pool
from shared.domain.versions.profiles import gardener
from shared.domain.versions.windows import parse_window
from shared.ledger.actions import UnknownAction, WrongState
from shared.ledger.records import RecordUnreadable
from shared.ledger.rollouts import UnknownRollout
from shared.messages import NodeChanged, Notice, Outgoing, RelabelRequest, RolloutStep, VersionCheck
from shared.ports import ObjectStore
from shared.work.control import control
from shared.work.plans import plan_committed
from shared.work.releasing import tag
from shared.world import Settings
from tests.faults.harness import ACTION, BEGIN, SECOND, WRITES, Answer, Finding, Site
from tests.faults.site import FOREIGN, LABELS_1, LABELS_2, OUTCOMES_1, REVISION_2, a_site, policy
from tests.pods.reviews import ZONE, a_binding, a_review, patched
from tests.versions.test_functions import EVENING, cloud_profile, shoot

Check = Callable[[Site, Finding], None]
MOVED = {"ex.io/rack": "moved"}
MINE = {"ex.io/rack": "mine"}
SWEEP = "01KAJ0000000000000000000C3"


@dataclass(frozen=True)
class Story:
    """Something that people, machines or the clock ask for, from a site as it stands before to what must have come of it."""

    name: str
    prepare: Callable[[Site], object]
    run: Callable[[Site], object]
    right: Check
    safe: Check
    twin: Callable[[Site], None] = Site.again
    """What another process does at the same time: by default the same delivery once more."""
    settings: Mapping[str, str] = field(default_factory=lambda: {"cluster": "simulated:nowhere"})
    begin: datetime = BEGIN
    repeats: bool = True
    """Whether every run makes the same calls in the same order, so that two of them can be run into each other call by call."""

    def site(self, **how: Any) -> Site:
        """The site as it stands before the story begins."""
        kept = _prepared(self)
        site = self._empty(**how)
        site.elapsed = kept.elapsed
        site.notices.extend(kept.notices)
        site.provided = kept.provided
        for store, objects in zip(_stores(site), kept.objects, strict=True):
            for key, body in objects.items():
                store.create(key, body)
        return site

    def _empty(self, **how: Any) -> Site:
        site = Site(settings=Settings(store="memory:", **self.settings), **how)
        site.begin = self.begin
        site.others = {name: Simulated(site.machines, name, version="v1.35.4") for name in ("east", "west")}
        return site

    def undisturbed(self, **how: Any) -> Site:
        """The story without any fault."""
        site = self.site(**how)
        self.run(site)
        return site


@dataclass(frozen=True)
class _Kept:
    """A site that was prepared, to copy."""

    elapsed: float
    notices: list[Notice]
    provided: dict[str, Any]
    objects: list[dict[str, bytes]]


_PREPARED: dict[str, _Kept] = {}


def _prepared(story: Story) -> _Kept:
    if story.name not in _PREPARED:
        _PREPARED[story.name] = _prepare(story)
    return _PREPARED[story.name]


def _prepare(story: Story) -> _Kept:
    site = story._empty()
    story.prepare(site)
    objects = [{key: store.get(key) or b"" for key in store.keys("")} for store in _stores(site)]
    return _Kept(site.elapsed, list(site.notices), site.provided, objects)


def _stores(site: Site) -> tuple[ObjectStore, ...]:
    return site.truth, site.machines, site.provider


def labels_are(found: Finding, site: Site, *allowed: Mapping[str, Mapping[str, str]], cluster: Simulated | None = None) -> None:
    """Every node has the labels that one of these says."""
    for node in (cluster or site.nodes).nodes():
        wanted = [each[node.name] for each in allowed]
        found.expect(dict(node.labels) in wanted, f"{node.name} has {dict(node.labels)}, not {wanted}")


def labels_before(story: str) -> dict[str, dict[str, str]]:
    """Every node's labels before a story begins."""
    return STORIES[story].site().labels()


def everything_ended(site: Site, found: Finding) -> None:
    """Every action that was accepted has ended and was told once, at the latest after its deadline; nothing is on its way any more."""
    site.ended_once(found, *accepted(site), in_time=False)


def accepted(site: Site) -> list[str]:
    """The ids of the actions that were accepted; a process may have died over one before it was."""
    ledger = site.untouched.actions
    found = [(action, request) for action in ledger.ids() if (request := ledger.shown(action))]
    children = [child for _, request in found for child in request.children.values() if ledger.shown(child)]
    return [*(action for action, _ in found), *children]


def told_before_marked(site: Site, found: Finding) -> None:
    """Nothing is marked as told that was never told."""
    told = {notice.id for notice in site.notices}
    marked = {(site.truth.get(key) or b"").decode(errors="replace") for key in site.truth.keys("notices/versions/")}
    marked |= {f"conflict.detected/{key.removeprefix('told/').removesuffix('.json')}" for key in site.truth.keys("told/")}
    lost = [mark for mark in marked if mark not in told and not any(each.startswith(mark) for each in told)]  # a torn mark tells less
    found.expect(not [mark for mark in lost if "\x00" not in mark], f"marked as told, and never told: {lost}")


# --- a relabel of everything


def relabel(site: Site) -> None:
    """Somebody asks for every node."""
    site.ask()
    site.drain()


def relabelled(site: Site, found: Finding) -> None:
    """Every node carries its labels, and the action says what became of each."""
    site.ended_once(found, ACTION)
    labels_are(found, site, LABELS_1)
    outcome = site.untouched.actions.outcome(ACTION)
    if outcome:
        told = {one.subject: one.outcome for one in outcome.outcomes} | dict.fromkeys(outcome.unchanged, "unchanged")
        expected = dict(OUTCOMES_1)
        if site.repeated and told.get("f-skips") == "skipped":  # a second handling had only the skipped key left, and its result came first
            expected["f-skips"] = "skipped"
        found.expect(told == expected, f"told {told}")
        found.expect(outcome.counts == Counter(expected.values()), f"counted {outcome.counts}")
        found.expect(outcome.result == "partial_success", f"ended {outcome.result}")
        tags = site.untouched.revisions.tags(1)
        found.expect(tags == ["committed", "site-action-failure"], f"tags {tags}")


def relabelled_in_part(site: Site, found: Finding) -> None:
    """Whatever ended is told of every node once; a node is as it was, as it should be, or between the two writes of `prune: all`."""
    everything_ended(site, found)
    halfway = {name: labels | FOREIGN for name, labels in LABELS_1.items()}
    labels_are(found, site, LABELS_1, labels_before("relabel"), halfway)
    for action in accepted(site):
        outcome = site.untouched.actions.outcome(action)
        subjects = sorted([*(one.subject for one in outcome.outcomes), *outcome.unchanged]) if outcome else []
        found.expect(len(subjects) == len(set(subjects)), f"told twice of one: {subjects}")


# --- a relabel that is bound to a plan

PLANNED = ("b-new", "c-drops", "d-taken", "e-pruned")


def adopted_site(site: Site) -> None:
    """The site, deployed by other means."""
    a_site(site)
    tag(1, SITE_ACTION_SUCCESS, "an operator", site.untouched, site.begin)


def apply_plan(site: Site) -> None:
    """Somebody has seen a plan of some nodes, and applies it."""
    plan = plan_committed(PlanRequest(target_nodes=list(PLANNED), adopt=True), site.untouched).bound()
    site.ask(plan=plan, adopt=True)
    site.drain()


def applied_as_planned(site: Site, found: Finding) -> None:
    """The plan's nodes carry their labels, and every other one is as it was."""
    site.ended_once(found, ACTION)
    labels_are(found, site, labels_before("plan") | {name: LABELS_1[name] for name in PLANNED})
    outcome = site.outcome()
    found.expect(outcome.counts == {"changed": len(PLANNED)}, f"counted {outcome.counts}")
    found.expect((outcome.result, outcome.reason) == ("success", ""), f"ended {outcome.result} {outcome.reason}")


def applied_in_part(site: Site, found: Finding) -> None:
    """A node of the plan is as it was, as it was planned, or between the two writes of `prune: all`; every other one is as it was."""
    everything_ended(site, found)
    before = labels_before("plan")
    planned = before | {name: LABELS_1[name] for name in PLANNED}
    labels_are(found, site, planned, before, planned | {"e-pruned": LABELS_1["e-pruned"] | FOREIGN})


def apply_stale_plan(site: Site) -> None:
    """A colleague changes one of the nodes in between."""
    plan = plan_committed(PlanRequest(target_nodes=list(PLANNED), adopt=True), site.untouched).bound()
    site.nodes.set_labels("d-taken", MOVED, "someone else")
    site.ask(plan=plan, adopt=True)
    site.drain()


def left_alone(site: Site, found: Finding) -> None:
    """Whatever goes wrong: no node is written, and nothing is released."""
    everything_ended(site, found)
    before = labels_before("stale plan")
    labels_are(found, site, before | {"d-taken": before["d-taken"] | MOVED})
    found.expect(not site.untouched.releases.look().state("default").names(), "released to nodes")


def refused_as_stale(site: Site, found: Finding) -> None:
    """The same, and the action says so."""
    left_alone(site, found)
    outcome = site.outcome()
    found.expect((outcome.result, outcome.reason) == ("failure", STALE_PLAN), f"ended {outcome.result} {outcome.reason}")


# --- a dry run


def rehearse(site: Site) -> None:
    """A dry run of a relabel and of a check of versions."""
    site.ask(name="update_site", dry_run=True)
    site.publish(VersionCheck.TOPIC, [VersionCheck(dry_run=True, force_window=True).outgoing()])
    site.drain()


def nothing_written(site: Site, found: Finding) -> None:
    """No node, no cluster and no tag has changed."""
    everything_ended(site, found)
    labels_are(found, site, labels_before("dry run"))
    found.expect(site.untouched.revisions.tags(1) == ["committed"], f"tags {site.untouched.revisions.tags(1)}")
    written = [key for key in site.truth.keys("") if key.startswith(("fleet/", "notices/", "tags/", "drift/", "told/"))]
    found.expect(not written, f"wrote {written}")
    found.expect(not site.applied, f"applied {site.applied}")
    found.expect(accepted(site) in ([ACTION], []), f"actions {accepted(site)}")


def rehearsed(site: Site, found: Finding) -> None:
    """The same, and the preview names what would change."""
    nothing_written(site, found)
    counts = site.outcome().counts
    found.expect(counts == {"changed": 5, "missing": 1, "unchanged": 1}, f"counted {counts}")


# --- a sweep over several clusters


def two_clusters(site: Site) -> None:
    """One policy for both clusters, each with a node that has drifted."""
    site.commit(
        policy("all", "n1", "ex.io/rack: r1")
        + "".join(
            f"apiVersion: hullmark.dev/v1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{access: {{inCluster: {{}}}}}}\n---\n"
            for name in site.others
        )
    )
    tag(1, "site-action-success", "an operator", site.untouched, site.now())
    for cluster in site.others.values():
        cluster.create("n1", FOREIGN)
        cluster.apply("n1", {"ex.io/rack": "r0"}, "hullmark")


def sweep_all(site: Site) -> None:
    """The clock's own message: it names no cluster and no action."""
    site.publish(RelabelRequest.TOPIC, [Outgoing(b'{"name": "drift_sweep"}')])
    site.drain()


def swept(site: Site, found: Finding) -> None:
    """Each cluster has had one sweep, and is in sync."""
    ids = accepted(site)
    site.ended_once(found, *ids)
    clusters = sorted(site.untouched.actions.request(action).cluster for action in ids)
    found.expect(clusters == ["east", "west"], f"swept {clusters}")
    for cluster in site.others.values():
        labels_are(found, site, {"n1": FOREIGN | {"ex.io/rack": "r1"}}, cluster=cluster)


def swept_in_part(site: Site, found: Finding) -> None:
    """No cluster was swept twice by one message of the clock."""
    everything_ended(site, found)
    requests = [site.untouched.actions.shown(action) for action in accepted(site)]
    clusters = [each.cluster for each in requests if each and each.cluster != "unknown"]
    found.expect(len(clusters) == len(set(clusters)), f"swept {clusters}")
    for cluster in site.others.values():
        labels_are(found, site, {"n1": FOREIGN | {"ex.io/rack": "r1"}}, {"n1": FOREIGN | {"ex.io/rack": "r0"}}, cluster=cluster)


# --- startup taints

STARTUP, GPU = Taint("ex.io/unlabelled", "NoSchedule"), Taint("ex.io/gpu", "NoExecute", "true")
STARTED = {
    "n1": FOREIGN | {"ex.io/rack": "r1"},
    "n2": FOREIGN | {"ex.io/rack": "r1"},
    "n3": FOREIGN | {"ex.io/rack": "theirs", "ex.io/row": "w1"},
    "n4": FOREIGN | {"ex.io/rack": "r1"},
}


def two_register(site: Site) -> None:
    """A new node with its startup taint and another one, and one whose policy names no taint, though others name this one."""
    until = ", until: {taint: {key: ex.io/unlabelled, effect: NoSchedule}}"
    for name in ("n1", "n4"):
        site.nodes.create(name, FOREIGN, ready=True, taints=(STARTUP, GPU))
    site.commit(
        policy("all", "n1, n2", "ex.io/rack: r1", until)
        + policy("skipped", "n3", "ex.io/rack: r1, ex.io/row: w1", ", onConflict: skip" + until)
        + policy("untold", "n4", "ex.io/rack: r1")
    )
    tag(1, SITE_ACTION_SUCCESS, "an operator", site.untouched, site.begin)


def four_register(site: Site) -> None:
    """The same; and a node that has its labels already, and one with a key that its policy leaves to somebody."""
    two_register(site)
    for name in ("n2", "n3"):
        site.nodes.create(name, FOREIGN, ready=True, taints=(STARTUP, GPU))
    site.nodes.apply("n2", {"ex.io/rack": "r1"}, "hullmark")
    site.nodes.set_labels("n3", {"ex.io/rack": "theirs"}, "someone")


def tell_of_new(site: Site) -> None:
    """The clusters' events about them."""
    for node in site.nodes.nodes():
        event = NodeChanged(name=node.name, kind="added", uid=node.uid, resource_version=node.resource_version)
        site.publish(NodeChanged.TOPIC, [event.outgoing()])
    site.drain()


def sweep_new(site: Site) -> None:
    """A sweep of all of them."""
    site.ask(name="drift_sweep")
    site.drain()


def opened(site: Site, found: Finding) -> None:
    """Every node has its labels; those whose release names the taint have lost it, and nothing else."""
    opened_in_part(site, found)
    labels_are(found, site, STARTED)
    kept = {node.name: node.taints for node in site.nodes.with_taints().nodes()}
    found.expect(kept == dict.fromkeys(kept, (GPU,)) | {"n4": (STARTUP, GPU)}, f"taints {kept}")


def swept_and_opened(site: Site, found: Finding) -> None:
    """The same, and the sweep says on which node the taint stays."""
    opened(site, found)
    site.ended_once(found, ACTION)
    told = {one.subject: one.reason for one in site.outcome().outcomes}
    found.expect(told.get("n4") == STARTUP_TAINT, f"told {told}")


def opened_in_part(site: Site, found: Finding) -> None:
    """No node without its labels has lost the taint, no taint of others is gone, and n4 keeps its own."""
    everything_ended(site, found)
    before = dict.fromkeys(STARTED, FOREIGN) | {"n2": STARTED["n2"], "n3": FOREIGN | {"ex.io/rack": "theirs"}}
    labels_are(found, site, STARTED, before)
    for node in site.nodes.with_taints().nodes():
        held = node.taints or ()
        early = STARTUP not in held and (node.name == "n4" or dict(node.labels) != STARTED[node.name])
        found.expect(not early, f"{node.name} has lost its startup taint with the labels {dict(node.labels)}")
        found.expect(GPU in held, f"{node.name} has lost a taint of somebody's: {held}")


# --- a relabel of two clusters at once


def relabel_both(site: Site) -> None:
    """Somebody asks for every node of both."""
    site.ask(name="update_site", clusters=["east", "west"])
    site.drain()


def both_relabelled(site: Site, found: Finding) -> None:
    """Each cluster has had one action and is in sync; the whole has succeeded and tagged its revision."""
    both_or_neither(site, found)
    ids = accepted(site)
    site.ended_once(found, *ids)
    clusters = [site.untouched.actions.request(action).cluster for action in ids]
    found.expect(clusters == ["", "east", "west"], f"actions on {clusters}")
    found.expect(site.outcome().counts == {"changed": 2}, f"counted {site.outcome().counts}")
    tags = site.untouched.revisions.tags(1)
    found.expect(tags == ["committed", "site-action-success"], f"tags {tags}")
    for cluster in site.others.values():
        labels_are(found, site, {"n1": FOREIGN | {"ex.io/rack": "r1"}}, cluster=cluster)


def both_or_neither(site: Site, found: Finding) -> None:
    """The whole and what it consists of end, once each, and say the same of each cluster; no cluster has two actions."""
    everything_ended(site, found)
    ledger = site.untouched.actions
    if (asked := ledger.shown(ACTION)) is None:
        return
    listed = ledger.ids()
    found.expect(listed == [ACTION], f"listed {listed}")
    told = {outcome.subject: outcome for outcome in site.outcome().outcomes}
    for cluster, child in asked.children.items():
        ended = ledger.outcome(child)
        well = cluster in told and told[cluster].outcome in ("changed", "unchanged")
        same = not well or (ended is not None and ended.result == "success")
        found.expect(same, f"{cluster} is told as {told.get(cluster)}, and ended {ended}")
        labels_are(found, site, *({"n1": FOREIGN | {"ex.io/rack": rack}} for rack in ("r0", "r1")), cluster=site.others[cluster])


def steer_both(site: Site) -> None:
    """A client asks for both clusters, pauses the whole, lets it go on, and stops another one."""
    parameters = {"clusters": "east, west"}
    first = started(site.client("POST", "/v1.0/actions", json={"name": "update_site", "parameters": parameters}))
    site.drain(most=1)
    if first:
        site.client("POST", f"/v1.0/actions/{first}/control/pause")
        site.drain()
        site.client("POST", f"/v1.0/actions/{first}/control/unpause")
    site.drain()
    second = started(site.client("POST", "/v1.0/actions", json={"name": "update_site", "parameters": parameters}))
    if second:
        site.client("POST", f"/v1.0/actions/{second}/control/stop")
    site.drain()


def both_steered(site: Site, found: Finding) -> None:
    """The first has brought both in sync; the second was stopped, or had nothing to do."""
    steered_in_part(site, found)
    for answer in site.answers:
        found.expect(answer.status in (201, 202, 409), f"{answer.path} was answered {answer.status}: {answer.body}")
    first, second = [started(answer) for answer in site.answers if answer.path == "/v1.0/actions"]
    if not (first and second):
        found.expect(False, "an action was not accepted")
        return
    found.expect(site.outcome(first).counts == {"changed": 2}, f"first: {site.outcome(first)}")
    found.expect(site.outcome(second).result in ("stopped", "success"), f"second: {site.outcome(second)}")
    for cluster in site.others.values():
        labels_are(found, site, {"n1": FOREIGN | {"ex.io/rack": "r1"}}, cluster=cluster)


def steered_in_part(site: Site, found: Finding) -> None:
    """Everything ends, and each node is as it was or as it should be."""
    everything_ended(site, found)
    for cluster in site.others.values():
        labels_are(found, site, *({"n1": FOREIGN | {"ex.io/rack": rack}} for rack in ("r0", "r1")), cluster=cluster)


# --- an event


def relabel_first(site: Site) -> None:
    """The site in sync; then somebody takes a label of ours over."""
    a_site(site)
    site.ask()
    site.drain()
    site.nodes.set_labels("b-new", MOVED, "someone")


def tell_of(site: Site) -> None:
    """The cluster's event about it."""
    node = site.nodes.node("b-new")
    assert node
    event = NodeChanged(name="b-new", kind="changed", uid=node.uid, resource_version=node.resource_version)
    site.publish(NodeChanged.TOPIC, [event.outgoing()])
    site.drain()


def repaired(site: Site, found: Finding) -> None:
    """The label is back."""
    everything_ended(site, found)
    labels_are(found, site, LABELS_1)


def repaired_or_not(site: Site, found: Finding) -> None:
    """The label is back, or waits for the sweep."""
    everything_ended(site, found)
    labels_are(found, site, LABELS_1, labels_before("event"))


def fight(site: Site) -> None:
    """Somebody takes the label back after each of our repairs, until we let go of it."""
    relabel_first(site)
    for _ in range(3):
        tell_of(site)
        site.nodes.set_labels("b-new", MOVED, "someone")


def let_go(site: Site, found: Finding) -> None:
    """The label is left alone, and people know why."""
    let_go_quietly(site, found)
    labels_are(found, site, labels_before("fight"))
    told = {notice.id for notice in site.notices if notice.type == "dev.hullmark.conflict.detected.v1"}
    found.expect(len(told) == 1, f"told {sorted(told)}")


def let_go_quietly(site: Site, found: Finding) -> None:
    """Nobody was marked as told who was not; a clock that is in the next window repairs once more."""
    everything_ended(site, found)
    told_before_marked(site, found)
    labels_are(found, site, labels_before("fight"), LABELS_1)


# --- what is released, while a newer commit waits


def newer_commit(site: Site) -> None:
    """The site in sync with its first revision; a second one waits."""
    a_site(site)
    site.ask()
    site.drain()
    site.commit(REVISION_2)


def stop_then_sweep(site: Site) -> None:
    """The second revision is asked for everywhere and stopped after its first part; then the clock sweeps."""
    site.ask(SECOND)
    site.drain(most=2)
    with suppress(UnknownAction, WrongState):  # its request was not accepted yet, or it has ended
        control(SECOND, "stop", "a person", site.untouched, site.now())
    site.drain()
    sweep_once(site)


def sweep_once(site: Site) -> None:
    """A sweep by its own name."""
    site.ask(SWEEP, name="drift_sweep")
    site.drain()


def as_released(site: Site, found: Finding) -> None:
    """Each node has the labels of what is released to it, by the judge's reckoning."""
    everything_ended(site, found)
    for node in site.nodes.nodes():
        revision, override = site.judge.mark("default", node.name)
        wanted = {1: LABELS_1, 2: LABELS_2}[revision][node.name] | (MINE if override else {})
        found.expect(dict(node.labels) == wanted, f"{node.name} has {dict(node.labels)}, released is revision {revision}: {wanted}")


def of_some_release(site: Site, found: Finding) -> None:
    """Each node has the labels of one of the revisions, or has drifted still; the judge has looked at every write."""
    everything_ended(site, found)
    mine, drifted = ({name: labels | other for name, labels in LABELS_1.items()} for other in (MINE, MOVED))
    halfway = ({name: labels | FOREIGN for name, labels in each.items()} for each in (LABELS_1, LABELS_2))
    labels_are(found, site, LABELS_1, LABELS_2, mine, drifted, *halfway)


def sweep_and_tell(site: Site) -> None:
    """Drift of two nodes while the second revision waits: an event tells of one, the sweep finds the other."""
    for name in ("a-true", "b-new"):
        site.nodes.set_labels(name, MOVED, "someone")
    tell_of(site)
    sweep_once(site)


def put_then_relabel(site: Site) -> None:
    """A person sets a node's labels; the event of that write and a sweep keep them, until the node is relabelled."""
    site.client("PUT", "/v1.0/node-labels/c-drops", "a person", json=MINE)
    node = site.nodes.node("c-drops")
    assert node
    site.publish(NodeChanged.TOPIC, [NodeChanged(name="c-drops", kind="added", uid=node.uid).outgoing()])
    site.drain()
    sweep_once(site)
    site.ask(SECOND, name="update_labels", target_nodes=["c-drops", "d-taken"])
    site.drain()


# --- versions

TARGET = ["1.28.1", "1.28.1", "1.0.0"]
FROM = ["1.27.3", "1.27.3", "1.0.0"]


def two_fleets(site: Site) -> None:
    """A cluster that lives in a document, and one that a provider has; both run what has expired."""
    garden = {
        "apiVersion": "hullmark.dev/v1",
        "kind": "Cluster",
        "metadata": {"name": "garden"},
        "spec": {"provider": "gardener", "access": {"inCluster": {}}},
    }
    site.begin = EVENING - timedelta(days=60)  # when all versions were good
    site.commit(yaml.safe_dump_all([cloud_profile(), shoot("documented"), garden]))
    site.begin = EVENING
    live = shoot("provided")
    site.provided = gardener([Document("live.yaml", 0, 1, "Shoot", "provided", live)]).clusters


def check_all_evening(site: Site) -> None:
    """The clock's checks, every ten minutes while the window is open, and one when it is shut."""
    for later in (0, 600, 600, 3600):
        site.elapsed = later + max(0.0, site.elapsed)
        site.publish(VersionCheck.TOPIC, [VersionCheck().outgoing()])
        site.drain()


def versions_of(site: Site) -> dict[str, list[str | None]]:
    """What each cluster runs."""
    world = site.untouched
    fleets = world.fleets(world.revisions.get(world.revisions.newest()))
    versions: dict[str, list[str | None]] = {}
    for name in ("garden/documented", "garden/provided"):
        with suppress(RecordUnreadable):  # a cluster whose changes are torn is left alone
            if there := fleets.find(name):
                cluster = there[1]
                pools = [version for pool in cluster.pools for version in (pool.kubernetes, pool.image_version)]
                versions[name] = [cluster.kubernetes, *pools]
    return versions


def updated(site: Site, found: Finding) -> None:
    """Both clusters run what they must, by one action each."""
    updated_in_part(site, found)
    running = versions_of(site)
    found.expect(running == dict.fromkeys(("garden/documented", "garden/provided"), TARGET), f"running {running}")


def change_in(body: bytes) -> tuple[str, str]:
    """Which step a change in the store tells of; torn ones are all different."""
    try:
        change = json.loads(body)
    except ValueError:
        return "torn", str(id(body))
    return f"{change['component']}/{change['subject']}", change["to"]


def updated_in_part(site: Site, found: Finding) -> None:
    """No step was taken twice, none outside the window; each cluster runs what it ran or what it should."""
    site._skew = lambda step, delivery: 0.0
    everything_ended(site, found)
    told_before_marked(site, found)
    steps = [(name, step.key, step.to) for _, name, step in site.applied]
    bodies = [(key.rpartition("/")[0], site.truth.get(key) or b"") for key in site.truth.keys("fleet/")]
    steps += [(folder, *change_in(body)) for folder, body in bodies]
    found.expect(len(steps) == len(set(steps)), f"applied {steps}")
    times = [at for at, _, _ in site.applied] + [at for at, key in site.written if key.startswith("fleet/")]
    shut = [at for at in times if at.hour != 22]
    found.expect(not shut, f"applied outside the window: {shut}")
    for name, versions in versions_of(site).items():
        mixed = all(each in (before, after) for each, before, after in zip(versions, FROM, TARGET, strict=True))
        found.expect(mixed, f"{name} runs {versions}")


# --- versions of a provider that takes its time

SLOW = "eks/slow"


def a_slow_fleet(site: Site) -> None:
    """A cluster whose provider carries updates out after it has accepted them; what it runs has expired."""
    garden = {
        "apiVersion": "hullmark.dev/v1",
        "kind": "Cluster",
        "metadata": {"name": "slow"},
        "spec": {"provider": "gardener", "access": {"inCluster": {}}},
    }
    site.begin = EVENING - timedelta(days=60)
    site.commit(yaml.safe_dump_all([cloud_profile(), garden]))
    site.begin = EVENING
    pool = Pool("a", "m", kubernetes="1.27.3")
    window = parse_window("220000+0000", "010000+0000")
    site.provided = {SLOW: FleetCluster(SLOW, "1.27.3", "p", pools=(pool,), window=window, asked_for=True)}


def check_until_it_rests(site: Site) -> None:
    """The clock's checks while the control plane and then the pool are updated, and some more."""
    for later in (0, 600, 600, 600, 600, 600, 3600):
        site.elapsed = later + max(0.0, site.elapsed)
        site.publish(VersionCheck.TOPIC, [VersionCheck().outgoing()])
        site.drain()


def slow_versions(site: Site) -> list[str | None]:
    """What the cluster runs."""
    cluster = site.untouched.fleets(site.untouched.revisions.get(1)).find(SLOW)
    return [cluster[1].kubernetes, *(pool.kubernetes for pool in cluster[1].pools)] if cluster else []


def carried_out(site: Site, found: Finding) -> None:
    """Everything runs what it must, and each of its updates is told as begun and as done."""
    carried_out_in_part(site, found)
    found.expect(slow_versions(site) == ["1.28.1", "1.28.1"], f"running {slow_versions(site)}")
    done = {notice.data["component"] for notice in site.notices if notice.type.endswith("version.updated.v1")}
    found.expect(done == {"controlPlane", "worker/a"}, f"told as done: {done}")
    ends = {action: outcome.result for action in accepted(site) if (outcome := site.untouched.actions.outcome(action))}
    found.expect("expired" not in ends.values(), f"ended {ends}")


def carried_out_in_part(site: Site, found: Finding) -> None:
    """No update was begun twice, and every action has ended."""
    site._skew = lambda step, delivery: 0.0
    everything_ended(site, found)
    steps = [tuple(json.loads(site.provider.get(key) or b"{}")["step"]) for key in site.provider.keys("updates/")]
    found.expect(len(steps) == len(set(steps)), f"begun {steps}")


# --- documents over HTTP

SITE_2 = REVISION_2
OTHER = policy("other", "z-other", "ex.io/rack: r9")


def commits_over_http(site: Site, collection: str, documents: str, who: str) -> None:
    """One person stages and commits."""
    site.client("POST", f"/v1.0/configdocs/{collection}", who, data=documents, content_type="application/x-yaml")
    site.client("POST", "/v1.0/commitconfigdocs", who)


def commit_site(site: Site) -> None:
    """Somebody commits the site."""
    commits_over_http(site, "site", SITE_2, "the one")


def commit_other(site: Site) -> None:
    """Somebody else commits another collection."""
    commits_over_http(site, "other", OTHER, "the other")


def committed(site: Site, found: Finding) -> None:
    """Nothing that was staged is lost, and every committer was told the truth."""
    committed_if_told(site, found)
    for answer in site.answers:
        found.expect(answer.status in (200, 201, 409), f"{answer.who}: {answer.path} was answered {answer.status}: {answer.body}")
    for who, documents in {"the one": SITE_2, "the other": OTHER}.items():
        if any(answer.who == who for answer in site.answers):
            found.expect(documents in newest_documents(site), f"the documents of {who} are not in the newest revision")


def committed_if_told(site: Site, found: Finding) -> None:
    """Who was told of a revision finds in it what was staged before; the revisions have no gap."""
    site._interfere = None
    revisions = site.untouched.revisions
    numbers = revisions.numbers()
    found.expect(numbers == list(range(1, len(numbers) + 1)), f"revisions {numbers}")
    staged = {"the one": SITE_2, "the other": OTHER}
    for answer in site.answers:
        if answer.path != "/v1.0/commitconfigdocs":
            continue
        if answer.status == 200:
            held = documents_of(site, answer.body["revision"])
            found.expect(staged[answer.who] in held, f"{answer.who} was told of revision {answer.body['revision']}, which lacks its own")
        elif answer.status == 409:
            named = re.search(r"revision (\d+)", json.dumps(answer.body))
            number = int(named[1]) if named else 0  # others may have committed since, or a late listing have hidden what was staged
            told = number == revisions.newest() or (number and staged[answer.who] in documents_of(site, number))
            found.expect(bool(told), f"{answer.who} was not told which revision holds what it staged: {answer.body}")


def newest_documents(site: Site) -> list[str]:
    """The files of the newest revision."""
    return documents_of(site, site.untouched.revisions.newest())


def documents_of(site: Site, number: int) -> list[str]:
    """The files of a revision."""
    return [source.data.decode() for source in site.untouched.revisions.sources(number)]


# --- actions over HTTP


def act_over_http(site: Site) -> None:
    """One action is paused and goes on, another is stopped; their client repeats what dies or is answered with 5xx."""
    first = started(site.client("POST", "/v1.0/actions", json={"name": "update_site", "parameters": {"adopt": True}}))
    site.drain(most=1)
    if first:
        site.client("POST", f"/v1.0/actions/{first}/control/pause")
        site.drain()
        site.client("POST", f"/v1.0/actions/{first}/control/unpause")
    site.drain()
    second = started(site.client("POST", "/v1.0/actions", json={"name": "update_labels", "parameters": {"target_nodes": ["a-true"]}}))
    if second:
        site.client("POST", f"/v1.0/actions/{second}/control/stop")
    site.drain()


def started(answer: Answer) -> str:
    """The id of the action that was accepted."""
    return str(answer.body["id"]) if answer.status == 201 else ""


def acted(site: Site, found: Finding) -> None:
    """What the client was told of has ended as it said; what it was never told of has ended too."""
    everything_ended(site, found)
    labels_are(found, site, LABELS_1)
    for answer in site.answers:
        found.expect(answer.status in (201, 202, 409), f"{answer.path} was answered {answer.status}: {answer.body}")
    first, second = [started(answer) for answer in site.answers if answer.path == "/v1.0/actions"]
    if not (first and second):
        found.expect(False, "an action was not accepted")
        return
    found.expect(site.outcome(first).counts == {"changed": 5, "missing": 1, "unchanged": 1}, f"first: {site.outcome(first)}")
    found.expect(site.outcome(second).result in ("stopped", "success"), f"second: {site.outcome(second)}")


# --- looking, over HTTP

PATHS = (
    "/v1.0/actions",
    f"/v1.0/actions/{ACTION}/outcome",
    "/v1.0/revisions",
    "/v1.0/configdocs",
    "/v1.0/tasks",
    "/health",
    "/metrics",
    "/",
)


def look(site: Site) -> None:
    """Somebody who may only read looks at everything."""
    for path in PATHS:
        site.client("GET", path, step="api_reader")


def shown(site: Site, found: Finding) -> None:
    """Everything is shown."""
    nothing_changed(site, found)
    for answer in site.answers:
        found.expect(answer.status == 200, f"{answer.path} was answered {answer.status}: {answer.body}")


def nothing_changed(site: Site, found: Finding) -> None:
    """Looking writes nothing, and is answered whatever happens: with what there is, or with what is wrong."""
    writes = [call for call in site.calls if call.method in WRITES]
    found.expect(not writes, f"wrote {writes}")
    everything_ended(site, found)
    for answer in site.answers:
        wrong = answer.status in (404, 503) and answer.body["message"]
        found.expect(answer.status == 200 or bool(wrong), f"{answer.path} was answered {answer.status}: {answer.body}")


# --- bindings of pods

PODS = """
apiVersion: hullmark.dev/v1
kind: PodLabelPolicy
metadata: {name: pods}
spec: {enabled: true}
"""
REVIEW = a_review(a_binding())


def a_zone(site: Site) -> None:
    """A node with topology labels, and a policy that copies them."""
    site.commit(PODS)
    site.nodes.create("n1", {ZONE: "z1", "vendor.io/gpu": "a100"})


def bind(site: Site) -> None:
    """The API server asks about one pod after another, until one got all that it should."""
    for _ in range(50):
        site.elapsed += 2
        answer = site.request("pod_binding", "POST", "/?timeout=2s", "the API server", json=REVIEW)
        site.answers.append(answer)
        if answer.status == 200 and "patch" in answer.body["response"]:
            break


def bound(site: Site, found: Finding) -> None:
    """Once the fault is over, pods get their labels."""
    never_denied(site, found)
    found.expect("patch" in (site.answers[-1].body or {"response": {}})["response"], f"50 pods later: {site.answers[-1]}")


def never_denied(site: Site, found: Finding) -> None:
    """Every review that was answered at all lets its pod bind, with right labels or a word on why there are none."""
    for answer in site.answers:
        found.expect(answer.status in (200, 0), f"answered {answer.status}: {answer.body}")
        if answer.status == 200:
            response = answer.body["response"]
            found.expect(response["allowed"] is True, f"denied: {response}")
            labels = patched(REVIEW, response)["metadata"].get("labels", {})
            told = labels == {ZONE: "z1"} or (labels == {} and response.get("warnings"))
            found.expect(bool(told), f"answered {response}")


# --- a rollout

ROLLOUT = """
apiVersion: hullmark.dev/v1
kind: Rollout
metadata: {name: careful}
spec:
  stages:
  - {name: canary, nodes: {names: [a-true, b-new]}, soak: 10m, approval: after}
"""


def rollout_ready(site: Site) -> None:
    """Revision 1 on every node; revision 2 committed, with a rollout."""
    a_site(site)
    site.ask()
    site.drain()
    site.commit(REVISION_2 + policy("gone", "g-gone", "ex.io/rack: r1") + ROLLOUT)


def roll_out(site: Site) -> None:
    """Somebody starts it, approves the canary after its soak, and time passes."""
    site.client("POST", "/v1.0/rollouts", json={"name": "careful"})
    site.drain()
    for _ in range(3):
        time_passes(site)
    for rollout in site.untouched.rollouts.open():
        approves(site, rollout, "canary")
    site.drain()
    for _ in range(3):
        time_passes(site)


def approves(site: Site, rollout: str, stage: str) -> None:
    """Somebody approves what is shown; where that has changed since it was counted, or could not be counted just now, they look again."""
    for _ in range(3):
        word = {"stage": stage, "impact": shown_impact(site, rollout)}
        answer = site.client("POST", f"/v1.0/rollouts/{rollout}/control/approve", json=word)
        if answer.status != 409 or "ImpactChanged" not in json.dumps(answer.body):
            break


def shown_impact(site: Site, rollout: str) -> str:
    """The digest of the impact that a rollout asks somebody to approve; empty where it asks for nothing."""
    with suppress(UnknownRollout, RecordUnreadable):
        asked = site.untouched.rollouts.get(rollout).asked
        return asked.digest if asked else ""
    return ""


def time_passes(site: Site) -> None:
    """Ten minutes and a little; the clock sends what it sends."""
    site.elapsed += 610
    site.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])
    site.drain()


def rolled_out(site: Site, found: Finding) -> None:
    """It is done: every node has the new labels, and the revision is the base."""
    rolled_out_in_part(site, found)
    rollouts = [site.untouched.rollouts.get(rollout) for rollout in site.untouched.rollouts.ids()]
    found.expect([each.phase for each in rollouts if each.phase != "superseded"] == ["done"], f"phases {[each.phase for each in rollouts]}")
    labels_are(found, site, LABELS_2)
    head = site.untouched.releases.head("default")
    found.expect((head.base, head.about.next) == (2, None), f"released {head.about}")
    found.expect("site-action-success" in site.untouched.revisions.tags(2), "not tagged")
    for answer in site.answers:
        found.expect(answer.status in (201, 202, 409), f"{answer.path} was answered {answer.status}: {answer.body}")


def rolled_out_in_part(site: Site, found: Finding) -> None:
    """Every batch has ended; none of a later stage was opened before the canary had soaked; no node has anything but one of both."""
    everything_ended(site, found)
    site._interfere = None
    time_passes(site)
    everything_ended(site, found)
    halfway = {name: labels | FOREIGN for name, labels in LABELS_2.items()}
    labels_are(found, site, LABELS_1, LABELS_2, halfway)
    ledger = site.untouched
    for rollout in ledger.rollouts.ids():
        with suppress(RecordUnreadable, UnknownRollout):
            opened_in_order(ledger.rollouts.get(rollout), site, found)


def opened_in_order(progress: Progress, site: Site, found: Finding) -> None:
    """The canary had soaked, and was approved, before anything else opened."""
    actions = site.untouched.actions
    canary = [batch for batch in progress.batches if batch.stage == 0 and not batch.back]
    rest = [batch for batch in progress.batches if batch.stage > 0 and not batch.back]
    for batch in rest:
        ends = [ended.finished_at for each in canary if (ended := actions.outcome(each.action))]
        soaked = ends and batch.at >= max(ends) + timedelta(minutes=10)
        found.expect(bool(soaked), f"{batch} was opened before the canary had soaked: {ends}")
    found.expect(not rest or progress.approved(0, "after"), "the rest was opened without a word")
    twice = len({batch.action for batch in progress.batches}) < len(progress.batches)
    found.expect(not twice and len({batch.where for batch in rest}) == len(rest), f"opened twice: {progress.batches}")


# --- versions in waves

WAVES = """
apiVersion: hullmark.dev/v1
kind: Rollout
metadata: {name: safe}
spec:
  change: versions
  stages:
  - {name: dev, clusters: {matchLabels: {env: dev}}, soak: 10m, maxInFlight: 1}
"""
PATCHES = [{"version": "1.30.4"}, {"version": "1.30.1"}]
IN_WAVES = ("garden/dev", "garden/prod")


def waves_ready(site: Site) -> None:
    """Two clusters that a patch waits for, and a rollout that nobody has started."""
    shoots = [shoot(name, "1.30.1", (), auto=True, labels={"env": name}) for name in ("dev", "prod")]
    site.commit(yaml.safe_dump_all([cloud_profile(PATCHES), *shoots]) + "---" + WAVES)


def go_in_waves(site: Site) -> None:
    """Somebody starts it, and the clock checks on two evenings."""
    site.client("POST", "/v1.0/rollouts", json={"name": "safe"})
    site.drain()
    for later in (0, 600, 780, 86_400):
        site.elapsed += later
        site.publish(VersionCheck.TOPIC, [VersionCheck().outgoing()])
        site.publish(RolloutStep.TOPIC, [RolloutStep().outgoing()])
        site.drain()


def went_in_waves(site: Site, found: Finding) -> None:
    """Both clusters run the patch."""
    waved_in_part(site, found)
    running = {name: kubernetes_of(site, name) for name in IN_WAVES}
    found.expect(set(running.values()) == {"1.30.4"}, f"running {running}")
    for answer in site.answers:
        found.expect(answer.status in (201, 409), f"{answer.path} was answered {answer.status}: {answer.body}")


def waved_in_part(site: Site, found: Finding) -> None:
    """Each cluster was changed once at most, the second one only when the first had run it through the soak."""
    site._skew = lambda step, delivery: 0.0
    everything_ended(site, found)
    changed = {name: [at for at, key in site.written if key.startswith(f"fleet/{name}/")] for name in IN_WAVES}
    found.expect(all(len(times) <= 1 for times in changed.values()), f"changed {changed}")
    dev, prod = (changed[name] for name in IN_WAVES)
    in_order = not prod or (bool(dev) and prod[0] - dev[0] >= timedelta(minutes=10))
    found.expect(in_order, f"production went before its stage: {changed}")


def kubernetes_of(site: Site, name: str) -> str | None:
    """What a cluster of the documents runs."""
    world = site.untouched
    there = world.fleets(world.revisions.get(world.revisions.newest())).find(name)
    return there[1].kubernetes if there else None


STORIES = {
    story.name: story
    for story in (
        Story("relabel", a_site, relabel, relabelled, relabelled_in_part),
        Story("plan", adopted_site, apply_plan, applied_as_planned, applied_in_part),
        Story("stale plan", adopted_site, apply_stale_plan, refused_as_stale, left_alone),
        Story("dry run", a_site, rehearse, rehearsed, nothing_written),
        Story("sweep of two clusters", two_clusters, sweep_all, swept, swept_in_part, settings={"cluster": ""}),
        Story("relabel of two clusters", two_clusters, relabel_both, both_relabelled, both_or_neither, settings={"cluster": ""}),
        Story("two clusters over HTTP", two_clusters, steer_both, both_steered, steered_in_part, settings={"cluster": ""}),
        Story("event", relabel_first, tell_of, repaired, repaired_or_not),
        Story("startup taints by events", two_register, tell_of_new, opened, opened_in_part),
        Story("startup taints by a sweep", four_register, sweep_new, swept_and_opened, opened_in_part),
        Story("fight", fight, tell_of, let_go, let_go_quietly),
        Story("stop, then a sweep", newer_commit, stop_then_sweep, as_released, of_some_release),
        Story("a commit that waits", newer_commit, sweep_and_tell, as_released, of_some_release),
        Story("override", newer_commit, put_then_relabel, as_released, of_some_release),
        Story("versions", two_fleets, check_all_evening, updated, updated_in_part, begin=EVENING),
        Story("updates of a slow provider", a_slow_fleet, check_until_it_rests, carried_out, carried_out_in_part, begin=EVENING),
        Story("commit", a_site, commit_site, committed, committed_if_told, twin=commit_other),
        Story("actions over HTTP", a_site, act_over_http, acted, relabelled_in_part),
        Story("rollout", rollout_ready, roll_out, rolled_out, rolled_out_in_part),
        Story("versions in waves", waves_ready, go_in_waves, went_in_waves, waved_in_part, begin=EVENING),
        Story("looking", relabel_first, look, shown, nothing_changed),
        Story("binding", a_zone, bind, bound, never_denied, repeats=False),
    )
}
