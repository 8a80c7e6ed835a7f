output "publish" {
  description = "Relabels two nodes."
  value       = module.hullmark.publish
}

output "api_url" {
  description = "Where the API answers."
  value       = module.hullmark.api_url
}

output "reader_url" {
  description = "Where the API answers those who may only read."
  value       = module.hullmark.reader_url
}

output "status_page" {
  description = "Opens the status page on http://localhost:8080."
  value       = module.hullmark.status_page
}

output "store" {
  description = "HULLMARK_STORE for the command line on your machine."
  value       = module.hullmark.store
}

output "topics" {
  description = "Topics by their plain names."
  value       = module.hullmark.topics
}

output "notices" {
  description = "Makes a subscription to read notices from."
  value       = module.hullmark.notices
}

output "rbac_users" {
  description = "Names for examples/rbac.yaml."
  value       = module.hullmark.rbac_users
}

output "eks_trust_policy" {
  description = "Trust policy of the role that access.eks.roleArn names."
  value       = module.hullmark.eks_trust_policy
}

output "service_accounts" {
  description = "Account of each function."
  value       = module.hullmark.service_accounts
}
