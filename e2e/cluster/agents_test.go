package cluster

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/certificate"
	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// agents is a cluster of three nodes: "loopback", on which all pods run, and "far" have an agent each, "virtual" has none.
type agents struct {
	*cluster
	near, far   *server.Agent
	authorities string
	others      []*server.Server // that agents know
}

func newAgents(t *testing.T) *agents {
	t.Helper()
	c := &agents{cluster: installWith(t, controlplane.New(t, controlplane.DefaultConfig()), "values.yaml")}
	c.sluice.Stop()
	c.authorities = hearAgents(t, c.sluice)
	c.sluice.Start()
	c.Apply(t, "sluice", controlplane.ServiceAccount("sluice-agent"))
	c.near, c.far = c.agentOn(t, "loopback", "sluice-agent"), c.agentOn(t, "far", "sluice-agent")
	c.agent = c.near
	return c
}

// hearAgents makes servers hear agents from their next start on, and returns the file of the authority of their certificate.
func hearAgents(t *testing.T, servers ...*server.Server) (authorities string) {
	t.Helper()
	authority, err := certificate.New(t.TempDir(), "agents")
	must(t, err)
	pair, err := authority.Issue("server", &x509.Certificate{Subject: pkix.Name{CommonName: "sluice"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	must(t, err)
	for _, s := range servers {
		s.WithSecureAgents(pair.Certificate, pair.Key, "sluice/sluice-agent")
	}
	return authority.Path
}

// agentOn prepares an agent with the token of a pod on a node.
func (c *agents) agentOn(t *testing.T, node, account string) *server.Agent {
	t.Helper()
	if node != "loopback" {
		c.makeNode(t, node)
	}
	pod, err := c.Kubernetes.CoreV1().Pods("sluice").Create(t.Context(), &core.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-"},
		Spec: core.PodSpec{NodeName: node, ServiceAccountName: account, HostNetwork: true, Containers: []core.Container{{Name: "agent", Image: "sluice"}}}},
		metav1.CreateOptions{})
	must(t, err)
	token := c.tokenFor(t, "sluice", account, "sluice", &authentication.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID})
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(token), 0o600))
	return c.sluice.NewSecureAgent(c.authorities, file, c.others...)
}

func (c *agents) makeNode(t *testing.T, name string) {
	t.Helper()
	if _, err := c.Kubernetes.CoreV1().Nodes().Create(t.Context(), &core.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *agents) starts(t *testing.T, a *server.Agent) {
	t.Helper()
	a.Start()
	within(t, func() error {
		m, err := a.Metrics()
		if err == nil && m["sluice_agent_connected"] != 1 {
			err = fmt.Errorf("the agent has no connection")
		}
		return err
	})
}

// rejects waits until the server has rejected so many samples of agents for their identity.
func (c *agents) rejects(t *testing.T, n float64) {
	t.Helper()
	within(t, func() error {
		if got := c.sluice.Metrics().Of("sluice_samples_rejected_total", "agent", "identity"); got != n {
			return fmt.Errorf("%v samples of agents are rejected, want %v", got, n)
		}
		return nil
	})
}

// Pods push to the agent of their node: an autoscaler scales on it. The only server is killed under load, and again: then the
// total is exact, and no autoscaler has moved.
func TestAgents(t *testing.T) {
	t.Parallel()
	c := newAgents(t)
	c.starts(t, c.near)
	ns := c.Namespace(t, "agents")
	c.Apply(t, ns, replace("stabilizationWindowSeconds: 30", "stabilizationWindowSeconds: 10")(example(t, "hpa-pods.yaml", ns)))
	c.AwaitPods(t, ns, "app=web", 1)
	load := c.startLoad(t, ns, "app=web", 35, requests)
	c.wantReplicas(t, ns, "web", 4)
	c.steady(t, ns, "web", 4, 12*time.Second)

	shop := c.pod(t, ns, "shop", "default")
	stop, moves := make(chan struct{}), make(chan watched, 1)
	go func() { moves <- c.watch(t, ns, "web", stop) }()
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan int)
	go func() { sent <- c.orders(ctx, addressOf(t, shop)) }()
	for i := range 2 {
		time.Sleep(6 * time.Second)
		c.sluice.Kill()
		time.Sleep(time.Duration(1+3*i) * time.Second)
		c.sluice.Start()
	}
	time.Sleep(20 * time.Second)
	cancel()
	total := <-sent
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/orders:total", map[string]float64{"shop": float64(total)})
	close(stop)
	for _, one := range (<-moves).moves {
		if text := fmt.Sprintf("%s: autoscaler web wanted %d replicas, then %d", clock(one.at), one.from, one.to); load.pausedBefore(one.at) {
			t.Log(text, "after a pause of the load")
		} else {
			t.Error(text)
		}
	}
}

