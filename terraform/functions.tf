locals {
  # Cloud Run starts an instance for every request over `concurrency`: these hold that back where more would do harm.
  max_instances = merge({ node_apply = 4, version_check = 1 }, var.max_instances)

  environment = merge(
    {
      PYTHONPATH            = "/workspace" # functions-framework puts only the folder of main.py on the path
      HULLMARK_STORE        = "gs://${google_storage_bucket.store.name}"
      HULLMARK_BUS          = "pubsub"
      HULLMARK_PROJECT      = var.project
      HULLMARK_TOPIC_PREFIX = local.topic_prefix

      HULLMARK_KEEP_ACTIONS_DAYS = tostring(var.keep_actions_days)
    },
    { for name, value in var.settings : "HULLMARK_${upper(name)}" => value },
  )
  egress = { private = "VPC_EGRESS_PRIVATE_RANGES_ONLY", all = "VPC_EGRESS_ALL_TRAFFIC" }[var.egress]

  cluster_environment = merge(
    var.default_cluster == "" ? {} : { HULLMARK_CLUSTER = var.default_cluster },
    length(var.kubeconfig_secrets) == 0 ? {} : { HULLMARK_KUBECONFIGS = "/etc/hullmark" },
    var.aws_credentials_secret == null ? {} : { AWS_SHARED_CREDENTIALS_FILE = "/etc/hullmark/aws/credentials" },
  )
}

resource "google_cloudfunctions2_function" "steps" {
  for_each = local.steps

  project     = var.project
  location    = var.region
  name        = "${var.name_prefix}${replace(each.key, "_", "-")}"
  description = each.value.about

  build_config {
    runtime               = var.runtime
    entry_point           = each.key
    service_account       = google_service_account.build.id
    environment_variables = { GOOGLE_FUNCTION_SOURCE = "functions/${try(each.value.code, each.key)}/main.py" }

    source {
      storage_source {
        bucket = google_storage_bucket.source.name
        object = google_storage_bucket_object.archive.name
      }
    }
  }

  service_config {
    service_account_email            = google_service_account.steps[each.key].email
    available_memory                 = each.value.memory
    available_cpu                    = each.value.concurrency > 1 ? "1" : null # more than one request needs a whole one
    timeout_seconds                  = each.value.timeout
    max_instance_request_concurrency = each.value.concurrency
    max_instance_count               = lookup(local.max_instances, each.key, 10)
    min_instance_count               = 0
    all_traffic_on_latest_revision   = !var.hold_traffic
    ingress_settings                 = try(each.value.http, false) ? "ALLOW_ALL" : "ALLOW_INTERNAL_ONLY" # Pub/Sub of this project counts as internal

    # fewer threads than requests would queue inside the instance and eat the deadline
    environment_variables = merge(
      local.environment,
      contains(local.read_credentials, each.key) ? local.cluster_environment : {},
      try(each.value.http, false) ? { HULLMARK_IDENTITY = var.identity } : {},
      { THREADS = tostring(each.value.concurrency), HULLMARK_TIMEOUT_SECONDS = tostring(each.value.timeout) },
    )

    dynamic "secret_volumes" {
      for_each = contains(local.read_credentials, each.key) ? local.secrets : {}

      content {
        mount_path = "/etc/hullmark/${secret_volumes.key}"
        project_id = var.project
        secret     = secret_volumes.value.secret

        versions {
          version = "latest"
          path    = secret_volumes.value.file
        }
      }
    }

    direct_vpc_egress = var.network != null && contains(local.read_credentials, each.key) ? local.egress : null

    dynamic "direct_vpc_network_interface" {
      for_each = var.network != null && contains(local.read_credentials, each.key) ? [var.network] : []

      content {
        network    = direct_vpc_network_interface.value.network
        subnetwork = direct_vpc_network_interface.value.subnetwork
      }
    }
  }

  # A function whose rights come later fails its first messages.
  depends_on = [
    google_project_iam_member.build,
    google_project_iam_member.build_reads_source,
    google_secret_manager_secret_iam_member.credentials,
    google_storage_bucket_iam_member.store,
  ]
}
