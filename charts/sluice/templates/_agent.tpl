{{- /* The DaemonSet, service account and Service of agents, and the Service that they report to. */ -}}
{{- define "sluice.agent" -}}
{{ include "sluice.fullname" . }}-agent
{{- end -}}

{{- define "sluice.agentsService" -}}
{{ include "sluice.fullname" . | trunc 47 | trimSuffix "-" }}-agents
{{- end -}}

{{- /* The pods of agents have another name than those of the server, whose Services would select them otherwise. */ -}}
{{- define "sluice.agentSelector" -}}
app.kubernetes.io/name: {{ printf "%s-agent" (default .Chart.Name .Values.nameOverride) | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "sluice.agentLabels" -}}
{{ include "sluice.agentSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/component: agent
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The host that agents report to. Of several replicas they must know each one's address: a headless Service. */ -}}
{{- define "sluice.agentsHost" -}}
{{ include "sluice.agentsService" . }}{{ if include "sluice.replicated" . }}-headless{{ end }}.{{ include "sluice.namespace" . }}.svc
{{- end -}}

{{- /* All names of both Services, as JSON: the certificate stays when replicas are added. */ -}}
{{- define "sluice.agentsHosts" -}}
{{- $hosts := list -}}
{{- range $service := list (include "sluice.agentsService" .) (printf "%s-headless" (include "sluice.agentsService" .)) -}}
{{- $host := printf "%s.%s" $service (include "sluice.namespace" $) -}}
{{- $hosts = concat $hosts (list (printf "%s.svc" $host) $host (printf "%s.svc.cluster.local" $host)) -}}
{{- end -}}
{{- toJson $hosts -}}
{{- end -}}

{{- /* The Secret with the server's certificate for agents. */ -}}
{{- define "sluice.agentsSecret" -}}
{{- if eq .Values.agent.tls.source "secret" -}}
{{- required "agent.tls.secret.name: is empty, and agent.tls.source is secret; must be the name of a Secret with the keys tls.crt, tls.key and ca.crt" .Values.agent.tls.secret.name -}}
{{- else -}}
{{ include "sluice.agentsService" . }}-tls
{{- end -}}
{{- end -}}

{{- /* The settings of the server's configuration file for agents, as JSON. */ -}}
{{- define "sluice.agentSettings" -}}
{{- $settings := dict -}}
{{- if .Values.agent.enabled -}}
{{- $settings = dict
  "agents-address" ":9097"
  "agents-accounts" (list (printf "%s/%s" (include "sluice.namespace" .) (include "sluice.agent" .)))
  "agents-tls-cert-file" "/etc/sluice/agents-tls/tls.crt"
  "agents-tls-key-file" "/etc/sluice/agents-tls/tls.key" -}}
{{- if .Values.agent.startupTaint -}}
{{- $_ := set $settings "agents-startup-taint" true -}}
{{- end -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{- /* What the server and agents tolerate beside their values, as JSON: they come before the taint goes. */ -}}
{{- define "sluice.agentToleration" -}}
{{- $tolerations := list -}}
{{- if and .Values.agent.enabled .Values.agent.startupTaint -}}
{{- $tolerations = list (dict "key" "sluice.dev/agent-not-ready" "operator" "Exists") -}}
{{- end -}}
{{- toJson $tolerations -}}
{{- end -}}

{{- /* Whether agents ask their kubelets what is used, and whether they read it from the node's cgroups. */ -}}
{{- define "sluice.asksKubelet" -}}
{{- if and .Values.resourceMetrics.enabled (eq .Values.resourceMetrics.source "kubelet") -}}true{{- end -}}
{{- end -}}

{{- define "sluice.readsCgroups" -}}
{{- if and .Values.resourceMetrics.enabled (eq .Values.resourceMetrics.source "cgroup") -}}true{{- end -}}
{{- end -}}

{{- define "sluice.agentRefusals" -}}
{{- if and .Values.agent.enabled .Values.agent.hostPort .Values.hostNetwork -}}
{{- fail "agent.hostPort: is true, and hostNetwork is true; one of them must be false: the server has the ports 8125 and 9091 of its node" -}}
{{- end -}}
{{- if and .Values.resourceMetrics.enabled (not .Values.agent.enabled) -}}
{{- fail "resourceMetrics.enabled: is true without agents, which read on the nodes what is used; agent.enabled must be true" -}}
{{- end -}}
{{- end -}}
