package keda

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/certificate"
	"github.com/sluice-metrics/sluice/e2e/server"
	autoscaling "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// operatorName is the name in the operator's certificate that servers accept.
const operatorName = "keda-operator.keda.svc"

// scaled is a namespace with a server, a Deployment "worker" at zero, and a pod that pushes.
type scaled struct {
	*cluster
	namespace string
	sluice    *server.Server
	address   string // of the external scaler
	authority *certificate.Authority
	pusher    netip.Addr
}

// prepare makes the namespace and starts its server.
func prepare(t *testing.T, name string) *scaled {
	t.Helper()
	return shared(t).prepare(t, name)
}

func (c *cluster) prepare(t *testing.T, name string) *scaled {
	t.Helper()
	s := &scaled{cluster: c, namespace: c.Namespace(t, name), address: server.FreeAddress(t, "tcp")}
	folder := t.TempDir()
	var err error
	s.authority, err = certificate.New(folder, "ca")
	must(t, err)
	pair := s.serverCertificate(t, time.Hour)
	s.sluice = server.InCluster(t, c.Kubeconfig, "--keda-address", s.address, "--keda-tls-cert-file", pair.Certificate,
		"--keda-tls-key-file", pair.Key, "--keda-tls-client-ca-file", s.authority.Path, "--keda-client-names", operatorName)
	s.sluice.Start()
	s.credentials(t, s.authority, operatorName, time.Hour)
	c.Apply(t, s.namespace, deployment, pusher)
	s.pusher = netip.MustParseAddr(c.AwaitPods(t, s.namespace, "app=pusher", 1)[0].Status.PodIP)
	return s
}

const (
	deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: worker}
spec:
  replicas: 0
  selector: {matchLabels: {app: worker}}
  template:
    metadata: {labels: {app: worker}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: worker}]
`
	pusher = `
apiVersion: v1
kind: Pod
metadata: {name: pusher, labels: {app: pusher}}
spec: {containers: [{name: main, image: pusher}]}
`
)

// serverCertificate writes a certificate of the external scaler, which is valid for a while.
func (s *scaled) serverCertificate(t *testing.T, valid time.Duration) certificate.Pair {
	t.Helper()
	return issue(t, s.authority, "server", &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// credentials gives KEDA a client certificate of an authority, which is valid for a while.
func (s *scaled) credentials(t *testing.T, by *certificate.Authority, name string, valid time.Duration) {
	t.Helper()
	pair := issue(t, by, "operator", &x509.Certificate{
		DNSNames: []string{name}, NotAfter: time.Now().Add(valid), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	data := map[string]string{}
	for key, path := range map[string]string{"caCert": s.authority.Path, "tlsClientCert": pair.Certificate, "tlsClientKey": pair.Key} {
		text, err := os.ReadFile(path)
		must(t, err)
		data[key] = string(text)
	}
	secret, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]string{"name": "sluice"}, "stringData": data,
	})
	must(t, err)
	s.Apply(t, s.namespace, string(secret), `
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata: {name: sluice}
spec:
  secretTargetRef:
  - {parameter: caCert, name: sluice, key: caCert}
  - {parameter: tlsClientCert, name: sluice, key: tlsClientCert}
  - {parameter: tlsClientKey, name: sluice, key: tlsClientKey}
`)
}

func issue(t *testing.T, by *certificate.Authority, name string, template *x509.Certificate) certificate.Pair {
	t.Helper()
	pair, err := by.Issue(name, template)
	must(t, err)
	return pair
}

// scaledObject is how KEDA scales the Deployment.
type scaledObject struct {
	poll, cooldown int // seconds
	triggers       []string
}

// trigger is a push trigger for 10 of a metric per replica, with further metadata.
func (s *scaled) trigger(metadata ...string) string {
	return fmt.Sprintf(`
  - type: external-push
    authenticationRef: {name: sluice}
    metadata: {scalerAddress: "dns:///%s", target: "10", %s}`, s.address, strings.Join(metadata, ", "))
}

func (s *scaled) scale(t *testing.T, o scaledObject) {
	t.Helper()
	s.Apply(t, s.namespace, fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: worker}
spec:
  scaleTargetRef: {name: worker}
  pollingInterval: %d
  cooldownPeriod: %d
  minReplicaCount: 0
  maxReplicaCount: 10
  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 0}}}}
  triggers:%s
`, o.poll, o.cooldown, strings.Join(o.triggers, "")))
}

// scaleByPush scales on jobs:last and waits until the operator follows the trigger.
func (s *scaled) scaleByPush(t *testing.T, poll, cooldown int) {
	t.Helper()
	s.scale(t, scaledObject{poll, cooldown, []string{s.trigger(`metric: "jobs:last"`, `absent: "0"`)}})
	s.awaitReady(t, "True")
	s.awaitStream(t)
}

// push sends a datagram as the pod does.
func (s *scaled) push(t *testing.T, lines string) {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", s.sluice.UDP)
	must(t, err)
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.pusher, 0)), to)
	must(t, err)
	defer conn.Close()
	if _, err := conn.Write([]byte(lines)); err != nil {
		t.Fatal(err)
	}
}

// jobs is a line for the external gauge "jobs" of the pod's namespace.
func jobs(n int) string { return fmt.Sprintf("jobs:%d|g|#sluice_object:external", n) }

func (s *scaled) replicas(t *testing.T) int32 {
	t.Helper()
	scale, err := s.Kubernetes.AppsV1().Deployments(s.namespace).GetScale(t.Context(), "worker", metav1.GetOptions{})
	must(t, err)
	return scale.Spec.Replicas
}

