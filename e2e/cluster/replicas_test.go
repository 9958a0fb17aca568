package cluster

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
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
	if err != nil {
		t.Fatal(err)
	}
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

// movesOf watches an autoscaler every 200 ms until stop is closed, and reports each change of the
// replicas that it wants and each time that it is without its metric.
func (c *cluster) movesOf(t *testing.T, namespace, name string, stop <-chan struct{}) (moves []string) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	wanted, known := int32(0), false
	without := ""
	for {
		select {
		case <-stop:
			return moves
		case <-tick.C:
		}
		hpa, err := c.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return moves
		}
		if now := hpa.Status.DesiredReplicas; known && now != wanted {
			moves = append(moves, fmt.Sprintf("%s: %d replicas wanted, then %d", time.Now().Format("15:04:05.0"), wanted, now))
		}
		wanted, known = hpa.Status.DesiredReplicas, true
		for _, condition := range hpa.Status.Conditions {
			if condition.Type == autoscaling.ScalingActive && condition.Status != core.ConditionTrue && condition.Message != without {
				without = condition.Message
				moves = append(moves, time.Now().Format("15:04:05.0")+": "+without)
			}
		}
	}
}

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

// watchFor is how long autoscalers are watched after each fault.
const watchFor = 75 * time.Second

// Two replicas serve autoscalers of several kinds. One is killed, comes back, and both are upgraded
// one after the other. No autoscaler wants another number of replicas, and none is without its
// metric.
func TestAutoscalersDoNotNoticeTheEndOfAReplica(t *testing.T) {
	plane := controlplane.New(t, controlplane.DefaultConfig())
	plane.Kubectl(t, "create", "namespace", "sluice")
	objects := render(t, "replicas.yaml")
	toHere, others := split(objects)
	apply(t, plane, others)
	kubeconfig := plane.ServiceAccountKubeconfig(t, "sluice", "sluice")
	both := pair(t, kubeconfig, objects)
	api := newService(t, both[0].API, both[1].API)
	for _, object := range toHere {
		redirect(t, object, api.listener.Addr().String())
	}
	apply(t, plane, toHere)
	for _, one := range both {
		one.Start()
	}
	plane.Kubectl(t, "wait", "--for=condition=Available", "--timeout=30s", "apiservice/v1beta1.custom.metrics.k8s.io",
		"apiservice/v1beta2.custom.metrics.k8s.io", "apiservice/v1beta1.external.metrics.k8s.io")
	c := &cluster{ControlPlane: plane, sluice: both[0]}
	c.lead(both...)

	pods, external := c.Namespace(t, "pods"), c.Namespace(t, "external")
	c.Apply(t, pods, example(t, "hpa-pods.yaml", pods))
	c.AwaitPods(t, pods, "app=web", 1)
	c.startLoad(t, pods, "app=web", 35, requests)
	c.Apply(t, external, deployment("worker"), example(t, "hpa-external.yaml", external))
	batch := addressOf(t, c.pod(t, external, "batch", "default"))
	c.push(t, batch, http.MethodPut, "/v1/namespaces/"+external+"/external/queue_depth?label=queue=mail&sync=all", "30", http.StatusOK)
	c.wantReplicas(t, pods, "web", 4, 90*time.Second)
	c.wantReplicas(t, external, "worker", 3, 60*time.Second)
	c.steady(t, pods, "web", 4, 12*time.Second)

	stop := make(chan struct{})
	var watching sync.WaitGroup
	for namespace, name := range map[string]string{pods: "web", external: "worker"} {
		watching.Go(func() {
			for _, move := range c.movesOf(t, namespace, name, stop) {
				t.Errorf("autoscaler %s: %s", name, move)
			}
		})
	}
	t.Logf("%s killed", time.Now().Format("15:04:05.0"))
	both[0].Kill()
	time.AfterFunc(endpointDelay, func() {
		api.remove(both[0].API)
		c.lead(both[1])
	})
	time.Sleep(watchFor)
	t.Logf("%s back", time.Now().Format("15:04:05.0"))
	both[0].Start()
	api.add(both[0].API)
	c.lead(both...)
	time.Sleep(watchFor / 3)
	for i, one := range both {
		other := both[1-i]
		t.Logf("%s upgrade of %d", time.Now().Format("15:04:05.0"), i)
		api.remove(one.API)
		c.lead(other)
		time.Sleep(endpointDelay)
		one.Stop()
		time.Sleep(5 * time.Second)
		one.Start()
		api.add(one.API)
		c.lead(both...)
		time.Sleep(watchFor / 5)
	}
	close(stop)
	watching.Wait()
}

// pair prepares two servers as the chart's StatefulSet would, on loopback.
func pair(t *testing.T, kubeconfig string, objects []*unstructured.Unstructured) (both []*server.Server) {
	t.Helper()
	flags := mounted(t, objects)
	at := slices.Index(flags, "--config") // its certificates of replicas name hosts that this machine cannot resolve
	flags = slices.Delete(flags, at, at+2)
	for _, own := range server.ReplicaFlags(t, 2) {
		both = append(both, server.InCluster(t, kubeconfig, slices.Concat(flags, own)...))
	}
	return both
}
