package metricsserver

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/receiver/kubelet"
	core "k8s.io/api/core/v1"
	resourceapi "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics"
	"sigs.k8s.io/metrics-server/pkg/scraper/client"
	"sigs.k8s.io/metrics-server/pkg/scraper/client/resource"
	"sigs.k8s.io/metrics-server/pkg/storage"
)

// container is one of the node. Its kubelet measures it at moments of its own, 8 to 30 seconds apart, and says the newest.
type container struct {
	started, measured, next time.Time
	cores, cpu, memory      float64
	gone                    bool // from this page
}

// node plays an hour of a node's life, in virtual time: the page has all moments.
type node struct {
	random     *rand.Rand
	now        time.Time
	containers map[[2]string]*container // by pod and name
	page       string
	cpu        float64
}

func (n *node) step(d time.Duration) {
	n.now = n.now.Add(d)
	n.cpu += d.Seconds() * (1 + n.random.Float64())
	if n.random.IntN(3) == 0 { // a pod comes, of one to three containers
		pod := fmt.Sprint("pod-", n.random.IntN(40))
		for i := range 1 + n.random.IntN(3) {
			key := [2]string{pod, fmt.Sprint("c", i)}
			if n.containers[key] == nil {
				started := n.now.Add(-time.Duration(n.random.IntN(20_000)) * time.Millisecond)
				n.containers[key] = &container{started: started, next: n.now, cores: n.random.ExpFloat64(), memory: 1e6 * (1 + n.random.ExpFloat64()*100)}
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(n.containers), func(a, b [2]string) int { return strings.Compare(a[0]+"/"+a[1], b[0]+"/"+b[1]) })
	var cpu, memory, start strings.Builder
	for _, key := range keys {
		c := n.containers[key]
		n.fate(key, c)
		if n.containers[key] == nil || c.gone {
			continue
		}
		if !c.next.After(n.now) {
			if !c.measured.IsZero() {
				c.cpu += c.cores * n.now.Sub(c.measured).Seconds()
			} else {
				c.cpu = c.cores*n.now.Sub(c.started).Seconds() + 1e-6
			}
			c.measured = n.now.Add(-time.Duration(n.random.IntN(3000)) * time.Millisecond)
			if c.measured.Before(c.started) {
				c.measured = n.now
			}
			c.next = n.now.Add(time.Duration(8_000+n.random.IntN(22_000)) * time.Millisecond)
		}
		used, at := c.cpu, c.measured.UnixMilli()
		held := c.memory
		if n.random.IntN(300) == 0 {
			held = 0 // which a container that runs cannot have
		}
		labels := fmt.Sprintf("{container=%q,namespace=\"shop\",pod=%q}", key[1], key[0])
		fmt.Fprintf(&cpu, "container_cpu_usage_seconds_total%s %s %d\n", labels, strconv.FormatFloat(used, 'g', -1, 64), at)
		fmt.Fprintf(&memory, "container_memory_working_set_bytes%s %s %d\n", labels, strconv.FormatFloat(float64(int64(held)), 'g', -1, 64), at)
		fmt.Fprintf(&start, "container_start_time_seconds%s %s\n", labels, strconv.FormatFloat(float64(c.started.UnixMilli())/1000, 'g', -1, 64))
	}
	n.page = fmt.Sprintf("# TYPE container_cpu_usage_seconds_total counter\n%s%s%snode_cpu_usage_seconds_total %f %d\nnode_memory_working_set_bytes 1e9 %d\n",
		cpu.String(), memory.String(), start.String(), n.cpu, n.now.UnixMilli(), n.now.UnixMilli())
}

// fate is what happens to a container between two pages.
func (n *node) fate(key [2]string, c *container) {
	c.gone = false
	switch n.random.IntN(120) {
	case 0, 1: // it starts again
		c.started, c.measured, c.next, c.cpu = n.now.Add(-time.Duration(n.random.IntN(12_000))*time.Millisecond), time.Time{}, n.now, 0
	case 2: // its counter falls, which it never should
		c.cpu /= 2
	case 3:
		c.gone = true
	case 4, 5:
		delete(n.containers, key)
	case 6:
		c.cores = n.random.ExpFloat64()
	case 7: // a measurement from before, again
		if !c.measured.IsZero() {
			c.measured = c.measured.Add(-5 * time.Second)
		}
	}
}

// TestMetricsServerSaysTheSame plays hours of a node to both, each asking every 15 seconds: every number, moment and window is the same, and so is
// which pods and containers are served.
func TestMetricsServerSaysTheSame(t *testing.T) {
	var n *node
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(n.page)) }))
	defer server.Close()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "https://"))
	must(t, err)
	number, err := strconv.Atoi(port)
	must(t, err)
	theirs, err := resource.NewForConfig(&client.KubeletClientConfig{Client: rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
		AddressTypePriority: []core.NodeAddressType{core.NodeInternalIP}, Scheme: "https", DefaultPort: number})
	must(t, err)
	ours, err := kubelet.NewClient(kubelet.Config{Address: net.JoinHostPort(host, port), InsecureTLS: true})
	must(t, err)
	self := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: core.NodeStatus{Addresses: []core.NodeAddress{{Type: core.NodeInternalIP, Address: host}}}}

	compared, served, invented := 0, 0, 0
	for seed := range uint64(10) {
		n = &node{random: rand.New(rand.NewPCG(seed, 7)), now: time.UnixMilli(1_790_000_000_000), containers: map[[2]string]*container{}}
		store, tracker, latest := storage.NewStorage(time.Minute), usage.NewTracker(), usage.NewLatest()
		for range 240 {
			n.step(15*time.Second + time.Duration(n.random.IntN(500))*time.Millisecond)
			batch, err := theirs.GetMetrics(context.Background(), self)
			must(t, err)
			store.Store(batch)
			page, err := ours.Read(context.Background())
			if err != nil || page.Faults > 0 {
				t.Fatalf("%v, %s", err, page.FirstFault)
			}
			records, _ := tracker.Add(page, n.now)
			latest.Set("node", usage.Report{Number: uint64(n.now.UnixNano()), At: n.now, Records: records}, n.now)
			for i := range 40 {
				pod := fmt.Sprint("pod-", i)
				want, err := store.GetPodMetrics(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "shop"}})
				must(t, err)
				said := ""
				for _, m := range want {
					served++
					said = fmt.Sprint(m.Timestamp.UnixNano(), " ", m.Window.Duration)
					slices.SortFunc(m.Containers, func(a, b metrics.ContainerMetrics) int { return strings.Compare(a.Name, b.Name) })
					for _, c := range m.Containers {
						said += fmt.Sprint(" ", c.Name, " ", c.Usage.Cpu().ScaledValue(resourceapi.Nano), " ", c.Usage.Memory().Value())
					}
				}
				if inventsZero(want, latest, pod, n.now) {
					invented++
					continue
				}
				if got := serves(latest, pod, n.now); got != said {
					t.Fatalf("seed %d, %v: %s is\n%s, metrics-server says\n%s", seed, n.now, pod, got, said)
				}
				compared++
			}
			nodes, err := store.GetNodeMetrics(self)
			must(t, err)
			r := latest.Node("node", time.Time{}, n.now).Newest
			if known := r.State == usage.Known; known != (len(nodes) == 1) {
				t.Fatalf("seed %d: the node is known: %v, to metrics-server: %d", seed, known, len(nodes))
			} else if known {
				m := nodes[0]
				if m.Usage.Cpu().ScaledValue(resourceapi.Nano) != int64(r.CPU) || m.Usage.Memory().Value() != int64(r.Memory) || !m.Timestamp.Time.Equal(r.End) || m.Window.Duration != r.Window {
					t.Fatalf("seed %d: the node uses %+v, metrics-server says %+v", seed, r, m)
				}
			}
		}
	}
	t.Logf("%d answers are the same, %d of them with usage; metrics-server invents a zero in %d", compared, served, invented)
	if served < compared/10 {
		t.Errorf("metrics-server served %d of %d pods: the test compares too little", served, compared)
	}
}

