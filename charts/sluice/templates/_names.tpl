{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluice.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The annotations of an object's metadata: list of the chart's context and the object's own annotations, which win. */ -}}
{{- define "sluice.annotations" -}}
{{- with merge (dict) (index . 1 | default dict) (index . 0).Values.commonAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
{{- end -}}
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
{{- $repository := .repository -}}
{{- with $.Values.global.imageRegistry -}}
{{- $host := first (splitList "/" $repository) -}}
{{- /* the first part is a registry's host if it looks like one, as in Docker's grammar of references */ -}}
{{- if and (contains "/" $repository) (regexMatch "[.:]|^localhost$" $host) -}}
{{- $repository = trimPrefix (printf "%s/" $host) $repository -}}
{{- end -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository -}}
{{- end -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The Secrets of image registries, as JSON: those of the chart and of the parent chart, by name or as {name}. */ -}}
{{- define "sluice.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat .Values.imagePullSecrets (default list .Values.global.imagePullSecrets) -}}
{{- $secrets = append $secrets (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- toJson (uniq $secrets) -}}
{{- end -}}

{{- /* "true" if each pod gets a claim of its own from the StatefulSet. */ -}}
{{- define "sluice.claims" -}}
{{- if and .Values.persistence.enabled (not .Values.persistence.existingClaim) -}}true{{- end -}}
{{- end -}}

{{- /* "true" if the console runs. It listens on loopback, which on the node's network is everybody's on the node. */ -}}
{{- define "sluice.console" -}}
{{- if and .Values.console.enabled (not .Values.hostNetwork) -}}true{{- end -}}
{{- end -}}

{{- /* The pod's DNS policy; empty: the API server's default. */ -}}
{{- define "sluice.dnsPolicy" -}}
{{- default (ternary "ClusterFirstWithHostNet" "" .Values.hostNetwork) .Values.dnsPolicy -}}
{{- end -}}

{{- /* The enabled API groups, as JSON: group, version, priority, the value that enables them, and whether they are registered. */ -}}
{{- define "sluice.apis" -}}
{{- $apis := list -}}
{{- if .Values.customMetrics.enabled -}}
{{- $register := .Values.customMetrics.register -}}
{{- $apis = append $apis (dict "group" "custom.metrics.k8s.io" "version" "v1beta1" "priority" 100 "value" "customMetrics" "register" $register) -}}
{{- $apis = append $apis (dict "group" "custom.metrics.k8s.io" "version" "v1beta2" "priority" 200 "value" "customMetrics" "register" $register) -}}
{{- end -}}
{{- if .Values.externalMetrics.enabled -}}
{{- $apis = append $apis (dict "group" "external.metrics.k8s.io" "version" "v1beta1" "priority" 100 "value" "externalMetrics" "register" .Values.externalMetrics.register) -}}
{{- end -}}
{{- if .Values.apiServices.ownGroups -}}
{{- range $apis -}}
{{- $apis = append $apis (dict "group" (replace "k8s.io" "sluice.dev" .group) "version" .version "priority" .priority "value" "apiServices.ownGroups" "register" true) -}}
{{- end -}}
{{- end -}}
{{- if not $apis -}}
{{- fail "customMetrics.enabled, externalMetrics.enabled: both are false, so there is nothing to serve; one must be true" -}}
{{- end -}}
{{- if .Values.resourceMetrics.enabled -}}
{{- $register := .Values.resourceMetrics.register -}}
{{- $apis = append $apis (dict "group" "metrics.k8s.io" "version" "v1beta1" "priority" 100 "value" "resourceMetrics" "register" $register) -}}
{{- $apis = append $apis (dict "group" "metrics.k8s.io" "version" "v1" "priority" 200 "value" "resourceMetrics" "register" $register) -}}
{{- $apis = append $apis (dict "group" "usage.sluice.dev" "version" "v1alpha1" "priority" 100 "value" "resourceMetrics" "register" true) -}}
{{- end -}}
{{- if .Values.inspect.enabled -}}
{{- $apis = append $apis (dict "group" "inspect.sluice.dev" "version" "v1alpha1" "priority" 100 "value" "inspect" "register" true) -}}
{{- end -}}
{{- toJson $apis -}}
{{- end -}}
