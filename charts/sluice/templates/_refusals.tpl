{{- /* Rejects values that would fail later: in the API server, in the kubelet, or at the pod's start. */ -}}
{{- define "sluice.refusals" -}}
{{- with .Values.service.ingest -}}
{{- if and (eq .clusterIP "None") (ne .type "ClusterIP") -}}
{{- fail (printf "service.ingest.clusterIP: None makes the Service headless, which the API server refuses for type %s; service.ingest.type must be ClusterIP, or clusterIP empty" .type) -}}
{{- end -}}
{{- if and .loadBalancerSourceRanges (ne .type "LoadBalancer") -}}
{{- fail (printf "service.ingest.loadBalancerSourceRanges: the API server refuses them for type %s; service.ingest.type must be LoadBalancer. To bound who may push inside the cluster, set networkPolicy.pushFrom" .type) -}}
{{- end -}}
{{- end -}}
{{- if and (eq (toString (index .Values.config "push-tls-client-auth")) "require") (not .Values.push.clientCASecret) -}}
{{- fail "config.push-tls-client-auth: require needs an authority to check client certificates against; push.clientCASecret must name a Secret (and push.tlsSecret one too)" -}}
{{- end -}}
{{- if hasKey .Values.config "kubeconfig" -}}
{{- fail "config.kubeconfig: a pod uses its service account, and no kubeconfig file is mounted; must be left out" -}}
{{- end -}}
{{- range .Values.objectKinds -}}
{{- $version := regexFind "^[^.]+[.]v[0-9]+((alpha|beta)[0-9]+)?([.]|$)" . -}}
{{- if $version -}}
{{- $resource := regexFind "^[^.]+" . -}}
{{- $group := trimPrefix $version . -}}
{{- $version = $version | trimPrefix $resource | trimAll "." -}}
{{- fail (printf "objectKinds: %s names the version %s; must be %s: a kind is watched in whichever version is served" . $version (ternary (printf "%s.%s" $resource $group) $resource (ne $group ""))) -}}
{{- end -}}
{{- end -}}
{{- range $i, $mount := .Values.extraVolumeMounts -}}
{{- $path := clean $mount.mountPath -}}
{{- range $own := list "/data" "/etc/sluice" -}}
{{- if or (eq $path "/") (eq $path $own) (hasPrefix (printf "%s/" $own) $path) -}}
{{- fail (printf "extraVolumeMounts[%d].mountPath: %s hides or splits %s, where the chart mounts its own volumes; must be a folder outside %s" $i $mount.mountPath $own $own) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "sluice.replicaRefusals" . -}}
{{- end -}}

{{- define "sluice.replicaRefusals" -}}
{{- if or (lt (int .Values.replicas) 1) (gt (int .Values.replicas) 5) -}}
{{- fail (printf "replicas: is %v; must be 1 to 5: each replica holds the state of all" .Values.replicas) -}}
{{- end -}}
{{- if not .Values.nats.url -}}
{{- range $name := list "credsSecret" "caSecret" -}}
{{- if index $.Values.nats $name -}}
{{- fail (printf "nats.%s: is set, and nats.url is empty; nats.url must be the address of a NATS, or nats.%s empty" $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "sluice.meshed" .) (not (has .Values.replicaTLS.source (list "generated" "cert-manager" "secret"))) -}}
{{- fail (printf "replicaTLS.source: is %v; must be generated, cert-manager or secret: without TLS, whoever reaches port 6222 could read and forge all metrics" .Values.replicaTLS.source) -}}
{{- end -}}
{{- if and (include "sluice.replicated" .) (lt (int .Values.terminationGracePeriodSeconds) 30) -}}
{{- fail (printf "terminationGracePeriodSeconds: is %v; must be at least 30 with replicas: a pod that stops receives for 10 seconds more, hands its state over and writes it to disk" .Values.terminationGracePeriodSeconds) -}}
{{- end -}}
{{- include "sluice.stepRefusals" . -}}
{{- end -}}

{{- /*
From one replica to several, and back, takes two upgrades. In one, a replica that shares its state and one that does not would answer at the
same time, each with a part of the sum. Needs a look into the cluster, which "helm template" does not have.
*/ -}}
{{- define "sluice.stepRefusals" -}}
{{- $running := lookup "apps/v1" "StatefulSet" .Release.Namespace (include "sluice.fullname" .) -}}
{{- if $running -}}
{{- $shares := false -}}
{{- range dig "spec" "template" "spec" "containers" (list) $running -}}
{{- if has "--replica-name=$(POD_NAME)" .args -}}
{{- $shares = true -}}
{{- end -}}
{{- end -}}
{{- $were := int (dig "spec" "replicas" 1 $running) -}}
{{- if and (gt (int .Values.replicas) 1) (gt $were 0) (not $shares) -}}
{{- fail (printf "replicas: is %v, and the running replica does not share its state yet; must be 1 in a first upgrade with replication.enabled=true (or nats.url), and %v in a second one" .Values.replicas .Values.replicas) -}}
{{- end -}}
{{- if and (gt $were 1) (not (include "sluice.replicated" .)) -}}
{{- fail (printf "replicas: is 1, and %d replicas are running; the upgrade must have replication.enabled=true, and a later one may switch it off: see \"From one replica to two, and back\" in README.md" $were) -}}
{{- end -}}
{{- end -}}
{{- end -}}
