"""Documents over HTTP: staged, looked at, committed, refused with every problem."""

from __future__ import annotations

import io
import tempfile
from typing import Any

import pytest
import yaml

from shared.ports import Unavailable
from tests.api.conftest import FrontDoor, as_files, policies, reasons
from tests.stories.fleet import a_policy

GOOD = policies({"n1": {"rack": "r7"}})
BAD = policies({"n1": {"rack ": "r7"}, "n2": {"zone": "-"}})


def statuses(door: FrontDoor) -> dict[str, tuple[str, str]]:
    return {each["collection_name"]: (each["base_status"], each["new_status"]) for each in door.get("/v1.0/configdocs").json}


def test_a_collection_is_created_committed_and_modified(door: FrontDoor) -> None:
    staged = door.stage(GOOD)
    assert (staged.status_code, staged.headers["Location"]) == (201, "/v1.0/configdocs/site")
    assert statuses(door) == {"site": ("not present", "created")}

    committed = door.post("/v1.0/commitconfigdocs")
    assert (committed.status_code, committed.json["revision"], committed.json["status"]) == (200, 1, "Success")
    assert statuses(door) == {"site": ("present", "unmodified")}

    door.stage(policies({"n1": {"rack": "r9"}}))
    assert statuses(door) == {"site": ("present", "modified")}
    assert "r9" in door.get("/v1.0/configdocs/site").text
    assert "r7" in door.get("/v1.0/configdocs/site?version=committed").text


def test_a_commit_is_refused_with_every_problem_in_one_answer_and_nothing_is_committed(door: FrontDoor) -> None:
    door.stage(BAD)
    answer = door.post("/v1.0/commitconfigdocs")
    assert (answer.status_code, answer.json["message"]) == (400, "Validation failed")
    said = answer.json["details"]["messageList"]
    assert answer.json["details"]["errorCount"] == len(said) == 2
    assert [(each["document"], each["file"]) for each in said] == [
        ("NodeLabelPolicy/n1", "site.yaml"),
        ("NodeLabelPolicy/n2", "site.yaml"),
    ]
    assert all(each["line"] > 0 for each in said)
    assert door.get("/v1.0/revisions").json["revisions"] == []


def test_a_dry_run_of_a_commit_judges_and_commits_nothing(door: FrontDoor) -> None:
    door.stage(GOOD)
    assert door.post("/v1.0/commitconfigdocs?dryrun=true").json["revision"] is None
    assert statuses(door) == {"site": ("not present", "created")}
    door.stage(BAD)
    assert door.post("/v1.0/commitconfigdocs?dryrun=true").status_code == 400


def test_there_is_a_conflict_when_nothing_is_staged(door: FrontDoor) -> None:
    assert reasons(door.post("/v1.0/commitconfigdocs")) == ["NothingStaged"]
    assert door.post("/v1.0/commitconfigdocs").status_code == 409


def test_several_files_keep_their_names(door: FrontDoor) -> None:
    answer = door.stage("", data=as_files(one=GOOD, two=policies({"n2": {"rack": "r8"}})), content_type="multipart/form-data")
    assert (answer.status_code, answer.json["files"]) == (201, ["one.yaml", "two.yaml"])


