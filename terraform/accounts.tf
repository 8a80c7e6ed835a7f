# One account per function, one that Pub/Sub pushes as, one that builds.

resource "google_service_account" "steps" {
  for_each = local.steps

  project      = var.project
  account_id   = "${var.name_prefix}${replace(each.key, "_", "-")}"
  display_name = "Hullmark ${each.key}"
  description  = substr(each.value.about, 0, 256)

  depends_on = [google_project_service.apis]
}

resource "google_service_account" "push" {
  project      = var.project
  account_id   = "${var.name_prefix}push"
  display_name = "Hullmark: Pub/Sub pushes as this account"

  depends_on = [google_project_service.apis]
}

# Without this nothing is delivered, and nothing says so.
resource "google_service_account_iam_member" "pubsub_signs_as_push" {
  service_account_id = google_service_account.push.name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = local.pubsub_agent

  depends_on = [google_pubsub_topic.topics] # the agent comes into being with the first topic
}

resource "google_cloud_run_v2_service_iam_member" "push" {
  for_each = local.pushed

  project  = var.project
  location = var.region
  name     = google_cloudfunctions2_function.steps[each.key].name
  role     = "roles/run.invoker"
  member   = google_service_account.push.member
}

resource "google_cloud_run_v2_service_iam_member" "callers" {
  for_each = merge(
    { for who in var.api_readers : "api_reader ${who}" => { step = "api_reader", who = who } },
    { for who in var.api_invokers : "api ${who}" => { step = "api", who = who } },
    { for who in var.webhook_invokers : "pod_binding ${who}" => { step = "pod_binding", who = who } },
  )

  project  = var.project
  location = var.region
  name     = google_cloudfunctions2_function.steps[each.value.step].name
  role     = "roles/run.invoker"
  member   = each.value.who
}

# Building

resource "google_service_account" "build" {
  project      = var.project
  account_id   = "${var.name_prefix}build"
  display_name = "Hullmark: builds the functions"

  depends_on = [google_project_service.apis]
}

resource "google_project_iam_member" "build" {
  for_each = toset(["roles/logging.logWriter", "roles/artifactregistry.writer"])

  project = var.project
  role    = each.key
  member  = google_service_account.build.member
}

resource "google_project_iam_member" "build_reads_source" {
  project = var.project
  role    = "roles/storage.objectViewer"
  member  = google_service_account.build.member

  condition {
    title       = "hullmark source only"
    description = "Cloud Functions copies the archive into a gcf-v2 bucket of its own and builds from there."
    expression = join(" || ", [
      "resource.name.startsWith(\"projects/_/buckets/gcf-v2-\")",
      "resource.name.startsWith(\"projects/_/buckets/${google_storage_bucket.source.name}\")",
    ])
  }
}

# Clusters

resource "google_project_iam_member" "clusters" {
  for_each = {
    for pair in setproduct(local.read_credentials, var.gke_projects) : "${pair[0]} ${pair[1]}" => { step = pair[0], project = pair[1] }
  }

  project = each.value.project
  role    = "roles/container.clusterViewer"
  member  = google_service_account.steps[each.value.step].member
}

resource "google_project_iam_custom_role" "version_updates" {
  for_each = var.gke_version_updates ? toset(var.gke_projects) : toset([])

  project     = each.key
  role_id     = "${replace(var.name_prefix, "-", "_")}version_updates"
  title       = "Hullmark version updates"
  description = "Upgrade clusters and node pools, and see how far that is. No creating, no deleting."
  permissions = ["container.clusters.get", "container.clusters.list", "container.clusters.update", "container.operations.get", "container.operations.list"]
}

resource "google_project_iam_member" "version_updates" {
  for_each = var.gke_version_updates ? {
    for pair in setproduct(local.update_versions, var.gke_projects) : "${pair[0]} ${pair[1]}" => { step = pair[0], project = pair[1] }
  } : {}

  project = each.value.project
  role    = google_project_iam_custom_role.version_updates[each.value.project].id
  member  = google_service_account.steps[each.value.step].member
}

resource "google_project_iam_custom_role" "version_ends" {
  for_each = var.gke_version_updates ? toset(var.gke_projects) : toset([])

  project     = each.key
  role_id     = "${replace(var.name_prefix, "-", "_")}version_ends"
  title       = "Hullmark version ends"
  description = "See how upgrades of clusters and node pools end."
  permissions = ["container.operations.get", "container.operations.list"]
}

resource "google_project_iam_member" "version_ends" {
  for_each = var.gke_version_updates ? {
    for pair in setproduct(local.check_versions, var.gke_projects) : "${pair[0]} ${pair[1]}" => { step = pair[0], project = pair[1] }
  } : {}

  project = each.value.project
  role    = google_project_iam_custom_role.version_ends[each.value.project].id
  member  = google_service_account.steps[each.value.step].member
}

resource "google_secret_manager_secret_iam_member" "credentials" {
  for_each = {
    for pair in setproduct(local.read_credentials, keys(local.secrets)) : "${pair[0]} ${pair[1]}" => { step = pair[0], secret = local.secrets[pair[1]].secret }
  }

  project   = var.project
  secret_id = each.value.secret
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.steps[each.value.step].member
}
