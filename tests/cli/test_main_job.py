"""The main job by the command line: JSON as DESIGN §11 fixes it, exit codes, what people read."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from local.cli.output import grid
from local.steps import ROOT
from shared.adapters.simulated import Simulated
from shared.adapters.store import open_store
from tests.cli.conftest import Hullmark
from tests.stories.fleet import a_policy

Write = Callable[..., str]
POLICY = a_policy("racks", {"names": ["n1", "gone"]}, {"rack": "r7"})


@pytest.fixture
def committed(hullmark: Hullmark, site: Write, nodes: Write, monkeypatch: pytest.MonkeyPatch) -> Hullmark:
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{nodes(n1={'zone': 'a'}, n2={})}")
    assert hullmark("documents", "stage", "-f", site(POLICY)).code == 0
    assert hullmark("documents", "commit").code == 0
    return hullmark


def test_labels_tells_the_labels_and_the_source_of_each(hullmark: Hullmark, site: Write) -> None:
    ran = hullmark("labels", "-f", site(POLICY), "-o", "json")
    assert ran.code == 0
    assert ran.json["nodes"]["n1"] == {"labels": {"rack": "r7"}, "sources": {"rack": "NodeLabelPolicy/racks"}}


def test_validate_answers_with_every_problem_and_its_place(hullmark: Hullmark, site: Write) -> None:
    wrong = a_policy("p", {"names": ["n1"]}, {"bad key!": "x", "kubernetes.io/os": "linux"}, prioriti=3)
    ran = hullmark("validate", "-f", site(POLICY, wrong), "-o", "json")
    assert ran.code == 1
    assert ran.json["valid"] is False
    assert {"file", "line", "document", "path", "type", "message"} <= set(ran.json["errors"][0])
    assert {error["file"] for error in ran.json["errors"]} == {"site.yaml"}
    assert {error["document"] for error in ran.json["errors"]} == {"NodeLabelPolicy/p"}
    lines = Path("site.yaml").read_text().splitlines()
    assert all("prioriti" in lines[e["line"] - 1] for e in ran.json["errors"] if e["path"] == "spec.prioriti")


def test_validate_is_content_with_good_documents(hullmark: Hullmark, site: Write) -> None:
    ran = hullmark("validate", "-f", site(POLICY), "-o", "json")
    assert (ran.code, ran.json["valid"], ran.json["errors"]) == (0, True, [])


def test_select_names_the_nodes_sorted(hullmark: Hullmark, site: Write) -> None:
    Path("filter.json").write_text('{"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_labels": {"rack": "r7"}}]}')
    ran = hullmark("select", "-f", site(POLICY), "--filter", "filter.json", "-o", "json")
    assert (ran.code, ran.json) == (0, {"nodes": ["gone", "n1"]})


def test_labels_select_and_plan_go_by_the_labels_of_the_cluster(hullmark: Hullmark, site: Write, nodes: Write) -> None:
    dev = a_policy("dev", {"names": ["n1"]}, {"tier": "dev"}, clusters={"matchLabels": {"env": "dev"}})
    clusters = [
        {"apiVersion": "hullmark.dev/v1", "kind": "Cluster", "metadata": {"name": name, "labels": {"env": env}}, "spec": {}}
        for name, env in (("east", "dev"), ("west", "prod"))
    ]
    file, listed = site(dev, *clusters), nodes(n1={})
    Path("filter.json").write_text('{"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_labels": {"tier": "dev"}}]}')
    for cluster, tier in (("east", {"tier": "dev"}), ("west", {})):
        on = ("-f", file, "--cluster", cluster, "-o", "json")
        assert hullmark("labels", *on).json["nodes"]["n1"]["labels"] == tier
        assert hullmark("select", *on, "--filter", "filter.json").json["nodes"] == (["n1"] if tier else [])
        planned = hullmark("plan", *on, "--nodes", listed)
        assert {name: node["set"] for name, node in planned.json["nodes"].items()} == ({"n1": tier} if tier else {})
    assert "policies for certain clusters are left out; --cluster shows one: east, west" in hullmark("labels", "-f", file).err
    refused = hullmark("labels", "-f", file, "--cluster", "eastt")
    assert (refused.code, "the documents name no cluster eastt: did you mean east?" in refused.err) == (1, True)


def test_plan_lists_only_nodes_that_change_with_the_reason_for_each_key(hullmark: Hullmark, site: Write, nodes: Write) -> None:
    ran = hullmark("plan", "-f", site(POLICY), "--nodes", nodes(n1={"zone": "a"}, n2={}), "-o", "json")
    assert ran.code == 2
    change = {"set": {"rack": "r7"}, "remove": [], "from": {}, "takeovers": [], "reasons": {"rack": "declared by NodeLabelPolicy/racks"}}
    assert ran.json["nodes"] == {"n1": change}
    assert (ran.json["unchanged"], ran.json["missing"]) == (1, ["gone"])


def test_plan_without_documents_plans_aliases_alone(hullmark: Hullmark, nodes: Write) -> None:
    file = nodes(n1={"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"}, n2={"kubernetes.io/os": "linux"})
    ran = hullmark("plan", "--nodes", file, "-o", "json")
    assert ran.code == 2
    assert {name: node["set"] for name, node in ran.json["nodes"].items()} == {"n1": {"beta.kubernetes.io/os": "linux"}}
    old = hullmark("plan", "--nodes", file, "--server-version", "1.17.3", "-o", "json")
    assert {name: node["set"] for name, node in old.json["nodes"].items()} == {"n1": {"kubernetes.io/os": "windows"}}


def test_plan_with_nothing_pending_exits_with_zero(hullmark: Hullmark, site: Write, nodes: Write) -> None:
    ran = hullmark("plan", "-f", site(a_policy("p", {}, {"zone": "a"})), "--nodes", nodes(n1={"zone": "a"}))
    assert ran.code == 0
    assert "0 to change, 1 unchanged" in ran.out


def test_plan_says_where_a_listing_hides_who_owns_what(hullmark: Hullmark, site: Write) -> None:
    Path("bare.json").write_text(json.dumps({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "labels": {}}}))
    ran = hullmark("plan", "-f", site(POLICY), "--nodes", "bare.json")
    assert "no managedFields" in ran.err


def test_relabel_tells_the_outcome_of_every_node(committed: Hullmark) -> None:
    ran = committed("relabel", "--all", "-o", "json")
    assert ran.code == 3
    assert set(ran.json) >= {"id", "result", "nodes"}
    assert ran.json["result"] == "partial_success"
    assert {name: node["outcome"] for name, node in ran.json["nodes"].items()} == {"gone": "missing", "n1": "changed", "n2": "unchanged"}
    assert ran.json["nodes"]["n1"]["changes"] == {"set": {"rack": "r7"}, "remove": []}
    assert ran.json["nodes"]["gone"]["reason"] == "NodeNotFound"


def test_the_simulated_cluster_outlasts_the_process(committed: Hullmark) -> None:
    committed("relabel", "--all")
    ran = committed("relabel", "n1", "-o", "json")
    assert (ran.code, ran.json["nodes"]["n1"]["outcome"]) == (0, "unchanged") or "NoSiteAction" in ran.err
    plan = committed("plan", "-o", "json")
    assert (plan.code, plan.json["nodes"], plan.json["revision"]) == (0, {}, 1)


def test_a_targeted_relabel_needs_a_site_action_or_an_adoption(committed: Hullmark) -> None:
    refused = committed("relabel", "n1", "-o", "json")
    assert refused.code == 1
    assert refused.json["errors"][0]["reason"] == "NoSiteAction"
    assert "documents tag" in refused.err
    assert committed("documents", "tag", "1", "site-action-success").code == 0
    assert committed("relabel", "n1", "-o", "json").json["result"] == "success"


def test_a_failed_action_is_listed_shown_and_retried_on_its_failed_nodes(committed: Hullmark) -> None:
    relabelled = committed("relabel", "--all", "-o", "json")
    assert relabelled.code == 3
    action = relabelled.json["id"]
    (listed,) = committed("actions", "list", "-o", "json").json["actions"]
    assert (listed["id"], listed["lifecycle"], listed["result"]) == (action, "Failed", "partial_success")
    assert committed("actions", "show", action, "-o", "json").json["nodes"]["gone"]["outcome"] == "missing"
    retried = committed("actions", "retry", action, "-o", "json")
    assert set(retried.json["nodes"]) == {"gone"}
    assert retried.json["id"] != action


def test_a_plan_that_still_holds_is_applied_and_a_stale_one_is_not(committed: Hullmark, site: Write) -> None:
    committed("documents", "tag", "1", "site-action-success")
    assert committed("plan", "--target", "n1", "--out", "p.json").code == 2
    committed("documents", "stage", "-f", site(a_policy("racks", {"names": ["n1"]}, {"rack": "r8"})))
    committed("documents", "commit")
    stale = committed("relabel", "--plan", "p.json", "-o", "json")
    assert stale.code == 5
    assert stale.json["errors"][0]["reason"] == "StalePlan"
    committed("plan", "--target", "n1", "--out", "p.json")
    applied = committed("relabel", "--plan", "p.json", "-o", "json")
    assert applied.code == 0
    assert applied.json["nodes"]["n1"]["changes"]["set"] == {"rack": "r8"}


def test_a_plan_that_was_applied_has_nothing_to_do(committed: Hullmark) -> None:
    committed("documents", "tag", "1", "site-action-success")
    committed("plan", "--target", "n1", "--out", "p.json")
    assert committed("relabel", "--plan", "p.json").code == 0
    again = committed("relabel", "--plan", "p.json", "-o", "json")
    assert (again.code, again.json["result"], again.json["counts"]) == (0, "success", {"unchanged": 1})


def test_a_plan_writes_what_it_says_and_no_other_node(committed: Hullmark, site: Write) -> None:
    committed("documents", "stage", "-f", site(a_policy("racks", {}, {"rack": "r7"})))
    committed("documents", "commit")
    committed("documents", "tag", "2", "site-action-success")
    committed("plan", "--target", "n1", "--out", "p.json")
    for more in (["--all"], ["--filter", "f.json"], ["n2"], ["n1,n2"], ["--cluster", "elsewhere"]):
        refused = committed("relabel", *more, "--plan", "p.json", "-o", "json")
        assert (refused.code, refused.json["errors"][0]["reason"]) == (1, "Usage"), more
    assert set(committed("relabel", "--plan", "p.json", "-o", "json").json["nodes"]) == {"n1"}
    assert set(committed("plan", "-o", "json").json["nodes"]) == {"n2"}


def test_a_plan_edited_by_hand_writes_nothing_that_the_documents_do_not_say(committed: Hullmark) -> None:
    committed("documents", "tag", "1", "site-action-success")
    committed("plan", "--target", "n1", "--out", "p.json")
    text = Path("p.json").read_text()
    Path("p.json").write_text(text.replace('"r7"', '"r9"'))
    stale = committed("relabel", "--plan", "p.json", "-o", "json")
    assert (stale.code, stale.json["reason"]) == (5, "StalePlan")
    assert "n1 (planned rack: (none) → r9; now due rack: (none) → r7)" in stale.err
    Path("p.json").write_text(text.replace('"r7"', '"no value"'))
    crooked = committed("relabel", "--plan", "p.json")
    assert (crooked.code, "p.json: no change of a label: 'rack: (none) → no value'" in crooked.err) == (1, True)
    Path("p.json").write_text(text[: len(text) // 2])
    torn = committed("relabel", "--plan", "p.json")
    assert (torn.code, "p.json: not a plan from `hullmark plan --out`" in torn.err) == (1, True)
    assert set(committed("plan", "-o", "json").json["nodes"]) == {"n1"}


def test_a_plan_of_an_earlier_version_is_refused_with_words(committed: Hullmark) -> None:
    committed("plan", "--out", "p.json")
    old = json.loads(Path("p.json").read_text())
    for node in old["nodes"].values():
        del node["from"], node["takeovers"]
    Path("p.json").write_text(json.dumps(old))
    ran = committed("relabel", "--plan", "p.json")
    assert (ran.code, "an earlier version of hullmark made this plan" in ran.err) == (1, True)


def test_what_plan_prints_as_json_is_a_plan_too_and_one_without_changes_is_done(committed: Hullmark) -> None:
    committed("documents", "tag", "1", "site-action-success")
    Path("p.json").write_text(committed("plan", "-o", "json").out)
    assert committed("relabel", "--plan", "p.json").code == 0
    Path("p.json").write_text(committed("plan", "-o", "json").out)
    done = committed("relabel", "--plan", "p.json", "-o", "json")
    assert (done.code, done.json) == (0, {"id": None, "result": "success", "nodes": {}})


def test_a_plan_of_files_is_stale_until_they_are_committed(committed: Hullmark, site: Write) -> None:
    committed("documents", "tag", "1", "site-action-success")
    site(a_policy("racks", {"names": ["n1"]}, {"rack": "r8"}), name="next.yaml")
    committed("plan", "-f", "next.yaml", "--target", "n1", "--out", "p.json")
    stale = committed("relabel", "--plan", "p.json")
    assert (stale.code, "it was made of files, and what is committed says something else" in stale.err) == (5, True)
    committed("documents", "stage", "-f", "next.yaml")
    committed("documents", "commit")
    assert committed("relabel", "--plan", "p.json", "-o", "json").json["nodes"]["n1"]["changes"]["set"] == {"rack": "r8"}


def test_a_plan_is_applied_to_the_cluster_that_it_was_made_for(
    hullmark: Hullmark, site: Write, nodes: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HULLMARK_SIMULATED", f"one={nodes(n1={})}")
    clusters = (
        {
            "apiVersion": "hullmark.dev/v1",
            "kind": "Cluster",
            "metadata": {"name": name},
            "spec": {"access": {"simulated": {"name": "one"}}},
        }
        for name in ("east", "west")
    )
    hullmark("documents", "stage", "-f", site(*clusters, a_policy("racks", {"names": ["n1"]}, {"rack": "r7"})))
    hullmark("documents", "commit")
    hullmark("documents", "tag", "1", "site-action-success")
    hullmark("plan", "--cluster", "west", "--out", "p.json")
    assert hullmark("relabel", "--plan", "p.json", "-o", "json").json["nodes"]["n1"]["outcome"] == "changed"
    assert hullmark("plan", "--cluster", "west").code == 0
    assert hullmark("plan", "--cluster", "east").code == 2


def test_a_plan_that_nothing_can_carry_out_is_blocked(hullmark: Hullmark, site: Write, nodes: Write) -> None:
    file, found = site(a_policy("racks", {"names": ["n1"]}, {"rack": "r7"}, onConflict="fail")), nodes(n1={"rack": "hand-made"})
    ran = hullmark("plan", "-f", file, "--nodes", found, "-o", "json")
    assert (ran.code, ran.json["blocked"]["n1"]["outcome"]) == (4, "failed")
    site(a_policy("racks", {"names": ["n1"]}, {"rack": "r7"}, onConflict="skip"))
    assert hullmark("plan", "-f", file, "--nodes", found).code == 0


def test_a_filter_reads_as_documents_do_and_may_come_from_standard_input(
    hullmark: Hullmark, site: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = site(a_policy("gpu", {"names": ["n1"]}, {"gpu": "yes"}), a_policy("other", {"names": ["n2"]}, {"gpu": "no"}))
    text = b"filter_set_type: union\nfilter_set: [{filter_type: union, node_labels: {gpu: yes}}]\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert hullmark("select", "-f", file, "--filter", "-", "-o", "json").json == {"nodes": ["n1"]}


def test_two_revisions_are_compared_in_text_and_in_labels(committed: Hullmark, site: Write) -> None:
    committed("documents", "stage", "-f", site(a_policy("racks", {"names": ["n1"]}, {"rack": "r8"})))
    committed("documents", "commit")
    ran = committed("documents", "diff", "1", "2", "-o", "json")
    assert ran.json["nodes"]["n1"] == {"before": {"rack": "r7"}, "after": {"rack": "r8"}}
    assert "+    rack: r8" in ran.json["diff"]
    listed = committed("documents", "list", "-o", "json").json
    assert [(revision["number"], revision["nodes"]) for revision in listed["revisions"]] == [(1, 2), (2, 1)]


def test_what_a_revision_shows_can_be_staged_again(hullmark: Hullmark, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number, text in enumerate(("{name}", "---\n{name}\n...", "{name}\n---\n# nothing\n")):
        head = {"apiVersion": "hullmark.dev/v1", "kind": "NodeLabelPolicy", "metadata": {"name": f"p{number}"}}
        document = json.dumps(head | {"spec": {"labels": {}}})
        (folder / f"{number}.yaml").write_text(text.format(name=document))
    hullmark("documents", "stage", "-f", str(folder))
    hullmark("documents", "commit", "-m", "why not", "--source", "git:1234")
    (tmp_path / "again.yaml").write_text(hullmark("documents", "show", "1").out)
    hullmark("documents", "stage", "-f", str(tmp_path / "again.yaml"))
    again = hullmark("documents", "commit", "-o", "json").json
    assert (again["revision"], again["documents"]) == (2, 3)
    first = hullmark("documents", "show", "1", "-o", "json").json
    assert [each["text"] for each in first["files"]] == [file.read_text() for file in sorted(folder.iterdir())]
    assert (first["message"], first["source"]) == ("why not", "git:1234")
    assert "why not (git:1234)" in hullmark("documents", "list").out


def test_a_collection_is_removed_and_a_revision_restored(committed: Hullmark, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    refused = committed("documents", "stage", "-f", str(tmp_path / "empty.yaml"))
    assert (refused.code, "hullmark documents remove default" in refused.err) == (1, True)
    assert committed("documents", "remove", "nobody").code == 1
    committed("documents", "remove", "default")
    dry = committed("documents", "commit", "--dry-run", "-o", "json").json
    assert (dry["valid"], dry["revision"]) == (True, None)
    assert committed("documents", "commit", "-o", "json").json["documents"] == 0
    assert committed("documents", "commit", "--dry-run").code == 1
    restored = committed("documents", "restore", "1", "-o", "json")
    assert (restored.json["revision"], restored.json["rejected"]) == (3, [2])
    assert "rejected: 2; no action releases a rejected revision until `hullmark documents untag N rejected`" in restored.err
    assert "until they are relabelled: `hullmark relabel --all`" in restored.err
    assert committed("documents", "show", "3").out == committed("documents", "show", "1").out


def test_what_another_hullmark_of_our_name_set_is_left_alone_until_a_person_adopts_it(
    committed: Hullmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed("relabel", "--all")
    cluster = Simulated(open_store("file:.hullmark"), "default")
    cluster.apply_labels("n1", cluster.node("n1").uid, {"rack": "r7", "team": "theirs"})  # type: ignore[union-attr]
    planned = committed("plan", "--target", "n1", "-o", "json")
    assert (planned.code, planned.json["blocked"]["n1"]["reason"]) == (0, "NotAdopted")
    kept = committed("relabel", "n1")
    assert (kept.code, "NotAdopted" in kept.out, "relabel n1 --adopt" in kept.out) == (0, True, True)
    adopting = committed("plan", "--target", "n1", "--adopt", "--out", "p.json", "-o", "json")
    assert (adopting.code, adopting.json["nodes"]["n1"]["remove"]) == (2, ["team"])
    assert committed("relabel", "--plan", "p.json").code == 5, "without --adopt it would do something else"
    done = committed("relabel", "--plan", "p.json", "--adopt", "-o", "json")
    assert (done.code, done.json["nodes"]["n1"]["changes"]["remove"]) == (0, ["team"])


def test_every_command_answers_with_one_yaml_document_too(committed: Hullmark) -> None:
    import yaml

    assert yaml.safe_load(committed("plan", "-o", "yaml").out)["missing"] == ["gone"]


def test_the_console_script_runs_and_ends_with_the_codes(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("hullmark")
    ran = subprocess.run([script, "valdate"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert ran.returncode == 1
    assert "Did you mean `hullmark validate`?" in ran.stderr
    assert subprocess.run([script, "--help"], capture_output=True, text=True, cwd=tmp_path, timeout=60).returncode == 0


def test_the_demo_tells_its_story_to_the_end(hullmark: Hullmark, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = hullmark("demo")
    assert ran.code == 0
    assert "That's it." in ran.err
    told_of = " ".join(ran.out.split())
    for told in (
        "accelerator  hopper  none     hopper  hullmark",
        "Drift: accelerator is missing, it should be 'hopper'",
        "drift_sweep of default: partial_success (1 changed,",
        "beyond the limits: it removes labels from 26 of 27 nodes",
        "blocked (nothing was written): it removes labels from 26 of 27 nodes",
        "NewerRevisionWaits: revision 2 is committed and not released to it",
        "rejected: 2",
        "cluster default, 27 nodes: no label changes",
        "spare01    override    yes",
        "spare01  changed  halden.example.com/pool-",
        "6 change (0 lose labels); added: halden.example.com/driver on 6",
        "canary  open     1 of 1      0 (0 may)  0        Soaking until",
        "default/gpu01 turned NotReady; a second look decides",
        "gpu-driver: reverted, revision 4",
        "gpu01  revision 3  yes",
        "gpu02  revision 3  yes",
    ):
        assert " ".join(told.split()) in told_of
    assert "revision 4 was rejected" in told_of
    assert ran.err.count("$ hullmark") == 26
    assert len(ran.out.splitlines()) < 150, "few lines: somebody watches"
    assert "HULLMARK_NOW" not in os.environ, "its clock was put ahead for it alone"

    folder = re.search(r"store is (\S+)/store;", " ".join(ran.err.split()))
    assert folder
    monkeypatch.setenv("HULLMARK_STORE", f"file:{folder[1]}/store")
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{ROOT / 'examples' / 'nodes.json'}")
    assert "rejected" in hullmark("documents", "list", "-o", "json").json["revisions"][3]["tags"]
    for node in hullmark("nodes", "--labels", "-o", "json").json["nodes"].values():
        assert "halden.example.com/driver" not in node["labels"]
    assert [one["phase"] for one in hullmark("rollout", "status", "-o", "json").json["rollouts"]] == ["reverted"]


def test_on_a_narrow_terminal_what_a_row_is_about_stays_whole_and_nothing_is_cut() -> None:
    printed = io.StringIO()
    action = "01M7YKRHSHJ5EH037DQBPS74CQ"
    Console(file=printed, width=50).print(grid(("id", "name", "requested_at"), [(action, "update_site", "2026-11-21T08:32:28+00:00")]))
    assert action in printed.getvalue()
    assert "…" not in printed.getvalue()


def test_plan_and_relabel_take_the_same_version_for_a_cluster_that_tells_none(
    hullmark: Hullmark, site: Write, nodes: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 1.17 the beta key is true; both say so from the nodes' kubelets."""
    file = Path(nodes(n1={"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"}))
    file.write_text(file.read_text().replace("v1.35.4", "v1.17.3"))
    monkeypatch.setenv("HULLMARK_CLUSTER", f"simulated:{file}")
    hullmark("documents", "stage", "-f", site(a_policy("p", {}, {"rack": "r1"})))
    hullmark("documents", "commit")
    planned = hullmark("plan", "-o", "json").json["nodes"]["n1"]["set"]
    done = hullmark("relabel", "--all", "-o", "json").json["nodes"]["n1"]["changes"]["set"]
    assert planned == done == {"kubernetes.io/os": "windows", "rack": "r1"}


