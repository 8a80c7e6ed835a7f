# Where

variable "project" {
  type        = string
  description = "Google Cloud project that everything is made in."

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "A project id has 6 to 30 lower-case letters, digits and hyphens. Its number or its display name will not do."
  }
}

variable "region" {
  type        = string
  description = "Region of the functions, the clock jobs and the buckets, such as europe-west1. Close to the clusters: every node written is a round trip."

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "A region looks like europe-west1. A zone (europe-west1-b) or a multi-region (EU) will not do."
  }
}

variable "name_prefix" {
  type        = string
  default     = "hullmark-"
  description = "Before the names of functions, service accounts and clock jobs, so that two deployments can share a project."

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,13}-$", var.name_prefix))
    error_message = "Three to 15 lower-case letters, digits and hyphens, a hyphen last: the name of a service account has 6 to 30 characters."
  }
}

variable "topic_prefix" {
  type        = string
  default     = null
  description = "Before the names of topics and subscriptions (HULLMARK_TOPIC_PREFIX). Default: nothing, so that `gcloud pubsub topics publish relabel-requests` is right as it stands; with a name_prefix of your own, that prefix."

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9-]{0,40}$", coalesce(var.topic_prefix, "none"))) && !startswith(coalesce(var.topic_prefix, "none"), "goog")
    error_message = "Letters, digits and hyphens, a letter first, not beginning with goog."
  }
}

variable "store_bucket" {
  type        = string
  default     = null
  description = "Name of the bucket for revisions and actions; bucket names are unique in the world. Default: PROJECT-hullmark, or PROJECT-PREFIX with a name_prefix of your own."

  validation {
    condition     = var.store_bucket == null || can(regex("^[a-z0-9][a-z0-9_-]{1,56}[a-z0-9]$", var.store_bucket))
    error_message = "A bucket's name has 3 to 58 lower-case letters, digits, hyphens and underscores here (-source is put behind it for the second bucket)."
  }
}

# What

variable "archive" {
  type        = string
  description = "Path of the source archive (`make archive` writes it and prints the path). It is uploaded under the hash of its bytes: another archive is another deployment, the same one is none."

  validation {
    condition     = fileexists(var.archive)
    error_message = "There is no such file. `make archive` makes it."
  }
}

variable "steps_file" {
  type        = string
  default     = null
  description = "The description of all functions. Default: functions/steps.yaml beside this module, which is also the archive's."
}

variable "hold_traffic" {
  type        = bool
  default     = false
  description = "Leave the traffic of functions where it is pinned while they are updated: `make deploy` tries the new revisions first, and then moves it."
}

variable "docs_url" {
  type        = string
  default     = null
  description = "Where docs/ of this repository can be read, such as https://git.example.com/hullmark/blob/main/docs: each alert then links to its page, too."

  validation {
    condition     = can(regex("^https://[^ ]*[^/ ]$", coalesce(var.docs_url, "https://none")))
    error_message = "An https address without a slash at its end."
  }
}

variable "docs_folder" {
  type        = string
  default     = null
  description = "Folder with runbooks/ALERT.md, the text that each alert carries. Default: docs/ beside this module."
}

variable "runtime" {
  type        = string
  default     = "python312"
  description = "Python of the functions."

  validation {
    condition     = contains(["python311", "python312", "python313", "python314"], var.runtime)
    error_message = "One of python311, python312, python313, python314."
  }
}

variable "max_instances" {
  type        = map(number)
  default     = {}
  description = "Instances at most, by step, over the defaults in functions.tf. node_apply: four instances send 32 requests at a time to a cluster, which saturates its API server without being shed; raise it with the number of clusters."

  validation {
    condition     = alltrue([for most in values(var.max_instances) : most >= 1 && most <= 1000 && floor(most) == most])
    error_message = "Whole numbers from 1 to 1000."
  }
}

variable "settings" {
  type        = map(string)
  default     = {}
  description = "Further settings of every function: action_seconds, in_flight, owner (another field manager for each deployment that works on one cluster), writes_per_second (become HULLMARK_ACTION_SECONDS and so on)."

  validation {
    condition     = length(setsubtract(keys(var.settings), ["action_seconds", "in_flight", "owner", "writes_per_second"])) == 0
    error_message = "Known are action_seconds, in_flight, owner and writes_per_second. The others follow from this module."
  }
}

# Clusters

variable "gke_projects" {
  type        = list(string)
  default     = []
  description = "Projects whose GKE clusters are reached: the functions that need it get roles/container.clusterViewer there (connect and list; no right on any object: that is examples/rbac.yaml)."
}

variable "gke_node_events" {
  type        = bool
  default     = true
  description = "Route node creations and patches from the audit logs of gke_projects to node-events, so that a new node is labelled within seconds. Without it the hourly sweep finds it."
}

variable "gke_clusters" {
  type        = list(object({ project = string, location = string, name = string }))
  default     = []
  description = "Clusters whose node events are routed, as Cluster documents name them in access.gke. Empty: every cluster of gke_projects; events of those that no document names are ignored, but delivered and paid for."

  validation {
    condition     = alltrue([for cluster in var.gke_clusters : contains(var.gke_projects, cluster.project)])
    error_message = "A cluster's project is not in gke_projects."
  }
}

variable "gke_version_updates" {
  type        = bool
  default     = false
  description = "Let version_apply upgrade the GKE clusters of gke_projects (a role of its own with container.clusters.update, and reading operations). Without it decisions are only announced."
}

