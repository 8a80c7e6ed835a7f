# A deployment: `make deploy PROJECT=… REGION=…` applies this folder. Copy it into a repository of your own when you outgrow it.
#
# The state lies beside this file. Before a second person deploys, keep it in a bucket:
#   terraform { backend "gcs" { bucket = "…", prefix = "hullmark" } }

terraform {
  required_version = ">= 1.9.0"
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

  name_prefix  = var.name_prefix
  topic_prefix = var.topic_prefix
  store_bucket = var.store_bucket
  enable_apis  = var.enable_apis

  gke_projects           = var.gke_projects
  gke_node_events        = var.gke_node_events
  gke_version_updates    = var.gke_version_updates
  kubeconfig_secrets     = var.kubeconfig_secrets
  aws_credentials_secret = var.aws_credentials_secret
  default_cluster        = var.default_cluster
  sweep_clusters         = var.sweep_clusters
  network                = var.network

  api_readers           = var.api_readers
  api_invokers          = var.api_invokers
  identity              = var.identity
  webhook_invokers      = var.webhook_invokers
  notification_channels = var.notification_channels
}
