package chart

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	disruption "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// byName returns the object of a type and name.
func byName[T interface {
	runtime.Object
	meta.Object
}](t *testing.T, objects []runtime.Object, name string) T {
	t.Helper()
	for _, object := range objects {
		if one, ok := object.(T); ok && one.GetName() == name {
			return one
		}
	}
	t.Fatalf("no %T %s", *new(T), name)
	return *new(T)
}

// fileOf is the configuration file that the chart makes.
func fileOf(t *testing.T, objects []runtime.Object) (settings map[string]any) {
	t.Helper()
	must(t, yaml.UnmarshalStrict([]byte(byName[*core.ConfigMap](t, objects, "sluice").Data["sluice.yaml"]), &settings))
	return settings
}

// TestReplicasFindEachOther: each peer of the configuration file is a Service that leads to one
// pod, on the port where that pod listens, before it is ready; and the pods have these names.
func TestReplicasFindEachOther(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "replicas=3"))
	set, file := only[*apps.StatefulSet](t, objects), fileOf(t, objects)
	peers, _ := file["replica-peers"].([]any)
	if len(peers) != 3 || *set.Spec.Replicas != 3 {
		t.Fatalf("%d peers of %d replicas: want 3", len(peers), *set.Spec.Replicas)
	}
	container := set.Spec.Template.Spec.Containers[0]
	for i, peer := range peers {
		host, port, err := net.SplitHostPort(peer.(string))
		must(t, err)
		service := byName[*core.Service](t, objects, strings.TrimSuffix(host, ".sluice.svc"))
		pod := maps.Clone(set.Spec.Template.Labels)
		pod[apps.StatefulSetPodNameLabel] = fmt.Sprintf("%s-%d", set.Name, i)
		if !reflect.DeepEqual(service.Spec.Selector, pod) {
			t.Errorf("%s selects %v: want %v", host, service.Spec.Selector, pod)
		}
		if service.Spec.ClusterIP != core.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
			t.Errorf("%s does not lead to the pod itself, or only once it is ready", host)
		}
		on := slices.IndexFunc(container.Ports, func(p core.ContainerPort) bool { return p.Name == service.Spec.Ports[0].TargetPort.StrVal })
		if on < 0 || fmt.Sprint(container.Ports[on].ContainerPort) != port || file["replica-listen"] != ":"+port {
			t.Errorf("%s: the pod does not listen there: %v, %v", peer, container.Ports, file["replica-listen"])
		}
	}
	if !slices.Contains(container.Args, "--replica-name=$(POD_NAME)") || container.Env[0].Name != "POD_NAME" || container.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.name" {
		t.Errorf("a replica does not have the name of its pod: %v %v", container.Args, container.Env)
	}
}

// TestReplicaCertificate: one certificate makes each replica a server and a client of each other,
// up to the fifth.
func TestReplicaCertificate(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "replicas=2", "replicaTLS.generated.days=30"))
	secret := byName[*core.Secret](t, objects, "sluice-replica-tls")
	pair, err := tls.X509KeyPair(secret.Data[core.TLSCertKey], secret.Data[core.TLSPrivateKeyKey])
	must(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		t.Fatal("no CA")
	}
	for i := range 5 {
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			options := x509.VerifyOptions{DNSName: fmt.Sprintf("sluice-replica-%d.sluice.svc", i), Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}
			if _, err := pair.Leaf.Verify(options); err != nil {
				t.Errorf("replica %d: %v", i, err)
			}
		}
	}
	api := byName[*core.Secret](t, objects, "sluice-tls")
	if string(api.Data["ca.crt"]) == string(secret.Data["ca.crt"]) {
		t.Error("the CA of the metrics APIs makes replicas, too")
	}
}

// TestReplicaCertificateIsMounted: from the Secret of each source.
func TestReplicaCertificateIsMounted(t *testing.T) {
	for set, secret := range map[string]string{
		"replicaTLS.source=generated":                             "sluice-replica-tls",
		"replicaTLS.source=cert-manager":                          "sluice-replica-tls",
		"replicaTLS.source=secret,replicaTLS.secret.name=replica": "replica",
	} {
		objects := strictly(t, mustRender(t, "", "replicas=2", set))
		pod, file := only[*apps.StatefulSet](t, objects).Spec.Template.Spec, fileOf(t, objects)
		for _, key := range []string{"cert", "key", "ca"} {
			if path := fmt.Sprint(file["replica-tls-"+key+"-file"]); !mounts(pod, path, secret) {
				t.Errorf("%s: replica-tls-%s-file is %s, which is not mounted from the Secret %s", set, key, path, secret)
			}
		}
	}
}

