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
{{- end -}}