func (s *scaled) awaitReplicas(t *testing.T, want int32) {
	t.Helper()
	server.Within(t, func() string {
		if got := s.replicas(t); got != want {
			return fmt.Sprintf("%d replicas, want %d\n%s", got, want, s.state(t))
		}
		return ""
	})
}

// steady checks that the replicas stay.
func (s *scaled) steady(t *testing.T, want int32, during time.Duration) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got := s.replicas(t); got != want {
			t.Fatalf("%d replicas, want %d throughout\n%s", got, want, s.state(t))
		}
	}
}

// setReplicas scales the Deployment behind KEDA's back.
func (s *scaled) setReplicas(t *testing.T, n int32) {
	t.Helper()
	_, err := s.Kubernetes.AppsV1().Deployments(s.namespace).UpdateScale(t.Context(), "worker", &autoscaling.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "worker", Namespace: s.namespace}, Spec: autoscaling.ScaleSpec{Replicas: n},
	}, metav1.UpdateOptions{})
	must(t, err)
}

// awaitReady waits for the ScaledObject's condition Ready.
func (s *scaled) awaitReady(t *testing.T, want string) {
	t.Helper()
	server.Within(t, func() string {
		got, err := s.TryKubectl(t, "get", "scaledobject", "worker", "-n", s.namespace, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status} {.status.externalMetricNames}`)
		if err != nil { // there are no conditions yet
			return err.Error()
		}
		if status, names, _ := strings.Cut(got, " "); status != want || want == "True" && names == "" {
			return fmt.Sprintf("Ready is %q, want %q\n%s", got, want, s.state(t))
		}
		return ""
	})
}

// awaitStream waits until the operator has a stream open.
func (s *scaled) awaitStream(t *testing.T) {
	t.Helper()
	server.Within(t, func() string {
		if n := s.sluice.Metrics()["sluice_keda_streams"]; n < 1 {
			return fmt.Sprintf("%v streams\n%s", n, s.state(t))
		}
		return ""
	})
}

// awaitEvent waits for an Event of the ScaledObject.
func (s *scaled) awaitEvent(t *testing.T, fragments ...string) {
	t.Helper()
	server.Within(t, func() string {
		events := s.events(t)
		for line := range strings.SplitSeq(events, "\n") {
			missing := false
			for _, fragment := range fragments {
				missing = missing || !strings.Contains(line, fragment)
			}
			if !missing {
				return ""
			}
		}
		return fmt.Sprintf("no event with %q in\n%s", fragments, events)
	})
}

func (s *scaled) events(t *testing.T) string {
	t.Helper()
	return s.Kubectl(t, "get", "events", "-n", s.namespace, "--field-selector", "involvedObject.kind=ScaledObject",
		"-o", `jsonpath={range .items[*]}{.type} {.reason} {.count} {.message}{"\n"}{end}`)
}

// state is shown when a test fails.
func (s *scaled) state(t *testing.T) string {
	conditions, _ := s.TryKubectl(t, "get", "scaledobject,hpa", "-n", s.namespace, "-o",
		`jsonpath={range .items[*]}{.kind}{"\n"}{range .status.conditions[*]}  {.type}={.status} {.reason}: {.message}{"\n"}{end}{end}`)
	events, _ := s.TryKubectl(t, "get", "events", "-n", s.namespace, "-o", `jsonpath={range .items[*]}{.involvedObject.kind} {.reason}: {.message}{"\n"}{end}`)
	return conditions + events
}

// woken pushes and returns the time until the Deployment has a replica.
func (s *scaled) woken(t *testing.T, patience time.Duration, push func()) time.Duration {
	t.Helper()
	if n := s.replicas(t); n != 0 {
		t.Fatalf("the Deployment is not at zero but at %d\n%s", n, s.state(t))
	}
	return s.scaledTo(t, patience, push, 1)[0]
}

// scaledTo pushes and returns the times until the Deployment has each of the numbers of replicas, or more. It
// watches, so they are exact.
func (s *scaled) scaledTo(t *testing.T, patience time.Duration, push func(), wanted ...int32) (took []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Second)
	defer cancel()
	deployments := s.Kubernetes.AppsV1().Deployments(s.namespace)
	list, err := deployments.List(ctx, metav1.ListOptions{})
	must(t, err)
	watch, err := deployments.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	must(t, err)
	defer watch.Stop()
	began := time.Now()
	push()
	late := time.After(patience)
	for {
		select {
		case event := <-watch.ResultChan():
			n, ok := replicasOf(event.Object)
			for ok && n >= wanted[len(took)] {
				if took = append(took, time.Since(began)); len(took) == len(wanted) {
					return took
				}
			}
		case <-late:
			t.Fatalf("not %v replicas %s after the push\n%s", wanted, patience, s.state(t))
		}
	}
}

// wokenByStream is woken where polls come, too: the stream has to have said that the trigger is active.
func (s *scaled) wokenByStream(t *testing.T, lines string) (took time.Duration) {
	t.Helper()
	before := s.sluice.Metrics()[activations]
	took = s.woken(t, pushed, func() { s.push(t, lines) })
	server.Within(t, func() string {
		if s.sluice.Metrics()[activations] == before {
			return "the stream says nothing\n" + s.state(t)
		}
		return ""
	})
	return took
}

// activations counts the activations that were sent on streams.
const activations = "sluice_keda_activations_total"

func splitLines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