// mounts reports whether a path of the container is a file of a Secret.
func mounts(pod core.PodSpec, path, secret string) bool {
	for _, mount := range pod.Containers[0].VolumeMounts {
		name, ok := strings.CutPrefix(path, mount.MountPath+"/")
		for _, volume := range pod.Volumes {
			if ok && volume.Name == mount.Name && volume.Secret != nil && volume.Secret.SecretName == secret {
				return slices.ContainsFunc(volume.Secret.Items, func(item core.KeyToPath) bool { return item.Path == name })
			}
		}
	}
	return false
}

// TestReplicaCertificateIsKept: an upgrade to more replicas changes no certificate.
func TestReplicaCertificateIsKept(t *testing.T) {
	var hosts []string
	for i := range 5 {
		hosts = append(hosts, fmt.Sprintf("sluice-replica-%d.sluice.svc", i))
	}
	made := core.Secret{
		TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: marked("sluice-replica-tls", "sluice", "sluice"),
		Data:       map[string][]byte{"ca.crt": []byte("old ca"), "tls.crt": []byte("old crt"), "tls.key": []byte("old key")},
	}
	made.Annotations["sluice.dev/certificate-for"] = strings.Join(hosts, " ")
	text, err := renderInto(t, standIn(t, map[string]any{"/api/v1/namespaces/sluice/secrets/sluice-replica-tls": made}), "--set=replicas=4")
	if err != nil {
		t.Fatal(text)
	}
	if got := byName[*core.Secret](t, strictly(t, text), "sluice-replica-tls"); string(got.Data["tls.key"]) != "old key" || string(got.Data["ca.crt"]) != "old ca" {
		t.Errorf("the certificate was made anew: %s", got.Data["ca.crt"])
	}
}

// ways are the values by which processes become replicas.
var ways = []string{"replicas=2", "replicas=5", "replication.enabled=true", "nats.url=tls://nats:4222", "nats.url=tls://nats:4222,replicas=2"}

// TestStatefulSetCanBeUpgraded: the API server refuses a change of any field but these, so no value
// about replicas may change another.
func TestStatefulSetCanBeUpgraded(t *testing.T) {
	fixed := func(set ...string) apps.StatefulSetSpec {
		spec := *only[*apps.StatefulSet](t, strictly(t, mustRender(t, "", set...))).Spec.DeepCopy()
		spec.Replicas, spec.Template, spec.MinReadySeconds = nil, core.PodTemplateSpec{}, 0
		spec.UpdateStrategy, spec.PersistentVolumeClaimRetentionPolicy = apps.StatefulSetUpdateStrategy{}, nil
		return spec
	}
	want := fixed()
	for _, way := range ways {
		if got := fixed(way); !reflect.DeepEqual(got, want) {
			t.Errorf("%s changes a field that cannot be changed: %+v, want %+v", way, got, want)
		}
	}
}

// TestSecondReplicaRestartsNobody: the pods of one replica that shares its state and of two are
// alike, so the first stays up while the second joins or leaves.
func TestSecondReplicaRestartsNobody(t *testing.T) {
	template := func(set ...string) core.PodTemplateSpec {
		return only[*apps.StatefulSet](t, strictly(t, mustRender(t, "", set...))).Spec.Template
	}
	if !reflect.DeepEqual(template("replication.enabled=true"), template("replicas=2")) {
		t.Error("a second replica restarts the first")
	}
	if !reflect.DeepEqual(template("nats.url=tls://nats:4222"), template("nats.url=tls://nats:4222", "replicas=5")) {
		t.Error("with nats.url, more replicas restart the others")
	}
	if reflect.DeepEqual(template("replicas=2"), template()) {
		t.Error("one replica and two are alike: the test does not see what it should")
	}
}

