# What wakes somebody up: a message that nobody took, an action that did not succeed, and silence. Each alert carries its page of docs/runbooks.

locals {
  service_names = [for step in google_cloudfunctions2_function.steps : step.name]
  services      = join(" OR ", [for name in local.service_names : "\"${name}\""])
  # exact names, quoted for the monitoring filter's one_of()
  watched = join(",", [for key in keys(local.subscriptions) : "\"${local.topic_prefix}${key}\""])
  jobs    = join(" OR ", [for key in keys(local.clocks) : "\"${var.name_prefix}${key}\""])

  # as PromQL writes it: the first slash a colon, every other special character an underscore
  clockwork = "logging_googleapis_com:user_${replace(google_logging_metric.clockwork.name, "-", "_")}"
  requests  = "run_googleapis_com:request_count{monitored_resource=\"cloud_run_revision\",service_name=~\"${join("|", local.service_names)}\""

  # What a clock sets off, and the minutes within which it must have been done.
  heartbeats = {
    no-sweep          = { step = "relabel_request", minutes = 90, title = "no sweep for an hour and a half", severity = "ERROR" }
    no-version-check  = { step = "version_check", minutes = 30, title = "no version check for half an hour", severity = "WARNING" }
    no-deadline-check = { step = "result_rollup", minutes = 20, title = "nobody ends overdue actions", severity = "ERROR" }
    no-rollout-step   = { step = "rollout", minutes = 15, title = "nobody looks after rollouts", severity = "WARNING" }
  }

  thresholds = {
    dead-letters = {
      title    = "a message was given up"
      severity = "ERROR"
      filter   = "metric.type=\"pubsub.googleapis.com/subscription/dead_letter_message_count\" AND resource.type=\"pubsub_subscription\" AND resource.labels.subscription_id=one_of(${local.watched})"
      above    = 0
      align    = "ALIGN_DELTA"
    }
    oldest-unacked = {
      title    = "messages wait too long"
      severity = "CRITICAL"
      filter   = "metric.type=\"pubsub.googleapis.com/subscription/oldest_unacked_message_age\" AND resource.type=\"pubsub_subscription\" AND resource.labels.subscription_id=one_of(${local.watched})"
      above    = var.unacked_alert_minutes * 60
      align    = "ALIGN_MAX"
    }
  }

  queries = merge(
    {
      # A series that was never written is as silent as one that stopped, and one that counts zeros is silent, too.
      for name, beat in local.heartbeats : name => {
        title    = beat.title
        severity = beat.severity
        query = join(" or ", [
          "absent_over_time(${local.clockwork}{step=\"${beat.step}\"}[${beat.minutes}m])",
          "sum(increase(${local.clockwork}{step=\"${beat.step}\"}[${beat.minutes}m])) < 0.5",
        ])
        lasting = "${beat.minutes * 60}s" # a new deployment has that long for its first
      }
    },
    {
      server-errors = {
        title    = "a function fails more than one request in ten"
        severity = "WARNING"
        query = join(" / ", [
          "sum by (service_name) (rate(${local.requests},response_code_class=\"5xx\"}[10m]))",
          "sum by (service_name) (rate(${local.requests}}[10m])) > 0.1",
        ])
        lasting = "600s"
      }
    },
  )

  # A match in the log needs no metric, which takes up to ten minutes to be known after it is made.
  matches = merge(
    {
      failed-actions = {
        title    = "an action did not succeed"
        severity = "WARNING"
        filter = join(" AND ", [
          "resource.type=\"cloud_run_revision\"",
          "resource.labels.service_name=(${local.services})",
          "jsonPayload.step=\"result_rollup\"",
          # what the clock had to end (`2 ended`) had expired, or its notice did not get out
          "(jsonPayload.outcome=(\"failure\" OR \"partial_success\" OR \"expired\" OR \"blocked\") OR jsonPayload.outcome=~\"^[1-9][0-9]* ended$\")",
        ])
      }
      clock-paused = {
        title    = "a clock was paused, or could not publish"
        severity = "ERROR"
        filter = join(" AND ", [
          "resource.type=\"cloud_scheduler_job\"",
          "resource.labels.job_id=(${local.jobs})",
          "(protoPayload.methodName=~\"[.]CloudScheduler[.]PauseJob$\" OR severity>=ERROR)",
        ])
      }
    },
    contains(local.node_events_from, var.project) ? {
      sink-disabled = {
        title    = "the log sink for node events was switched off or deleted"
        severity = "WARNING"
        filter = join(" AND ", [
          "resource.type=\"logging_sink\"",
          "protoPayload.resourceName:\"/sinks/${google_logging_project_sink.node_events[var.project].name}\"",
          "(protoPayload.methodName=\"google.logging.v2.ConfigServiceV2.DeleteSink\" OR protoPayload.request.sink.disabled=true)",
        ])
      }
    } : {},
  )

  alerts = { for name, alert in merge(local.thresholds, local.queries, local.matches) : name => { title = alert.title, severity = alert.severity } }
  pages  = coalesce(var.docs_folder, "${path.module}/../docs")
}

