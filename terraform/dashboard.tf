# One page: latency, traffic, errors and saturation of every function, how actions ended, and what rollouts and actions said last.

locals {
  charts = [
    {
      title = "Latency: 95th percentile by function (ms)"
      query = "histogram_quantile(0.95, sum by (service_name, le) (rate(run_googleapis_com:request_latencies_bucket{monitored_resource=\"cloud_run_revision\",service_name=~\"${join("|", local.service_names)}\"}[5m])))"
    },
    {
      title = "Traffic: requests a second by function"
      query = "sum by (service_name) (rate(${local.requests}}[5m]))"
    },
    {
      title = "Errors: 5xx a second by function"
      query = "sum by (service_name) (rate(${local.requests},response_code_class=\"5xx\"}[5m]))"
    },
    {
      title = "Saturation: age of the oldest message (s)"
      query = "max by (subscription_id) (pubsub_googleapis_com:subscription_oldest_unacked_message_age{monitored_resource=\"pubsub_subscription\",subscription_id=~\"${join("|", [for key in keys(local.subscriptions) : "${local.topic_prefix}${key}"])}\"})"
    },
    {
      title = "Saturation: instances by function"
      query = "sum by (service_name) (run_googleapis_com:container_instance_count{monitored_resource=\"cloud_run_revision\",service_name=~\"${join("|", local.service_names)}\"})"
    },
    {
      title = "Actions that ended, an hour, by result"
      query = "sum by (outcome) (increase(logging_googleapis_com:user_${replace(google_logging_metric.ended.name, "-", "_")}[1h]))"
    },
  ]
}

resource "google_monitoring_dashboard" "hullmark" {
  project = var.project

  dashboard_json = jsonencode({
    displayName = trimsuffix(var.name_prefix, "-")
    mosaicLayout = {
      columns = 12
      tiles = concat(
        [
          for number, chart in local.charts : merge(
            # a zero is not given back by the service, and would be a change in every plan
            number % 2 == 0 ? {} : { xPos = 6 },
            number < 2 ? {} : { yPos = floor(number / 2) * 4 },
            {
              width  = 6
              height = 4
              widget = {
                title = chart.title
                xyChart = {
                  dataSets = [{ plotType = "LINE", timeSeriesQuery = { prometheusQuery = chart.query } }]
                }
              }
            },
          )
        ],
        [{
          yPos   = ceil(length(local.charts) / 2) * 4
          width  = 12
          height = 6
          widget = {
            title = "Rollouts and actions: what was said last"
            logsPanel = {
              filter = "resource.type=\"cloud_run_revision\" resource.labels.service_name=(${local.services}) (jsonPayload.step=\"rollout\" OR (jsonPayload.step=\"result_rollup\" AND jsonPayload.action:*))"
            }
          }
        }],
      )
    }
  })

  depends_on = [google_project_service.apis]
}