// TestWhereTrafficGoes: with one replica pushes reach it before it is ready. With several they
// reach those that are ready: a node that is gone leaves its pod behind, unready, for minutes or
// for ever.
func TestWhereTrafficGoes(t *testing.T) {
	for set, early := range map[string]bool{"replicas=1": true, "replication.enabled=true": true, "replicas=2": false, "replicas=2,nats.url=tls://nats:4222": false} {
		objects := strictly(t, mustRender(t, "", set))
		if got := byName[*core.Service](t, objects, "sluice").Spec.PublishNotReadyAddresses; got != early {
			t.Errorf("%s: pushes to a pod that is not ready: %v, want %v", set, got, early)
		}
		if byName[*core.Service](t, objects, "sluice-api").Spec.PublishNotReadyAddresses {
			t.Errorf("%s: the API server asks a pod that is not ready", set)
		}
		if !byName[*core.Service](t, objects, "sluice-operations").Spec.PublishNotReadyAddresses {
			t.Errorf("%s: a pod that is not ready is not scraped", set)
		}
	}
}

// TestDrainsAndUpgradesTakeOne: at most one of several replicas is away on purpose.
func TestDrainsAndUpgradesTakeOne(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "replicas=2"))
	budget, set := only[*disruption.PodDisruptionBudget](t, objects), only[*apps.StatefulSet](t, objects)
	if budget.Spec.MaxUnavailable.String() != "1" || !reflect.DeepEqual(budget.Spec.Selector, set.Spec.Selector) {
		t.Errorf("the budget is %+v", budget.Spec)
	}
	if set.Spec.MinReadySeconds < 10 || set.Spec.UpdateStrategy.Type == apps.OnDeleteStatefulSetStrategyType {
		t.Errorf("upgrades: %d s, %v", set.Spec.MinReadySeconds, set.Spec.UpdateStrategy)
	}
	// a pod is not ready after three failed probes; until then it has to receive
	probe := set.Spec.Template.Spec.Containers[0].ReadinessProbe
	if got := fileOf(t, objects)["shutdown-delay"]; got != "10s" || probe.PeriodSeconds*probe.FailureThreshold > 8 {
		t.Errorf("shutdown-delay is %v, with %v", got, probe)
	}
	for _, set := range []string{"replicas=1", "replication.enabled=true"} {
		for _, object := range strictly(t, mustRender(t, "", set)) {
			if budget, ok := object.(*disruption.PodDisruptionBudget); ok {
				t.Errorf("%s: the budget %s forbids every drain", set, budget.Name)
			}
		}
	}
}

// TestReplicasAvoidEachOther: by node and zone, as far as the cluster has them, unless told
// otherwise.
func TestReplicasAvoidEachOther(t *testing.T) {
	pod := func(set ...string) core.PodSpec {
		return only[*apps.StatefulSet](t, strictly(t, mustRender(t, "", append(set, "replicas=2")...))).Spec.Template.Spec
	}
	usual := pod()
	if preferred := usual.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(preferred) != 1 || preferred[0].PodAffinityTerm.TopologyKey != core.LabelHostname || preferred[0].Weight != 100 {
		t.Errorf("nodes: %+v", usual.Affinity)
	}
	if zones := usual.TopologySpreadConstraints; len(zones) != 1 || zones[0].TopologyKey != core.LabelTopologyZone || zones[0].WhenUnsatisfiable != core.ScheduleAnyway {
		t.Errorf("zones: %+v", zones)
	}
	strict := pod("spread.nodes=required", "spread.zones=required")
	if len(strict.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) != 1 || strict.TopologySpreadConstraints[0].WhenUnsatisfiable != core.DoNotSchedule {
		t.Errorf("required: %+v, %+v", strict.Affinity, strict.TopologySpreadConstraints)
	}
	if any := pod("spread.nodes=any", "spread.zones=any"); any.Affinity != nil || any.TopologySpreadConstraints != nil {
		t.Errorf("any: %+v, %+v", any.Affinity, any.TopologySpreadConstraints)
	}
	own := pod("affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1", "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key=a", "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator=Exists")
	if own.Affinity.NodeAffinity == nil || own.Affinity.PodAntiAffinity == nil {
		t.Errorf("with an affinity of one's own: %+v", own.Affinity)
	}
	replaced := pod("affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=rack")
	if terms := replaced.Affinity.PodAntiAffinity; len(terms.PreferredDuringSchedulingIgnoredDuringExecution) != 0 || terms.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey != "rack" {
		t.Errorf("with a podAntiAffinity of one's own: %+v", terms)
	}
}

