# Everything follows from functions/steps.yaml: what is deployed, what it listens to, and what it may do.

data "google_project" "this" {
  project_id = var.project
}

locals {
  description = yamldecode(file(coalesce(var.steps_file, "${path.module}/../functions/steps.yaml")))
  steps       = local.description.steps
  schedules   = local.description.schedules

  # A deployment with a name of its own has topics and a store of its own, too.
  own_name     = var.name_prefix == "hullmark-" ? "" : var.name_prefix
  topic_prefix = var.topic_prefix == null ? local.own_name : var.topic_prefix
  store_bucket = coalesce(var.store_bucket, "${var.project}-${trimsuffix(var.name_prefix, "-")}")

  dead_letters = "dead-letters"
  topics = toset(concat(
    [local.dead_letters],
    local.description.outlets,
    flatten([for step in values(local.steps) : concat(try(step.topics, []), step.publishes)]),
  ))

  # topic--step → who is pushed what
  subscriptions = merge([
    for name, step in local.steps : { for topic in try(step.topics, []) : "${topic}--${name}" => { topic = topic, step = name } }
  ]...)
  publishers = merge([
    for name, step in local.steps : { for topic in step.publishes : "${topic}--${name}" => { topic = topic, step = name } }
  ]...)

  pushed           = toset([for name, step in local.steps : name if !try(step.http, false)])
  reach_clusters   = toset([for name, step in local.steps : name if step.cluster != "none"])
  update_versions  = toset([for name, step in local.steps : name if contains(try(step.topics, []), "version-updates")])
  check_versions   = toset([for name, step in local.steps : name if contains(try(step.topics, []), "version-checks")])
  read_credentials = setunion(local.reach_clusters, local.update_versions)

  pubsub_agent = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"

  # name → {secret, file}: mounted as /etc/hullmark/NAME/FILE
  secrets = merge(
    { for name, secret in var.kubeconfig_secrets : name => { secret = secret, file = "kubeconfig" } },
    var.aws_credentials_secret == null ? {} : { aws = { secret = var.aws_credentials_secret, file = "credentials" } },
  )
}

resource "google_project_service" "apis" {
  for_each = var.enable_apis ? toset(concat(
    ["artifactregistry", "cloudbuild", "cloudfunctions", "cloudscheduler", "iam", "logging", "monitoring", "pubsub", "run", "storage"],
    length(var.gke_projects) > 0 ? ["container"] : [],
    length(local.secrets) > 0 ? ["secretmanager"] : [],
  )) : toset([])

  project            = var.project
  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false # others in the project may need it
}