# One line for each piece of work that a clock set off and that was done; by step.
resource "google_logging_metric" "clockwork" {
  project     = var.project
  name        = "${var.name_prefix}clockwork"
  description = "Sweeps, version checks, deadline checks and looks at rollouts that were done."

  filter = join(" AND ", [
    "resource.type=\"cloud_run_revision\"",
    "resource.labels.service_name=(${local.services})",
    "severity<ERROR",
    "NOT jsonPayload.outcome=(\"refused\" OR \"not yet\")", # not yet: a sweep that was no cluster's turn
    "((jsonPayload.step=\"relabel_request\" AND jsonPayload.subject=\"drift_sweep\") OR jsonPayload.step=\"version_check\" OR (jsonPayload.step=\"result_rollup\" AND jsonPayload.topic=\"action-deadlines\") OR (jsonPayload.step=\"rollout\" AND jsonPayload.subject=\"every rollout\"))",
  ])

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"

    labels {
      key        = "step"
      value_type = "STRING"
    }
  }

  label_extractors = { step = "EXTRACT(jsonPayload.step)" }

  depends_on = [google_project_service.apis]
}

# How actions ended, for the dashboard.
resource "google_logging_metric" "ended" {
  project     = var.project
  name        = "${var.name_prefix}ended-actions"
  description = "Actions that ended, by result."

  filter = join(" AND ", [
    "resource.type=\"cloud_run_revision\"",
    "resource.labels.service_name=(${local.services})",
    "jsonPayload.step=\"result_rollup\"",
    "jsonPayload.outcome=(\"success\" OR \"failure\" OR \"partial_success\" OR \"stopped\" OR \"expired\" OR \"blocked\")",
  ])

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"

    labels {
      key        = "outcome"
      value_type = "STRING"
    }
  }

  label_extractors = { outcome = "EXTRACT(jsonPayload.outcome)" }

  depends_on = [google_project_service.apis]
}

resource "google_monitoring_alert_policy" "alerts" {
  for_each = local.alerts

  project               = var.project
  display_name          = "${var.name_prefix}${each.key}: ${each.value.title}"
  combiner              = "OR"
  severity              = each.value.severity
  notification_channels = var.notification_channels

  conditions {
    display_name = each.value.title

    dynamic "condition_threshold" {
      for_each = [for name, alert in local.thresholds : alert if name == each.key]

      content {
        filter          = condition_threshold.value.filter
        comparison      = "COMPARISON_GT"
        threshold_value = condition_threshold.value.above
        duration        = "0s"

        aggregations {
          alignment_period   = "300s"
          per_series_aligner = condition_threshold.value.align
        }
      }
    }

    dynamic "condition_prometheus_query_language" {
      for_each = [for name, alert in local.queries : alert if name == each.key]

      content {
        query                     = condition_prometheus_query_language.value.query
        duration                  = condition_prometheus_query_language.value.lasting
        evaluation_interval       = "60s"
        disable_metric_validation = true # a metric that is made in the same apply is not known yet
      }
    }

    dynamic "condition_matched_log" {
      for_each = [for name, alert in local.matches : alert if name == each.key]

      content {
        filter = condition_matched_log.value.filter
      }
    }
  }

  # Needed for a match in the log, refused for the others.
  dynamic "alert_strategy" {
    for_each = contains(keys(local.matches), each.key) ? ["300s"] : []

    content {
      auto_close = "86400s"

      notification_rate_limit {
        period = alert_strategy.value
      }
    }
  }

  documentation {
    content   = file("${local.pages}/runbooks/${each.key}.md")
    mime_type = "text/markdown"

    dynamic "links" {
      for_each = var.docs_url == null ? [] : [var.docs_url]

      content {
        display_name = "Runbook"
        url          = "${links.value}/runbooks/${each.key}.md"
      }
    }
  }

  depends_on = [google_project_service.apis]
}
