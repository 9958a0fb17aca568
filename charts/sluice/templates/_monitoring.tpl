{{- /* What an endpoint of a ServiceMonitor and one of a PodMonitor have in common: their values. */ -}}
{{- define "sluice.scrape" -}}
port: operations
path: /metrics
interval: {{ .interval | quote }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . | quote }}
{{- end }}
{{- if .honorLabels }}
honorLabels: true
{{- end }}
{{- with .relabelings }}
relabelings: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}