TAKEN = a_policy("racks", {"names": ["n1"]}, {"rack": "r7"})


def test_a_plan_shows_the_old_value_the_new_one_and_the_holder_and_counts_takeovers(hullmark: Hullmark, site: Write, nodes: Write) -> None:
    file, found = site(TAKEN), nodes(n1={"rack": "mine"})
    ran = hullmark("plan", "-f", file, "--nodes", found)
    assert "rack: mine → r7 (kubelet)" in ran.out
    assert ran.out.splitlines()[-1] == "1 to change, 0 unchanged, 0 missing, 0 blocked, 1 takeover (rack)"
    assert "rack: (none) → r7\n" in hullmark("plan", "-f", file, "--nodes", nodes(n1={})).out.replace(
        "  declared by NodeLabelPolicy/racks", ""
    )


def test_a_summary_of_a_plan_counts_keys_and_names_no_node(hullmark: Hullmark, site: Write, nodes: Write) -> None:
    file, found = site(TAKEN), nodes(n1={"rack": "mine"})
    ran = hullmark("plan", "-f", file, "--nodes", found, "--summary")
    assert (ran.code, "n1" in ran.out) == (2, False)
    assert [line.split() for line in ran.out.splitlines()[:2]] == [["KEY", "SET", "REMOVED", "TAKEN", "OVER"], ["rack", "1", "0", "1"]]
    told = hullmark("plan", "-f", file, "--nodes", found, "--summary", "-o", "json").json
    assert (told["changing"], told["keys"]) == (1, {"rack": {"set": 1, "remove": 0, "takeovers": 1}})