def test_an_upload_becomes_no_file_of_the_server(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """One over 500 kB was spooled to a file without a name, which /proc/self/fd names as long as it is open."""
    parts = "".join(
        f'--B\r\nContent-Disposition: form-data; name="files"; filename="{name}.yaml"\r\n\r\n{text}\r\n'
        for name, text in (("one", GOOD), ("two", "# " + "x" * 2_000_000))
    )
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    answer = door.stage(f"{parts}--B--\r\n", content_type="multipart/form-data; boundary=B")
    assert (answer.status_code, answer.json["files"]) == (201, ["one.yaml", "two.yaml"])


def test_the_buffer_can_be_added_to_or_protected(door: FrontDoor) -> None:
    door.stage(GOOD)
    refused = door.ask("POST", "/v1.0/configdocs/site?buffermode=rejectoncontents", data=GOOD, content_type="text/yaml")
    assert (refused.status_code, refused.json["message"]) == (409, "Buffer is not empty")
    added = door.ask("POST", "/v1.0/configdocs/site?buffermode=append", data=policies({"n2": {"a": "b"}}), content_type="text/yaml")
    assert added.status_code == 201
    assert door.post("/v1.0/commitconfigdocs").status_code == 200
    assert door.get("/v1.0/revisions/1").json["nodes"] == 2
    assert [each["number"] for each in door.get("/v1.0/revisions?limit=1").json["revisions"]] == [1]
    assert door.get("/v1.0/revisions?before=1").json["revisions"] == []
    assert door.get("/v1.0/revisions?limit=0").status_code == 400


@pytest.mark.parametrize("body", [b"", b"  \n", b"# nothing\n", b"a: [", b"\xff\xfe\xfa", b"- a list", b"\x00"])
def test_what_is_no_document_is_refused_at_once(door: FrontDoor, body: bytes) -> None:
    answer = door.ask("POST", "/v1.0/configdocs/site", data=body, content_type="application/x-yaml")
    assert (answer.status_code, answer.json["message"]) == (400, "Validation failed")


@pytest.mark.parametrize("name", ["..", "%2e%2e", ".hidden", "a%2Fb", "x" * 101])
def test_a_collection_cannot_leave_its_place(door: FrontDoor, name: str) -> None:
    assert door.ask("POST", f"/v1.0/configdocs/{name}", data=GOOD, content_type="text/yaml").status_code in (400, 404)
    assert door.get("/v1.0/configdocs").json == []


def test_who_staged_and_committed_and_tagged_is_kept(door: FrontDoor) -> None:
    as_ada: dict[str, Any] = {"environ_overrides": {"REMOTE_USER": "ada"}}
    door.stage(GOOD, **as_ada)
    door.post("/v1.0/commitconfigdocs", **as_ada)
    assert door.post("/v1.0/revisions/1/tags/site-action-success", **as_ada).status_code == 201
    revision = door.get("/v1.0/revisions/1").json
    assert (revision["by"], revision["tags"]) == ("ada", ["committed", "site-action-success"])
    assert [each["file"] for each in revision["texts"]] == ["site.yaml"]


@pytest.mark.parametrize(("number", "status"), [("2", 404), ("0", 400), ("x", 400)])
def test_an_unknown_revision_is_not_found(door: FrontDoor, number: str, status: int) -> None:
    assert door.get(f"/v1.0/revisions/{number}").status_code == status


EXPIRED = (
    "apiVersion: core.gardener.cloud/v1beta1\nkind: CloudProfile\nmetadata: {name: p}\nspec:\n"
    '  kubernetes: {versions: [{version: 1.27.3}, {version: 1.26.0, expirationDate: "2020-01-01T00:00:00Z"}]}\n'
    "  machineImages: [{name: linux, versions: [{version: 1.0.0}]}]\n"
)


def test_a_dry_run_refuses_what_a_commit_refuses_in_the_same_words(door: FrontDoor) -> None:
    assert door.post("/v1.0/commitconfigdocs?dryrun=true").status_code == 409
    door.stage(EXPIRED)
    dry, real = door.post("/v1.0/commitconfigdocs?dryrun=true"), door.post("/v1.0/commitconfigdocs")
    assert (dry.status_code, dry.json) == (400, real.json)


def test_a_collection_is_removed_by_the_commit_after_its_removal(door: FrontDoor) -> None:
    door.stage(GOOD)
    door.post("/v1.0/commitconfigdocs?message=why%20not&source=git:1234")
    assert door.ask("DELETE", "/v1.0/configdocs/other").status_code == 404
    assert door.ask("DELETE", "/v1.0/configdocs/site").json["collection"] == "site"
    assert statuses(door) == {"site": ("present", "deleted")}
    assert door.get("/v1.0/configdocs/site").status_code == 404
    assert door.post("/v1.0/commitconfigdocs").json["revision"] == 2
    assert statuses(door) == {}

    restored = door.post("/v1.0/revisions/1/restore?message=back")
    assert (restored.status_code, restored.json["number"], restored.json["message"]) == (201, 3, "back")
    assert statuses(door) == {"site": ("present", "unmodified")}
    first = door.get("/v1.0/revisions/1").json
    assert (first["message"], first["source"], first["digest"]) == ("why not", "git:1234", restored.json["digest"])
    assert door.post("/v1.0/revisions/9/restore").status_code == 404


def test_a_file_is_known_by_its_path_however_it_was_written(door: FrontDoor) -> None:
    files = {"files": [(io.BytesIO(GOOD.encode()), "./site//a.yaml"), (io.BytesIO(policies({"n2": {"b": "c"}}).encode()), "/b.yaml")]}
    assert door.stage("", data=files, content_type="multipart/form-data").json["files"] == ["b.yaml", "site/a.yaml"]
    twice = {"files": [(io.BytesIO(GOOD.encode()), name) for name in ("a.yaml", "./a.yaml")]}
    refused = door.stage("", data=twice, content_type="multipart/form-data")
    assert (refused.status_code, [(each["file"], each["type"]) for each in refused.json["details"]["messageList"]]) == (
        400,
        [("a.yaml", "Duplicate")],
    )


def test_what_is_added_to_a_buffer_replaces_nothing_in_it(door: FrontDoor) -> None:
    door.stage(GOOD)
    for number in (2, 3):
        text = policies({f"n{number}": {"a": "b"}})
        added = door.ask("POST", "/v1.0/configdocs/site?buffermode=append", data=text, content_type="text/yaml")
    assert added.json["files"] == ["site-2.yaml", "site-3.yaml", "site.yaml"]
    door.post("/v1.0/commitconfigdocs")
    assert door.get("/v1.0/revisions/1").json["nodes"] == 3


def test_two_revisions_are_compared_in_labels_and_in_text(door: FrontDoor) -> None:
    door.has_nodes(n1={"gpu": "yes"}, n2={})
    for value in ("1", "2"):
        door.stage(yaml.safe_dump(a_policy("gpu", {"matchLabels": {"gpu": "yes"}}, {"pool": value})))
        door.post("/v1.0/commitconfigdocs")
    found = door.get("/v1.0/revisions/1/diff/2").json
    assert found["labels"] == {"pool": {"set": 0, "changed": 1, "removed": 0, "examples": {"n1": {"before": "1", "after": "2"}}}}
    assert found["nodes"] == {"n1": {"before": {"pool": "1"}, "after": {"pool": "2"}}}
    assert [line for line in found["diff"] if "pool" in line] == ["-    pool: '1'", "+    pool: '2'"]
    assert door.get("/v1.0/revisions/2?collection=site").json["texts"][0]["collection"] == "site"
    assert door.get("/v1.0/revisions/1/diff/3").status_code == 404
    assert door.get("/v1.0/revisions/1/diff/2?collection=none").status_code == 404
    assert door.get("/v1.0/revisions/1/diff/2?cluster=none").status_code == 400


def test_where_the_cluster_does_not_answer_the_documents_are_compared(door: FrontDoor) -> None:
    door.declares({"n1": {"rack": "r7"}})
    door.declares({"n1": {"rack": "r8"}})
    door.unreachable(Unavailable("no answer"))
    found = door.get("/v1.0/revisions/1/diff/2").json
    assert (found["unseen"], found["labels"]["rack"]["changed"]) == ({"default": "no answer"}, 1)


def test_a_rejected_revision_is_refused_until_that_is_lifted(fleet: FrontDoor) -> None:
    fleet.declares({"n1": {"rack": "r9"}})
    restored = fleet.post("/v1.0/revisions/1/restore")
    assert (restored.json["number"], restored.json["rejected"]) == (3, [2])
    fleet.post("/v1.0/revisions/3/tags/rejected", environ_overrides={"REMOTE_USER": "ada"})
    refused = fleet.create("update_site")
    assert (refused.status_code, refused.json["message"], reasons(refused)) == (409, "Revision rejected", ["RevisionRejected"])
    assert "rejected</span> revision 3 was rejected by ada" in fleet.get("/").text

    lifted = fleet.ask("DELETE", "/v1.0/revisions/3/tags/rejected")
    assert (lifted.status_code, lifted.json["tags"]) == (200, ["committed"])
    assert fleet.create("update_site").status_code == 201
    assert fleet.ask("DELETE", "/v1.0/revisions/3/tags/rejected").status_code == 404
    stays = fleet.ask("DELETE", "/v1.0/revisions/2/tags/site-action-success")
    assert (stays.status_code, reasons(stays)) == (409, ["TagStays"])
    assert fleet.ask("DELETE", "/v1.0/revisions/9/tags/reviewed").status_code == 404
