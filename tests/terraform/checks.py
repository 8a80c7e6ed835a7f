"""What must hold for what Terraform would make: each check yields one sentence for each thing that is wrong.

Judged is the evaluated plan against `functions/steps.yaml`, read here by `local.steps` and not by Terraform: a mistake in how the
module derives things shows as well as one in a value.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from local.steps import DEAD_LETTERS, FunctionStep, Steps
from shared.messages import LAST_ATTEMPT
from shared.world import Settings
from tests.terraform.running import PROJECT, Planned
from tests.terraform.stub.schemas import NUMBER

Check = Callable[[Planned, Steps], Iterator[str]]
AGENT = f"serviceAccount:service-{NUMBER}@gcp-sa-pubsub.iam.gserviceaccount.com"
LOGGING = f"serviceAccount:service-{NUMBER}@gcp-sa-logging.iam.gserviceaccount.com"
PUSH = f"serviceAccount:hullmark-push@{PROJECT}.iam.gserviceaccount.com"
BUILD = f"serviceAccount:hullmark-build@{PROJECT}.iam.gserviceaccount.com"
STORE_ROLES = {"write": "roles/storage.objectUser", "read": "roles/storage.objectViewer"}
NODE_EVENTS = "node-events"


def steps_in(text: str) -> Steps:
    """A steps.yaml other than the one that is deployed."""
    found = yaml.safe_load(text)
    for name, step in found["steps"].items():
        step["name"] = name
    return Steps.model_validate(found)


def name_of(step: str) -> str:
    return f"hullmark-{step.replace('_', '-')}"


def member_of(step: str) -> str:
    return f"serviceAccount:{name_of(step)}@{PROJECT}.iam.gserviceaccount.com"


def every_step_is_a_function(plan: Planned, steps: Steps) -> Iterator[str]:
    functions = {function["name"]: function for function in plan.each("cloudfunctions2_function")}
    wanted = {name_of(name): step for name, step in steps.steps.items()}
    yield from (f"function {name} is not deployed" for name in sorted(wanted.keys() - functions.keys()))
    yield from (f"function {name} is in no step" for name in sorted(functions.keys() - wanted.keys()))
    for name in sorted(wanted.keys() & functions.keys()):
        yield from (f"{name}: {problem}" for problem in _wrong_in(functions[name], wanted[name]))
    if len({function["build_config"][0]["source"][0]["storage_source"][0]["object"] for function in functions.values()}) > 1:
        yield "the functions are not built from one archive"
    for archive in plan.each("storage_bucket_object"):
        if not re.fullmatch(r"hullmark-[0-9a-f]{64}\.zip", archive["name"]):
            yield f"archive {archive['name']} is not named by its content: a change would not be deployed"


def _wrong_in(function: dict[str, Any], step: FunctionStep) -> Iterator[str]:
    build, service = function["build_config"][0], function["service_config"][0]
    environment = service["environment_variables"] or {}
    wanted = {
        "entry point": (build["entry_point"], step.name),
        "GOOGLE_FUNCTION_SOURCE": (
            (build["environment_variables"] or {}).get("GOOGLE_FUNCTION_SOURCE"),
            f"functions/{step.folder}/main.py",
        ),
        "build account": (build["service_account"], f"projects/{PROJECT}/serviceAccounts/{BUILD.partition(':')[2]}"),
        "runtime account": (f"serviceAccount:{service['service_account_email']}", member_of(step.name)),
        "memory": (service["available_memory"], step.memory),
        "timeout": (service["timeout_seconds"], step.timeout),
        "concurrency": (service["max_instance_request_concurrency"], step.concurrency),
        "THREADS": (environment.get("THREADS"), str(step.concurrency)),
        "HULLMARK_TIMEOUT_SECONDS": (environment.get("HULLMARK_TIMEOUT_SECONDS"), str(step.timeout)),
        "PYTHONPATH": (environment.get("PYTHONPATH"), "/workspace"),
        "HULLMARK_BUS": (environment.get("HULLMARK_BUS"), "pubsub"),
        "HULLMARK_PROJECT": (environment.get("HULLMARK_PROJECT"), PROJECT),
        "HULLMARK_IDENTITY": (environment.get("HULLMARK_IDENTITY"), "cloud-run" if step.http else None),
        "HULLMARK_KUBECONFIGS": (environment.get("HULLMARK_KUBECONFIGS"), _folder_of_kubeconfigs(service)),
        "ingress": (service["ingress_settings"], "ALLOW_ALL" if step.http else "ALLOW_INTERNAL_ONLY"),
    }
    yield from (f"{what} is {found!r}, not {right!r}" for what, (found, right) in wanted.items() if found != right)
    if step.concurrency > 1 and float(service["available_cpu"] or 0) < 1:
        yield f"{step.concurrency} requests at a time need one whole CPU"
    if function["event_trigger"]:
        yield "an event_trigger has no dead letter, and drops after a day: use a subscription"
    unknown = {key for key in environment if key.startswith("HULLMARK_")} - {f"HULLMARK_{field.upper()}" for field in Settings.model_fields}
    yield from (f"{key} is a setting that no function reads" for key in sorted(unknown))
    if not environment.get("HULLMARK_STORE", "").startswith("gs://"):
        yield "HULLMARK_STORE names no bucket"


def _folder_of_kubeconfigs(service: dict[str, Any]) -> str | None:
    """What documents' kubeconfigs must be looked up in; None for a function that mounts none."""
    mounted = [volume["mount_path"] for volume in service["secret_volumes"] or [] if volume["versions"][0]["path"] == "kubeconfig"]
    return mounted[0].rpartition("/")[0] if mounted else None