// Two replicas, of which the agent's is killed under load, and again: the agent moves, no autoscaler does, and once the replica is back the
// total is exact.
func TestAgentsOfTwoReplicas(t *testing.T) {
	t.Parallel()
	c := &agents{}
	served := newServed(t, func(t *testing.T, kubeconfig string, objects []*unstructured.Unstructured, more ...string) []*server.Server {
		both := pair(t, kubeconfig, objects, more...)
		c.authorities = hearAgents(t, both...)
		return both
	})
	c.cluster, c.others = served.cluster, served.both[1:]
	c.Apply(t, "sluice", controlplane.ServiceAccount("sluice-agent"))
	c.near = c.agentOn(t, "loopback", "sluice-agent")
	c.starts(t, c.near)
	shop := addressOf(t, c.pod(t, served.pods, "shop", "default"))
	served.load.end()
	c.agent = c.near
	served.load = c.startLoad(t, served.pods, "app=web", 35, requests)
	c.steady(t, served.pods, "web", 4, 12*time.Second)

	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan int)
	served.watchDuring(t, func() {
		go func() { sent <- c.orders(ctx, shop) }()
		for range 2 {
			time.Sleep(6 * time.Second)
			dead, alive := served.both[0], served.both[1]
			if c.near.Hearer() == "sluice-1" {
				dead, alive = alive, dead
			}
			dead.Kill()
			time.Sleep(endpointDelay)
			served.leaves(dead, alive)
			time.Sleep(5 * time.Second)
			dead.Start()
			served.joins(dead)
			time.Sleep(backFor)
		}
		cancel()
	})
	total := <-sent
	for range 4 { // the Service leads to either replica
		c.wantValues(t, "/namespaces/"+served.pods+"/pods/*/orders:total", map[string]float64{"shop": float64(total)})
	}
}

// orders sends a thousand lines a second from an address, and returns their number.
func (c *agents) orders(ctx context.Context, from netip.Addr) (sent int) {
	each := time.NewTicker(10 * time.Millisecond)
	defer each.Stop()
	for {
		select {
		case <-ctx.Done():
			return sent
		case <-each.C:
			if c.trySendFrom(from, "orders:1|c\norders:2|c\norders:1|c\norders:1|c\norders:1|c\norders:1|c\norders:1|c\norders:1|c\norders:1|c\norders:1|c") == nil {
				sent += 11
			}
		}
	}
}

// An agent speaks for the pods of its own node alone, and only with the token of an agent's account.
func TestAgentsSpeakForTheirNode(t *testing.T) {
	t.Parallel()
	c := newAgents(t)
	ns := c.Namespace(t, "agents")
	pod := c.pod(t, ns, "web", "default")
	from := addressOf(t, pod)
	c.starts(t, c.far)
	if err := sendTo(c.far.UDP, from, "hits:1|c"); err != nil { // its own node has no agent yet
		t.Fatal(err)
	}
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/hits:total", map[string]float64{"web": 1})
	c.starts(t, c.near)
	c.sendFrom(t, from, "hits:1|c")
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/hits:total", map[string]float64{"web": 2})
	must(t, sendTo(c.far.UDP, from, "hits:10|c"))
	c.rejects(t, 1)
	admin := lister{c.cluster, c.Kubeconfig, c.sluice.Binary()}
	within(t, func() error { // rejected samples are told to the record after the metrics
		return admin.shows(0, []string{"far connected", "1 identity", "the agent of node far does not speak for pods of node loopback", "loopback connected"},
			"list", "agents", "-n", ns, "-o", "wide")
	})
	if out := squeezed(c.Kubectl(t, "get", "agents.inspect.sluice.dev")); !strings.Contains(out, "far connected") {
		t.Errorf("kubectl get:\n%s", out)
	}
	if err := sendTo(c.near.UDP, netip.MustParseAddr("127.0.0.1"), "hits:100|c"); err != nil { // the node's address, or nobody's
		t.Fatal(err)
	}

	// Another pod of the node, with a token for Sluice, is no agent.
	c.Apply(t, "sluice", controlplane.ServiceAccount("other"))
	stranger := c.agentOn(t, "virtual", "other")
	stranger.Start()
	must(t, sendTo(stranger.UDP, from, "hits:1000|c"))
	within(t, func() error {
		if why := stranger.Said(); !strings.Contains(why, "may not report for a node") {
			return fmt.Errorf("the stranger says\n%s", why)
		}
		return nil
	})
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/hits:total", map[string]float64{"web": 2})
	c.far.Kill()
	within(t, func() error {
		return admin.shows(1, []string{"far cut off", "loopback connected"}, "list", "agents")
	})
	c.near.Stop()
	within(t, func() error { return admin.shows(1, []string{"loopback stopped"}, "list", "agents") })
}

