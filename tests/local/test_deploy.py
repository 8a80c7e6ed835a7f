"""`make plan`, `deploy` and `destroy` with programs in place of terraform and gcloud that write down what they are asked."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from local.deploy import others, smoke
from local.deploy.deployment import main
from local.deploy.state import MARK, OVERRIDE, STORE
from tests.terraform.answering import serving

FAKE = """\
#!{python}
import json, pathlib, re, sys
here = pathlib.Path({folder!r})
asked = " ".join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]])
with (here / "asked").open("a") as log:
    log.write(asked + "\\n")
for pattern, (out, code) in json.loads((here / "answers.json").read_text()).items():
    if re.search(pattern, asked):
        (sys.stderr if code else sys.stdout).write(out)
        sys.exit(code)
"""
OUTPUTS = {
    "topics": {"relabel-requests": "relabel-requests", "notices": "notices"},
    "publish": "gcloud pubsub topics publish …",
    "api_url": "https://api.run.app",
    "status_page": "gcloud run services proxy …",
    "store": "gs://fleet-project-hullmark",
}
ACTION = "01KAJ3Z8Q0000000000000000A"


def a_notice(kind: str, **data: Any) -> str:
    notice = {"subject": ACTION, "type": f"dev.hullmark.{kind}.v1", "data": data}
    other = {"subject": "another", "type": "dev.hullmark.action.finished.v1", "data": {"result": "of somebody else"}}
    encoded = [{"message": {"data": base64.urlsafe_b64encode(json.dumps(one).encode()).decode()}} for one in (other, notice)]
    return json.dumps(encoded)


REFUSED = a_notice("request.refused", problems=[{"message": "there is no committed revision"}])
FINE: dict[str, tuple[str, int]] = {
    "gcloud config get-value account": ("me@example.com\n", 0),
    "gcloud services list": ("cloudresourcemanager.googleapis.com\ncloudfunctions.googleapis.com\n", 0),
    "gcloud functions regions list": ("projects/p/locations/europe-west1\nprojects/p/locations/us-east1\n", 0),
    "gcloud storage buckets describe gs://fleet-project-hullmark-state": ("fleet-project-hullmark-state", 0),
    "gcloud storage (buckets|objects) describe|gcloud storage cat": ("not found: 404", 1),
    "gcloud functions list|gcloud run services list": ("", 0),
    "gcloud auth application-default print-access-token": ("token", 0),
    "gcloud pubsub subscriptions pull": (REFUSED, 0),
    "terraform plan": ("", 2),
    "terraform show -json": ("{}", 0),
    "terraform state list": ("", 0),
    "terraform output": (json.dumps({name: {"value": value} for name, value in OUTPUTS.items()}), 0),
}
Run = Callable[..., Result]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, with a terraform and a gcloud."""
    for name in ("terraform", "gcloud"):
        tool = tmp_path / name
        tool.write_text(FAKE.format(python=sys.executable, folder=str(tmp_path)))
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("PROJECT", "REGION", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(smoke, "ULID", lambda: ACTION)
    monkeypatch.setattr(smoke, "SMOKE_SECONDS", 0.5)
    (tmp_path / "root").mkdir()
    return tmp_path


@pytest.fixture
def run(tools: Path) -> Run:
    """Run one command; `answers` stand before the usual ones."""

    def call(*arguments: str, answers: dict[str, tuple[str, int]] | None = None, where: bool = True, agree: bool = True) -> Result:
        (tools / "answers.json").write_text(
            json.dumps((answers or {}) | {key: said for key, said in FINE.items() if key not in (answers or {})})
        )
        place = ["--project", "fleet-project", "--region", "europe-west1"] if where else []
        auto = ["--auto"] if agree else []
        return CliRunner().invoke(main, [*arguments, *place, *auto, "--root", str(tools / "root")], catch_exceptions=False)

    return call


def asked(tools: Path) -> list[str]:
    return (tools / "asked").read_text().splitlines() if (tools / "asked").exists() else []


def position(lines: list[str], pattern: str) -> int:
    found = [number for number, line in enumerate(lines) if re.search(pattern, line)]
    assert found, f"{pattern} was not asked; asked: {lines}"
    return found[0]


def test_deploy_applies_the_archive_and_sends_a_message_through(run: Run, tools: Path) -> None:
    done = run("deploy", "--var", "enable_apis=false")
    assert done.exit_code == 0, done.output
    lines = asked(tools)
    assert position(lines, "terraform init") < position(lines, "terraform apply") < position(lines, "topics publish")
    planned = lines[position(lines, "terraform plan")]
    archive = re.search(r"-var=archive=(\S+)", planned)
    assert archive
    assert Path(archive[1]).is_absolute()
    assert Path(archive[1]).exists()
    assert "-var=project=fleet-project" in planned
    assert "-var=enable_apis=false" in planned
    shown = re.search(r"-out=(\S+)", planned)
    assert shown
    assert lines[position(lines, "terraform apply")].endswith(shown[1]), "what was shown is what is applied"
    published = lines[position(lines, "topics publish")]
    assert '"dry_run": true' in published
    assert "smoke test: the request went through and was refused (there is no committed revision)" in done.output
    assert "https://api.run.app" in done.output


def test_the_smoke_test_cleans_up_after_itself_and_says_what_the_dry_run_found(run: Run, tools: Path) -> None:
    finished = a_notice("action.finished", result="success", counts={"unchanged": 3})
    done = run("deploy", answers={"subscriptions pull": (finished, 0)})
    assert "dry run success: {'unchanged': 3}" in done.output
    lines = asked(tools)
    assert position(lines, "subscriptions create hullmark-smoke-") < position(lines, "subscriptions delete hullmark-smoke-")


def test_no_answer_is_an_error_that_says_where_to_look(run: Run, tools: Path) -> None:
    done = run("deploy", answers={"subscriptions pull": ("[]", 0)})
    assert done.exit_code == 1
    assert "hullmark-relabel-request" in done.output
    position(asked(tools), "subscriptions delete hullmark-smoke-")


@pytest.mark.parametrize(("code", "exit_code"), [(0, 0), (2, 2)])
def test_plan_says_by_its_exit_code_whether_something_would_change_and_changes_nothing(
    run: Run, tools: Path, code: int, exit_code: int
) -> None:
    done = run("plan", answers={"terraform plan": ("", code)})
    assert done.exit_code == exit_code
    assert not any(re.search("apply|destroy|publish", line) for line in asked(tools))


def test_destroy_leaves_the_store_and_says_so(run: Run, tools: Path) -> None:
    there = {"terraform state list": (f"{STORE}\n", 0), "terraform state show": ('    name = "fleet-project-hullmark"\n', 0)}
    done = run("destroy", answers=there)
    assert done.exit_code == 0, done.output
    lines = asked(tools)
    assert position(lines, f"terraform state rm {re.escape(STORE)}") < position(lines, "terraform destroy")
    assert "left: bucket gs://fleet-project-hullmark" in done.output
    assert "gcloud storage rm --recursive gs://fleet-project-hullmark" in done.output


def test_destroy_asks_first(run: Run, tools: Path) -> None:
    done = run("destroy", agree=False)
    assert done.exit_code == 1
    assert "AUTO=1" in done.output
    assert not any("destroy" in line for line in asked(tools))


def test_a_store_that_was_left_is_taken_up_again(run: Run, tools: Path) -> None:
    (tools / "root" / "terraform.tfvars").write_text('store_bucket = "my-store"\n')
    run("deploy", answers={"gcloud storage buckets describe gs://my-store": ("my-store", 0)})
    assert '-var=left_store=["my-store"]' in asked(tools)[position(asked(tools), "terraform plan")]


def test_the_plan_is_shown_and_nothing_is_applied_before_somebody_agrees(run: Run, tools: Path) -> None:
    done = run("deploy", answers={"terraform plan": ("Plan: 139 to add", 2)}, agree=False)
    assert done.exit_code == 1
    assert "nobody is here to agree: AUTO=1 applies without asking" in done.output
    assert not any("apply" in line for line in asked(tools))


def test_a_deployment_that_changes_nothing_is_not_asked_about_and_is_tested(run: Run, tools: Path) -> None:
    done = run("deploy", answers={"terraform plan": ("No changes.", 0)}, agree=False)
    assert done.exit_code == 0, done.output
    assert not any("apply" in line for line in asked(tools))
    assert "smoke test: " in done.output


def test_the_states_bucket_is_made_once_private_and_with_its_versions(run: Run, tools: Path) -> None:
    run("deploy", answers={"buckets describe": ("not found: 404", 1)})
    lines = asked(tools)
    made = position(lines, "storage buckets create gs://fleet-project-hullmark-state .*--public-access-prevention")
    assert made < position(lines, "buckets update gs://fleet-project-hullmark-state --versioning") < position(lines, "terraform init")
    assert "-backend-config=prefix=hullmark" in lines[position(lines, "terraform init")]


def test_what_a_killed_plan_left_behind_is_taken_away(run: Run, tools: Path) -> None:
    left = tools / "root" / OVERRIDE
    left.write_text(f'{MARK}terraform {{\n  backend "local" {{}}\n}}\n')
    run("deploy")
    assert not left.exists()
    left.write_text('terraform {\n  backend "s3" {}\n}\n')
    run("deploy")
    assert left.exists(), "an operator's own stays"


def test_a_name_that_make_does_not_read_is_refused(run: Run, tools: Path) -> None:
    done = run("deploy", answers={"terraform show -json": (json.dumps({"variables": {"name_prefix": {"value": "green-"}}}), 0)})
    assert done.exit_code == 1
    assert "name_prefix is 'green-' somewhere that `make` does not read" in done.output
    assert not any("apply" in line for line in asked(tools))


def test_an_upgrade_that_fails_half_way_says_who_gets_the_traffic(run: Run, tools: Path) -> None:
    done = run("deploy", answers={**UPGRADE, "terraform apply": ("Error: Build failed", 1)})
    assert done.exit_code == 1
    assert "Traffic stays with what served before" in done.output
    assert not any("--to-latest" in line for line in asked(tools))


def test_a_bucket_of_somebody_else_is_not_taken_for_one_that_is_not_there(run: Run, tools: Path) -> None:
    done = run("plan", answers={"buckets describe": ("HTTPError 403: me does not have storage.buckets.get access", 1)})
    assert done.exit_code == 1
    assert "a bucket of that name is somebody else's" in done.output


# Replacing what runs


def a_service(name: str, serving: str, newest: str, **tagged: str) -> dict[str, Any]:
    traffic: list[dict[str, Any]] = [{"revisionName": serving, "percent": 100}]
    traffic += [{"revisionName": newest, "tag": tag, "url": url} for tag, url in tagged.items()]
    status = {"latestReadyRevisionName": newest, "traffic": traffic, "url": f"https://{name}.run.app"}
    return {"metadata": {"name": name}, "status": status}


FUNCTION = "module.hullmark.google_cloudfunctions2_function.steps"
UPDATED = [{"address": FUNCTION, "type": "google_cloudfunctions2_function", "change": {"actions": ["update"]}}]
SERVICES = [
    a_service("hullmark-api", "api-00001", "api-00002"),
    a_service("hullmark-relabel-request", "relabel-00001", "relabel-00002", candidate="https://candidate---relabel.run.app"),
    a_service("of-somebody-else", "other-00001", "other-00001"),
]
UPGRADE: dict[str, tuple[str, int]] = {
    "terraform state list": (f"{FUNCTION}\n", 0),
    "terraform show -json": (json.dumps({"resource_changes": UPDATED}), 0),
    "gcloud run services list": (json.dumps(SERVICES), 0),
}


def test_new_revisions_are_tried_before_they_get_traffic(run: Run, tools: Path) -> None:
    done = run("deploy", answers=UPGRADE)
    assert done.exit_code == 0, done.output
    lines = asked(tools)
    order = [
        r"storage cp - gs://fleet-project-hullmark-state/hullmark/before.json",
        r"update-traffic hullmark-api --to-revisions=api-00001=100",
        r"update-traffic hullmark-relabel-request --to-revisions=relabel-00001=100",
        r"terraform apply .*-var=hold_traffic=true",
        r"update-traffic hullmark-relabel-request --set-tags=candidate=relabel-00002",
        r"subscriptions create hullmark-candidate.*--push-endpoint=https://candidate---relabel.run.app/projects/fleet-project/topics/",
        r"update-traffic hullmark-api --to-latest",
        r"update-traffic hullmark-relabel-request --to-latest --remove-tags=candidate",
        r"topics publish relabel-requests",
    ]
    places = [position(lines, pattern) for pattern in order]
    assert places == sorted(places), lines
    assert not any("of-somebody-else" in line for line in lines)


def test_a_revision_that_does_not_answer_gets_no_traffic(run: Run, tools: Path) -> None:
    done = run("deploy", answers={**UPGRADE, "subscriptions pull": ("[]", 0)})
    assert done.exit_code == 1
    assert "what served before still does. relabel-00002 did not answer" in done.output
    assert not any("--to-latest" in line for line in asked(tools))
    position(asked(tools), "topics delete hullmark-candidate")


def test_what_leaves_the_functions_alone_moves_no_traffic(run: Run, tools: Path) -> None:
    alert = [{"address": "a", "type": "google_monitoring_alert_policy", "change": {"actions": ["update"]}}]
    run("deploy", answers={**UPGRADE, "terraform show -json": (json.dumps({"resource_changes": alert}), 0)})
    assert not any("update-traffic" in line or "hold_traffic" in line for line in asked(tools))


def test_rollback_gives_the_traffic_back_and_tests_it(run: Run, tools: Path) -> None:
    before = json.dumps({"revisions": {"hullmark-api": "api-00001"}, "archive": "hullmark-1.zip"})
    done = run("rollback", answers={"storage cat gs://fleet-project-hullmark-state/hullmark/before.json": (before, 0)})
    assert done.exit_code == 0, done.output
    lines = asked(tools)
    assert position(lines, "update-traffic hullmark-api --to-revisions=api-00001=100") < position(lines, "topics publish")
    assert not any("terraform apply" in line for line in lines)


def test_rollback_asks_and_says_when_there_is_nothing_to_go_back_to(run: Run, tools: Path) -> None:
    assert "AUTO=1" in run("rollback", agree=False).output
    done = run("rollback")
    assert done.exit_code == 1
    assert "nothing to go back to" in done.output
    assert not any("update-traffic" in line for line in asked(tools))


# Other projects


@pytest.fixture
def resource_manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the deployer may do in other projects, as Google answers it."""
    held: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        wanted = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))["permissions"]
        assert handler.path == "/v3/projects/other-project:testIamPermissions"
        body = json.dumps({"permissions": [permission for permission in wanted if permission in held]}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with serving(answer) as url:
        monkeypatch.setattr(others, "SERVICE", url)
        yield held


def test_what_a_deployer_lacks_in_other_projects_is_named_before_anything_is_applied(
    run: Run, tools: Path, resource_manager: list[str]
) -> None:
    projects = {"gke_projects": {"value": ["fleet-project", "other-project"]}, "gke_version_updates": {"value": False}}
    answers = {
        "terraform show -json": (json.dumps({"variables": projects}), 0),
        "services list --enabled --project=other-project": ("logging.googleapis.com\n", 0),
    }
    resource_manager += others.NEEDED["roles/resourcemanager.projectIamAdmin"]
    done = run("deploy", answers=answers)
    assert done.exit_code == 1
    assert "other-project: me@example.com needs roles/logging.configWriter" in done.output
    assert "other-project: gcloud services enable container.googleapis.com --project=other-project" in done.output
    assert "projectIamAdmin" not in done.output
    assert "roleAdmin" not in done.output
    assert not any("apply" in line for line in asked(tools))

    resource_manager += others.NEEDED["roles/logging.configWriter"]
    answers["services list --enabled --project=other-project"] = ("container.googleapis.com\n", 0)
    assert run("deploy", answers=answers).exit_code == 0


def test_the_place_is_read_from_the_variables_file(run: Run, tools: Path) -> None:
    (tools / "root" / "terraform.tfvars").write_text('project = "of-the-file"\nregion  = "us-east1"\n')
    assert run("plan", where=False).exit_code == 2
    assert "-var=project=of-the-file -var=region=us-east1" in asked(tools)[position(asked(tools), "terraform plan")]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"get-value account": ("", 0)}, "gcloud auth login"),
        ({"application-default": ("no credentials", 1)}, "gcloud auth application-default login"),
        ({"projects describe": ("403", 1)}, "no project fleet-project that me@example.com may see"),
        ({"services list": ("pubsub.googleapis.com\n", 0)}, "gcloud services enable cloudresourcemanager.googleapis.com"),
        ({"regions list": ("projects/p/locations/us-east1\n", 0)}, "no region europe-west1; there are us-east1"),
    ],
    ids=["no account", "no credentials", "no project", "an API off", "a wrong region"],
)
def test_what_is_missing_is_named_before_terraform_starts(run: Run, tools: Path, answers: dict[str, tuple[str, int]], said: str) -> None:
    done = run("deploy", answers=answers)
    assert done.exit_code == 1
    assert said in done.output
    assert not any(line.startswith("terraform") for line in asked(tools))


@pytest.mark.parametrize("tool", ["terraform", "gcloud"])
def test_a_missing_tool_is_named_with_where_to_get_it(run: Run, tools: Path, tool: str) -> None:
    (tools / tool).unlink()
    done = run("deploy")
    assert done.exit_code == 1
    assert f"{tool} is not on the PATH: https://" in done.output


@pytest.mark.parametrize(
    ("terraform_says", "advice"),
    [
        ("Error: could not find default credentials", "gcloud auth application-default login"),
        ("Error 403: Cloud Pub/Sub API has not been used in project 1 before or it is disabled", "gcloud services enable"),
        ("Error 400: Service account service-1@gcp-sa-pubsub.iam.gserviceaccount.com does not exist.", "services identity create"),
        ("Error 404: Location europe-west99 is not found or access is unauthorized.", "region europe-west1 does not have"),
        ("Error 403: Permission 'iam.serviceAccounts.actAs' denied", "roles/iam.serviceAccountUser"),
        ("Error 403: me does not have storage.buckets.create access", "roles/storage.admin"),
        ("Error 409: The requested bucket name is not available.", "choose one with store_bucket"),
        ("Error 403: The billing account for the owning project is disabled", "has no billing account"),
        ("Error acquiring the state lock", "terraform force-unlock"),
        (
            'Error 404: Cannot find metric(s) that match type = "logging.googleapis.com/user/x". If a metric was created recently, it'
            " could take up to 10 minutes to become available.",
            "up to ten minutes: wait, and deploy again",
        ),
        ("Error 403: Permission 'pubsub.topics.create' denied", "you (me@example.com) lack a right on project fleet-project"),
    ],
)
def test_what_terraform_says_is_followed_by_what_to_do(run: Run, terraform_says: str, advice: str) -> None:
    done = run("deploy", answers={"terraform apply": (terraform_says, 1)})
    assert done.exit_code == 1
    assert terraform_says in done.output
    assert advice in done.output


def test_without_a_place_it_says_how_to_name_one(run: Run) -> None:
    done = run("deploy", where=False)
    assert done.exit_code == 1
    assert "PROJECT=my-project REGION=europe-west1" in done.output


def test_the_archive_alone_needs_no_cloud(run: Run, tools: Path) -> None:
    done = run("archive")
    assert done.exit_code == 0
    assert Path(done.output.strip()).exists()
    assert asked(tools) == []
    assert os.environ["PATH"] == str(tools)
