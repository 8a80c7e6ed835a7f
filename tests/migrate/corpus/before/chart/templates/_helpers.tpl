{{/* beta.kubernetes.io/os in a template comment */}}
{{- define "chart.nodeSelector" -}}
beta.kubernetes.io/os: linux
{{- if .Values.arch }}
beta.kubernetes.io/arch: {{ .Values.arch }}
{{- end }}
{{- end -}}

{{- define "chart.labels" -}}
app: {{ .Chart.Name }}
beta.kubernetes.io/os: linux
{{- end -}}

{{- define "chart.zoneKey" -}}
{{- $old := "failure-domain.beta.kubernetes.io/zone" -}}
{{- $old -}}
{{- end -}}
