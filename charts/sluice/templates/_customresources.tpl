{{- /* The annotations of a CustomResourceDefinition: deleting one would delete every object of its kind, so Helm keeps it. */ -}}
{{- define "sluice.keptAnnotations" -}}
{{- include "sluice.annotations" (list . (dict "helm.sh/resource-policy" "keep")) -}}
{{- end -}}

{{- /* A label's value, as selectors can have one. */ -}}
{{- define "sluice.labelValueSchema" -}}
type: string
maxLength: 63
pattern: ^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$
{{- end -}}

{{- /* The status of a custom resource that Sluice reports on. */ -}}
{{- define "sluice.statusSchema" -}}
type: object
properties:
  observedGeneration: {type: integer, format: int64}
  conditions:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [type]
    items:
      type: object
      required: [type, status, lastTransitionTime, reason, message]
      properties:
        type: {type: string, maxLength: 316}
        status: {type: string, enum: ["True", "False", Unknown]}
        observedGeneration: {type: integer, format: int64, minimum: 0}
        lastTransitionTime: {type: string, format: date-time}
        reason: {type: string, minLength: 1, maxLength: 1024}
        message: {type: string, maxLength: 32768}
{{- end -}}
