# What sends messages besides functions and people: the clock, and the audit logs of GKE.

locals {
  # A sweep is an action, and an action is for one cluster: one clock each where several are named, at a minute that a hash of the name
  # gives. Where none are named, a clock every few minutes, and each time the clusters whose turn it is: never all of them at once.
  clocks = merge([
    for key, schedule in local.schedules : {
      for cluster in try(schedule.body.name, "") == "drift_sweep" && length(var.sweep_clusters) > 0 ? var.sweep_clusters : [""] :
      cluster == "" ? key : "${key}-${cluster}" => {
        topic = schedule.topic
        cron = (
          cluster != "" ? "${parseint(substr(md5(cluster), 0, 4), 16) % 60} * * * *" :
          try(schedule.spread, null) != null ? "*/${schedule.spread} * * * *" : schedule.cron
        )
        body = jsonencode(merge(
          schedule.body,
          cluster != "" ? { cluster = cluster } : {},
          cluster == "" && try(schedule.spread, null) != null ? { spread = schedule.spread } : {},
        ))
      }
    }
  ]...)
}

resource "google_cloud_scheduler_job" "schedules" {
  for_each = local.clocks

  project   = var.project
  region    = var.region
  name      = "${var.name_prefix}${each.key}"
  schedule  = each.value.cron
  time_zone = "Etc/UTC"

  pubsub_target {
    topic_name = google_pubsub_topic.topics[each.value.topic].id
    data       = base64encode(each.value.body)
  }

  depends_on = [google_project_service.apis]
}

locals {
  # Where clusters are listed, a project without any sends nothing.
  node_events_from = var.gke_node_events ? toset([
    for project in var.gke_projects : project if length(var.gke_clusters) == 0 || contains(var.gke_clusters[*].project, project)
  ]) : toset([])
  only_clusters = {
    for project in local.node_events_from : project => join(" OR ", [
      for cluster in var.gke_clusters :
      "(resource.labels.location=\"${cluster.location}\" AND resource.labels.cluster_name=\"${cluster.name}\")" if cluster.project == project
    ])
  }
}

resource "google_logging_project_sink" "node_events" {
  for_each = local.node_events_from

  project                = each.key
  name                   = "${var.name_prefix}node-events"
  destination            = "pubsub.googleapis.com/${google_pubsub_topic.topics["node-events"].id}"
  unique_writer_identity = true

  # Exact names: `nodes.status.patch`, a kubelet's heartbeat, is another. Our own patches come back as events too: leave them out.
  filter = join(" AND ", concat([
    "log_id(\"cloudaudit.googleapis.com/activity\")",
    "resource.type=\"k8s_cluster\"",
    "protoPayload.methodName=(\"io.k8s.core.v1.nodes.create\" OR \"io.k8s.core.v1.nodes.patch\" OR \"io.k8s.core.v1.nodes.update\")",
    "NOT protoPayload.authenticationInfo.principalEmail=(${join(" OR ", [for name in sort(local.reach_clusters) : "\"${google_service_account.steps[name].email}\""])})",
  ], local.only_clusters[each.key] == "" ? [] : ["(${local.only_clusters[each.key]})"]))
}

resource "google_pubsub_topic_iam_member" "node_events" {
  for_each = local.node_events_from

  project = var.project
  topic   = google_pubsub_topic.topics["node-events"].name
  role    = "roles/pubsub.publisher"
  member  = google_logging_project_sink.node_events[each.key].writer_identity
}
