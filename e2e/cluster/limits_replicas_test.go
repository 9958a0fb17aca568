package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
	"github.com/sluice-metrics/sluice/e2e/server"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// replicasWithRights are two replicas that are not started, in a control plane of their own that gives them the
// rights of the chart.
func replicasWithRights(t *testing.T, flags ...string) (plane *controlplane.ControlPlane, both []*server.Server) {
	t.Helper()
	plane = controlplane.New(t, controlplane.DefaultConfig())
	plane.Kubectl(t, "create", "namespace", "sluice")
	_, others := split(render(t, "replicas.yaml"))
	apply(t, plane, others)
	kubeconfig := plane.ServiceAccountKubeconfig(t, "sluice", "sluice")
	for _, own := range server.ReplicaFlags(t, 2) {
		both = append(both, server.InCluster(t, kubeconfig, append(own, flags...)...))
	}
	return plane, both
}

// Two replicas share the limits: of metrics that came in at both at the same moment as many stay as
// fit. Each Event is written once. The rights are those that the chart gives.
func TestReplicasShareLimits(t *testing.T) {
	t.Parallel()
	plane, servers := replicasWithRights(t)
	var both []*cluster
	for _, one := range servers {
		one.Start()
		both = append(both, &cluster{ControlPlane: plane, sluice: one})
	}
	first, second := both[0], both[1]
	within(t, func() error {
		lease, err := plane.Kubernetes.CoordinationV1().Leases("sluice").Get(t.Context(), "sluice", metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || !strings.HasPrefix(*lease.Spec.HolderIdentity, "sluice-")) {
			err = fmt.Errorf("the Lease is held by %v", lease.Spec.HolderIdentity)
		}
		return err
	})
	if held := first.sluice.Metrics()["sluice_replica_events_leader"] + second.sluice.Metrics()["sluice_replica_events_leader"]; held != 1 {
		t.Errorf("%v replicas hold the Lease", held)
	}

	ns := first.Namespace(t, "shared")
	address := addressOf(t, first.pod(t, ns, "one", "default"))
	second.awaitSender(t, ns, "one")
	path := func(name string) string { return "/v1/namespaces/" + ns + "/pods/one/" + name }
	put := func(c *cluster, name string, want int) { c.push(t, address, http.MethodPut, path(name), "1", want) }
	for i := range 4 {
		put(both[i%2], fmt.Sprint("m", i), http.StatusOK)
	}
	reads := func(want int, names ...string) func() error { // at both replicas
		return func() error {
			for _, c := range both {
				for _, name := range names {
					if status, text, err := c.ask(t, address, http.MethodGet, path(name), ""); status != want {
						return fmt.Errorf("a replica answers %d %s %v about %s, want %d", status, text, err, name, want)
					}
				}
			}
			return nil
		}
	}
	within(t, reads(http.StatusOK, "m0", "m1", "m2", "m3"))
	var pushing sync.WaitGroup // at the same moment: the first has not published yet
	pushing.Go(func() { put(first, "of-first", http.StatusOK) })
	put(second, "of-second", http.StatusOK)
	pushing.Wait()
	kept, evicted := "of-first", "of-second"
	within(t, func() error {
		shed := [2]float64{}
		for i, c := range both {
			shed[i] = c.sluice.Metrics()["sluice_limit_shed_metrics_total"]
		}
		switch shed {
		case [2]float64{0, 1}:
		case [2]float64{1, 0}: // births are dated to the second
			kept, evicted = evicted, kept
		default:
			return fmt.Errorf("the replicas have evicted %v metrics, want 1 in sum", shed)
		}
		return nil
	})
	within(t, reads(http.StatusNotFound, evicted)) // before, the other replica takes it for a twin
	for _, c := range both {
		put(c, evicted, http.StatusTooManyRequests)
		put(c, "m0", http.StatusOK) // a twin takes no slot
		put(c, kept, http.StatusOK)
	}
	first.wantEvent(t, ns, "one", `"`+evicted+`" is rejected`, "m0", "m1", "m2", "m3", kept)

	first.Apply(t, ns, `
apiVersion: v1
kind: LimitRange
metadata: {name: absurd}
spec:
  limits:
  - {type: sluice.dev/Pod, max: {sluice.dev/metrics: "-1"}}
`)
	first.wantEvent(t, ns, "absurd", "sluice.dev/metrics", "-1")
	time.Sleep(3 * time.Second)
	events, err := plane.Kubernetes.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	times := map[string]int32{}
	for _, one := range events.Items {
		if one.Source.Component == "sluice" {
			times[one.Reason+" "+one.InvolvedObject.Name] += one.Count
		}
	}
	if times["MetricRefused one"] != 1 || times["MetricShed one"] != 1 || times["BadPushedMetricsLimit absurd"] != 1 {
		t.Errorf("Events: %v, want each of the three once", times)
	}
}
