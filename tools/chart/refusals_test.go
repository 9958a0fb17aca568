package chart

import (
	"strings"
	"testing"
)

// TestRefusals: values that make no sense are refused before anything is installed, by a message
// that names the value. What a setting of config may be is tested where its schema is made, in cmd/sluice.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		set  string
		says []string
	}{
		{"replicas=0", []string{"/replicas", "want 1"}},
		{"resourceMetrics.enabled=true", []string{"resourceMetrics.enabled", "agent.enabled must be true"}},
		{"agent.enabled=true,resourceMetrics.kubelet.interval=60s", []string{"/resourceMetrics/kubelet/interval"}},
		{"agent.enabled=true,api.port=9097", []string{"api.port: is 9097, the port of agents"}},
		{"replicas=6", []string{"/replicas", "want 5"}},
		{"replicas=two", []string{"/replicas", "want integer"}},
		{"replicas=2,replicaTLS.source=none", []string{"/replicaTLS/source", "'generated', 'cert-manager', 'secret'"}},
		{"replicas=2,replicaTLS.source=secret", []string{"replicaTLS.secret.name", "tls.crt, tls.key and ca.crt"}},
		{"replicas=2,terminationGracePeriodSeconds=20", []string{"terminationGracePeriodSeconds: is 20", "at least 30"}},
		{"nats.credsSecret=creds", []string{"nats.credsSecret", "nats.url is empty"}},
		{"nats.caSecret=ca", []string{"nats.caSecret", "nats.url is empty"}},
		{"nats.url=nats:4222", []string{"/nats/url"}},
		{"nats.url=ws://nats:80", []string{"/nats/url"}},
		{"nats.url=nats://user:word@nats:4222", []string{"/nats/url"}},
		{"spread.nodes=never", []string{"/spread/nodes", "'preferred', 'required', 'any'"}},
		{"replica=1", []string{"replica", "not allowed"}},
		{"tls.sorce=secret", []string{"/tls", "sorce", "not allowed"}},
		{"tls.source=letsencrypt", []string{"/tls/source", "'generated', 'cert-manager', 'secret'"}},
		{"tls.source=secret", []string{"tls.secret", "must be"}},
		{"tls.source=secret,tls.secret.name=own", []string{"tls.secret.caBundle", "PEM"}},
		{"tls.secret.caBundle=LS0tLS1CRUdJTiBDRVJU", []string{"/tls/secret/caBundle"}},
		{"tls.generated.days=0", []string{"/tls/generated/days"}},
		{"tls.certManager.duration=90d", []string{"/tls/certManager/duration"}},
		{"tls.certManager.issuerRef.kind=ClusterIssuer", []string{"/tls/certManager/issuerRef", "name"}},
		{"customMetrics.enabled=no thanks", []string{"/customMetrics/enabled", "want boolean"}},
		{"customMetrics.enabled=false,externalMetrics.enabled=false", []string{"customMetrics.enabled, externalMetrics.enabled", "nothing to serve"}},
		{"image.digest=sha256:abc", []string{"/image/digest"}},
		{"image.repository=", []string{"/image/repository"}},
		{"config.Max-Series=1", []string{"Max-Series"}},
		{"config.trust=everybody", []string{"/config/trust", "'open', 'namespace', 'strict'"}},
		{"config.max-serie=1", []string{"'/config'", "'max-serie' not allowed"}},
		{`podLabels.app\.kubernetes\.io/name=x`, []string{"/podLabels/app.kubernetes.io~1name"}},
		{`podLabels.app\.kubernetes\.io/instance=x`, []string{"/podLabels/app.kubernetes.io~1instance"}},
		{`commonLabels.app\.kubernetes\.io/instance=x`, []string{"/commonLabels/app.kubernetes.io~1instance"}},
		{`commonLabels.helm\.sh/chart=x`, []string{"/commonLabels/helm.sh~1chart"}},
		{"podSecurityContext.runAsRoot=true", []string{"/podSecurityContext", "runAsRoot", "not allowed"}},
		{"podSecurityContext.runAsUser=me", []string{"/podSecurityContext/runAsUser"}},
		{"extraVolumes[0].name=data", []string{"/extraVolumes/0"}},
		{"extraVolumeMounts[0].name=sockets", []string{"/extraVolumeMounts/0", "mountPath"}},
		{"config.windows.short=10s", []string{"/config/windows"}},
		{"wake.enabled=true,wake.kinds=null", []string{"wake"}},
		{"wake.enabled=true,wake.kinds={}", []string{"/wake/kinds/0"}},
		{"wake.kinds={Deployment}", []string{"/wake/kinds/0"}},
		{"wake.kinds={deploy}", []string{"wake.kinds: deploy names no API group", "as in deployments.apps"}},
		{"wake.kinds={deployments}", []string{"wake.kinds: deployments names no API group"}},
		{"wake.kinds={deployment.apps}", []string{"wake.kinds: deployment.apps cannot be scaled", "deployments.apps"}},
		{"instant.namespaces={Shop}", []string{"/instant/namespaces/0"}},
		{"config.instant=true", []string{"config.instant", "left out", "instant.enabled"}},
		{"config.wake=true", []string{"config.wake", "left out", "wake.enabled"}},
		{"config.standalone=true", []string{"config.standalone", "left out"}},
		{"config.data-dir=/data", []string{"config.data-dir", "left out"}},
		{"config.api-external-metrics=false", []string{"config.api-external-metrics", "left out"}},
		{"config.push-tls-key-file=/a", []string{"config.push-tls-key-file", "push.tlsSecret"}},
		{"config.push-basic-auth-file=/a", []string{"config.push-basic-auth-file", "push.basicAuthSecret"}},
		{"push.clientCASecret=ca", []string{"push.clientCASecret", "push.tlsSecret"}},
		{"push.tlsSecret=A_B", []string{"/push/tlsSecret"}},
		{"push.tls=a", []string{"/push", "not allowed"}},
		{"objectKinds={Deployment}", []string{"/objectKinds/0"}},
		{"objectKinds={pods}", []string{"/objectKinds/0"}},
		{"objectKinds={apps/v1/deployments}", []string{"/objectKinds/0"}},
		{"objectKinds={deployments.v1.apps}", []string{"objectKinds", "deployments.v1.apps", "version v1", "deployments.apps"}},
		{"objectKinds={services.v1}", []string{"objectKinds", "services.v1", "version v1", "must be services"}},
		{"objectKinds={rollouts.v1alpha1.argoproj.io}", []string{"version v1alpha1", "must be rollouts.argoproj.io"}},
		{"service.ingest.type=LoadBalancer,service.ingest.clusterIP=None", []string{"service.ingest.clusterIP", "None", "LoadBalancer", "ClusterIP"}},
		{"service.ingest.type=NodePort,service.ingest.clusterIP=None", []string{"service.ingest.clusterIP", "None", "NodePort", "ClusterIP"}},
		{"service.ingest.loadBalancerSourceRanges={10.0.0.0/8}", []string{"service.ingest.loadBalancerSourceRanges", "ClusterIP", "must be LoadBalancer"}},
		{"service.ingest.type=NodePort,service.ingest.loadBalancerSourceRanges={10.0.0.0/8}", []string{"service.ingest.loadBalancerSourceRanges", "NodePort", "must be LoadBalancer"}},
		{"config.push-tls-client-auth=require", []string{"config.push-tls-client-auth", "push.clientCASecret"}},
		{"config.push-tls-client-auth=require,push.tlsSecret=a", []string{"config.push-tls-client-auth", "push.clientCASecret"}},
		{"config.kubeconfig=/a", []string{"config.kubeconfig", "left out"}},
		{"extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=/data", []string{"extraVolumeMounts[0].mountPath", "/data"}},
		{"extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=/data/", []string{"extraVolumeMounts[0].mountPath", "/data"}},
		{"extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=/data/sluice", []string{"extraVolumeMounts[0].mountPath", "/data"}},
		{"extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=/run/../data", []string{"extraVolumeMounts[0].mountPath", "/data"}},
		{"extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=/etc/sluice", []string{"extraVolumeMounts[0].mountPath", "/etc/sluice"}},
		{"extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=/", []string{"extraVolumeMounts[0].mountPath"}},
		{"service.ingest.type=ExternalName", []string{"/service/ingest/type"}},
		{"persistence.size=8GB", []string{"/persistence/size"}},
		{"persistence.accessModes={ReadWriteMany}", []string{"/persistence/accessModes/0"}},
		{"resources.limits.memory=lots", []string{"/resources/limits/memory"}},
		{"readers.subjects[0].kind=Pod,readers.subjects[0].name=x", []string{"/readers/subjects/0/kind"}},
		{"serviceAccount.create=false", []string{"serviceAccount.name", "must be"}},
		{"networkPolicy.apiServerPorts={0}", []string{"/networkPolicy/apiServerPorts/0"}},
		{"serviceMonitor.interval=30", []string{"/serviceMonitor/interval"}},
		{"api.port=0", []string{"/api/port"}},
		{"api.port=https", []string{"/api/port", "want integer"}},
		{"api.port=8125", []string{"api.port: is 8125", "StatsD", "another"}},
		{"api.port=9096", []string{"api.port: is 9096", "console"}},
		{"operations.port=9091", []string{"operations.port: is 9091", "HTTP push"}},
		{"api.port=8080", []string{"operations.port: is 8080", "api.port"}},
		{"hostNetwork=true,api.port=443", []string{"api.port: is 443", "hostNetwork", "1024"}},
		{"hostNetwork=true,api.port=10250", []string{"api.port: is 10250", "hostNetwork", "kubelet"}},
		{"hostNetwork=true,networkPolicy.enabled=true", []string{"networkPolicy.enabled", "hostNetwork", "must be false"}},
		{"networkPolicy.enabled=true,config.export-otlp=http://a:4318", []string{"config.export-otlp", "networkPolicy.extraEgress"}},
		{"networkPolicy.enabled=true,config.relay-to={udp://a:8125}", []string{"config.relay-to", "networkPolicy.extraEgress"}},
		{"networkPolicy.extraEgress[0].from=a", []string{"/networkPolicy/extraEgress/0", "from", "not allowed"}},
		{"podMonitor.series.enabled=true", []string{"/podMonitor", "series"}},
		{"serviceMonitor.serie=true", []string{"/serviceMonitor", "serie"}},
		{"console.enabled=false,config.console-address=:9096", []string{"config.console-address", "console.enabled"}},
		{"dnsPolicy=ClusterFirstWithHostNet", []string{"dnsPolicy", "hostNetwork must be true"}},
		{"dnsPolicy=Host", []string{"/dnsPolicy", "'ClusterFirst'"}},
		{"dnsPolicy=None", []string{"dnsPolicy: None", "dnsConfig.nameservers"}},
		{"dnsConfig.servers={10.0.0.1}", []string{"/dnsConfig", "servers", "not allowed"}},
		{"customMetrics.registered=false", []string{"/customMetrics", "registered", "not allowed"}},
		{"externalMetrics.register=never", []string{"/externalMetrics/register", "want boolean"}},
		{"global.imageRegistry=https://mirror.example", []string{"/global/imageRegistry"}},
		{"global.imageregistry=mirror.example", []string{"global.imageregistry", "imageRegistry or imagePullSecrets"}},
		{"config.windows={10s,1d}", []string{"/config/windows/1"}},
		{"namespaceOverride=A_B", []string{"/namespaceOverride"}},
		{"service.ingest.nodePorts.http-push=30091", []string{"service.ingest.nodePorts", "ClusterIP", "NodePort or LoadBalancer"}},
		{"service.ingest.type=NodePort,service.ingest.nodePorts.push=30091", []string{"/service/ingest/nodePorts", "push", "not allowed"}},
		{"service.ingest.type=NodePort,service.ingest.nodePorts.http-push=30091,service.ingest.nodePorts.statsd-tcp=30091", []string{"service.ingest.nodePorts", "30091", "differ"}},
		{"service.ingest.loadBalancerClass=nlb", []string{"service.ingest.loadBalancerClass", "LoadBalancer"}},
		{"ingress.enabled=true", []string{"ingress.hosts", "every host"}},
		{"ingress.enabled=true,ingress.hosts={https://push.example.com}", []string{"/ingress/hosts/0"}},
		{"httpRoute.enabled=true", []string{"httpRoute.parentRefs", "Gateway"}},
		{"persistence.existingClaim=old,persistence.enabled=false", []string{"persistence.existingClaim", "persistence.enabled"}},
		{"persistence.existingClaim=old,replicas=2", []string{"persistence.existingClaim", "replicas is 2"}},
		{"serviceMonitor.enabled=true,podMonitor.enabled=true", []string{"podMonitor.enabled", "serviceMonitor.enabled", "twice"}},
		{"serviceMonitor.series.enabled=true,serviceMonitor.groups.enabled=true", []string{"serviceMonitor.groups.enabled", "serviceMonitor.series.params", "two sources"}},
		{"prometheusRule.runbookURL=wiki", []string{"/prometheusRule/runbookURL"}},
		{"extraArgs={log-level=debug}", []string{"/extraArgs/0"}},
		{"extraArgs={--api-address=:1}", []string{"extraArgs[0]", "--api-address=:1", "set api.port"}},
		{"extraArgs={--config=/a}", []string{"extraArgs[0]", "value config"}},
		{"extraArgs={--kubeconfig=/a}", []string{"extraArgs[0]", "service account"}},
		{"extraArgs={--replica-insecure}", []string{"extraArgs[0]", "forge"}},
		{"extraArgs={--log-format=text}", []string{"extraArgs[0]", "overrides config.log-format"}},
		{"extraEnv[0].name=POD_NAME", []string{"/extraEnv/0/name"}},
		{"extraEnv[0].value=a", []string{"/extraEnv/0", "name"}},
		{"extraEnv[0].name=A,extraEnv[0].value=1", []string{"/extraEnv/0/value", "want string"}},
		{"extraContainers[0].name=sluice,extraContainers[0].image=a", []string{"/extraContainers/0/name"}},
		{"extraContainers[0].name=a", []string{"/extraContainers/0", "image"}},
		{"extraObjects[0].kind=Secret", []string{"/extraObjects/0"}},
		{"topologySpreadConstraints[0].topologyKey=zone", []string{"/topologySpreadConstraints/0", "maxSkew"}},
		{"exportOTLP.caSecret=a", []string{"exportOTLP.caSecret", "config.export-otlp is empty"}},
		{"exportOTLP.clientSecret=a,config.export-otlp=http://a/", []string{"exportOTLP.clientSecret", "must be https://"}},
		{"exportOTLP.token=a", []string{"/exportOTLP", "token", "not allowed"}},
		{"config.export-otlp-headers-file=/a", []string{"config.export-otlp-headers-file", "exportOTLP.headersSecret"}},
		{"keda.enabled=yes", []string{"/keda/enabled", "want boolean"}},
		{"keda.enable=true", []string{"/keda", "enable", "not allowed"}},
		{"keda.enabled=true,keda.namespace=", []string{"/keda/namespace"}},
		{"keda.enabled=true,keda.clientNames={https://keda}", []string{"/keda/clientNames/0"}},
		{"keda.enabled=true,keda.tls.source=none", []string{"/keda/tls/source", "'generated', 'cert-manager', 'secret'"}},
		{"keda.enabled=true,keda.tls.source=secret", []string{"keda.authentication.secret", "ca.crt, tls.crt and tls.key"}},
		{"keda.enabled=true,keda.tls.source=secret,keda.authentication.secret=a", []string{"keda.tls.secret.name", "authorities of KEDA's"}},
		{"keda.enabled=true,keda.authentication.secret=a", []string{"keda.authentication.secret", "generated", "must be empty"}},
		{"keda.enabled=true,keda.tls.source=cert-manager", []string{"keda.tls.certManager.issuerRef", "must name a ClusterIssuer", "namespace sluice", "keda"}},
		{"keda.enabled=true,keda.tls.source=cert-manager,keda.tls.certManager.issuerRef.name=a", []string{"keda.tls.certManager.issuerRef", "must name a ClusterIssuer"}},
		{"keda.clientNames={a}", []string{"keda.clientNames", "keda.enabled is false"}},
		{"keda.tls.secret.name=a", []string{"keda.tls.secret.name", "keda.enabled is false"}},
		{"keda.enabled=true,api.port=9095", []string{"api.port: is 9095", "KEDA"}},
		{"config.keda-address=:9095", []string{"config.keda-address", "set keda.enabled"}},
		{"config.keda-insecure=true", []string{"config.keda-insecure", "metrics of every namespace"}},
		{"extraArgs={--keda-client-names=a}", []string{"extraArgs[0]", "set keda.clientNames"}},
		{"terminationGracePeriodSeconds=0", []string{"/terminationGracePeriodSeconds"}},
	} {
		said, err := render(t, "", c.set)
		if err == nil {
			t.Errorf("%s was rendered: want a refusal", c.set)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the refusal does not say %q:\n%s", c.set, want, said)
			}
		}
	}
}