def every_subscription_delivers(plan: Planned, steps: Steps) -> Iterator[str]:
    uris = {function["name"]: function["service_config"][0]["uri"] for function in plan.each("cloudfunctions2_function")}
    found = {subscription["name"]: subscription for subscription in plan.each("pubsub_subscription")}
    wanted = {f"{topic}--{name}": (topic, step) for name, step in steps.steps.items() for topic in step.topics}
    yield from (f"subscription {name} is missing" for name in sorted(wanted.keys() - found.keys()))
    yield from (f"subscription {name} is in no step" for name in sorted(found.keys() - wanted.keys()))
    for name in sorted(wanted.keys() & found.keys()):
        topic, step = wanted[name]
        uri = uris.get(name_of(step.name), "")
        yield from (f"subscription {name}: {problem}" for problem in _undelivered(found[name], topic, step, uri))


def _undelivered(subscription: dict[str, Any], topic: str, step: FunctionStep, uri: str) -> Iterator[str]:
    if subscription["topic"] != f"projects/{PROJECT}/topics/{topic}":
        yield f"it listens to {subscription['topic']}, not to {topic}"
    push = (subscription["push_config"] or [{}])[0]
    if push.get("push_endpoint") != f"{uri}/projects/{PROJECT}/topics/{topic}":
        yield f"pushed to {push.get('push_endpoint')}: not the step's function, or without its topic in the path"
    token = (push.get("oidc_token") or [{}])[0]
    if f"serviceAccount:{token.get('service_account_email')}" != PUSH or token.get("audience") != uri:
        yield f"the token must be of the push account, for {uri}; it is {token}"
    deadline = subscription["ack_deadline_seconds"] or 10
    if not step.timeout + 10 <= deadline <= 600:
        yield f"its ack deadline, {deadline} s, must be the function's timeout, {step.timeout} s, and 10 more (600 at most)"
    if [policy["ttl"] for policy in subscription["expiration_policy"]] != [""]:
        yield "it expires after 31 quiet days"
    retry = (subscription["retry_policy"] or [{}])[0]
    if not retry.get("minimum_backoff") or not retry.get("maximum_backoff"):
        yield "without a retry policy it is pushed again at once"
    dead = (subscription["dead_letter_policy"] or [{}])[0]
    if topic == DEAD_LETTERS:
        return
    if dead.get("dead_letter_topic") != f"projects/{PROJECT}/topics/{DEAD_LETTERS}":
        yield "no dead letter: a poison message is tried until it expires"
    elif dead["max_delivery_attempts"] != LAST_ATTEMPT:
        yield f"given up after {dead['max_delivery_attempts']} deliveries; node_apply reports on number {LAST_ATTEMPT}"


def every_topic_has_both_ends(plan: Planned, steps: Steps) -> Iterator[str]:
    made = {topic["name"] for topic in plan.each("pubsub_topic")}
    used = set(steps.topics) | {schedule.topic for schedule in steps.schedules.values()}
    yield from (f"topic {topic} is not made" for topic in sorted(used - made))
    yield from (f"topic {topic} is in no step" for topic in sorted(made - used))
    read = {topic for step in steps.steps.values() for topic in step.topics} | set(steps.outlets)
    yield from (f"topic {topic} has no reader: its messages are lost" for topic in sorted(used - read))
    written = {topic for step in steps.steps.values() for topic in step.publishes}
    written |= {schedule.topic for schedule in steps.schedules.values()} | {DEAD_LETTERS}
    if plan.each("logging_project_sink"):
        written.add(NODE_EVENTS)
    yield from (f"topic {topic} has no publisher: its function is never called" for topic in sorted(read - written))


