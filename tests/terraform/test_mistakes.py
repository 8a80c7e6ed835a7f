"""Mistakes that a deployment would not survive, or would survive silently: each is planted, and the checks name it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.terraform.checks import member_of, problems, steps_in
from tests.terraform.running import Terraform, copied, usual


@dataclass(frozen=True, slots=True)
class Mistake:
    """`old` becomes `new` in a file; `named` is what must then be said."""

    file: str
    old: str
    new: str
    named: str


MISTAKES = {
    "no grant to publish": Mistake(
        "terraform/main.tf",
        "for topic in step.publishes :",
        'for topic in setsubtract(step.publishes, ["results"]) :',
        f"missing grant: {member_of('node_apply')} has no roles/pubsub.publisher on pubsub_topic results",
    ),
    "Pub/Sub may not sign as the push account": Mistake(
        "terraform/accounts.tf",
        "  member             = local.pubsub_agent\n",
        "  member             = google_service_account.push.member\n",
        "gcp-sa-pubsub.iam.gserviceaccount.com has no roles/iam.serviceAccountTokenCreator",
    ),
    "Pub/Sub may not publish dead letters": Mistake(
        "terraform/bus.tf",
        'resource "google_pubsub_topic_iam_member" "pubsub_buries" {\n',
        'resource "google_pubsub_topic_iam_member" "pubsub_buries" {\n  count = 0\n',
        "gcp-sa-pubsub.iam.gserviceaccount.com has no roles/pubsub.publisher on pubsub_topic dead-letters",
    ),
    "Pub/Sub may not take a message away": Mistake(
        "terraform/bus.tf",
        "subscription if subscription.topic != local.dead_letters }",
        'subscription if subscription.topic == "results" }',
        "has no roles/pubsub.subscriber on pubsub_subscription node-applies--node_apply",
    ),
    "no dead letter": Mistake(
        "terraform/bus.tf",
        "each.value.topic == local.dead_letters ? []",
        'contains([local.dead_letters, "version-updates"], each.value.topic) ? []',
        "subscription version-updates--version_apply: no dead letter",
    ),
    "a subscription listens to the wrong topic": Mistake(
        "terraform/bus.tf",
        "google_pubsub_topic.topics[each.value.topic].id\n  ack",
        'google_pubsub_topic.topics[each.value.topic == "results" ? "notices" : each.value.topic].id\n  ack',
        "subscription results--result_rollup: it listens to projects/fleet-project/topics/notices, not to results",
    ),
    "a topic is misspelt in the description": Mistake(
        "functions/steps.yaml",
        "topics: [node-applies]",
        "topics: [node-apply]",
        "topic node-applies has no reader: its messages are lost",
    ),
    "anybody may call the API": Mistake(
        "terraform/accounts.tf",
        "  member   = each.value.who\n",
        '  member   = "allUsers"\n',
        "roles/run.invoker on cloud_run_v2_service hullmark-api is public",
    ),
    "the deadline is shorter than the timeout": Mistake(
        "terraform/bus.tf",
        "local.steps[each.value.step].timeout + 10 #",
        "60 #",
        "subscription node-applies--node_apply: its ack deadline, 60 s, must be the function's timeout, 120 s",
    ),
    "a subscription expires": Mistake(
        "terraform/bus.tf",
        'ttl = "" #',
        'ttl = "2678400s" #',
        "subscription results--result_rollup: it expires after 31 quiet days",
    ),
    "the push endpoint leaves the topic out": Mistake(
        "terraform/bus.tf",
        'service_config[0].uri}/projects/${var.project}/topics/${each.value.topic}"',
        'service_config[0].uri}/"',
        "not the step's function, or without its topic in the path",
    ),
    "the token is for another audience": Mistake(
        "terraform/bus.tf",
        "audience              = google_cloudfunctions2_function.steps[each.value.step].service_config[0].uri",
        'audience              = "hullmark"',
        "subscription results--result_rollup: the token must be of the push account",
    ),
    "a function may write what it should only read": Mistake(
        "terraform/store.tf",
        'each.value.store == "write" ?',
        'each.value.store != "" ?',
        f"superfluous grant: {member_of('pod_binding')} has roles/storage.objectUser",
    ),
    "two functions share an account": Mistake(
        "terraform/functions.tf",
        "google_service_account.steps[each.key].email",
        'google_service_account.steps["api"].email',
        "hullmark-result-rollup: runtime account is",
    ),
    "the source root is not on the path": Mistake(
        "terraform/functions.tf",
        "PYTHONPATH            =",
        "PYTHON_PATH           =",
        "hullmark-api: PYTHONPATH is None, not '/workspace'",
    ),
    "fewer threads than requests": Mistake(
        "terraform/functions.tf",
        "THREADS = tostring(each.value.concurrency)",
        'THREADS = "2"',
        "hullmark-api: THREADS is '2', not '16'",
    ),
    "old revisions are swept out with old actions": Mistake(
        "terraform/store.tf",
        '      matches_prefix = ["actions/", "actions-by-day/", "open-actions/", "drift/", "told/", "sweeps/"]\n',
        "",
        "a lifecycle rule deletes more than actions",
    ),
    "a quiet cluster's only release goes with old actions": Mistake(
        "terraform/store.tf",
        '"told/", "sweeps/"]',
        '"told/", "sweeps/", "releases/"]',
        "a lifecycle rule deletes what no age makes old: ['releases/']",
    ),
    "a clock rings for nobody": Mistake(
        "terraform/events.tf",
        "topics[each.value.topic].id\n    data",
        'topics["notices"].id\n    data',
        "clock drift-sweep publishes to projects/fleet-project/topics/notices, not to relabel-requests",
    ),
    "our own writes come back as events": Mistake(
        "terraform/events.tf",
        "NOT protoPayload",
        "protoPayload",
        "brings back what node_apply wrote itself",
    ),
    "a subscription that nobody watches": Mistake(
        "terraform/alerts.tf",
        "for key in keys(local.subscriptions) :",
        "for key in slice(keys(local.subscriptions), 1, 8) :",
        "dead_letter_message_count of action-deadlines--result_rollup is not watched",
    ),
    "documents name kubeconfigs that no function finds": Mistake(
        "terraform/functions.tf",
        '{ HULLMARK_KUBECONFIGS = "/etc/hullmark" }',
        '{ HULLMARK_KUBECONFIGS = "/etc/kubeconfigs" }',
        "HULLMARK_KUBECONFIGS is '/etc/kubeconfigs', not '/etc/hullmark'",
    ),
    "a step is left out": Mistake(
        "terraform/functions.tf",
        '"google_cloudfunctions2_function" "steps" {\n  for_each = local.steps\n',
        '"google_cloudfunctions2_function" "steps" {\n  for_each = { for n, step in local.steps : n => step if n != "pod_binding" }\n',
        "function hullmark-pod-binding is not deployed",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=[name.replace(" ", "-") for name in MISTAKES])
def test_a_planted_mistake_is_named(mistake: Mistake, terraform: Terraform, tmp_path: Path) -> None:
    root = copied(tmp_path)
    file = tmp_path / mistake.file
    text = file.read_text()
    assert text.count(mistake.old) == 1, f"{mistake.old!r} must be in {mistake.file} once, or the mistake is not planted"
    file.write_text(text.replace(mistake.old, mistake.new))
    found = problems(terraform.plan(root, usual(root)), steps_in((tmp_path / "functions" / "steps.yaml").read_text()))
    assert any(mistake.named in problem for problem in found), found
