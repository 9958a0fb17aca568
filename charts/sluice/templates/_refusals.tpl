{{- /* Rejects values that would fail later: in the API server, in the kubelet, or at the pod's start. */ -}}
{{- define "sluice.refusals" -}}
{{- with .Values.service.ingest -}}
{{- if and (eq .clusterIP "None") (ne .type "ClusterIP") -}}
{{- fail (printf "service.ingest.clusterIP: None makes the Service headless, which the API server refuses for type %s; service.ingest.type must be ClusterIP, or clusterIP empty" .type) -}}
{{- end -}}
{{- if and .loadBalancerSourceRanges (ne .type "LoadBalancer") -}}
{{- fail (printf "service.ingest.loadBalancerSourceRanges: the API server refuses them for type %s; service.ingest.type must be LoadBalancer. To bound who may push inside the cluster, set networkPolicy.pushFrom" .type) -}}
{{- end -}}
{{- if and .loadBalancerClass (ne .type "LoadBalancer") -}}
{{- fail (printf "service.ingest.loadBalancerClass: the API server refuses it for type %s; service.ingest.type must be LoadBalancer, or loadBalancerClass empty" .type) -}}
{{- end -}}
{{- if and .nodePorts (eq .type "ClusterIP") -}}
{{- fail "service.ingest.nodePorts: the API server refuses them for type ClusterIP; service.ingest.type must be NodePort or LoadBalancer, or nodePorts empty" -}}
{{- end -}}
{{- $taken := dict -}}
{{- $nodePorts := .nodePorts -}}
{{- range list "statsd-tcp" "http-push" "otlp-grpc" "otlp-http" -}}
{{- $port := toString (index $nodePorts .) -}}
{{- if and (hasKey $nodePorts .) (hasKey $taken $port) -}}
{{- fail (printf "service.ingest.nodePorts: %s and %s are both %v, and both are TCP; must differ" (get $taken $port) . $port) -}}
{{- end -}}
{{- $_ := set $taken $port . -}}
{{- end -}}
{{- end -}}
{{- if and (eq (toString (index .Values.config "push-tls-client-auth")) "require") (not .Values.push.clientCASecret) -}}
{{- fail "config.push-tls-client-auth: require needs an authority to check client certificates against; push.clientCASecret must name a Secret (and push.tlsSecret one too)" -}}
{{- end -}}
{{- $versioned := "^[^.]+[.]v[0-9]+((alpha|beta)[0-9]+)?([.]|$)" -}}
{{- range .Values.objectKinds -}}
{{- $version := regexFind $versioned . -}}
{{- if $version -}}
{{- $resource := regexFind "^[^.]+" . -}}
{{- $group := trimPrefix $version . -}}
{{- $version = $version | trimPrefix $resource | trimAll "." -}}
{{- fail (printf "objectKinds: %s names the version %s; must be %s: a kind is watched in whichever version is served" . $version (ternary (printf "%s.%s" $resource $group) $resource (ne $group ""))) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.wake.enabled (not .Values.wake.kinds) -}}
{{- fail "wake.kinds: is empty, and wake.enabled is true; must name a kind, as in deployments.apps: Sluice could wake nothing" -}}
{{- end -}}
{{- range .Values.wake.kinds -}}
{{- if regexMatch $versioned . -}}
{{- fail (printf "wake.kinds: %s names a version; must be resource.group, as in deployments.apps" .) -}}
{{- end -}}
{{- $resource := first (splitList "." .) -}}
{{- $group := trimPrefix $resource . | trimPrefix "." -}}
{{- if and (eq $group "") (ne $resource "replicationcontrollers") -}}
{{- fail (printf "wake.kinds: %s names no API group; must be resource.group with the resource in the plural, as in deployments.apps" .) -}}
{{- end -}}
{{- if and (eq $group "apps") (not (has $resource (list "deployments" "replicasets" "statefulsets"))) -}}
{{- fail (printf "wake.kinds: %s cannot be scaled; must be deployments.apps, replicasets.apps or statefulsets.apps" .) -}}
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
{{- if .Chart.IsRoot -}}
{{- /* a parent chart's values for its other charts are no misspelt ones */ -}}
{{- range $key, $value := .Values.global -}}
{{- if not (has $key (list "imageRegistry" "imagePullSecrets")) -}}
{{- fail (printf "global.%s: is unknown; must be imageRegistry or imagePullSecrets" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "sluice.podRefusals" . -}}
{{- include "sluice.outsideRefusals" . -}}
{{- include "sluice.volumeRefusals" . -}}
{{- include "sluice.replicaRefusals" . -}}
{{- include "sluice.kedaRefusals" . -}}
{{- include "sluice.routeRefusals" . -}}
{{- include "sluice.agentRefusals" . -}}
{{- end -}}

{{- /* Ports, network, arguments and environment of the pod. */ -}}
{{- define "sluice.podRefusals" -}}
{{- $ports := dict "8125" "StatsD" "9091" "HTTP push" "9096" "the console" "6222" "the replicas" -}}
{{- if .Values.otlp.enabled -}}
{{- $_ := set $ports "4317" "OTLP over gRPC" -}}
{{- $_ := set $ports "4318" "OTLP over HTTP" -}}
{{- end -}}
{{- if .Values.keda.enabled -}}
{{- $_ := set $ports "9095" "KEDA" -}}
{{- end -}}
{{- if .Values.agent.enabled -}}
{{- $_ := set $ports "9097" "agents" -}}
{{- end -}}
{{- range $name, $port := dict "api.port" .Values.api.port "operations.port" .Values.operations.port -}}
{{- with get $ports (toString $port) -}}
{{- fail (printf "%s: is %v, the port of %s; must be another one" $name $port .) -}}
{{- end -}}
{{- $_ := set $ports (toString $port) $name -}}
{{- if and $.Values.hostNetwork (eq (int $port) 10250) -}}
{{- fail (printf "%s: is 10250, and hostNetwork is true; must be another one: on the node's network, it is the kubelet's" $name) -}}
{{- end -}}
{{- if and $.Values.hostNetwork (lt (int $port) 1024) -}}
{{- fail (printf "%s: is %v, and hostNetwork is true; must be 1024 or more: on the node's network, only root opens a lower one" $name $port) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.hostNetwork .Values.networkPolicy.enabled -}}
{{- fail "networkPolicy.enabled: is true, and hostNetwork is true; must be false: network policies don't apply to pods on the node's network, so the policy would protect nothing" -}}
{{- end -}}
{{- range $setting := list "relay-to" "export-otlp" -}}
{{- if and $.Values.networkPolicy.enabled (get $.Values.config $setting) (not $.Values.networkPolicy.extraEgress) -}}
{{- fail (printf "config.%s: is set, and networkPolicy.enabled is true; networkPolicy.extraEgress must let Sluice reach the server, because the policy drops all other egress" $setting) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.hostNetwork) (eq .Values.dnsPolicy "ClusterFirstWithHostNet") -}}
{{- fail "dnsPolicy: ClusterFirstWithHostNet is for hostNetwork; hostNetwork must be true, or dnsPolicy empty" -}}
{{- end -}}
{{- if and (eq .Values.dnsPolicy "None") (not .Values.dnsConfig.nameservers) -}}
{{- fail "dnsPolicy: None needs dnsConfig.nameservers, and the list is empty; must have one server" -}}
{{- end -}}
{{- $own := include "sluice.ownSettings" . | fromJson -}}
{{- $_ := set $own "config" "the chart mounts the file; must be left out: put settings into the value config" -}}
{{- range $i, $arg := .Values.extraArgs -}}
{{- $flag := regexFind "^--?[^=]+" $arg | trimAll "-" -}}
{{- with get $own $flag -}}
{{- fail (printf "extraArgs[%d]: %s: %s" $i $arg .) -}}
{{- end -}}
{{- $readers := dict "windows" "admission policies" "push-token-audience" "the tokens of agents" "replica-cluster" "the Role of the Lease" "scrape" "network policies" "relay-to" "network policies" "export-otlp" "network policies" -}}
{{- with get $readers $flag -}}
{{- fail (printf "extraArgs[%d]: must not set %s, which %s need to know; must be config.%s" $i $flag . $flag) -}}
{{- end -}}
{{- if hasKey $.Values.config $flag -}}
{{- fail (printf "extraArgs[%d]: %s overrides config.%s; must be in one place only" $i $arg $flag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Ways into the pod from outside of the cluster, and of the Prometheus operator. */ -}}
{{- define "sluice.outsideRefusals" -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts: is empty, and ingress.enabled is true; must have a name: without one, every host of the controller would lead to Sluice" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs: is empty, and httpRoute.enabled is true; must name a Gateway: no Gateway would take the route" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- fail "podMonitor.enabled: is true, and serviceMonitor.enabled is true; one must be false: each metric would be scraped twice, and every sum doubled" -}}
{{- end -}}
{{- with .Values.serviceMonitor -}}
{{- if and .groups.enabled .series.enabled (not .series.params.match) (not .series.params.namespace) -}}
{{- fail "serviceMonitor.groups.enabled: is true, and serviceMonitor.series.enabled is true; one must be false, or serviceMonitor.series.params must select other metrics (match, namespace): a series of a group would have two sources with two values" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sluice.volumeRefusals" -}}
{{- with .Values.persistence.existingClaim -}}
{{- if not $.Values.persistence.enabled -}}
{{- fail "persistence.existingClaim: is set, and persistence.enabled is false; must be empty, or persistence.enabled true" -}}
{{- end -}}
{{- if gt (int $.Values.replicas) 1 -}}
{{- fail (printf "persistence.existingClaim: is set, and replicas is %v; must be empty: each replica needs a volume of its own" $.Values.replicas) -}}
{{- end -}}
{{- end -}}
{{- $running := lookup "apps/v1" "StatefulSet" (include "sluice.namespace" .) (include "sluice.fullname" .) -}}
{{- if $running -}}
{{- $had := gt (len (dig "spec" "volumeClaimTemplates" (list) $running)) 0 -}}
{{- $has := eq "true" (include "sluice.claims" .) -}}
{{- if ne $had $has -}}
{{- fail (printf "persistence: the running StatefulSet %s claims of its own, and these values %s; a StatefulSet cannot be changed in that: delete it first, which leaves the pod running: kubectl -n %s delete statefulset %s --cascade=orphan" (ternary "has" "has no" $had) (ternary "want them" "want none" $has) (include "sluice.namespace" .) (include "sluice.fullname" .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Seconds of a duration as Go writes it, rounded up. */ -}}
{{- define "sluice.seconds" -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|h|m|s)" . -1 -}}
{{- $sum = addf $sum (mulf (float64 (regexFind "[0-9.]+" .)) (get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- ceil $sum -}}
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
{{- $delay := get .Values.config "shutdown-delay" | default (ternary "10s" "" (ne "" (include "sluice.replicated" .))) -}}
{{- $least := add 30 (int (include "sluice.seconds" $delay)) -}}
{{- if and $delay (lt (int .Values.terminationGracePeriodSeconds) (int $least)) -}}
{{- fail (printf "terminationGracePeriodSeconds: is %v; must be at least %d: a pod that stops receives for shutdown-delay (%s) more, and has 30 seconds for what is in flight, its hand-over and its disk" .Values.terminationGracePeriodSeconds $least $delay) -}}
{{- end -}}
{{- include "sluice.stepRefusals" . -}}
{{- end -}}

{{- /*
From one replica to several, and back, takes two upgrades. In one, a replica that shares its state and one that does not would answer at the
same time, each with a part of the sum. Needs a look into the cluster, which "helm template" does not have.
*/ -}}
{{- define "sluice.stepRefusals" -}}
{{- $running := lookup "apps/v1" "StatefulSet" (include "sluice.namespace" .) (include "sluice.fullname" .) -}}
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
{{- if gt $were 1 -}}
{{- include "sluice.wayRefusals" (dict "root" . "running" $running) -}}
{{- end -}}
{{- if and (gt $were 1) (not (include "sluice.replicated" .)) -}}
{{- fail (printf "replicas: is 1, and %d replicas are running; the upgrade must have replication.enabled=true, and a later one may switch it off: see \"From one replica to two, and back\" in README.md" $were) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /*
A replica that restarts with another NATS, cluster name or authority hears none of those that still run, is ready after some seconds, and answers
with its own part as if it were all.
*/ -}}
{{- define "sluice.wayRefusals" -}}
{{- $map := lookup "v1" "ConfigMap" (include "sluice.namespace" .root) (include "sluice.fullname" .root) -}}
{{- $were := dig "data" "sluice.yaml" "" (default dict $map) | fromYaml -}}
{{- $are := include "sluice.config" .root | fromYaml -}}
{{- $why := "a replica of the new one would not hear those that still run. First upgrade to replicas=1, with replication.enabled=true or nats.url as it is; then change this; then add replicas" -}}
{{- range $setting, $value := dict "nats-url" "nats.url" "replica-cluster" "config.replica-cluster" -}}
{{- $otherwise := ternary "sluice" "" (eq $setting "replica-cluster") -}}
{{- $was := get $were $setting | default $otherwise | toString -}}
{{- $is := get $are $setting | default $otherwise | toString -}}
{{- if and $were (include "sluice.replicated" $.root) (ne $was $is) -}}
{{- fail (printf "%s: is %q, and several replicas run with %q; must be that: %s" $value $is $was $why) -}}
{{- end -}}
{{- end -}}
{{- range dig "spec" "template" "spec" "volumes" list .running -}}
{{- $was := dig "secret" "secretName" "" . -}}
{{- if and (eq .name "replica-tls") (include "sluice.meshed" $.root) (ne $was (include "sluice.replicaTLSSecret" $.root)) -}}
{{- fail (printf "replicaTLS.secret.name: the certificate is of Secret %s, and several replicas run with that of %s; must be that: %s" (include "sluice.replicaTLSSecret" $.root) $was $why) -}}
{{- end -}}
{{- /* The chart and cert-manager write the same Secret, each with an authority of its own. */ -}}
{{- if and (eq .name "replica-tls") (include "sluice.meshed" $.root) (eq $was (printf "%s-replica-tls" (include "sluice.fullname" $.root))) -}}
{{- with lookup "v1" "Secret" (include "sluice.namespace" $.root) $was -}}
{{- $byChart := ne "" (dig "metadata" "annotations" "sluice.dev/certificate-for" "" .) -}}
{{- $source := $.root.Values.replicaTLS.source -}}
{{- if ne $byChart (eq $source "generated") -}}
{{- fail (printf "replicaTLS.source: is %s, and several replicas run with a certificate that the chart %s; must be %s: %s" $source (ternary "made" "did not make" $byChart) (ternary "generated" "cert-manager or secret" $byChart) $why) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