def grants_are_exactly_those_needed(plan: Planned, steps: Steps) -> Iterator[str]:
    """Set against set: what is missing fails silently in the cloud, what is too much is a way in."""
    found, wanted = set(_granted(plan)), set(_needed(plan, steps))
    yield from (f"missing grant: {who} has no {role} on {what}" for who, role, what in sorted(wanted - found))
    yield from (f"superfluous grant: {who} has {role} on {what}" for who, role, what in sorted(found - wanted))


PASSING = ("actions/", "actions-by-day/", "open-actions/", "drift/", "told/", "sweeps/")
"""Folders of the store whose objects matter for a while only."""
FOREVER = ("revisions/", "releases/", "rollouts/")
"""Folders of which age says nothing: a quiet cluster's only state may be years old."""
GRANTS = {
    "project_iam_member": "project",
    "service_account_iam_member": "service_account_id",
    "storage_bucket_iam_member": "bucket",
    "pubsub_topic_iam_member": "topic",
    "pubsub_subscription_iam_member": "subscription",
    "cloud_run_v2_service_iam_member": "name",
    "secret_manager_secret_iam_member": "secret_id",
}
"""Resource that grants → its argument that says on what."""


def _granted(plan: Planned) -> Iterator[tuple[str, str, str]]:
    for kind, argument in GRANTS.items():
        for grant in plan.each(kind):
            yield grant["member"], grant["role"], f"{kind.partition('_iam')[0]} {grant[argument]}"


def _needed(plan: Planned, steps: Steps) -> Iterator[tuple[str, str, str]]:
    yield AGENT, "roles/iam.serviceAccountTokenCreator", f"service_account projects/{PROJECT}/serviceAccounts/{PUSH.partition(':')[2]}"
    yield AGENT, "roles/pubsub.publisher", f"pubsub_topic {DEAD_LETTERS}"
    for role in ("roles/logging.logWriter", "roles/artifactregistry.writer", "roles/storage.objectViewer"):
        yield BUILD, role, f"project {PROJECT}"
    yield "group:platform@example.com", "roles/run.invoker", "cloud_run_v2_service hullmark-api"
    yield "group:everybody@example.com", "roles/run.invoker", "cloud_run_v2_service hullmark-api-reader"
    yield LOGGING, "roles/pubsub.publisher", f"pubsub_topic {NODE_EVENTS}"
    projects = [PROJECT, "other-project"]
    for name, step in steps.steps.items():
        who = member_of(name)
        yield who, STORE_ROLES[step.store], f"storage_bucket {PROJECT}-hullmark"
        for topic in step.publishes:
            yield who, "roles/pubsub.publisher", f"pubsub_topic {topic}"
        for topic in step.topics:
            yield PUSH, "roles/run.invoker", f"cloud_run_v2_service {name_of(name)}"
            if topic != DEAD_LETTERS:
                yield AGENT, "roles/pubsub.subscriber", f"pubsub_subscription {topic}--{name}"
        if step.cluster != "none" or "version-updates" in step.topics:
            yield from ((who, "roles/container.clusterViewer", f"project {project}") for project in projects)
            yield from (
                (who, "roles/secretmanager.secretAccessor", f"secret_manager_secret {s}") for s in ("hullmark-aws", "hullmark-prod")
            )
        if "version-updates" in step.topics:
            yield from ((who, f"projects/{project}/roles/hullmark_version_updates", f"project {project}") for project in projects)
        if "version-checks" in step.topics:
            yield from ((who, f"projects/{project}/roles/hullmark_version_ends", f"project {project}") for project in projects)


def nothing_is_public(plan: Planned, steps: Steps) -> Iterator[str]:
    yield from (f"{role} on {what} is public" for who, role, what in _granted(plan) if who in ("allUsers", "allAuthenticatedUsers"))
    for bucket in plan.each("storage_bucket"):
        if not bucket["uniform_bucket_level_access"] or bucket["public_access_prevention"] != "enforced":
            yield f"bucket {bucket['name']} may be opened to the public"


def the_store_keeps_what_matters(plan: Planned, steps: Steps) -> Iterator[str]:
    store = plan.all("storage_bucket", "store")
    if len(store) != 1:
        yield "there is no one store"
        return
    (bucket,) = store.values()
    if [versioning["enabled"] for versioning in bucket["versioning"]] != [True]:
        yield "the store keeps no versions: what is deleted by mistake is gone"
    if bucket["force_destroy"]:
        yield "the store would be deleted with its objects"
    for rule in bucket["lifecycle_rule"]:
        condition = rule["condition"][0]
        prefixes = condition["matches_prefix"] or [""]
        forever = [folder for folder in FOREVER for prefix in prefixes if folder.startswith(prefix) or prefix.startswith(folder)]
        if condition["with_state"] != "ARCHIVED" and forever:
            yield f"a lifecycle rule deletes what no age makes old: {forever}"
        if condition["with_state"] != "ARCHIVED" and any(not prefix.startswith(PASSING) for prefix in prefixes):
            yield f"a lifecycle rule deletes more than actions: {prefixes}"
    if not any(rule["condition"][0]["matches_prefix"] for rule in bucket["lifecycle_rule"]):
        yield "old actions are kept for ever"


