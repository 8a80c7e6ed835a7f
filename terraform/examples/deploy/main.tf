# A deployment: `make deploy PROJECT=… REGION=…` applies this folder. Copy it into a repository of your own when you outgrow it.
#
# The state lies in a bucket, gs://PROJECT-hullmark-state, under the deployment's name: whoever deploys, from whichever clone, deploys the
# same. `make` names it; by hand: terraform init -backend-config=bucket=PROJECT-hullmark-state -backend-config=prefix=hullmark

terraform {
  required_version = ">= 1.9.0"

  backend "gcs" {}
}

# The store that an earlier `make destroy` left is taken up again.
import {
  for_each = toset(var.left_store)
  to       = module.hullmark.google_storage_bucket.store
  id       = each.value
}

provider "google" {
  project = var.project
  region  = var.region
}

module "hullmark" {
  source = "../.."

  project = var.project
  region  = var.region
  archive = var.archive
  runtime = var.runtime

  name_prefix  = var.name_prefix
  topic_prefix = var.topic_prefix
  store_bucket = var.store_bucket
  enable_apis  = var.enable_apis
  hold_traffic = var.hold_traffic

  max_instances = var.max_instances
  settings      = var.settings

  gke_projects           = var.gke_projects
  gke_node_events        = var.gke_node_events
  gke_clusters           = var.gke_clusters
  gke_version_updates    = var.gke_version_updates
  kubeconfig_secrets     = var.kubeconfig_secrets
  aws_credentials_secret = var.aws_credentials_secret
  default_cluster        = var.default_cluster
  sweep_clusters         = var.sweep_clusters
  network                = var.network
  egress                 = var.egress

  api_readers           = var.api_readers
  api_invokers          = var.api_invokers
  identity              = var.identity
  webhook_invokers      = var.webhook_invokers
  notification_channels = var.notification_channels
  docs_url              = var.docs_url

  keep_actions_days     = var.keep_actions_days
  unacked_alert_minutes = var.unacked_alert_minutes
}
