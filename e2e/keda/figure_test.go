package keda

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// pushes measures: go test -run TestDatagramToReplica -pushes 50 -v ./keda
var pushes = flag.Int("pushes", 3, "how often TestDatagramToReplica pushes")

// From a datagram to spec.replicas 1: by the stream alone, since no poll comes. The time ends when a watch
// of the Deployment has the change.
func TestDatagramToReplica(t *testing.T) {
	s := prepare(t, "figure") // not in parallel with other tests
	s.scaleByPush(t, 86400, 5)
	var took []time.Duration
	for range *pushes {
		took = append(took, s.woken(t, 10*time.Second, func() { s.push(t, jobs(1)) }))
		s.push(t, jobs(0))
		time.Sleep(2*time.Second + rand.N(time.Second)) // the stream has said so, and at no moment in particular
		s.setReplicas(t, 0)
		time.Sleep(500 * time.Millisecond) // the operator has seen it
	}
	t.Logf("datagram to spec.replicas 1: %s", spread(took))
	if median := quantile(took, 50); median > time.Second {
		t.Errorf("half of the pushes took %s and more", median)
	}
}

func spread(of []time.Duration) string {
	return fmt.Sprintf("%d times, p50 %s, p99 %s, worst %s",
		len(of), quantile(of, 50).Round(100*time.Microsecond), quantile(of, 99).Round(100*time.Microsecond), slices.Max(of).Round(100*time.Microsecond))
}

// quantile is the nearest rank.
func quantile(of []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[max((len(sorted)*percent+99)/100, 1)-1]
}
