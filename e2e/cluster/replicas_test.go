package cluster

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// service stands for the Service of the API: each connection goes to the next endpoint. The API
// server keeps its connections to an endpoint that was removed, as in a cluster.
type service struct {
	listener net.Listener
	mu       sync.Mutex
	// endpoints are host:port; guarded by mu.
	endpoints []string
	next      int
}

func newService(t *testing.T, endpoints ...string) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &service{listener: listener, endpoints: endpoints}
	t.Cleanup(func() { _ = listener.Close() })
	go s.serve()
	return s
}

func (s *service) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.carry(conn)
	}
}

func (s *service) carry(conn net.Conn) {
	defer conn.Close()
	to, err := net.Dial("tcp", s.choose())
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, conn)
		_ = to.Close()
	}()
	_, _ = io.Copy(conn, to)
}

func (s *service) choose() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.endpoints) == 0 {
		return "127.0.0.1:1" // refused
	}
	s.next++
	return s.endpoints[s.next%len(s.endpoints)]
}

func (s *service) remove(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = slices.DeleteFunc(s.endpoints, func(one string) bool { return one == endpoint })
}

func (s *service) add(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints = append(s.endpoints, endpoint)
}

// endpointDelay is how long a Service leads to a replica that has died.
const endpointDelay = time.Second

// watched is what was seen of an autoscaler.
type watched struct {
	moves []move // changes of the replicas that it wants
	// without are the times at which it lacked its metric, by message.
	without []lack
}

// move is a change of the replicas that an autoscaler wants.
type move struct {
	at       time.Time
	from, to int32
}

// lack is a time at which an autoscaler lacked its metric.
type lack struct {
	from, to time.Time
	message  string
}

// watch looks at an autoscaler every 200 ms until stop is closed.
func (c *cluster) watch(t *testing.T, namespace, name string, stop <-chan struct{}) (w watched) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	wanted, known := int32(0), false
	for {
		select {
		case <-stop:
			return w
		case <-tick.C:
		}
		hpa, err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return w
		}
		if now := hpa.Status.DesiredReplicas; known && now != wanted {
			w.moves = append(w.moves, move{time.Now(), wanted, now})
		}
		wanted, known = hpa.Status.DesiredReplicas, true
		for _, condition := range hpa.Status.Conditions {
			if condition.Type == autoscaling.ScalingActive && condition.Status != core.ConditionTrue {
				w.lacks(condition.Message)
			}
		}
	}
}

func (w *watched) lacks(message string) {
	now := time.Now()
	if n := len(w.without); n > 0 && w.without[n-1].message == message && now.Sub(w.without[n-1].to) < time.Second {
		w.without[n-1].to = now
		return
	}
	w.without = append(w.without, lack{now, now, message})
}

func (l lack) String() string {
	return fmt.Sprintf("without its metric from %s to %s: %s", clock(l.from), clock(l.to), l.message)
}

func clock(t time.Time) string { return t.Format("15:04:05.0") }

// endpointOf returns the server that a pod's datagrams go to: the same one while it is an endpoint,
// as connection tracking does it.
func (c *cluster) endpointOf(pod netip.Addr) *server.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.replicas) == 0 {
		return c.sluice
	}
	bytes := pod.As4()
	return c.replicas[int(bytes[3])%len(c.replicas)]
}

// lead sets the servers that pods push to.
func (c *cluster) lead(to ...*server.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replicas = to
}

const (
	// backFor and upgradedFor are how long autoscalers are watched after a replica is back.
	backFor, upgradedFor = 25 * time.Second, 15 * time.Second
	// deadNodeDelay is how long Services lead to the pods of a node that has died.
	deadNodeDelay = 45 * time.Second
	// longestLack is how long kube-apiserver may keep a connection that nobody answers: its health
	// check takes 45 s, and an autoscaler asks every few seconds.
	longestLack = 60 * time.Second
)

