locals {
  services = join(" OR ", [for step in google_cloudfunctions2_function.steps : "\"${step.name}\""])
  # exact names, quoted for the monitoring filter's one_of()
  watched = join(",", [for key in keys(local.subscriptions) : "\"${var.topic_prefix}${key}\""])

  alerts = {
    dead-letters = {
      title  = "a message was given up"
      filter = "metric.type=\"pubsub.googleapis.com/subscription/dead_letter_message_count\" AND resource.type=\"pubsub_subscription\" AND resource.labels.subscription_id=one_of(${local.watched})"
      above  = 0
      align  = "ALIGN_DELTA"
      advice = "A function refused a message five times. result_rollup recorded it as a failure: `hullmark actions list`, or the notice dev.hullmark.message.lost.v1. The cause is in the function's log."
    }
    oldest-unacked = {
      title  = "messages wait too long"
      filter = "metric.type=\"pubsub.googleapis.com/subscription/oldest_unacked_message_age\" AND resource.type=\"pubsub_subscription\" AND resource.labels.subscription_id=one_of(${local.watched})"
      above  = var.unacked_alert_minutes * 60
      align  = "ALIGN_MAX"
      advice = "Nothing takes them: the function fails to start (its build or its log says why), may not be invoked (the push account's run.invoker), or is at its most instances (max_instances)."
    }
    failed-actions = {
      title  = "an action did not succeed"
      filter = "metric.type=\"logging.googleapis.com/user/${google_logging_metric.failed_actions.name}\" AND resource.type=\"cloud_run_revision\""
      above  = 0
      align  = "ALIGN_DELTA"
      advice = "`hullmark actions show ID` lists every node that needs a person, and why. `hullmark actions retry ID` tries only those again."
    }
  }
}

# result_rollup says how an action ended; what its clock had to end (`2 ended`) had expired, or its notice did not get out.
resource "google_logging_metric" "failed_actions" {
  project     = var.project
  name        = "${var.name_prefix}failed-actions"
  description = "Actions that ended other than in success."

  filter = join(" AND ", [
    "resource.type=\"cloud_run_revision\"",
    "resource.labels.service_name=(${local.services})",
    "jsonPayload.step=\"result_rollup\"",
    "(jsonPayload.outcome=(\"failure\" OR \"partial_success\" OR \"expired\") OR jsonPayload.outcome=~\"^[1-9][0-9]* ended$\")",
  ])

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
  }

  depends_on = [google_project_service.apis]
}

resource "google_monitoring_alert_policy" "alerts" {
  for_each = local.alerts

  project               = var.project
  display_name          = "${var.name_prefix}${each.key}: ${each.value.title}"
  combiner              = "OR"
  notification_channels = var.notification_channels

  conditions {
    display_name = each.value.title

    condition_threshold {
      filter          = each.value.filter
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.above
      duration        = "0s"

      aggregations {
        alignment_period   = "300s"
        per_series_aligner = each.value.align
      }
    }
  }

  documentation {
    content   = each.value.advice
    mime_type = "text/markdown"
  }

  depends_on = [google_project_service.apis]
}