// TestReplicasWithoutTheSchema: the templates refuse what the schema would, and say why.
func TestReplicasWithoutTheSchema(t *testing.T) {
	for set, says := range map[string][]string{
		"replicas=0":                           {"replicas: is 0; must be 1 to 5"},
		"replicas=6":                           {"replicas: is 6; must be 1 to 5"},
		"replicas=2,replicaTLS.source=none":    {"replicaTLS.source: is none", "6222"},
		"config.replica-insecure=true":         {"config.replica-insecure", "forge"},
		"config.replica-peers={a:1}":           {"config.replica-peers", "set replicas"},
		"config.nats-url=nats://a:1":           {"config.nats-url", "set nats.url"},
		"config.nats-creds-file=/a":            {"config.nats-creds-file", "nats.credsSecret"},
		"replicas=2,config.replica-listen=:1":  {"config.replica-listen", "set replicas"},
		"config.replica-tls-ca-file=/a/ca.crt": {"config.replica-tls-ca-file", "set replicaTLS"},
	} {
		_, said, err := helm(t, "/dev/null", "template", release, folder, "--set", set, "--skip-schema-validation")
		for _, want := range says {
			if err == nil || !strings.Contains(said, want) {
				t.Errorf("%s: %v\n%s\nwant a refusal that says %q", set, err, said, want)
			}
		}
	}
}
