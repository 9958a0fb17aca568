{{- /* The file of "sluice serve --config": the settings of the chart, then .Values.config unchanged. */ -}}
{{- define "sluice.config" -}}
{{- $own := dict
  "standalone" false
  "data-dir" "/data/sluice"
  "statsd-udp" ":8125"
  "statsd-tcp" ":8125"
  "http-address" ":9091"
  "api-address" ":6443"
  "ops-address" ":8080"
  "api-cert-file" "/etc/sluice/tls/tls.crt"
  "api-key-file" "/etc/sluice/tls/tls.key"
  "api-custom-metrics" .Values.customMetrics.enabled
  "api-external-metrics" .Values.externalMetrics.enabled
  "object-kinds" .Values.objectKinds -}}
{{- $files := dict
  "push-tls-cert-file" "push.tlsSecret"
  "push-tls-key-file" "push.tlsSecret"
  "push-tls-client-ca-file" "push.clientCASecret"
  "push-basic-auth-file" "push.basicAuthSecret"
  "nats-creds-file" "nats.credsSecret"
  "nats-ca-file" "nats.caSecret" -}}
{{- range $setting, $value := $files -}}
{{- if hasKey $.Values.config $setting -}}
{{- fail (printf "config.%s: the chart mounts this file; must be left out, and %s must be the name of a Secret" $setting $value) -}}
{{- end -}}
{{- end -}}
{{- $values := dict
  "replica-name" "each pod has a name of its own"
  "replica-peers" "set replicas"
  "replica-listen" "set replicas"
  "replica-tls-cert-file" "set replicaTLS"
  "replica-tls-key-file" "set replicaTLS"
  "replica-tls-ca-file" "set replicaTLS"
  "replica-insecure" "whoever reaches the port could read and forge all metrics; set replicaTLS"
  "nats-url" "set nats.url" -}}
{{- range $setting, $instead := $values -}}
{{- if hasKey $.Values.config $setting -}}
{{- fail (printf "config.%s: the chart makes replicas; must be left out: %s" $setting $instead) -}}
{{- end -}}
{{- end -}}
{{- with .Values.push -}}
{{- if .tlsSecret -}}
{{- $_ := set $own "push-tls-cert-file" "/etc/sluice/push-tls/tls.crt" -}}
{{- $_ := set $own "push-tls-key-file" "/etc/sluice/push-tls/tls.key" -}}
{{- else if .clientCASecret -}}
{{- fail "push.clientCASecret: clients show certificates over TLS only; push.tlsSecret must be set too" -}}
{{- end -}}
{{- if .clientCASecret -}}
{{- $_ := set $own "push-tls-client-ca-file" "/etc/sluice/push-client-ca/ca.crt" -}}
{{- end -}}
{{- if .basicAuthSecret -}}
{{- $_ := set $own "push-basic-auth-file" "/etc/sluice/push-basic-auth/auth" -}}
{{- end -}}
{{- end -}}
{{- range $setting, $value := .Values.config -}}
{{- if hasKey $own $setting -}}
{{- fail (printf "config.%s: the chart sets it, because Services, volumes, APIServices and roles must agree with it; must be left out" $setting) -}}
{{- end -}}
{{- end -}}
{{- range $i, $kind := .Values.objectKinds -}}
{{- if eq $kind "pods" -}}
{{- fail (printf "at '/objectKinds/%d': pods are always watched; must be left out" $i) -}}
{{- end -}}
{{- end -}}
{{- toYaml (merge $own (include "sluice.replicaSettings" . | fromJson) .Values.config (include "sluice.replicaDefaults" . | fromJson)) -}}
{{- end -}}