// The taint of a node goes once its agent is connected, if the server has the right that the chart gives. Other taints stay, and so
// does that of a node without an agent.
func TestStartupTaint(t *testing.T) {
	t.Parallel()
	c := newAgents(t)
	c.sluice.Stop()
	c.sluice.Add("--agents-startup-taint")
	c.sluice.Start()
	c.makeNode(t, "virtual")
	for _, node := range []string{"far", "virtual"} { // the controller adds one of its own, because there is no kubelet
		c.Kubectl(t, "taint", "nodes", node, "other=x:NoSchedule", "sluice.dev/agent-not-ready=:NoSchedule", "sluice.dev/agent-not-ready=:NoExecute")
	}
	taints := func(node, want string) error {
		got := c.Kubectl(t, "get", "node", node, "-o", "jsonpath={.spec.taints[*].key}")
		if got = strings.TrimSuffix(got, " node.kubernetes.io/not-ready"); got != want {
			return fmt.Errorf("node %s has the taints %q, want %q", node, got, want)
		}
		return nil
	}
	const both = "sluice.dev/agent-not-ready sluice.dev/agent-not-ready"
	c.starts(t, c.far)
	within(t, func() error {
		if said := c.sluice.Said(); !strings.Contains(said, "cannot remove the taint") || !strings.Contains(said, "cannot get resource") {
			return fmt.Errorf("the server without the right says\n%s", said)
		}
		return nil
	})
	for _, node := range []string{"far", "virtual"} {
		must(t, taints(node, "other "+both))
	}
	for _, object := range render(t, "taint.yaml") {
		if object.GetName() == "sluice-taint" {
			apply(t, c.ControlPlane, []*unstructured.Unstructured{object})
		}
	}
	within(t, func() error { return taints("far", "other") })
	must(t, taints("virtual", "other "+both))
}

// A line from a Unix socket names its pod, by UID or external data. That must be one of the agent's node; a line that
// names none is rejected.
func TestAgentUnixSocket(t *testing.T) {
	t.Parallel()
	c := newAgents(t)
	folder, err := os.MkdirTemp("", "s") // a socket's path is short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	c.near.Streams(folder)
	c.starts(t, c.near)
	ns := c.Namespace(t, "agents")
	mine := c.pod(t, ns, "web", "default")
	c.Apply(t, ns, replace("spec:", "spec:\n  nodeName: far")(podManifest("away", "default")))
	away, err := c.Kubernetes.CoreV1().Pods(ns).Get(t.Context(), "away", metav1.GetOptions{})
	must(t, err)
	conn, err := net.Dial("unixgram", c.near.Unixgram)
	must(t, err)
	defer conn.Close()
	for _, line := range []string{"hits:1|c|#dd.internal.entity_id:" + string(mine.UID), "hits:2|c|e:it-false,cn-main,pu-" + string(mine.UID),
		"hits:4|c|#dd.internal.entity_id:" + string(away.UID), "hits:8|c|#pod:web,namespace:" + ns, "hits:16|c"} {
		if _, err := conn.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	c.wantValues(t, "/namespaces/"+ns+"/pods/*/hits:total", map[string]float64{"web": 3})
	c.rejects(t, 3)
}