// inventsZero reports whether metrics-server says that a container uses no processor, of which it has one measurement: it takes the moment zero
// for the one before if a page repeats the first measurement of a container, and another container of its pod has two. An autoscaler would
// scale down on it; Sluice waits for the second measurement. It is the one difference.
func inventsZero(theirs []metrics.PodMetrics, latest *usage.Latest, pod string, now time.Time) bool {
	if len(theirs) != 1 {
		return false
	}
	for _, r := range latest.Containers(&usage.Pod{Namespace: "shop", Name: pod, Node: "node"}, now) {
		for _, c := range theirs[0].Containers {
			if c.Name == r.Container.Name && r.Newest.State == usage.Waits && c.Usage.Cpu().ScaledValue(resourceapi.Nano) < 1000 {
				return true
			}
		}
	}
	return false
}

func serves(latest *usage.Latest, pod string, now time.Time) string {
	containers, end, window, ok := latest.Served(&usage.Pod{Namespace: "shop", Name: pod, Node: "node"}, now)
	if !ok {
		return ""
	}
	said := fmt.Sprint(end.UnixNano(), " ", window)
	if end.IsZero() {
		said = fmt.Sprint(metav1.Time{}.UnixNano(), " ", window)
	}
	for _, c := range containers {
		said += fmt.Sprint(" ", c.Container.Name, " ", c.Newest.CPU, " ", c.Newest.Memory)
	}
	return said
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
