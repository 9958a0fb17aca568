{{- /*
A certificate, as JSON: crt, key and ca, in base64. The one of Secret .name if it was made for the same names, .for, else a new one of a
new CA: .ca and .cn are their common names, .hosts the DNS names, .days the validity. .root is the chart's context. Keys are of P-256:
a signature by RSA costs a millisecond, for which any caller can ask by a handshake.
*/ -}}
{{- define "sluice.generated" -}}
{{- $made := lookup "v1" "Secret" (include "sluice.namespace" .root) .name -}}
{{- $crt := "" -}}
{{- $key := "" -}}
{{- $caBundle := "" -}}
{{- if eq (dig "metadata" "annotations" "sluice.dev/certificate-for" "" $made) .for -}}
{{- $crt = dig "data" "tls.crt" "" $made -}}
{{- $key = dig "data" "tls.key" "" $made -}}
{{- $caBundle = dig "data" "ca.crt" "" $made -}}
{{- end -}}
{{- if not (and $crt $key $caBundle) -}}
{{- $ca := genCAWithKey .ca .days (genPrivateKey "ecdsa") -}}
{{- $signed := genSignedCertWithKey .cn nil .hosts .days $ca (genPrivateKey "ecdsa") -}}
{{- $crt = b64enc $signed.Cert -}}
{{- $key = b64enc $signed.Key -}}
{{- $caBundle = b64enc $ca.Cert -}}
{{- end -}}
{{- toJson (dict "crt" $crt "key" $key "ca" $caBundle) -}}
{{- end -}}

{{- /*
Both ends of KEDA's port, as JSON: "for", the names of both, and "secrets", each with name, namespace, crt, key and ca. Those that
exist, if they were made for these names, else new ones of a new CA, whose key nobody keeps: so both are made together.
*/ -}}
{{- define "sluice.kedaGenerated" -}}
{{- $root := .root -}}
{{- $for := join " " (concat .hosts .names) -}}
{{- $server := dict "name" .server "namespace" (include "sluice.namespace" $root) "hosts" .hosts -}}
{{- $client := dict "name" .client "namespace" $root.Values.keda.namespace "hosts" .names -}}
{{- $kept := true -}}
{{- range $end := list $server $client -}}
{{- $made := lookup "v1" "Secret" $end.namespace $end.name -}}
{{- range $field, $key := dict "crt" "tls.crt" "key" "tls.key" "ca" "ca.crt" -}}
{{- $_ := set $end $field (dig "data" $key "" $made) -}}
{{- $kept = and $kept (get $end $field) (eq (dig "metadata" "annotations" "sluice.dev/certificate-for" "" $made) $for) -}}
{{- end -}}
{{- end -}}
{{- if not (and $kept (eq $server.ca $client.ca)) -}}
{{- $days := int $root.Values.keda.tls.generated.days -}}
{{- $ca := genCAWithKey (printf "%s CA" (include "sluice.kedaService" $root)) $days (genPrivateKey "ecdsa") -}}
{{- range $end := list $server $client -}}
{{- $signed := genSignedCertWithKey (first $end.hosts) nil $end.hosts $days $ca (genPrivateKey "ecdsa") -}}
{{- $_ := set $end "crt" (b64enc $signed.Cert) -}}
{{- $_ := set $end "key" (b64enc $signed.Key) -}}
{{- $_ := set $end "ca" (b64enc $ca.Cert) -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "for" $for "secrets" (list $server $client)) -}}
{{- end -}}

{{- /* A CA that cert-manager makes: dict "root", "name" (of its objects) and "commonName". */ -}}
{{- define "sluice.certManagerCA" }}
# A CA of the chart's own: an issuer that signs itself, the CA, and the issuer that the CA is.
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ .name }}-self-signed
  namespace: {{ include "sluice.namespace" .root | quote }}
  labels: {{- include "sluice.labels" .root | nindent 4 }}
  {{- include "sluice.annotations" (list .root nil) }}
spec:
  selfSigned: {}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .name }}-ca
  namespace: {{ include "sluice.namespace" .root | quote }}
  labels: {{- include "sluice.labels" .root | nindent 4 }}
  {{- include "sluice.annotations" (list .root nil) }}
spec:
  isCA: true
  commonName: {{ .commonName | quote }}
  secretName: {{ .name }}-ca
  duration: 87600h
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef:
    group: cert-manager.io
    kind: Issuer
    name: {{ .name }}-self-signed
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ .name }}-ca
  namespace: {{ include "sluice.namespace" .root | quote }}
  labels: {{- include "sluice.labels" .root | nindent 4 }}
  {{- include "sluice.annotations" (list .root nil) }}
spec:
  ca:
    secretName: {{ .name }}-ca
---
{{- end -}}