def test_what_a_policy_leaves_to_others_keeps_no_plan_from_being_green(hullmark: Hullmark, site: Write, nodes: Write) -> None:
    rules = {"apiVersion": "hullmark.dev/v1", "kind": "LabelRules", "metadata": {"name": "rules"}, "spec": {"onConflict": "skip"}}
    ran = hullmark("plan", "-f", site(TAKEN, rules), "--nodes", nodes(n1={"rack": "mine"}))
    assert ran.code == 0
    assert "rack is 'mine' by kubelet; NodeLabelPolicy/racks declares 'r7', LabelRules says onConflict: skip" in ran.out
    assert ran.out.splitlines()[-1] == "0 to change, 0 unchanged, 0 missing, 0 blocked, 1 left to others"


def test_a_plan_of_nothing_is_an_error_and_of_a_listing_alone_the_aliases(hullmark: Hullmark, nodes: Write) -> None:
    ran = hullmark("plan", "-o", "json")
    assert (ran.code, ran.json["errors"][0]["reason"]) == (1, "NoCommittedRevision")
    assert hullmark("plan", "--nodes", nodes(n1={})).code == 0


def test_a_dry_run_says_everywhere_that_it_is_one(committed: Hullmark) -> None:
    ran = committed("relabel", "--all", "--dry-run")
    assert "(dry run): partial_success (1 would change, 1 missing, 1 unchanged): dry run: nothing was written" in ran.out
    assert "update_site (dry run)" in committed("actions", "list").out
    (listed,) = committed("actions", "list", "-o", "json").json["actions"]
    assert listed["dry_run"] is True
    shown = committed("actions", "show", listed["id"], "-o", "json").json
    assert (shown["dry_run"], shown["message"], shown["nodes"]["n1"]["outcome"]) == (True, "dry run: nothing was written", "changed")
    assert "would change" in committed("actions", "show", listed["id"]).out


def test_a_plan_says_that_its_revision_waits_and_drift_is_shown_alone(committed: Hullmark, site: Write) -> None:
    assert "revision 1 waits: nothing is released to cluster default; `hullmark relabel` releases it" in committed("plan").out
    committed("relabel", "--all")
    assert "waits" not in committed("plan").out
    committed("documents", "stage", "-f", site(a_policy("racks", {"names": ["n1"]}, {"rack": "r8"})))
    committed("documents", "commit")
    pending, drift = committed("plan"), committed("plan", "--released")
    assert (pending.code, "revision 2 waits: revision 1 is released to cluster default" in pending.out) == (2, True)
    assert (drift.code, "revision 2 waits" in drift.out, drift.out.splitlines()[-1]) == (
        0,
        True,
        "0 to change, 2 unchanged, 1 missing, 0 blocked",
    )
    for more in (["-f", "site.yaml"], ["--nodes", "nodes.json"], ["--server-version", "1.17"]):
        refused = committed("plan", "--released", *more, "-o", "json")
        assert (refused.code, refused.json["errors"][0]["reason"]) == (1, "Usage")
