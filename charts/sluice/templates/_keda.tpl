{{- /* The Services of KEDA's port: one address, and with "-headless" one for each replica. A name has 63 letters at most. */ -}}
{{- define "sluice.kedaService" -}}
{{ include "sluice.fullname" . | trunc 49 | trimSuffix "-" }}-keda
{{- end -}}

{{- /* The host names of both Services, as JSON: by namespace, by "svc", and whole. */ -}}
{{- define "sluice.kedaHosts" -}}
{{- $hosts := list -}}
{{- range $service := list (include "sluice.kedaService" .) (printf "%s-headless" (include "sluice.kedaService" .)) -}}
{{- range $end := list "" ".svc" ".svc.cluster.local" -}}
{{- $hosts = append $hosts (printf "%s.%s%s" $service (include "sluice.namespace" $) $end) -}}
{{- end -}}
{{- end -}}
{{- toJson $hosts -}}
{{- end -}}

{{- /* The host names of which KEDA's client certificate must have one, as JSON. */ -}}
{{- define "sluice.kedaClientNames" -}}
{{- default (list (printf "keda-operator.%s.svc" .Values.keda.namespace)) .Values.keda.clientNames | toJson -}}
{{- end -}}

{{- /* The Secret of Sluice's end, in the release's namespace. */ -}}
{{- define "sluice.kedaTLSSecret" -}}
{{- if eq .Values.keda.tls.source "secret" -}}
{{- required "keda.tls.secret.name: is empty, and keda.tls.source is secret; must be the name of a Secret with the keys tls.crt, tls.key and ca.crt (the authorities of KEDA's client certificate)" .Values.keda.tls.secret.name -}}
{{- else -}}
{{ include "sluice.kedaService" . }}-tls
{{- end -}}
{{- end -}}

{{- /* The Secret of KEDA's end, in KEDA's namespace. */ -}}
{{- define "sluice.kedaClientSecret" -}}
{{- default (printf "%s-client" (include "sluice.kedaService" .)) .Values.keda.authentication.secret -}}
{{- end -}}

{{- /* The settings of the configuration file for KEDA's port, as JSON. */ -}}
{{- define "sluice.kedaSettings" -}}
{{- $settings := dict -}}
{{- if .Values.keda.enabled -}}
{{- $settings = dict
  "keda-address" ":9095"
  "keda-tls-cert-file" "/etc/sluice/keda-tls/tls.crt"
  "keda-tls-key-file" "/etc/sluice/keda-tls/tls.key"
  "keda-tls-client-ca-file" "/etc/sluice/keda-tls/ca.crt"
  "keda-client-names" (include "sluice.kedaClientNames" . | fromJsonArray) -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{- define "sluice.kedaRefusals" -}}
{{- with .Values.keda -}}
{{- if not (has .tls.source (list "generated" "cert-manager" "secret")) -}}
{{- fail (printf "keda.tls.source: is %v; must be generated, cert-manager or secret: without TLS, whoever reaches port 9095 could read the metrics of every namespace" .tls.source) -}}
{{- end -}}
{{- if .enabled -}}
{{- if and (eq .tls.source "secret") .authentication.create (not .authentication.secret) -}}
{{- fail (printf "keda.authentication.secret: is empty, and keda.tls.source is secret; must name a Secret in namespace %s with the keys ca.crt, tls.crt and tls.key, or keda.authentication.create must be false" .namespace) -}}
{{- end -}}
{{- if and (ne .tls.source "secret") .authentication.secret -}}
{{- fail (printf "keda.authentication.secret: is set, and keda.tls.source is %s; must be empty: the chart makes KEDA's client certificate" .tls.source) -}}
{{- end -}}
{{- $issuer := .tls.certManager.issuerRef -}}
{{- if and (eq .tls.source "cert-manager") (ne .namespace (include "sluice.namespace" $)) (ne (dig "kind" "Issuer" $issuer) "ClusterIssuer") -}}
{{- fail (printf "keda.tls.certManager.issuerRef: must name a ClusterIssuer (kind: ClusterIssuer): it issues in namespace %s and in KEDA's, %s, and an Issuer issues in its own only" (include "sluice.namespace" $) .namespace) -}}
{{- end -}}
{{- else -}}
{{- range $value, $set := dict "keda.clientNames" .clientNames "keda.tls.secret.name" .tls.secret.name "keda.tls.certManager.issuerRef" .tls.certManager.issuerRef "keda.authentication.secret" .authentication.secret -}}
{{- if $set -}}
{{- fail (printf "%s: is set, and keda.enabled is false; must be empty, or keda.enabled true" $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
