"""One relabel over several clusters at the command line, alone and against a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from local.cli.cloud import service
from local.cli.inputs import who
from local.cloud.clock import Clock
from local.cloud.server import EmbeddedServer
from shared import telemetry, wiring
from shared.world import Settings
from tests.cli.conftest import Hullmark
from tests.cli.test_embedded_and_server import Printed, both, environment, ran
from tests.stories.clusters import LABELS, a_cluster
from tests.stories.fleet import a_policy

COMMANDS = [
    ("documents", "stage", "-f", "site.yaml"),
    ("documents", "commit", "-o", "json"),
    *both("relabel", "--all"),
    *both("relabel", "--all", "--cluster", "east,wets"),
    *both("relabel", "--all", "--cluster-labels", "env=test"),
    *both("relabel", "--all", "--cluster-labels", "env"),
    *both("relabel", "--all", "--cluster", ","),
    *both("relabel", "--all", "--all-clusters", "--cluster", "east"),
    *both("relabel", "n1", "--cluster", "east,west"),
    *both("relabel", "--all", "--all-clusters", "--dry-run"),
    *both("relabel", "--all", "--all-clusters"),
    *both("relabel", "--all", "--cluster-labels", "env=prod"),
    *both("relabel", "--all", "--cluster-labels", "env=dev"),
    *both("relabel", "--filter", "n2.json", "--cluster", "east, north"),
    *both("actions", "list"),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two places with the same documents and the same nodes; north has lost one."""
    found = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("served")
    documents = [a_policy("rack", {"names": ["n1", "n2"]}, {"rack": "r1"}), *(a_cluster(*each) for each in LABELS.items())]
    which = {"filter_set_type": "union", "filter_set": [{"filter_type": "union", "node_names": ["n2"]}]}
    for folder in found:
        (folder / "site.yaml").write_text(yaml.safe_dump_all(documents))
        (folder / "n2.json").write_text(json.dumps(which))
        for name in LABELS:
            nodes = [
                {"kind": "Node", "metadata": {"name": node, "uid": f"{name}-{node}"}}
                for node in ("n1", "n2")[: 1 if name == "north" else 2]
            ]
            (folder / f"{name}.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": nodes}))
    return found


@pytest.fixture(scope="module")
def days(folders: tuple[Path, Path]) -> Iterator[tuple[list[Printed], list[Printed]]]:
    """What every command printed alone, and with a server."""
    telemetry.write_to(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Clock, "tick", lambda *_: None)
        patch.setenv("HULLMARK_SERVER", "")
        alone, served = folders
        patch.chdir(alone)
        with environment(patch, {"HULLMARK_STORE": f"file:{alone / 'store'}", "HULLMARK_SIMULATED": simulated(alone)}):
            first = [ran(words) for words in COMMANDS]
        patch.chdir(served)
        patch.delenv("HULLMARK_SIMULATED")
        settings = Settings(store=f"file:{served / 'store'}", simulated=simulated(served))
        with environment(patch, {}), EmbeddedServer(settings, 0, who(), lambda _: None) as running:
            yield first, [ran(words, running.url) for words in COMMANDS]
    service.cache_clear()
    wiring.install(None)


def simulated(folder: Path) -> str:
    return ",".join(f"{name}={folder / name}.json" for name in LABELS)


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=[" ".join(words) for words in COMMANDS])
def test_a_command_prints_the_same_for_a_server(days: tuple[list[Printed], list[Printed]], number: int) -> None:
    alone, served = (day[number] for day in days)
    assert served == alone


def said(days: tuple[list[Printed], list[Printed]], *words: str) -> Printed:
    return days[0][COMMANDS.index(words)]


def test_a_relabel_that_names_no_cluster_says_which_there_are_and_how_to_mean_all(days: tuple[list[Printed], list[Printed]]) -> None:
    refused = said(days, "relabel", "--all")
    assert refused.code == 1
    assert "name the cluster: the revision declares east, north, west; or ask for all of them: `--all-clusters`" in refused.err


def test_the_answer_tells_of_every_cluster_and_of_every_node_in_it(days: tuple[list[Printed], list[Printed]]) -> None:
    done = said(days, "relabel", "--all", "--all-clusters")
    assert done.code == 3
    assert "north failed PartialSuccess 1 changed, 1 missing; action ID" in done.out
    assert "north/n2 missing NodeNotFound the documents name n2, but cluster north has no such node" in done.out
    assert "action ID: partial_success (2 changed, 1 failed of 3 clusters)" in done.out


def test_as_json_nodes_are_named_with_their_clusters(days: tuple[list[Printed], list[Printed]]) -> None:
    answer = json.loads(said(days, "relabel", "--all", "--cluster-labels", "env=prod", "-o", "json").out)
    assert (answer["result"], answer["counts"]) == ("partial_success", {"failed": 1, "unchanged": 1})
    assert {name: node["outcome"] for name, node in answer["nodes"].items()} == {
        "north/n1": "unchanged",
        "north/n2": "missing",
        "west/n1": "unchanged",
        "west/n2": "unchanged",
    }
    assert answer["clusters"]["west"] == {
        "id": "ID",
        "outcome": "unchanged",
        "reason": "",
        "message": "2 unchanged; action ID",
        "retryable": False,
    }


def test_a_dry_run_of_several_clusters_looks_like_one(days: tuple[list[Printed], list[Printed]]) -> None:
    done = said(days, "relabel", "--all", "--all-clusters", "--dry-run")
    assert "east would change DryRun 2 would change; action ID" in done.out
    assert "action ID (dry run): partial_success (2 would change, 1 failed of 3 clusters): dry run: nothing was written" in done.out


def test_a_list_has_one_line_for_all_clusters(days: tuple[list[Printed], list[Printed]]) -> None:
    listed = json.loads(said(days, "actions", "list", "-o", "json").out)["actions"]
    assert [(row["cluster"], row["clusters"]) for row in listed if row["name"] == "update_site"][-4:] == [
        ("", ["north", "west"]),
        ("", ["north", "west"]),
        ("east", []),
        ("east", []),
    ]
    assert {row["parent"] for row in listed} == {None}
    assert " north, west " in said(days, "actions", "list").out


def test_show_and_retry_lead_from_the_whole_to_the_clusters(
    hullmark: Hullmark, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HULLMARK_SERVER", "")
    monkeypatch.setenv("HULLMARK_SIMULATED", simulated(folders[0]))
    for words in (("documents", "stage", "-f", str(folders[0] / "site.yaml")), ("documents", "commit")):
        assert hullmark(*words).code == 0
    whole = hullmark("relabel", "--all", "--all-clusters", "-o", "json").json
    shown = hullmark("actions", "show", whole["id"], "-o", "json").json
    assert shown["clusters"] == whole["clusters"]
    north = hullmark("actions", "show", whole["clusters"]["north"]["id"], "-o", "json").json
    assert (north["parent"], north["cluster"], north["nodes"]["n2"]["outcome"]) == (whole["id"], "north", "missing")
    again = hullmark("actions", "retry", whole["id"], "-o", "json")
    assert (again.code, again.json["counts"]) == (3, {"missing": 1, "unchanged": 1})
    assert hullmark("actions", "show", again.json["id"], "-o", "json").json["cluster"] == "north"