// TestNATSOfTheUser: nothing of the embedded one is there.
func TestNATSOfTheUser(t *testing.T) {
	text := mustRender(t, "", `nats.url=tls://a\,tls://b:4333\,nats://c:4444`, "nats.credsSecret=creds", "nats.caSecret=authority", "networkPolicy.enabled=true", "replicas=2")
	for _, absent := range []string{"6222", "replica-tls", "replica-peers", "sluice-replica-0"} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is there", absent)
		}
	}
	objects := strictly(t, text)
	file, pod := fileOf(t, objects), only[*apps.StatefulSet](t, objects).Spec.Template.Spec
	if file["nats-url"] != "tls://a,tls://b:4333,nats://c:4444" || file["replica-cluster"] != "sluice-sluice" {
		t.Errorf("nats-url is %v, replica-cluster %v", file["nats-url"], file["replica-cluster"])
	}
	for path, secret := range map[string]string{fmt.Sprint(file["nats-creds-file"]): "creds", fmt.Sprint(file["nats-ca-file"]): "authority"} {
		if !mounts(pod, path, secret) {
			t.Errorf("%s is not mounted from the Secret %s", path, secret)
		}
	}
	for _, port := range []string{"{port: 4222,", "{port: 4333,", "{port: 4444,"} {
		if !strings.Contains(text, port) {
			t.Errorf("the network policy has no egress to %s", port)
		}
	}
}

// TestReleasesHaveTheirOwnLease: the replicas of each release have a name in common, and may use
// the Lease of that name. The default release's is the program's default.
func TestReleasesHaveTheirOwnLease(t *testing.T) {
	for _, c := range []struct {
		release string
		set     []string
		want    string
	}{
		{"sluice", nil, "sluice"},
		{"west", nil, "west"},
		{"west", []string{"config.replica-cluster=mine"}, "mine"},
		{"west", []string{"nats.url=tls://a:4222"}, "sluice-west"},
	} {
		objects := strictly(t, mustRender(t, "", append(c.set, "replicas=2", "fullnameOverride="+c.release)...))
		var settings map[string]any
		must(t, yaml.UnmarshalStrict([]byte(byName[*core.ConfigMap](t, objects, c.release).Data["sluice.yaml"]), &settings))
		name, set := settings["replica-cluster"]
		if c.want == "sluice" == set || set && name != c.want {
			t.Errorf("%s %v: replica-cluster is %v, want %s", c.release, c.set, name, c.want)
		}
		if names := byName[*rbac.Role](t, objects, c.release+"-lease").Rules[0].ResourceNames; !slices.Equal(names, []string{c.want}) {
			t.Errorf("%s %v: the Role is for the Leases %v, want %s", c.release, c.set, names, c.want)
		}
	}
}

// running is the StatefulSet of a release that is installed.
func running(replicas int32, args ...string) map[string]any {
	return map[string]any{"/apis/apps/v1/namespaces/sluice/statefulsets/sluice": runningSet(replicas, args...)}
}

func runningSet(replicas int32, args ...string) apps.StatefulSet {
	return apps.StatefulSet{
		TypeMeta:   meta.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: marked("sluice", "sluice", "sluice"),
		Spec: apps.StatefulSetSpec{
			Replicas:             &replicas,
			Template:             core.PodTemplateSpec{Spec: core.PodSpec{Containers: []core.Container{{Name: "sluice", Args: args}}}},
			VolumeClaimTemplates: []core.PersistentVolumeClaim{{ObjectMeta: meta.ObjectMeta{Name: "data"}}},
		},
	}
}

// withSettings adds the configuration file that the pods of a release run with, and the Secret of their certificate.
func withSettings(has map[string]any, settings, secret string) map[string]any {
	set := has["/apis/apps/v1/namespaces/sluice/statefulsets/sluice"].(apps.StatefulSet)
	set.Spec.Template.Spec.Volumes = []core.Volume{{Name: "replica-tls", VolumeSource: core.VolumeSource{Secret: &core.SecretVolumeSource{SecretName: secret}}}}
	has["/apis/apps/v1/namespaces/sluice/statefulsets/sluice"] = set
	has["/api/v1/namespaces/sluice/configmaps/sluice"] = core.ConfigMap{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: marked("sluice", "sluice", "sluice"), Data: map[string]string{"sluice.yaml": settings}}
	return has
}

