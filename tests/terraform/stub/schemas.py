"""The arguments of the Google provider's resources that Hullmark uses, as their documentation describes them.

`!` required, `?` optional, `=` computed, `?=` optional and computed; `~` made anew when it changes.
A block's key says how many of it there may be: `[0..1]`.
Only what is listed here exists for the stub: a misspelt argument fails `terraform validate`.
"""

from __future__ import annotations

import zlib
from typing import Any

Fields = dict[str, Any]

TEXTS, MAP = "list(string)", "map(string)"
MEMBER: Fields = {"id": "string=", "role": "string!", "member": "string!", "etag": "string="}
CONDITION: Fields = {"condition[0..1]": {"title": "string!", "expression": "string!", "description": "string?"}}

RESOURCES: dict[str, Fields] = {
    "google_project_service": {
        "id": "string=",
        "project": "string?=",
        "service": "string!",
        "disable_on_destroy": "bool?",
        "disable_dependent_services": "bool?",
    },
    "google_project_iam_member": {**MEMBER, **CONDITION, "project": "string!"},
    "google_project_iam_custom_role": {
        "id": "string=",
        "name": "string=",
        "project": "string?=",
        "role_id": "string!",
        "title": "string!",
        "description": "string?",
        "permissions": "set(string)!",
        "stage": "string?",
    },
    "google_service_account": {
        "id": "string=",
        "project": "string?=",
        "account_id": "string!",
        "display_name": "string?",
        "description": "string?",
        "disabled": "bool?",
        "name": "string=",
        "email": "string=",
        "member": "string=",
        "unique_id": "string=",
    },
    "google_service_account_iam_member": {**MEMBER, **CONDITION, "service_account_id": "string!"},
    "google_storage_bucket": {
        "id": "string=",
        "project": "string?=",
        "name": "string!~",
        "location": "string!~",
        "storage_class": "string?",
        "labels": MAP + "?",
        "uniform_bucket_level_access": "bool?=",
        "public_access_prevention": "string?=",
        "force_destroy": "bool?",
        "self_link": "string=",
        "url": "string=",
        "versioning[0..1]": {"enabled": "bool!"},
        "soft_delete_policy[0..1]": {"retention_duration_seconds": "number?"},
        "lifecycle_rule[0..*]": {
            "action[1..1]": {"type": "string!", "storage_class": "string?"},
            "condition[1..1]": {
                "age": "number?",
                "created_before": "string?",
                "days_since_noncurrent_time": "number?",
                "matches_prefix": TEXTS + "?",
                "matches_suffix": TEXTS + "?",
                "num_newer_versions": "number?",
                "with_state": "string?=",
            },
        },
    },
    "google_storage_bucket_iam_member": {**MEMBER, **CONDITION, "bucket": "string!"},
    "google_storage_bucket_object": {
        "id": "string=",
        "bucket": "string!",
        "name": "string!",
        "source": "string?",
        "content": "string?",
        "content_type": "string?=",
        "generation": "number=",
        "output_name": "string=",
    },
    "google_pubsub_topic": {
        "id": "string=",
        "project": "string?=",
        "name": "string!",
        "labels": MAP + "?",
        "kms_key_name": "string?",
        "message_retention_duration": "string?",
    },
    "google_pubsub_topic_iam_member": {**MEMBER, **CONDITION, "project": "string?=", "topic": "string!"},
    "google_pubsub_subscription": {
        "id": "string=",
        "project": "string?=",
        "name": "string!",
        "topic": "string!",
        "labels": MAP + "?",
        "filter": "string?",
        "ack_deadline_seconds": "number?=",
        "message_retention_duration": "string?",
        "retain_acked_messages": "bool?",
        "enable_message_ordering": "bool?",
        "enable_exactly_once_delivery": "bool?",
        "expiration_policy[0..1]": {"ttl": "string!"},
        "retry_policy[0..1]": {"minimum_backoff": "string?=", "maximum_backoff": "string?="},
        "dead_letter_policy[0..1]": {"dead_letter_topic": "string?", "max_delivery_attempts": "number?"},
        "push_config[0..1]": {
            "push_endpoint": "string!",
            "attributes": MAP + "?",
            "oidc_token[0..1]": {"service_account_email": "string!", "audience": "string?"},
            "no_wrapper[0..1]": {"write_metadata": "bool!"},
        },
    },
    "google_pubsub_subscription_iam_member": {**MEMBER, **CONDITION, "project": "string?=", "subscription": "string!"},
    "google_cloudfunctions2_function": {
        "id": "string=",
        "project": "string?=",
        "location": "string!~",
        "name": "string!~",
        "description": "string?",
        "labels": MAP + "?",
        "state": "string=",
        "update_time": "string=",
        "url": "string=",
        "build_config[0..1]": {
            "build": "string=",
            "runtime": "string?",
            "entry_point": "string?",
            "service_account": "string?=",
            "environment_variables": MAP + "?=",
            "worker_pool": "string?",
            "docker_repository": "string?=",
            "source[0..1]": {"storage_source[0..1]": {"bucket": "string?", "object": "string?", "generation": "number?="}},
        },
        "service_config[0..1]": {
            "service": "string?=",
            "uri": "string=",
            "gcf_uri": "string=",
            "service_account_email": "string?=",
            "available_memory": "string?=",
            "available_cpu": "string?=",
            "timeout_seconds": "number?=",
            "max_instance_request_concurrency": "number?=",
            "min_instance_count": "number?",
            "max_instance_count": "number?=",
            "environment_variables": MAP + "?=",
            "ingress_settings": "string?",
            "all_traffic_on_latest_revision": "bool?",
            "vpc_connector": "string?",
            "direct_vpc_egress": "string?=",
            "direct_vpc_network_interface[0..*]": {"network": "string?", "subnetwork": "string?", "tags": TEXTS + "?"},
            "secret_environment_variables[0..*]": {
                "key": "string!",
                "project_id": "string!",
                "secret": "string!",
                "version": "string!",
            },
            "secret_volumes[0..*]": {
                "mount_path": "string!",
                "project_id": "string?=",
                "secret": "string!",
                "versions[0..*]": {"version": "string!", "path": "string!"},
            },
        },
        "event_trigger[0..1]": {
            "event_type": "string?",
            "pubsub_topic": "string?=",
            "retry_policy": "string?",
            "service_account_email": "string?=",
            "trigger_region": "string?=",
        },
    },
    "google_cloud_run_v2_service_iam_member": {
        **MEMBER,
        **CONDITION,
        "project": "string?=",
        "location": "string?=",
        "name": "string!",
    },
    "google_cloud_scheduler_job": {
        "id": "string=",
        "project": "string?=",
        "region": "string?=",
        "name": "string!",
        "description": "string?",
        "schedule": "string?",
        "time_zone": "string?",
        "paused": "bool?=",
        "attempt_deadline": "string?",
        "state": "string=",
        "pubsub_target[0..1]": {"topic_name": "string!", "data": "string?", "attributes": MAP + "?"},
    },
    "google_logging_project_sink": {
        "id": "string=",
        "project": "string?=",
        "name": "string!",
        "destination": "string!",
        "filter": "string?",
        "description": "string?",
        "disabled": "bool?",
        "unique_writer_identity": "bool?",
        "writer_identity": "string=",
        "exclusions[0..*]": {"name": "string!", "filter": "string!", "description": "string?", "disabled": "bool?"},
    },
    "google_logging_metric": {
        "id": "string=",
        "project": "string?=",
        "name": "string!",
        "filter": "string!",
        "description": "string?",
        "label_extractors": MAP + "?",
        "metric_descriptor[0..1]": {
            "metric_kind": "string!",
            "value_type": "string!",
            "unit": "string?",
            "display_name": "string?",
            "labels[0..*]": {"key": "string!", "value_type": "string?", "description": "string?"},
        },
    },
    "google_monitoring_alert_policy": {
        "id": "string=",
        "project": "string?=",
        "name": "string=",
        "display_name": "string?",
        "combiner": "string!",
        "enabled": "bool?",
        "severity": "string?",
        "notification_channels": TEXTS + "?",
        "user_labels": MAP + "?",
        "alert_strategy[0..1]": {"auto_close": "string?", "notification_rate_limit[0..1]": {"period": "string?"}},
        "documentation[0..1]": {
            "content": "string?",
            "mime_type": "string?",
            "subject": "string?",
            "links[0..*]": {"display_name": "string?", "url": "string?"},
        },
        "conditions[1..*]": {
            "name": "string=",
            "display_name": "string!",
            "condition_threshold[0..1]": {
                "filter": "string?",
                "comparison": "string!",
                "duration": "string!",
                "threshold_value": "number?",
                "aggregations[0..*]": {
                    "alignment_period": "string?",
                    "per_series_aligner": "string?",
                    "cross_series_reducer": "string?",
                    "group_by_fields": TEXTS + "?",
                },
                "trigger[0..1]": {"count": "number?", "percent": "number?"},
            },
            "condition_prometheus_query_language[0..1]": {
                "query": "string!",
                "duration": "string?",
                "evaluation_interval": "string?",
                "labels": MAP + "?",
                "rule_group": "string?",
                "alert_rule": "string?",
                "disable_metric_validation": "bool?",
            },
            "condition_matched_log[0..1]": {"filter": "string!", "label_extractors": MAP + "?"},
        },
    },
    "google_monitoring_dashboard": {"id": "string=", "project": "string?=", "dashboard_json": "string!"},
    "google_secret_manager_secret_iam_member": {**MEMBER, **CONDITION, "project": "string?=", "secret_id": "string!"},
}