// replicated is a cluster whose metrics two replicas serve, with an autoscaler of pods and one of
// an external metric.
type replicated struct {
	*cluster
	both           []*server.Server
	api            *service
	load           *load
	pods, external string // namespaces of the autoscalers "web" and "worker"
}

// newReplicated returns when both autoscalers want more than one replica.
func newReplicated(t *testing.T) *replicated {
	t.Helper()
	return newServed(t, pair)
}

// newServed is newReplicated for the servers that a function prepares. The API server's connections are to
// the first one: others become endpoints after them.
func newServed(t *testing.T, prepare func(t *testing.T, kubeconfig string, objects []*unstructured.Unstructured, more ...string) []*server.Server) *replicated {
	t.Helper()
	plane := controlplane.New(t, controlplane.DefaultConfig())
	plane.Kubectl(t, "create", "namespace", "sluice")
	objects := render(t, "replicas.yaml")
	toHere, others := split(objects)
	apply(t, plane, others)
	kubeconfig := plane.ServiceAccountKubeconfig(t, "sluice", "sluice")
	both := prepare(t, kubeconfig, objects)
	api := newService(t, both[0].API)
	for _, object := range toHere {
		redirect(t, object, api.listener.Addr().String())
	}
	apply(t, plane, toHere)
	for _, one := range both {
		one.Start()
	}
	plane.Kubectl(t, "wait", "--for=condition=Available", "--timeout=5m", "apiservice/v1beta1.custom.metrics.k8s.io",
		"apiservice/v1beta2.custom.metrics.k8s.io", "apiservice/v1beta1.external.metrics.k8s.io")
	c := &replicated{cluster: &cluster{ControlPlane: plane, sluice: both[0]}, both: both, api: api}
	c.lead(both...)

	c.pods, c.external = c.Namespace(t, "pods"), c.Namespace(t, "external")
	// A window's sum that misses a part for longer is seen.
	stabilized := replace("stabilizationWindowSeconds: 30", "stabilizationWindowSeconds: 10")
	c.Apply(t, c.pods, stabilized(example(t, "hpa-pods.yaml", c.pods)))
	c.AwaitPods(t, c.pods, "app=web", 1)
	c.load = c.startLoad(t, c.pods, "app=web", 35, requests)
	c.Apply(t, c.external, deployment("worker"), stabilized(example(t, "hpa-external.yaml", c.external)))
	batch := addressOf(t, c.pod(t, c.external, "batch", "default"))
	c.push(t, batch, http.MethodPut, "/v1/namespaces/"+c.external+"/external/queue_depth?label=queue=mail&sync=all", "30", http.StatusOK)
	c.wantReplicas(t, c.pods, "web", 4)
	c.wantReplicas(t, c.external, "worker", 3)
	c.steady(t, c.pods, "web", 4, 12*time.Second)
	for _, other := range both[1:] {
		api.add(other.API)
	}
	return c
}

// watchDuring watches both autoscalers. Neither may want another number of replicas, but for a pause of
// the load.
func (c *replicated) watchDuring(t *testing.T, fault func()) (all map[string]watched) {
	t.Helper()
	all = c.watchOnce(t, fault)
	for name, w := range all {
		for _, one := range w.moves {
			text := fmt.Sprintf("%s: autoscaler %s wanted %d replicas, then %d", clock(one.at), name, one.from, one.to)
			if c.load.pausedBefore(one.at) {
				t.Log(text, "after a pause of the load")
			} else {
				t.Error(text)
			}
		}
	}
	return all
}

func (c *replicated) watchOnce(t *testing.T, fault func()) (all map[string]watched) {
	t.Helper()
	all = map[string]watched{}
	stop := make(chan struct{})
	var watching sync.WaitGroup
	var mu sync.Mutex // guards all
	for namespace, name := range map[string]string{c.pods: "web", c.external: "worker"} {
		watching.Go(func() {
			w := c.watch(t, namespace, name, stop)
			mu.Lock()
			defer mu.Unlock()
			all[name] = w
		})
	}
	fault()
	close(stop)
	watching.Wait()
	return all
}

