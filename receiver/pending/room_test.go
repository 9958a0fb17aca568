package pending

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// ofFinishedPod is the sender of a token that is bound to a pod which has finished: the cluster view knows it no more, and
// the token is valid as long as the pod is there.
func ofFinishedPod(namespace string, n int) *metric.Sender {
	return &metric.Sender{Key: uint64(len(namespace)<<32+n) | metric.LocalKey, Address: netip.MustParseAddr("10.0.0.9"), Known: true,
		Principal: &metric.Principal{Namespace: namespace, Name: "runner", PodUID: fmt.Sprint("finished-", n)}}
}

// A namespace with many accounts, or many pods that have finished, takes neither all memory of pending samples nor all
// places of senders.
func TestANamespaceLeavesRoomForPendingSamples(t *testing.T) {
	for name, samples := range map[string]int{"bytes": 2000, "senders": 1} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, func(c *Config) { c.MaxSenders = 1000 })
			for n := range 2000 {
				for i := range samples {
					if !w.buffer.Hold(sampleOf(ofFinishedPod("flood", n), fmt.Sprint("a", i), metric.Add, 1), w.account) {
						break
					}
				}
			}
			bytes, senders := w.buffer.room.held()
			if c := w.buffer.config; bytes > c.MaxBytes*3/4 || senders > c.MaxSenders*3/4 {
				t.Errorf("one namespace holds %d bytes of %d, with %d senders of %d", bytes, c.MaxBytes, senders, c.MaxSenders)
			}
			for i := range 100 {
				w.hold(sampleOf(unknown(fmt.Sprint("10.1.0.", i)), "a", metric.Add, 1))
				w.hold(sampleOf(ofFinishedPod("shop", i), "a", metric.Add, 1))
			}
		})
	}
}