DATA: dict[str, Fields] = {
    "google_project": {"id": "string=", "project_id": "string?", "number": "string=", "name": "string="},
}

PROVIDER: Fields = {"project": "string?", "region": "string?", "credentials": "string?"}

NUMBER = "123456789012"
"""The number that every project has here."""


def computed(kind: str, values: Fields) -> Fields:
    """What the real service would answer to these arguments: names, addresses and identities follow from them."""
    project, name = values.get("project") or "-", values.get("name") or ""
    match kind:
        case "google_service_account":
            email = f"{values['account_id']}@{project}.iam.gserviceaccount.com"
            path = f"projects/{project}/serviceAccounts/{email}"
            return {
                "id": path,
                "name": path,
                "email": email,
                "member": f"serviceAccount:{email}",
                "unique_id": f"1{zlib.crc32(email.encode()):020}",
            }
        case "google_pubsub_topic":
            return {"id": f"projects/{project}/topics/{name}"}
        case "google_pubsub_subscription":
            return {"id": f"projects/{project}/subscriptions/{name}"}
        case "google_logging_project_sink":
            return {"id": name, "writer_identity": f"serviceAccount:service-{NUMBER}@gcp-sa-logging.iam.gserviceaccount.com"}
        case "google_project_iam_custom_role":
            path = f"projects/{project}/roles/{values['role_id']}"
            return {"id": path, "name": path}
        case "google_cloudfunctions2_function":
            url = f"https://{name}-{NUMBER}.{values['location']}.run.app"
            return {"id": name, "url": url, "service_config": {"uri": url, "service": name}}
        case "google_project":
            return {"id": f"projects/{values['project_id']}", "number": NUMBER, "name": values["project_id"]}
    return {"id": f"{kind}/{name}"}
