output "publish" {
  description = "Relabels two nodes."
  value       = "gcloud pubsub topics publish ${google_pubsub_topic.topics["relabel-requests"].name} --project=${var.project} --message='{\"target_nodes\":[\"n1\",\"n2\"]}'"
}

output "api_url" {
  description = "Where the API answers those named in api_invokers."
  value       = google_cloudfunctions2_function.steps["api"].service_config[0].uri
}

output "reader_url" {
  description = "Where the API answers those named in api_readers; it changes nothing."
  value       = google_cloudfunctions2_function.steps["api_reader"].service_config[0].uri
}

output "status_page" {
  description = "Opens the status page on http://localhost:8080 as yourself."
  value       = "gcloud run services proxy ${google_cloudfunctions2_function.steps["api"].name} --project=${var.project} --region=${var.region}"
}

output "store" {
  description = "HULLMARK_STORE: with it the `hullmark` command reads and commits on your own machine."
  value       = "gs://${google_storage_bucket.store.name}"
}

output "topics" {
  description = "Topics by the names that the documentation uses."
  value       = { for key, topic in google_pubsub_topic.topics : key => topic.name }
}

output "notices" {
  description = "Lets you read what happens: makes a subscription of your own; then `gcloud pubsub subscriptions pull --auto-ack`."
  value       = "gcloud pubsub subscriptions create my-notices --project=${var.project} --topic=${google_pubsub_topic.topics["notices"].name}"
}

output "rbac_users" {
  description = "Names for examples/rbac.yaml: who labels nodes, and who only reads."
  value = {
    for right in ["label", "read"] : right => [for name in sort(local.reach_clusters) : google_service_account.steps[name].email if local.steps[name].cluster == right]
  }
}

output "eks_trust_policy" {
  description = "Trust policy for a role that access.eks.roleArn names: AWS lets the functions that reach clusters assume it, by their Google identity."
  value = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Federated = "accounts.google.com" }
      Action    = "sts:AssumeRoleWithWebIdentity"
      Condition = {
        StringEquals = {
          # of a token that says who presents it (azp), AWS calls that `aud`, and what it is for `oaud`
          "accounts.google.com:aud"  = [for name in sort(local.read_credentials) : google_service_account.steps[name].unique_id]
          "accounts.google.com:sub"  = [for name in sort(local.read_credentials) : google_service_account.steps[name].unique_id]
          "accounts.google.com:oaud" = "sts.amazonaws.com"
        }
      }
    }]
  })
}

output "service_accounts" {
  description = "Account of each function."
  value       = { for name, account in google_service_account.steps : name => account.email }
}