// Two replicas serve autoscalers of several kinds. The one that the API server asks is killed,
// comes back, and both are upgraded one after the other. No autoscaler wants another number of
// replicas, and none is without its metric: but for one sync after the kill, while the Service still leads to the
// dead replica, and the API server answers in its place.
func TestAutoscalersDoNotNoticeTheEndOfAReplica(t *testing.T) {
	t.Parallel()
	c := newReplicated(t)
	var back time.Time
	all := c.watchDuring(t, func() {
		t.Logf("%s killed", clock(time.Now()))
		c.both[0].Kill()
		time.AfterFunc(endpointDelay, func() { c.leaves(c.both[0], c.both[1]) })
		c.warns(t, true)
		time.Sleep(server.ShortOrLong(75*time.Second, 5*time.Minute))
		back = time.Now()
		t.Logf("%s back", clock(back))
		c.both[0].Start()
		c.joins(c.both[0])
		c.warns(t, false)
		time.Sleep(backFor)
		for i, one := range c.both {
			t.Logf("%s upgrade of %d", clock(time.Now()), i)
			c.leaves(one, c.both[1-i])
			time.Sleep(endpointDelay)
			one.Stop()
			time.Sleep(5 * time.Second)
			one.Start()
			c.joins(one)
			time.Sleep(upgradedFor)
		}
	})
	for name, w := range all {
		for i, one := range w.without {
			if i == 0 && one.from.Before(back) && strings.Contains(one.message, "the server is currently unable to handle the request") {
				t.Logf("autoscaler %s is %v", name, one)
				continue
			}
			t.Errorf("autoscaler %s is %v", name, one)
		}
	}
}

// warns waits until explanations warn of the first replica, which is away, or no longer do.
func (c *replicated) warns(t *testing.T, away bool) {
	t.Helper()
	e := explained{cluster: c.cluster, ns: c.pods, kubeconfig: c.Kubeconfig}
	within(t, func() error {
		_, text, _ := e.explain(t, "hpa/web")
		if strings.Contains(text, "replica sluice-0 has not been heard for") != away {
			return fmt.Errorf("want a warning of sluice-0: %v; it says\n%s", away, text)
		}
		return nil
	})
}

// The steps of the chart's README lead from one replica to two, and back. The restarts of the only replica
// are a gap of the API; no autoscaler wants another number of replicas for it.
func TestAutoscalersDoNotNoticeOneReplicaBecomeTwoAndBack(t *testing.T) {
	t.Parallel()
	own := server.ReplicaFlags(t, 2)
	var first, second *server.Server
	c := newServed(t, func(t *testing.T, kubeconfig string, objects []*unstructured.Unstructured, _ ...string) []*server.Server {
		flags := flagsOf(t, objects)
		first = server.InCluster(t, kubeconfig, flags...)
		second = server.InCluster(t, kubeconfig, slices.Concat(flags, own[1])...)
		return []*server.Server{first}
	})
	step := func(says string, watched time.Duration) {
		t.Logf("%s %s", clock(time.Now()), says)
		time.Sleep(watched)
	}
	all := c.watchDuring(t, func() {
		first.Stop()
		first.Add(own[0]...)
		first.Start()
		step("the first replica shares its state", upgradedFor)
		second.Start()
		c.both = []*server.Server{first, second}
		c.joins(second)
		step("there are two", backFor)
		c.leaves(second, first)
		time.Sleep(endpointDelay)
		second.Stop()
		step("the second has left", server.ShortOrLong(20*time.Second, 75*time.Second))
		batch := addressOf(t, c.pod(t, c.external, "batch-again", "default"))
		c.push(t, batch, http.MethodPut, "/v1/namespaces/"+c.external+"/external/queue_depth?label=queue=mail&sync=true", "30", http.StatusOK)
		first.Stop()
		first.Drop(own[0]...)
		first.Start()
		step("the first replica is alone", backFor)
	})
	for name, w := range all {
		for _, one := range w.without {
			t.Logf("autoscaler %s is %v", name, one)
		}
	}
	for _, one := range []struct{ namespace, name string }{{c.pods, "web"}, {c.external, "worker"}} {
		c.noWarningsNow(t, one.namespace, one.name)
	}
}