// certified adds the Secret of the replicas' certificate, which the chart or something else made.
func certified(has map[string]any, byChart bool) map[string]any {
	made := core.Secret{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: marked("sluice-replica-tls", "sluice", "sluice"),
		Data: map[string][]byte{"ca.crt": []byte("ca"), "tls.crt": []byte("crt"), "tls.key": []byte("key")}}
	if byChart {
		made.Annotations["sluice.dev/certificate-for"] = "sluice-replica-0.sluice.svc"
	}
	has["/api/v1/namespaces/sluice/secrets/sluice-replica-tls"] = made
	return has
}

// TestUpgradesInTwoSteps: a replica that shares its state and one that does not never answer
// together.
func TestUpgradesInTwoSteps(t *testing.T) {
	const shares = "--replica-name=$(POD_NAME)"
	for _, c := range []struct {
		name string
		has  map[string]any
		set  string
		says []string // empty: it is rendered
	}{
		{"two at once, at first", nil, "replicas=2", nil},
		{"the first step up", running(1, "serve"), "replication.enabled=true", nil},
		{"the second step up", running(1, "serve", shares), "replicas=2", nil},
		{"both steps in one", running(1, "serve"), "replicas=2", []string{"replicas: is 2", "replication.enabled=true", "second"}},
		{"none is running", running(0, "serve"), "replicas=2", nil},
		{"the first step down", running(2, "serve", shares), "replication.enabled=true", nil},
		{"the second step down", running(1, "serve", shares), "replicas=1", nil},
		{"both steps down in one", running(2, "serve", shares), "replicas=1", []string{"replicas: is 1", "2 replicas are running", "replication.enabled=true"}},
		{"more", running(2, "serve", shares), "replicas=3", nil},
		{"more, as they run", withSettings(running(2, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), "replicas=3", nil},
		{"another way", withSettings(running(2, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), "replicas=2,nats.url=tls://nats:4222",
			[]string{`nats.url: is "tls://nats:4222", and several replicas run with ""`, "replicas=1"}},
		{"another NATS", withSettings(running(2, "serve", shares), "{nats-url: tls://old:4222, replica-cluster: sluice-sluice}", ""), "replicas=3,nats.url=tls://nats:4222",
			[]string{`nats.url: is "tls://nats:4222", and several replicas run with "tls://old:4222"`}},
		{"another name", withSettings(running(2, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), "replicas=2,config.replica-cluster=other",
			[]string{`config.replica-cluster: is "other", and several replicas run with "sluice"`}},
		{"the same name", withSettings(running(2, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), "replicas=2,config.replica-cluster=sluice", nil},
		{"another authority", withSettings(running(2, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"),
			"replicas=2,replicaTLS.source=secret,replicaTLS.secret.name=own", []string{"certificate is of Secret own, and several replicas run with that of sluice-replica-tls"}},
		{"a certificate of cert-manager's", certified(withSettings(running(2, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), true),
			"replicas=2,replicaTLS.source=cert-manager", []string{"replicaTLS.source: is cert-manager, and several replicas run with a certificate that the chart made; must be generated"}},
		{"a certificate of the chart's", certified(withSettings(running(2, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), false),
			"replicas=2,replicaTLS.source=generated", []string{"replicaTLS.source: is generated, and several replicas run with a certificate that the chart did not make; must be cert-manager or secret"}},
		{"the chart's Secret as one's own", certified(withSettings(running(2, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), true),
			"replicas=2,replicaTLS.source=secret,replicaTLS.secret.name=sluice-replica-tls", []string{"replicaTLS.source: is secret, and"}},
		{"the chart's certificate as before", certified(withSettings(running(2, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), true),
			"replicas=3,replicaTLS.source=generated", nil},
		{"cert-manager's certificate as before", certified(withSettings(running(2, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), false),
			"replicas=3,replicaTLS.source=cert-manager", nil},
		{"a certificate of cert-manager's for one", certified(withSettings(running(1, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), true),
			"replication.enabled=true,replicaTLS.source=cert-manager", nil},
		{"another way for one", withSettings(running(1, "serve", shares), "replica-listen: :6222", "sluice-replica-tls"), "nats.url=tls://nats:4222", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			said, err := renderInto(t, standIn(t, c.has), "--set="+c.set)
			if (err == nil) != (len(c.says) == 0) {
				t.Fatalf("%v\n%s", err, said)
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("the refusal does not say %q:\n%s", want, said)
				}
			}
		})
	}
}
