{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sluice.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: is empty, and serviceAccount.create is false; must be the name of an existing service account" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "sluice.apiService" -}}
{{ include "sluice.fullname" . }}-api
{{- end -}}

{{- define "sluice.tlsSecret" -}}
{{- if eq .Values.tls.source "secret" -}}
{{- required "tls.secret.name: is empty, and tls.source is secret; must be the name of a Secret of type kubernetes.io/tls" .Values.tls.secret.name -}}
{{- else -}}
{{ include "sluice.fullname" . }}-tls
{{- end -}}
{{- end -}}

{{- define "sluice.image" -}}
{{- with .Values.image -}}
{{- if or (contains "@" .repository) (contains ":" (last (splitList "/" .repository))) -}}
{{- fail (printf "image.repository: is %s; must be without tag and digest, which are image.tag and image.digest" .repository) -}}
{{- end -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The enabled API groups, as JSON: name, version, priority, and the value that enables them. */ -}}
{{- define "sluice.apis" -}}
{{- $apis := list -}}
{{- if .Values.customMetrics.enabled -}}
{{- $apis = append $apis (dict "group" "custom.metrics.k8s.io" "version" "v1beta1" "priority" 100 "switch" "customMetrics.enabled") -}}
{{- $apis = append $apis (dict "group" "custom.metrics.k8s.io" "version" "v1beta2" "priority" 200 "switch" "customMetrics.enabled") -}}
{{- end -}}
{{- if .Values.externalMetrics.enabled -}}
{{- $apis = append $apis (dict "group" "external.metrics.k8s.io" "version" "v1beta1" "priority" 100 "switch" "externalMetrics.enabled") -}}
{{- end -}}
{{- if not $apis -}}
{{- fail "customMetrics.enabled, externalMetrics.enabled: both are false, so there is nothing to serve; one must be true" -}}
{{- end -}}
{{- toJson $apis -}}
{{- end -}}
