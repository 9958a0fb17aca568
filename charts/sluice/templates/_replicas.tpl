{{- /* "true" if the processes share their state: several replicas, one that a second may join, or a NATS of the user's. */ -}}
{{- define "sluice.replicated" -}}
{{- if or (gt (int .Values.replicas) 1) .Values.replication.enabled .Values.nats.url -}}true{{- end -}}
{{- end -}}

{{- /* "true" if the replicas connect to each other, on port 6222; with nats.url they do not. */ -}}
{{- define "sluice.meshed" -}}
{{- if and (include "sluice.replicated" .) (not .Values.nats.url) -}}true{{- end -}}
{{- end -}}

{{- /* The Service of one pod: dict "root" and "ordinal". */ -}}
{{- define "sluice.replicaService" -}}
{{ include "sluice.fullname" .root }}-replica-{{ .ordinal }}
{{- end -}}

{{- /* The ordinals that are peers, as JSON. Two at least: a second replica then joins without a restart of the first. */ -}}
{{- define "sluice.peerOrdinals" -}}
{{- $ordinals := list -}}
{{- range until (max 2 (int .Values.replicas) | int) -}}{{- $ordinals = append $ordinals . -}}{{- end -}}
{{- toJson $ordinals -}}
{{- end -}}

{{- /* The host names of replicas 0 to 4, as JSON: one certificate holds them all, so that scaling needs no other. */ -}}
{{- define "sluice.replicaHosts" -}}
{{- $hosts := list -}}
{{- range until 5 -}}
{{- $hosts = append $hosts (printf "%s.%s.svc" (include "sluice.replicaService" (dict "root" $ "ordinal" .)) (include "sluice.namespace" $)) -}}
{{- end -}}
{{- toJson $hosts -}}
{{- end -}}

{{- /* The addresses of all peers, each replica's own included, as JSON. */ -}}
{{- define "sluice.peers" -}}
{{- $hosts := include "sluice.replicaHosts" . | fromJsonArray -}}
{{- $peers := list -}}
{{- range include "sluice.peerOrdinals" . | fromJsonArray -}}
{{- $peers = append $peers (printf "%s:6222" (index $hosts (int .))) -}}
{{- end -}}
{{- toJson $peers -}}
{{- end -}}

{{- define "sluice.replicaTLSSecret" -}}
{{- if eq .Values.replicaTLS.source "secret" -}}
{{- required "replicaTLS.secret.name: is empty, and replicaTLS.source is secret; must be the name of a Secret with the keys tls.crt, tls.key and ca.crt" .Values.replicaTLS.secret.name -}}
{{- else -}}
{{ include "sluice.fullname" . }}-replica-tls
{{- end -}}
{{- end -}}

{{- /* The settings of the configuration file that make this process a replica, as JSON. */ -}}
{{- define "sluice.replicaSettings" -}}
{{- $settings := dict -}}
{{- if include "sluice.meshed" . -}}
{{- $settings = dict
  "replica-listen" ":6222"
  "replica-peers" (include "sluice.peers" . | fromJsonArray)
  "replica-tls-cert-file" "/etc/sluice/replica-tls/tls.crt"
  "replica-tls-key-file" "/etc/sluice/replica-tls/tls.key"
  "replica-tls-ca-file" "/etc/sluice/replica-tls/ca.crt" -}}
{{- else if .Values.nats.url -}}
{{- $settings = dict "nats-url" .Values.nats.url -}}
{{- if .Values.nats.credsSecret -}}
{{- $_ := set $settings "nats-creds-file" "/etc/sluice/nats-creds/nats.creds" -}}
{{- end -}}
{{- if .Values.nats.caSecret -}}
{{- $_ := set $settings "nats-ca-file" "/etc/sluice/nats-ca/ca.crt" -}}
{{- end -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{- /* Settings that .Values.config may override, as JSON. */ -}}
{{- define "sluice.replicaDefaults" -}}
{{- $settings := dict -}}
{{- if include "sluice.replicated" . -}}
{{- /* longer than three failed readiness probes: UDP flows leave a pod once it is not ready */ -}}
{{- $_ := set $settings "shutdown-delay" "10s" -}}
{{- end -}}
{{- $name := include "sluice.fullname" . -}}
{{- if .Values.nats.url -}}
{{- /* other releases may use the same NATS */ -}}
{{- $name = printf "%s-%s" (include "sluice.namespace" .) $name -}}
{{- end -}}
{{- if and (include "sluice.replicated" .) (ne $name "sluice") -}}
{{- $_ := set $settings "replica-cluster" ($name | trunc 63 | trimSuffix "-") -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{- /* The name that the replicas have in common, and that of their Lease. */ -}}
{{- define "sluice.replicaCluster" -}}
{{- merge (dict) .Values.config (include "sluice.replicaDefaults" . | fromJson) (dict "replica-cluster" "sluice") | dig "replica-cluster" "" -}}
{{- end -}}

{{- /* The pod's affinity: the user's, and that replicas avoid each other's nodes unless the user says how pods repel. */ -}}
{{- define "sluice.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- if and (include "sluice.replicated" .) (not (hasKey $affinity "podAntiAffinity")) (ne .Values.spread.nodes "any") -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "sluice.selector" . | fromYaml)) -}}
{{- if eq .Values.spread.nodes "required" -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) -}}
{{- else -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term))) -}}
{{- end -}}
{{- end -}}
{{- toJson $affinity -}}
{{- end -}}
