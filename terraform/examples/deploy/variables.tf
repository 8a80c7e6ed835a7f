# The module says what each may be, and checks it; here is only what a deployment usually sets.

variable "project" {
  type        = string
  description = "Google Cloud project id."
}

variable "region" {
  type        = string
  description = "Region, such as europe-west1."
}

variable "archive" {
  type        = string
  description = "Path of the source archive; `make deploy` makes it and passes it."
}

variable "name_prefix" {
  type        = string
  default     = "hullmark-"
  description = "Before the names of functions, accounts and clock jobs."
}

variable "topic_prefix" {
  type        = string
  default     = null
  description = "Before the names of topics and subscriptions; default nothing, or a name_prefix of your own."
}

variable "store_bucket" {
  type        = string
  default     = null
  description = "Name of the bucket for revisions and actions; default PROJECT-hullmark, or PROJECT-PREFIX."
}

variable "enable_apis" {
  type        = bool
  default     = true
  description = "Switch on the Google APIs that are needed."
}

variable "runtime" {
  type        = string
  default     = "python312"
  description = "Python of the functions."
}

variable "max_instances" {
  type        = map(number)
  default     = {}
  description = "Instances at most, by step, such as { node_apply = 8 }."
}

variable "settings" {
  type        = map(string)
  default     = {}
  description = "Further settings: action_seconds, in_flight, owner, writes_per_second."
}

variable "docs_url" {
  type        = string
  default     = null
  description = "Where docs/ can be read, for the alerts' links."
}

variable "keep_actions_days" {
  type        = number
  default     = 90
  description = "Days until the records of an action are deleted."
}

variable "unacked_alert_minutes" {
  type        = number
  default     = 15
  description = "Minutes that a message may wait before it is an alert."
}

variable "hold_traffic" {
  type        = bool
  default     = false
  description = "Set by `make deploy` while it tries new revisions."
}

variable "left_store" {
  type        = list(string)
  default     = []
  description = "Set by `make plan` and `make deploy`: the store's bucket, where it is there and not in the state."
}

variable "gke_projects" {
  type        = list(string)
  default     = []
  description = "Projects whose GKE clusters are reached."
}

variable "gke_node_events" {
  type        = bool
  default     = true
  description = "Label new GKE nodes within seconds, from the audit log."
}

variable "gke_clusters" {
  type        = list(object({ project = string, location = string, name = string }))
  default     = []
  description = "Clusters whose node events are routed; default every cluster of gke_projects."
}

variable "gke_version_updates" {
  type        = bool
  default     = false
  description = "Let version_apply upgrade those clusters."
}

variable "kubeconfig_secrets" {
  type        = map(string)
  default     = {}
  description = "Name → secret id of a kubeconfig, mounted as /etc/hullmark/NAME/kubeconfig."
}

variable "aws_credentials_secret" {
  type        = string
  default     = null
  description = "Secret id of an AWS credentials file, for EKS."
}

variable "default_cluster" {
  type        = string
  default     = ""
  description = "Cluster of requests that name none, such as kubeconfig:/etc/hullmark/prod/kubeconfig."
}

variable "sweep_clusters" {
  type        = list(string)
  default     = []
  description = "Clusters that the hourly sweep visits; default every one that the documents declare."
}

variable "network" {
  type        = object({ network = string, subnetwork = string })
  default     = null
  description = "VPC through which private API servers are reached."
}

variable "egress" {
  type        = string
  default     = "private"
  description = "What goes through that VPC: private ranges only, or all, to have one fixed address."
}

variable "api_readers" {
  type        = list(string)
  default     = []
  description = "Who may read by the API: user:a@example.com, group:…"
}

variable "api_invokers" {
  type        = list(string)
  default     = []
  description = "Who may change things by the API, and read: user:a@example.com, group:…"
}

variable "identity" {
  type        = string
  default     = "cloud-run"
  description = "What verifies callers of the API: cloud-run, or iap:AUDIENCE."
}

variable "webhook_invokers" {
  type        = list(string)
  default     = []
  description = "Service accounts that may call pod_binding."
}

variable "notification_channels" {
  type        = list(string)
  default     = []
  description = "Cloud Monitoring channels for alerts."
}
