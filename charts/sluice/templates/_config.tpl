{{- /* Settings that the chart makes itself, as JSON: each with what its error says instead of it. */ -}}
{{- define "sluice.ownSettings" -}}
{{- $reasons := dict -}}
{{- range list "standalone" "data-dir" "statsd-udp" "statsd-tcp" "http-address" "otlp-http-address" "otlp-grpc-address" "api-address" "ops-address" "api-cert-file" "api-key-file" "api-custom-metrics" "api-external-metrics" "api-resource-metrics" "api-own-groups" "object-kinds" -}}
{{- $_ := set $reasons . "the chart sets it, because Services, volumes, APIServices and roles must agree with it; must be left out" -}}
{{- end -}}
{{- $_ := set $reasons "api-address" "the chart sets it; must be left out: set api.port" -}}
{{- $_ := set $reasons "ops-address" "the chart sets it; must be left out: set operations.port" -}}
{{- $files := dict
  "push-tls-cert-file" "push.tlsSecret"
  "push-tls-key-file" "push.tlsSecret"
  "push-tls-client-ca-file" "push.clientCASecret"
  "push-basic-auth-file" "push.basicAuthSecret"
  "export-otlp-ca-file" "exportOTLP.caSecret"
  "export-otlp-client-cert-file" "exportOTLP.clientSecret"
  "export-otlp-client-key-file" "exportOTLP.clientSecret"
  "export-otlp-headers-file" "exportOTLP.headersSecret"
  "nats-creds-file" "nats.credsSecret"
  "nats-ca-file" "nats.caSecret" -}}
{{- range $setting, $value := $files -}}
{{- $_ := set $reasons $setting (printf "the chart mounts this file; must be left out, and %s must be the name of a Secret" $value) -}}
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
{{- $_ := set $reasons $setting (printf "the chart makes replicas; must be left out: %s" $instead) -}}
{{- end -}}
{{- $_ := set $reasons "api-own-groups" "the chart sets it, because APIServices and roles must agree with it; must be left out: set apiServices.ownGroups" -}}
{{- $_ := set $reasons "api-unregistered" "the chart sets it, because APIServices must agree with it; must be left out: set customMetrics.register and externalMetrics.register" -}}
{{- $_ := set $reasons "api-routes-file" "the chart makes this file; must be left out: set externalMetrics.route" -}}
{{- $_ := set $reasons "wake" "the chart sets it, because a ClusterRole must agree with it; must be left out: set wake.enabled" -}}
{{- $_ := set $reasons "instant" "the chart sets it, because a ClusterRole must agree with it; must be left out: set instant.enabled" -}}
{{- range $setting := list "keda-address" "keda-tls-cert-file" "keda-tls-key-file" "keda-tls-client-ca-file" -}}
{{- $_ := set $reasons $setting "the chart makes Services and certificates of KEDA's port; must be left out: set keda.enabled and keda.tls" -}}
{{- end -}}
{{- range $setting := list "agents-address" "agents-accounts" "agents-tls-cert-file" "agents-tls-key-file" "agents-startup-taint" -}}
{{- $_ := set $reasons $setting "the chart makes the agents, and the Service and certificate that they report to; must be left out: set agent.enabled" -}}
{{- end -}}
{{- $_ := set $reasons "agents-insecure" "anyone on the way could read the tokens of agents; must be left out: set agent.enabled and agent.tls" -}}
{{- $_ := set $reasons "keda-client-names" "the chart makes KEDA's client certificate; must be left out: set keda.clientNames" -}}
{{- $_ := set $reasons "keda-insecure" "whoever reaches the port could read the metrics of every namespace; must be left out: set keda.enabled and keda.tls" -}}
{{- $_ := set $reasons "kubeconfig" "a pod uses its service account, and no kubeconfig file is mounted; must be left out" -}}
{{- toJson $reasons -}}
{{- end -}}

{{- /* The kinds of objects that are watched, as JSON: a namespace that is deleted takes its metrics with it, and
metrics.k8s.io selects nodes by their labels. */ -}}
{{- define "sluice.objectKinds" -}}
{{- $kinds := append .Values.objectKinds "namespaces" | uniq -}}
{{- if .Values.resourceMetrics.enabled -}}
{{- $kinds = append $kinds "nodes" | uniq -}}
{{- end -}}
{{- toJson $kinds -}}
{{- end -}}