// The node of the replica that the API server asks dies: nothing closes its connections, and
// Services lead there for a while. Reads fail for as long as the API server keeps the connection,
// and autoscalers keep their numbers of replicas.
func TestAutoscalersHoldWhenANodeDies(t *testing.T) {
	t.Parallel()
	if !server.Long {
		t.Skip("skipped: it takes seven minutes; TORTURE=long runs it")
	}
	c := newReplicated(t)
	dead, alive := c.both[0], c.both[1]
	all := c.watchDuring(t, func() {
		t.Logf("%s the node dies", clock(time.Now()))
		if err := syscall.Kill(dead.PID(), syscall.SIGSTOP); err != nil { // ends no connection and answers none
			t.Fatal(err)
		}
		died := time.Now()
		time.AfterFunc(deadNodeDelay, func() { c.leaves(dead, alive) })
		failures, last := c.readUntil(t, died.Add(5*time.Minute))
		if failures == 0 || last.Sub(died) > longestLack {
			t.Errorf("%d reads failed, the last one %v after the death; want some, within %v", failures, last.Sub(died), longestLack)
		}
		t.Logf("%d reads failed, the last one %v after the death", failures, last.Sub(died))
		t.Logf("%s its replica is back elsewhere", clock(time.Now()))
		dead.Kill()
		dead.Start()
		c.joins(dead)
		time.Sleep(backFor)
	})
	for name, w := range all {
		for _, one := range w.without {
			t.Logf("autoscaler %s is %v", name, one)
		}
		if n := len(w.without); n > 0 && w.without[n-1].to.Sub(w.without[0].from) > longestLack {
			t.Errorf("autoscaler %s is without its metric for %v", name, w.without[n-1].to.Sub(w.without[0].from))
		}
	}
}

// readUntil reads the external metric through the API server every second, and returns how often
// that failed and when the last failed read ended.
func (c *replicated) readUntil(t *testing.T, end time.Time) (failures int, last time.Time) {
	t.Helper()
	path := "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + c.external + "/queue_depth"
	for ; time.Now().Before(end); time.Sleep(time.Second) {
		if err := c.Kubernetes.Discovery().RESTClient().Get().AbsPath(path).Timeout(2 * time.Second).Do(t.Context()).Error(); err != nil {
			failures, last = failures+1, time.Now()
		}
	}
	return failures, last
}

// leaves moves the clients and new connections of one replica to the other, joins undoes it.
func (c *replicated) leaves(one, other *server.Server) {
	c.api.remove(one.API)
	c.lead(other)
}

func (c *replicated) joins(one *server.Server) {
	c.api.add(one.API)
	c.lead(c.both...)
}

// pair prepares two servers as the chart's StatefulSet would, on loopback, with more flags.
func pair(t *testing.T, kubeconfig string, objects []*unstructured.Unstructured, more ...string) (both []*server.Server) {
	t.Helper()
	flags := flagsOf(t, objects)
	for _, own := range server.ReplicaFlags(t, 2) {
		both = append(both, server.InCluster(t, kubeconfig, slices.Concat(flags, own, more)...))
	}
	return both
}

// flagsOf are the chart's flags, without those of replicas.
func flagsOf(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	flags := mounted(t, objects)
	at := slices.Index(flags, "--config") // its certificates of replicas name hosts that this machine cannot resolve
	return slices.Delete(flags, at, at+2)
}
