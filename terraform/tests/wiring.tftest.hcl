# `terraform init && terraform test` in terraform/: the wiring with the provider mocked. Nothing is reached, nothing is made.

mock_provider "google" {
  mock_data "google_project" {
    defaults = { number = "123456789012" }
  }
  mock_resource "google_service_account" {
    defaults = {
      name   = "projects/fleet-project/serviceAccounts/account@fleet-project.iam.gserviceaccount.com"
      email  = "account@fleet-project.iam.gserviceaccount.com"
      member = "serviceAccount:account@fleet-project.iam.gserviceaccount.com"
    }
  }
  mock_resource "google_pubsub_topic" {
    defaults = { id = "projects/fleet-project/topics/mocked" }
  }
  mock_resource "google_cloudfunctions2_function" {
    defaults = { service_config = { uri = "https://function.run.app" } }
  }
  mock_resource "google_logging_project_sink" {
    defaults = { writer_identity = "serviceAccount:sink@gcp-sa-logging.iam.gserviceaccount.com" }
  }
}

variables {
  project      = "fleet-project"
  region       = "europe-west1"
  archive      = "./versions.tf" # any file will do
  gke_projects = ["fleet-project"]
}

run "deadlines_outlast_timeouts" {
  assert {
    condition = alltrue([
      for key, subscription in google_pubsub_subscription.push :
      subscription.ack_deadline_seconds >= google_cloudfunctions2_function.steps[local.subscriptions[key].step].service_config[0].timeout_seconds + 10
    ])
    error_message = "A push that times out before its function is delivered twice."
  }
}

run "every_message_has_a_way_out" {
  assert {
    condition = alltrue([
      for key, subscription in google_pubsub_subscription.push :
      length(subscription.dead_letter_policy) == 1 || local.subscriptions[key].topic == "dead-letters"
    ])
    error_message = "A subscription without a dead letter tries a poison message for ever."
  }

  assert {
    condition     = anytrue([for subscription in values(local.subscriptions) : subscription.topic == "dead-letters"])
    error_message = "Nobody reads the dead letters."
  }
}

run "nothing_is_public" {
  assert {
    condition = alltrue([
      for grant in concat(values(google_cloud_run_v2_service_iam_member.push), values(google_cloud_run_v2_service_iam_member.callers)) :
      !startswith(grant.member, "all")
    ])
    error_message = "A function may be invoked by anybody."
  }
}

run "the_pubsub_agent_may_do_its_part" {
  assert {
    condition = alltrue([
      google_service_account_iam_member.pubsub_signs_as_push.member == local.pubsub_agent,
      google_pubsub_topic_iam_member.pubsub_buries.member == local.pubsub_agent,
      length(google_pubsub_subscription_iam_member.pubsub_takes_away) == length(local.subscriptions) - 1,
    ])
    error_message = "Without these nothing is delivered, or nothing is ever given up."
  }
}

run "an_anonymous_caller_is_refused" {
  command = plan

  variables {
    api_invokers = ["allUsers"]
  }

  expect_failures = [var.api_invokers]
}