{{- /* The file of "sluice serve --config": the settings of the chart, then .Values.config unchanged. */ -}}
{{- define "sluice.config" -}}
{{- $reasons := include "sluice.ownSettings" . | fromJson -}}
{{- range $setting, $value := .Values.config -}}
{{- with get $reasons $setting -}}
{{- fail (printf "config.%s: %s" $setting .) -}}
{{- end -}}
{{- end -}}
{{- $own := dict
  "standalone" false
  "data-dir" "/data/sluice"
  "statsd-udp" ":8125"
  "statsd-tcp" ":8125"
  "http-address" ":9091"
  "api-address" (printf ":%d" (int .Values.api.port))
  "ops-address" (printf ":%d" (int .Values.operations.port))
  "api-cert-file" "/etc/sluice/tls/tls.crt"
  "api-key-file" "/etc/sluice/tls/tls.key"
  "api-custom-metrics" .Values.customMetrics.enabled
  "api-external-metrics" .Values.externalMetrics.enabled
  "object-kinds" (include "sluice.objectKinds" . | fromJsonArray) -}}
{{- if .Values.otlp.enabled -}}
{{- $_ := set $own "otlp-http-address" ":4318" -}}
{{- $_ := set $own "otlp-grpc-address" ":4317" -}}
{{- end -}}
{{- $unregistered := list -}}
{{- range $group, $value := dict "custom.metrics.k8s.io" .Values.customMetrics "external.metrics.k8s.io" .Values.externalMetrics -}}
{{- if and $value.enabled (not $value.register) -}}{{- $unregistered = append $unregistered $group -}}{{- end -}}
{{- end -}}
{{- if $unregistered -}}
{{- $_ := set $own "api-unregistered" $unregistered -}}
{{- end -}}
{{- if .Values.apiServices.ownGroups -}}
{{- $_ := set $own "api-own-groups" true -}}
{{- end -}}
{{- if .Values.externalMetrics.route -}}
{{- $_ := set $own "api-routes-file" "/etc/sluice/routes/routes.yaml" -}}
{{- end -}}
{{- if .Values.resourceMetrics.enabled -}}
{{- $_ := set $own "api-resource-metrics" true -}}
{{- end -}}
{{- $console := dict -}}
{{- if include "sluice.console" . -}}
{{- $_ := set $console "console-address" "127.0.0.1:9096" -}}
{{- end -}}
{{- if and (get .Values.config "console-address") (not .Values.console.enabled) -}}
{{- fail "config.console-address: is set, and console.enabled is false; must be left out, or console.enabled true" -}}
{{- end -}}
{{- if .Values.wake.enabled -}}
{{- $_ := set $own "wake" true -}}
{{- end -}}
{{- if .Values.instant.enabled -}}
{{- $_ := set $own "instant" true -}}
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
{{- with .Values.exportOTLP -}}
{{- if .caSecret -}}
{{- $_ := set $own "export-otlp-ca-file" "/etc/sluice/otlp-ca/ca.crt" -}}
{{- end -}}
{{- if .clientSecret -}}
{{- $_ := set $own "export-otlp-client-cert-file" "/etc/sluice/otlp-client/tls.crt" -}}
{{- $_ := set $own "export-otlp-client-key-file" "/etc/sluice/otlp-client/tls.key" -}}
{{- end -}}
{{- if .headersSecret -}}
{{- $_ := set $own "export-otlp-headers-file" "/etc/sluice/otlp-headers/headers" -}}
{{- end -}}
{{- $url := toString (default "" (get $.Values.config "export-otlp")) -}}
{{- range $name, $secret := . -}}
{{- if and $secret (not $url) -}}
{{- fail (printf "exportOTLP.%s: is set, and config.export-otlp is empty; config.export-otlp must be the URL of a Collector, or exportOTLP.%s empty" $name $name) -}}
{{- end -}}
{{- if and $secret (ne $name "headersSecret") (not (hasPrefix "https://" $url)) -}}
{{- fail (printf "exportOTLP.%s: is set, and config.export-otlp is %s; must be https://…: without TLS nobody shows a certificate" $name $url) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $i, $kind := .Values.objectKinds -}}
{{- if eq $kind "pods" -}}
{{- fail (printf "at '/objectKinds/%d': pods are always watched; must be left out" $i) -}}
{{- end -}}
{{- end -}}
{{- toYaml (merge $own (include "sluice.agentSettings" . | fromJson) (include "sluice.kedaSettings" . | fromJson) (include "sluice.replicaSettings" . | fromJson) .Values.config $console (include "sluice.replicaDefaults" . | fromJson)) -}}
{{- end -}}