def clocks_send_what_is_declared(plan: Planned, steps: Steps) -> Iterator[str]:
    jobs = {job["name"]: job for job in plan.each("cloud_scheduler_job")}
    for key, schedule in steps.schedules.items():
        job = jobs.pop(f"hullmark-{key}", None)
        if job is None:
            yield f"clock {key} is not made"
            continue
        target = job["pubsub_target"][0]
        if target["topic_name"] != f"projects/{PROJECT}/topics/{schedule.topic}":
            yield f"clock {key} publishes to {target['topic_name']}, not to {schedule.topic}"
        body, cron = schedule.body, schedule.cron
        if schedule.spread:
            body, cron = {**body, "spread": schedule.spread}, f"*/{schedule.spread} * * * *"
        if json.loads(base64.b64decode(target["data"])) != body:
            yield f"clock {key} sends {base64.b64decode(target['data'])!r}, not {body}"
        if job["schedule"] != cron or job["time_zone"] != "Etc/UTC":
            yield f"clock {key} runs at {job['schedule']} {job['time_zone']}, not at {cron} UTC"
    yield from (f"clock {name} is in no schedule" for name in sorted(jobs))


def sinks_bring_node_changes_only(plan: Planned, steps: Steps) -> Iterator[str]:
    for sink in plan.each("logging_project_sink"):
        if not sink["destination"].endswith(f"/topics/{NODE_EVENTS}") or not sink["unique_writer_identity"]:
            yield f"sink {sink['name']} of {sink['project']} does not write to {NODE_EVENTS} as itself"
        for part in ('"io.k8s.core.v1.nodes.create"', '"io.k8s.core.v1.nodes.patch"', "cloudaudit.googleapis.com/activity"):
            if part not in sink["filter"]:
                yield f"sink of {sink['project']} leaves out {part}"
        if "=~" in sink["filter"] or ".status" in sink["filter"]:
            yield f"sink of {sink['project']} takes every heartbeat of every kubelet"
        for name, step in steps.steps.items():
            if step.cluster == "label" and f'"{member_of(name).partition(":")[2]}"' not in sink["filter"].partition("NOT ")[2]:
                yield f"sink of {sink['project']} brings back what {name} wrote itself"


def alerts_watch_every_subscription(plan: Planned, steps: Steps) -> Iterator[str]:
    conditions = [policy["conditions"][0] for policy in plan.each("monitoring_alert_policy")]
    filters = [asked["condition_threshold"][0]["filter"] for asked in conditions if asked["condition_threshold"]]
    for metric in ("dead_letter_message_count", "oldest_unacked_message_age"):
        watching = [text for text in filters if f"subscription/{metric}" in text]
        if not watching:
            yield f"no alert on {metric}"
        for subscription in plan.each("pubsub_subscription"):
            if watching and not any(f'"{subscription["name"]}"' in text for text in watching):
                yield f"{metric} of {subscription['name']} is not watched"
    logs = [asked["condition_matched_log"][0]["filter"] for asked in conditions if asked["condition_matched_log"]]
    ended = [text for text in logs if 'jsonPayload.step="result_rollup"' in text]
    for outcome in ("failure", "partial_success", "expired", "blocked"):
        if not any(f'"{outcome}"' in text for text in ended):
            yield f"no alert on actions that ended in {outcome}"
    silent = [query["query"] for asked in conditions for query in asked["condition_prometheus_query_language"]]
    for schedule in steps.schedules.values():
        readers = {step.name for step in steps.steps.values() if schedule.topic in step.topics}
        if not any(f'step="{reader}"' in text for text in silent for reader in readers):
            yield f"nobody notices when the clock of {schedule.topic} falls silent"


CHECKS: tuple[Check, ...] = (
    every_step_is_a_function,
    every_subscription_delivers,
    every_topic_has_both_ends,
    grants_are_exactly_those_needed,
    nothing_is_public,
    the_store_keeps_what_matters,
    clocks_send_what_is_declared,
    sinks_bring_node_changes_only,
    alerts_watch_every_subscription,
)


def problems(plan: Planned, steps: Steps) -> list[str]:
    """Everything that is wrong."""
    return [problem for check in CHECKS for problem in check(plan, steps)]
