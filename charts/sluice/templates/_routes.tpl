{{- /* Other providers of external.metrics.k8s.io: externalMetrics.route. */ -}}

{{- /* The host of a provider's Service, as its certificate has it. */ -}}
{{- define "sluice.routeHost" -}}
{{ .service.name }}.{{ .service.namespace }}.svc
{{- end -}}

{{- /* The file of api-routes-file. */ -}}
{{- define "sluice.routes" -}}
{{- $providers := list -}}
{{- range .Values.externalMetrics.route -}}
{{- $provider := pick . "name" "scaledObjects" "metrics" "namespaces" "impersonate" -}}
{{- $_ := set $provider "url" (printf "https://%s:%d" (include "sluice.routeHost" .) (int (default 443 .service.port))) -}}
{{- $_ := set $provider "caFile" (printf "/etc/sluice/routes/%s.crt" .name) -}}
{{- $providers = append $providers $provider -}}
{{- end -}}
{{- toYaml (dict "providers" $providers) -}}
{{- end -}}

{{- /* The authorities of a provider's certificate, in PEM: of the values, or of a Secret beside its Service, as the cluster has it now. */ -}}
{{- define "sluice.routeCA" -}}
{{- if .caBundle -}}
{{- .caBundle -}}
{{- else -}}
{{- $secret := lookup "v1" "Secret" .service.namespace (default "" .caSecret) -}}
{{- $ca := dig "data" "ca.crt" "" (default dict $secret) -}}
{{- if not (and .caSecret $ca) -}}
{{- fail (printf "externalMetrics.route: provider %s has no authority: %s. Must have caBundle, in PEM, or caSecret, the name of a Secret in namespace %s with the key ca.crt; without a cluster (helm template) nobody can read a Secret" .name (ternary "caBundle and caSecret are empty" (printf "Secret %s/%s is not there or has no ca.crt" .service.namespace .caSecret) (empty .caSecret)) .service.namespace) -}}
{{- end -}}
{{- b64dec $ca -}}
{{- end -}}
{{- end -}}

{{- /* "true" if a container's flag of KEDA's operator is set. */ -}}
{{- define "sluice.kedaPatches" -}}
{{- $args := concat (default list .command) (default list .args) -}}
{{- $rotates := false -}}
{{- $patches := true -}}
{{- range $args -}}
{{- if has . (list "--enable-cert-rotation" "--enable-cert-rotation=true") -}}{{- $rotates = true -}}{{- end -}}
{{- if eq . "--enable-apiservice-patching=false" -}}{{- $patches = false -}}{{- end -}}
{{- end -}}
{{- if and $rotates $patches -}}true{{- end -}}
{{- end -}}

{{- define "sluice.routeRefusals" -}}
{{- with .Values.externalMetrics -}}
{{- if and .route (not .enabled) -}}
{{- fail "externalMetrics.route: has providers, and externalMetrics.enabled is false; must be empty, or externalMetrics.enabled true" -}}
{{- end -}}
{{- if and .route $.Values.networkPolicy.enabled (not $.Values.networkPolicy.extraEgress) -}}
{{- fail "externalMetrics.route: has providers, and networkPolicy.enabled is true; networkPolicy.extraEgress must let Sluice reach them, because the policy drops all other egress" -}}
{{- end -}}
{{- $names := dict -}}
{{- range .route -}}
{{- if hasKey $names .name -}}
{{- fail (printf "externalMetrics.route: two providers have the name %s; must differ" .name) -}}
{{- end -}}
{{- $_ := set $names .name true -}}
{{- if not (or .scaledObjects .metrics) -}}
{{- fail (printf "externalMetrics.route: provider %s has no metric; must have scaledObjects: true, or patterns in metrics" .name) -}}
{{- end -}}
{{- if and (eq .service.namespace (include "sluice.namespace" $)) (eq .service.name (include "sluice.apiService" $)) -}}
{{- fail (printf "externalMetrics.route: provider %s is this release's own Service %s; must be another product's: requests would go round" .name .service.name) -}}
{{- end -}}
{{- if and .scaledObjects $.Values.externalMetrics.register -}}
{{- include "sluice.refusePatching" . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* KEDA's operator writes its own authority into the APIService of external.metrics.k8s.io, whoever it leads to. */ -}}
{{- define "sluice.refusePatching" -}}
{{- $deployments := lookup "apps/v1" "Deployment" .service.namespace "" -}}
{{- range $deployment := dig "items" list (default dict $deployments) -}}
{{- range dig "spec" "template" "spec" "containers" list $deployment -}}
{{- if include "sluice.kedaPatches" . -}}
{{- fail (printf "externalMetrics.route: Deployment %s/%s writes KEDA's authority into the APIService of external.metrics.k8s.io, so the API server would not trust Sluice; its container %s must have --enable-apiservice-patching=false (KEDA's chart: certificates.operator.apiServicePatching.enabled=false)" $deployment.metadata.namespace $deployment.metadata.name .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
