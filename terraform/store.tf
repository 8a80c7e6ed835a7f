# Revisions and actions: the only thing here that cannot be made again. `make destroy` leaves it.

resource "google_storage_bucket" "store" {
  project                     = var.project
  name                        = local.store_bucket
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = false

  versioning {
    enabled = true
  }

  lifecycle_rule {
    condition {
      age            = var.keep_actions_days + 7 # the sweep removes actions whole, and earlier; this is for what it never sees
      matches_prefix = ["actions/", "actions-by-day/", "open-actions/", "drift/", "told/", "sweeps/"]
      with_state     = "LIVE"
    }
    action {
      type = "Delete"
    }
  }

  lifecycle_rule {
    condition {
      days_since_noncurrent_time = 30
      with_state                 = "ARCHIVED"
    }
    action {
      type = "Delete"
    }
  }

  # It stays where it was made: a deployment that moves to another region takes its functions along, and not its past.
  lifecycle {
    ignore_changes = [location]
  }

  depends_on = [google_project_service.apis]
}

resource "google_storage_bucket_iam_member" "store" {
  for_each = local.steps

  bucket = google_storage_bucket.store.name
  role   = each.value.store == "write" ? "roles/storage.objectUser" : "roles/storage.objectViewer"
  member = google_service_account.steps[each.key].member
}

# The archive lies in a bucket of its own: who may write the store must not be able to replace the code.

resource "google_storage_bucket" "source" {
  project                     = var.project
  name                        = "${google_storage_bucket.store.name}-source"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = true

  depends_on = [google_project_service.apis]
}

resource "google_storage_bucket_object" "archive" {
  bucket = google_storage_bucket.source.name
  name   = "hullmark-${filesha256(var.archive)}.zip"
  source = var.archive
}
