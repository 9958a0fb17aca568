{{- /*
A certificate, as JSON: crt, key and ca, in base64. The one of Secret .name if it was made for the same names, .for, else a new one of a
new CA: .ca and .cn are their common names, .hosts the DNS names, .days the validity. .root is the chart's context.
*/ -}}
{{- define "sluice.generated" -}}
{{- $made := lookup "v1" "Secret" .root.Release.Namespace .name -}}
{{- $crt := "" -}}
{{- $key := "" -}}
{{- $caBundle := "" -}}
{{- if eq (dig "metadata" "annotations" "sluice.dev/certificate-for" "" $made) .for -}}
{{- $crt = dig "data" "tls.crt" "" $made -}}
{{- $key = dig "data" "tls.key" "" $made -}}
{{- $caBundle = dig "data" "ca.crt" "" $made -}}
{{- end -}}
{{- if not (and $crt $key $caBundle) -}}
{{- $ca := genCA .ca .days -}}
{{- $signed := genSignedCert .cn nil .hosts .days $ca -}}
{{- $crt = b64enc $signed.Cert -}}
{{- $key = b64enc $signed.Key -}}
{{- $caBundle = b64enc $ca.Cert -}}
{{- end -}}
{{- toJson (dict "crt" $crt "key" $key "ca" $caBundle) -}}
{{- end -}}

{{- /* A CA that cert-manager makes: dict "root", "name" (of its objects) and "commonName". */ -}}
{{- define "sluice.certManagerCA" }}
# A CA of the chart's own: an issuer that signs itself, the CA, and the issuer that the CA is.
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ .name }}-self-signed
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "sluice.labels" .root | nindent 4 }}
spec:
  selfSigned: {}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .name }}-ca
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "sluice.labels" .root | nindent 4 }}
spec:
  isCA: true
  commonName: {{ .commonName }}
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
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "sluice.labels" .root | nindent 4 }}
spec:
  ca:
    secretName: {{ .name }}-ca
---
{{- end -}}
