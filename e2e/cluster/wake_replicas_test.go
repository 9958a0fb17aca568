package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
)

// Two replicas see each push: the one that got it at once, the other by its flush. Each target is
// woken once, and with one Event. A replica that is left alone wakes at once, whoever holds the
// Lease.
func TestWakeByReplicas(t *testing.T) {
	t.Parallel()
	c := newPair(t, newZeroPlane(t), "--wake", "--wake-cooldown=10s")
	const rounds = 4
	w := c.worker(t, "both")
	for range rounds {
		w.wantWoken(t, "5")
		time.Sleep(2 * time.Second) // for the other replica's attempt
		w.push(t, "0")
		w.wantZero(t)
		time.Sleep(12 * time.Second) // the cooldown, and not until a sync
	}
	if woken, awake := c.count("woken"), c.count("awake"); woken != rounds || awake == 0 {
		t.Errorf("woken %v times, %v attempts found it awake; want %d and some", woken, awake, rounds)
	}
	if n := len(w.events(t, "Woken")); n != rounds {
		t.Errorf("%d Events, want %d", n, rounds)
	}

	c.replicas[1].Kill()
	c.lead(c.replicas[0])
	w.wantWoken(t, "5")
}

// newPair is a cluster with two replicas of Sluice. Clients push to the first one.
func newPair(t *testing.T, plane *controlplane.ControlPlane, flags ...string) *cluster {
	t.Helper()
	plane.Kubectl(t, "create", "namespace", "sluice")
	objects := render(t, "wake-replicas.yaml")
	toHere, others := split(objects)
	apply(t, plane, others)
	both := pair(t, plane.ServiceAccountKubeconfig(t, "sluice", "sluice"), objects, flags...)
	api := newService(t, both[0].API, both[1].API)
	for _, object := range toHere {
		redirect(t, object, api.listener.Addr().String())
	}
	apply(t, plane, toHere)
	for _, one := range both {
		one.Start()
	}
	awaitAPIs(t, plane)
	c := &cluster{ControlPlane: plane, sluice: both[0]}
	c.lead(both...)
	return c
}

func awaitAPIs(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	plane.Kubectl(t, "wait", "--for=condition=Available", "--timeout=5m", "apiservice/v1beta1.custom.metrics.k8s.io",
		"apiservice/v1beta2.custom.metrics.k8s.io", "apiservice/v1beta1.external.metrics.k8s.io")
}

// count is the sum of attempts with a result over all replicas.
func (c *cluster) count(result string) (n float64) {
	for _, one := range c.replicas {
		n += one.Metrics()[fmt.Sprintf("sluice_wakes_total{result=%q}", result)]
	}
	return n
}
