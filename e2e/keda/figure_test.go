package keda

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/controlplane"
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

// scalings measures: go test -run TestScalingLatency -scalings 20 -v ./keda
var scalings = flag.Int("scalings", 0, "number of pushes that TestScalingLatency measures from each of 0 and 1; 0: it is skipped")

// From a datagram to 1 and to 5 replicas from none, and to 5 from 1, where the autoscaler syncs every 15 s, as
// everywhere. Pushes come at any moment between two syncs.
func TestScalingLatency(t *testing.T) {
	if *scalings == 0 {
		t.Skip("skipped: it measures; -scalings 20 runs it")
	}
	cfg := controlplane.DefaultConfig()
	cfg.HPASync = 15 * time.Second
	c := installed(t, cfg)
	s := c.prepare(t, "scaling")
	s.scaleByPush(t, 86400, 86400)
	var toOne, toMany, upwards []time.Duration
	fromZero, fromOne := 0, 0
	for range *scalings {
		fromZero += s.requests(t, func() {
			took := s.scaledTo(t, 2*cfg.HPASync, func() { s.push(t, jobs(50)) }, 1, 5)
			toOne, toMany = append(toOne, took[0]), append(toMany, took[1])
		})
		s.push(t, jobs(10))
		s.awaitReplicas(t, 1)
		time.Sleep(rand.N(cfg.HPASync))
		fromOne += s.requests(t, func() {
			upwards = append(upwards, s.scaledTo(t, 2*cfg.HPASync, func() { s.push(t, jobs(50)) }, 5)...)
		})
		s.push(t, jobs(0))
		time.Sleep(2*time.Second + rand.N(cfg.HPASync)) // the stream has said so, and at no moment in particular
		s.setReplicas(t, 0)
		time.Sleep(500 * time.Millisecond) // the operator has seen it
	}
	t.Logf("0 to 1: %s", spread(toOne))
	t.Logf("0 to 5: %s; %.1f requests each", spread(toMany), float64(fromZero)/float64(*scalings))
	t.Logf("1 to 5: %s; %.1f requests each", spread(upwards), float64(fromOne)/float64(*scalings))
}

// requests counts those to the API server meanwhile, for the Deployment, its autoscaler and the ScaledObject.
func (s *scaled) requests(t *testing.T, during func()) int {
	t.Helper()
	count := func() (sum int) {
		for _, resource := range []string{"deployments", "horizontalpodautoscalers", "scaledobjects"} {
			n, err := s.Requests(t.Context(), resource)
			must(t, err)
			sum += n
		}
		return sum
	}
	before := count()
	during()
	return count() - before
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