variable "kubeconfig_secrets" {
  type        = map(string)
  default     = {}
  description = "Clusters reached by a kubeconfig kept in Secret Manager: name → secret id. It is mounted as /etc/hullmark/NAME/kubeconfig in the functions that reach clusters: a Cluster document says `kubeconfig: {name: NAME}`, default_cluster names the path."

  validation {
    condition     = alltrue([for name in keys(var.kubeconfig_secrets) : can(regex("^[a-z0-9]([a-z0-9-]{0,39}[a-z0-9])?$", name)) && name != "aws"])
    error_message = "Names are lower-case letters, digits and hyphens; `aws` is taken by aws_credentials_secret."
  }
}

variable "aws_credentials_secret" {
  type        = string
  default     = null
  description = "Clusters on EKS: id of a secret with an AWS credentials file (section [default]); mounted as /etc/hullmark/aws/credentials. Its user needs eks:DescribeCluster and an access entry in the group hullmark-labelers."
}

variable "default_cluster" {
  type        = string
  default     = ""
  description = "The cluster of requests that name none (HULLMARK_CLUSTER), such as kubeconfig:/etc/hullmark/prod/kubeconfig. Empty: the only Cluster document of the committed revision."

  validation {
    condition     = var.default_cluster == "" || can(regex("^kubeconfig:/", var.default_cluster))
    error_message = "kubeconfig:/etc/hullmark/NAME/kubeconfig, or empty."
  }

  validation {
    condition = var.default_cluster == "" || anytrue([
      for name in keys(var.kubeconfig_secrets) : startswith(var.default_cluster, "kubeconfig:/etc/hullmark/${name}/kubeconfig")
    ])
    error_message = "The path is not that of any of kubeconfig_secrets."
  }
}

variable "sweep_clusters" {
  type        = list(string)
  default     = []
  description = "Clusters that the hourly sweep visits, by the names of their Cluster documents. Empty: every cluster that the documents declare, or the default cluster. Names here leave all others unswept."

  validation {
    condition     = alltrue([for name in var.sweep_clusters : can(regex("^[a-z0-9][a-z0-9-]{0,62}$", name))])
    error_message = "Names of Cluster documents: lower-case letters, digits and hyphens."
  }
}

variable "network" {
  type        = object({ network = string, subnetwork = string })
  default     = null
  description = "Clusters with private endpoints or authorized networks: the VPC network and subnetwork through which the functions that reach clusters send (direct egress)."
}

variable "egress" {
  type        = string
  default     = "private"
  description = "What goes through `network`: private (private address ranges only, for private endpoints), or all (everything, so that Cloud NAT gives it one fixed address for authorized networks)."

  validation {
    condition     = contains(["private", "all"], var.egress)
    error_message = "private, or all."
  }

  validation {
    condition     = var.egress == "private" || var.network != null
    error_message = "egress = \"all\" needs `network`: the subnetwork whose Cloud NAT has the fixed address."
  }
}

# People

variable "api_readers" {
  type        = list(string)
  default     = []
  description = "Who may read by the API and see the status page, at the readers' own address (output reader_url): user:a@example.com, group:…, serviceAccount:…"

  validation {
    condition     = alltrue([for who in var.api_readers : can(regex("^(user|group|serviceAccount|domain|principal|principalSet):.+", who))])
    error_message = "user:…, group:…, serviceAccount:…, domain:…, principal:… or principalSet:…. Nothing here is public."
  }
}

variable "api_invokers" {
  type        = list(string)
  default     = []
  description = "Who may change things by the API, and read: user:a@example.com, group:…, serviceAccount:…"

  validation {
    condition     = alltrue([for who in var.api_invokers : can(regex("^(user|group|serviceAccount|domain|principal|principalSet):.+", who))])
    error_message = "user:…, group:…, serviceAccount:…, domain:…, principal:… or principalSet:…. Nothing here is public."
  }
}

variable "identity" {
  type        = string
  default     = "cloud-run"
  description = "What the API believes of who calls (HULLMARK_IDENTITY): cloud-run (the ID token that Cloud Run checked), or iap:AUDIENCE (the header that Identity-Aware Proxy signs, for a service behind it)."

  validation {
    condition     = can(regex("^(cloud-run|iap:\\S+)$", var.identity))
    error_message = "cloud-run, or iap:AUDIENCE such as iap:/projects/123456789012/locations/europe-west1/services/hullmark-api."
  }
}

variable "webhook_invokers" {
  type        = list(string)
  default     = []
  description = "Who may call pod_binding: the service account of the proxy that stands between an API server and it. An API server has no Google identity to show, so it cannot call a function that is not public."

  validation {
    condition     = alltrue([for who in var.webhook_invokers : can(regex("^(serviceAccount|principal|principalSet):.+", who))])
    error_message = "serviceAccount:…, principal:… or principalSet:…. Nothing here is public."
  }
}

variable "notification_channels" {
  type        = list(string)
  default     = []
  description = "Cloud Monitoring channels that alerts go to, as projects/P/notificationChannels/N. Empty: alerts are only seen in the console."
}

# How long

variable "keep_actions_days" {
  type        = number
  default     = 90
  description = "Days until the records of an action, and of repairs and what was told of them, are deleted. Revisions are never deleted."

  validation {
    condition     = var.keep_actions_days >= 7
    error_message = "At least 7: a message lives that long, and must find its action."
  }
}

variable "unacked_alert_minutes" {
  type        = number
  default     = 15
  description = "Minutes that a message may wait before it is an alert."

  validation {
    condition     = var.unacked_alert_minutes >= 5
    error_message = "At least 5: redelivery of a part alone takes that long."
  }
}

variable "enable_apis" {
  type        = bool
  default     = true
  description = "Switch on the Google APIs that are needed. False where another team does that."
}
