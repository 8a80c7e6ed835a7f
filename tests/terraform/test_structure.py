"""What `terraform apply` would make is what `functions/steps.yaml` describes, and no more."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import hcl2
import pytest
import yaml

from local import steps
from local.steps import ROOT
from shared.adapters.aws import AUDIENCE
from shared.messages import Message, RelabelRequest
from tests.terraform.checks import CHECKS, Check
from tests.terraform.logs import matches
from tests.terraform.running import PROJECT, Failed, Planned, Terraform, copied, required, usual

FILES = sorted((ROOT / "terraform").rglob("*.tf"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_deployment_holds(check: Check, deployment: Planned) -> None:
    assert list(check(deployment, steps.load())) == []


def test_files_are_formatted() -> None:
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": os.devnull}
    done = subprocess.run(
        [required(), "fmt", "-check", "-diff", "-recursive", ROOT / "terraform"], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_modules_own_tests_pass(terraform: Terraform, tmp_path: Path) -> None:
    module = copied(tmp_path).parents[1]
    terraform.run(module, "init", "-no-color", "-input=false")
    said = terraform.run(module, "test", "-no-color")
    assert "0 failed" in said
    assert "Success! 0 passed" not in said


def test_the_smallest_deployment_needs_no_cluster_and_no_person(terraform: Terraform, tmp_path: Path) -> None:
    root = copied(tmp_path)
    everything = usual(root)
    plan = terraform.plan(root, {name: everything[name] for name in ("project", "region", "archive")})
    assert plan.each("logging_project_sink") == plan.each("secret_manager_secret_iam_member") == []
    assert {grant["member"] for grant in plan.each("cloud_run_v2_service_iam_member")} == {
        "serviceAccount:hullmark-push@fleet-project.iam.gserviceaccount.com"
    }


def test_two_deployments_share_a_project(terraform: Terraform, tmp_path: Path) -> None:
    root = copied(tmp_path)
    plan = terraform.plan(root, usual(root, name_prefix="blue-"))
    assert {bucket["name"] for bucket in plan.each("storage_bucket")} == {f"{PROJECT}-blue", f"{PROJECT}-blue-source"}
    assert all(topic["name"].startswith("blue-") for topic in plan.each("pubsub_topic"))
    assert all(function["name"].startswith("blue-") for function in plan.each("cloudfunctions2_function"))
    for subscription in plan.each("pubsub_subscription"):
        topic = subscription["topic"].rpartition("/topics/blue-")[2]
        assert subscription["push_config"][0]["push_endpoint"].endswith(f"/topics/{topic}"), "functions know topics by their plain names"
        assert subscription["name"].startswith(f"blue-{topic}--")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("region", "europe-west1-b", "A region looks like europe-west1"),
        ("project", "My Project", "Its number or its display name"),
        ("name_prefix", "a-very-long-prefix-", "has 6 to 30 characters"),
        ("name_prefix", "a-", "has 6 to 30 characters"),
        ("egress", "all", "needs `network`"),
        ("gke_clusters", [{"project": "third-project", "location": "europe-west1", "name": "c"}], "is not in gke_projects"),
        ("topic_prefix", "goog-", "not beginning with goog"),
        ("api_invokers", ["allUsers"], "Nothing here is public"),
        ("api_invokers", ["allAuthenticatedUsers"], "Nothing here is public"),
        ("webhook_invokers", ["user:a@example.com"], "Nothing here is public"),
        ("archive", "not-there.zip", "make archive"),
        ("default_cluster", "kubeconfig:/etc/hullmark/test/kubeconfig", "not that of any of kubeconfig_secrets"),
        ("kubeconfig_secrets", {"aws": "x"}, "is taken by aws_credentials_secret"),
    ],
)
def test_a_wrong_variable_is_refused_in_words(terraform: Terraform, tmp_path: Path, variable: str, value: Any, said: str) -> None:
    root = copied(tmp_path)
    with pytest.raises(Failed) as refused:
        terraform.plan(root, usual(root, **{variable: value}))
    assert said in " ".join(refused.value.output.replace("│", " ").split())


@pytest.mark.parametrize("prefix", ["ab-", "fourteen-char-"])
def test_every_service_account_has_a_name_that_google_takes(terraform: Terraform, tmp_path: Path, prefix: str) -> None:
    root = copied(tmp_path)
    plan = terraform.plan(root, usual(root, name_prefix=prefix))
    names = [account["account_id"] for account in plan.each("service_account")]
    assert [name for name in names if not re.fullmatch(r"[a-z]([-a-z0-9]{4,28}[a-z0-9])", name)] == []


def test_another_region_takes_the_functions_along_and_leaves_the_store_where_it_is(terraform: Terraform, tmp_path: Path) -> None:
    root = copied(tmp_path)
    terraform.plan(root, usual(root))
    terraform.run(root, "apply", "-no-color", "-input=false", "planned.out")
    actions = terraform.changes(root, usual(root, region="europe-west4"))
    assert actions["module.hullmark.google_storage_bucket.store"] == ["no-op"]
    assert actions['module.hullmark.google_cloudfunctions2_function.steps["api"]'] == ["delete", "create"]


def test_a_new_revision_gets_no_traffic_while_it_is_held_back(terraform: Terraform, tmp_path: Path) -> None:
    root = copied(tmp_path)
    for hold in (False, True):
        plan = terraform.plan(root, usual(root, hold_traffic=hold))
        latest = {function["service_config"][0]["all_traffic_on_latest_revision"] for function in plan.each("cloudfunctions2_function")}
        assert latest == {not hold}


@pytest.mark.parametrize(("egress", "sent"), [("private", "VPC_EGRESS_PRIVATE_RANGES_ONLY"), ("all", "VPC_EGRESS_ALL_TRAFFIC")])
def test_functions_that_reach_clusters_send_through_the_network(terraform: Terraform, tmp_path: Path, egress: str, sent: str) -> None:
    root = copied(tmp_path)
    network = {"network": "fleet", "subnetwork": "functions"}
    plan = terraform.plan(root, usual(root, network=network, egress=egress))
    for step, function in plan.all("cloudfunctions2_function").items():
        service, reaches = function["service_config"][0], steps.load().steps[step].cluster != "none" or step == "version_apply"
        assert service["direct_vpc_egress"] == (sent if reaches else None), step
        assert len(service["direct_vpc_network_interface"]) == reaches, step


def test_listed_clusters_are_the_only_ones_whose_events_are_routed(terraform: Terraform, tmp_path: Path) -> None:
    root = copied(tmp_path)
    listed = [{"project": PROJECT, "location": "europe-west1", "name": name} for name in ("east", "west")]
    sinks = terraform.plan(root, usual(root, gke_clusters=listed)).each("logging_project_sink")
    (sink,) = sinks
    assert sink["project"] == PROJECT, "none of the other project's clusters is listed"

    def routed(location: str, name: str, method: str = "io.k8s.core.v1.nodes.create", by: str = "kubelet") -> bool:
        entry = {
            "logName": f"projects/{PROJECT}/logs/cloudaudit.googleapis.com%2Factivity",
            "resource": {"type": "k8s_cluster", "labels": {"project_id": PROJECT, "location": location, "cluster_name": name}},
            "protoPayload": {"methodName": method, "authenticationInfo": {"principalEmail": by}},
        }
        return matches(sink["filter"], entry)

    assert routed("europe-west1", "east")
    assert routed("europe-west1", "west")
    assert not routed("europe-west1", "other")
    assert not routed("europe-west4", "east")
    assert not routed("europe-west1", "east", "io.k8s.core.v1.nodes.status.patch")
    assert not routed("europe-west1", "east", by=f"hullmark-node-apply@{PROJECT}.iam.gserviceaccount.com")


def test_every_topic_of_the_steps_carries_a_known_message() -> None:
    known = {model.TOPIC for model in Message.__subclasses__() if hasattr(model, "TOPIC")}
    named = set(steps.load().topics) - {steps.DEAD_LETTERS, "node-events"}
    assert named <= known, "a topic that no message travels on is misspelt"
    assert known - named <= {"node-events"}, "a message that no step publishes or reads"


@pytest.fixture(scope="session")
def parsed() -> dict[str, dict[str, Any]]:
    """Every file as python-hcl2 reads it, for where there is no terraform."""
    return {str(path.relative_to(ROOT)): hcl2.loads(path.read_text()) for path in FILES}


def test_every_file_parses_and_the_whole_is_there(parsed: dict[str, dict[str, Any]]) -> None:
    kinds = {kind.strip('"') for file in parsed.values() for resource in file.get("resource", []) for kind in resource}
    assert {"google_cloudfunctions2_function", "google_pubsub_subscription", "google_pubsub_topic", "google_cloud_scheduler_job"} <= kinds
    assert {"google_logging_project_sink", "google_monitoring_alert_policy", "google_storage_bucket"} <= kinds


def test_every_variable_and_output_says_what_it_is(parsed: dict[str, dict[str, Any]]) -> None:
    for kind in ("variable", "output"):
        for path, file in parsed.items():
            for declared in file.get(kind, []):
                for name, body in declared.items():
                    assert body.get("description", "").strip('"'), f"{path}: {kind} {name} has no description"
                    assert kind == "output" or "type" in body, f"{path}: variable {name} has no type"


def test_no_file_grants_anything_to_the_public(parsed: dict[str, dict[str, Any]]) -> None:
    for path in FILES:
        assert "allUsers" not in path.read_text(), path
        assert "allAuthenticatedUsers" not in path.read_text(), path


def test_the_example_hands_on_every_variable_of_the_module_it_names(parsed: dict[str, dict[str, Any]]) -> None:
    def names(path: str) -> set[str]:
        return {name.strip('"') for declared in parsed[path].get("variable", []) for name in declared}

    passed = {key for module in parsed["terraform/examples/deploy/main.tf"]["module"] for body in module.values() for key in body}
    example = names("terraform/examples/deploy/variables.tf")
    module = names("terraform/variables.tf")
    assert module - example == {"steps_file", "docs_folder"}, "a variable that nobody can set"
    assert example - module == {"left_store"}
    assert passed - {"source", "__is_block__"} == example & module


def test_where_several_clusters_are_declared_each_is_swept_by_name(terraform: Terraform, tmp_path: Path) -> None:
    root = copied(tmp_path)
    plan = terraform.plan(root, usual(root, sweep_clusters=["east", "west"]))
    sent = {
        name: RelabelRequest.parse(base64.b64decode(job["pubsub_target"][0]["data"]))
        for name, job in plan.all("cloud_scheduler_job").items()
        if name.startswith("drift-sweep")
    }
    assert {name: (request.name, request.cluster) for name, request in sent.items()} == {
        "drift-sweep-east": ("drift_sweep", "east"),
        "drift-sweep-west": ("drift_sweep", "west"),
    }
    crons = {name: job["schedule"] for name, job in plan.all("cloud_scheduler_job").items() if name in sent}
    assert crons == {"drift-sweep-east": "23 * * * *", "drift-sweep-west": "27 * * * *"}, "each at a minute of its own, the same every time"


def test_the_role_for_eks_trusts_the_functions_that_reach_clusters_and_nobody_else(terraform: Terraform, tmp_path: Path) -> None:
    root = copied(tmp_path)
    deployment = terraform.plan(root, usual(root))
    (statement,) = json.loads(deployment.outputs["eks_trust_policy"])["Statement"]
    reach = {name for name, step in steps.load().steps.items() if step.cluster != "none" or "version-updates" in step.topics}
    ids = {deployment.all("service_account", "steps")[name]["unique_id"] for name in reach}
    assert statement["Principal"] == {"Federated": "accounts.google.com"}
    trusted = statement["Condition"]["StringEquals"]
    assert set(trusted["accounts.google.com:sub"]) == set(trusted["accounts.google.com:aud"]) == ids
    assert len(ids) == len(reach), "each account has an id of its own"
    assert trusted["accounts.google.com:oaud"] == AUDIENCE


def test_the_clusters_rights_name_the_accounts_that_need_them(deployment: Planned) -> None:
    documents = list(yaml.safe_load_all((ROOT / "examples" / "rbac.yaml").read_text().replace("PROJECT", PROJECT)))
    bound = {
        document["metadata"]["name"]: {subject["name"] for subject in document["subjects"] if subject["kind"] == "User"}
        for document in documents
        if document["kind"] == "ClusterRoleBinding"
    }
    assert {"label": bound["hullmark-labeler"], "read": bound["hullmark-reader"]} == {
        right: set(users) for right, users in deployment.outputs["rbac_users"].items()
    }


def test_nobody_may_create_or_delete_in_a_cluster() -> None:
    verbs = {
        verb
        for document in yaml.safe_load_all((ROOT / "examples" / "rbac.yaml").read_text())
        for rule in document.get("rules", [])
        for verb in rule["verbs"]
    }
    assert verbs == {"get", "list", "watch", "patch"}
