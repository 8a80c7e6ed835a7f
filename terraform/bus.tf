# Topics, and push subscriptions of our own: a function's event_trigger can have no dead letter and drops after a day.

resource "google_pubsub_topic" "topics" {
  for_each = local.topics

  project                    = var.project
  name                       = "${local.topic_prefix}${each.key}"
  message_retention_duration = each.key == local.dead_letters ? "604800s" : "86400s" # can be replayed (seek) that long

  depends_on = [google_project_service.apis]
}

resource "google_pubsub_topic_iam_member" "publishers" {
  for_each = local.publishers

  project = var.project
  topic   = google_pubsub_topic.topics[each.value.topic].name
  role    = "roles/pubsub.publisher"
  member  = google_service_account.steps[each.value.step].member
}

resource "google_pubsub_subscription" "push" {
  for_each = local.subscriptions

  project                    = var.project
  name                       = "${local.topic_prefix}${each.key}" # result_rollup reads from a dead letter where it came from
  topic                      = google_pubsub_topic.topics[each.value.topic].id
  ack_deadline_seconds       = local.steps[each.value.step].timeout + 10 # also the push's own timeout
  message_retention_duration = "604800s"

  expiration_policy {
    ttl = "" # never: a subscription without traffic for 31 days would be deleted
  }

  push_config {
    # functions-framework reads the topic from the path; it is the plain name that the functions know
    push_endpoint = "${google_cloudfunctions2_function.steps[each.value.step].service_config[0].uri}/projects/${var.project}/topics/${each.value.topic}"

    oidc_token {
      service_account_email = google_service_account.push.email
      audience              = google_cloudfunctions2_function.steps[each.value.step].service_config[0].uri
    }
  }

  retry_policy {
    minimum_backoff = "20s" # five deliveries span five minutes: longer than an API server's restart
    maximum_backoff = "600s"
  }

  # A dead letter that cannot be recorded is tried for seven days, and is an alert.
  dynamic "dead_letter_policy" {
    for_each = each.value.topic == local.dead_letters ? [] : [google_pubsub_topic.topics[local.dead_letters].id]

    content {
      dead_letter_topic     = dead_letter_policy.value
      max_delivery_attempts = 5 # node_apply reports on its fifth what it could not do
    }
  }

  # The first message must find everything in place.
  depends_on = [google_service_account_iam_member.pubsub_signs_as_push, google_cloud_run_v2_service_iam_member.push]
}

# Without these two a poison message is tried for ever, and the dead-letter topic stays empty.

resource "google_pubsub_topic_iam_member" "pubsub_buries" {
  project = var.project
  topic   = google_pubsub_topic.topics[local.dead_letters].name
  role    = "roles/pubsub.publisher"
  member  = local.pubsub_agent
}

resource "google_pubsub_subscription_iam_member" "pubsub_takes_away" {
  for_each = { for key, subscription in local.subscriptions : key => subscription if subscription.topic != local.dead_letters }

  project      = var.project
  subscription = google_pubsub_subscription.push[each.key].name
  role         = "roles/pubsub.subscriber"
  member       = local.pubsub_agent
}
