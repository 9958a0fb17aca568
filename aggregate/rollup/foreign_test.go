package rollup

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Another replica's series counts, even if its pod becomes known later.
func TestOtherReplicasSeriesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newTown()
		m := NewTracker(cluster)
		pod := metric.Object{Resource: "pods", Namespace: "shop", Name: "db-0"}
		m.Foreign().SeriesCreated(&pod, "queries", metric.Counter, metric.Labels{})
		m.want(t, db, "queries", nil, metric.Counter)

		pod.Name = "cache-0"
		m.Foreign().SeriesCreated(&pod, "hits", metric.Counter, metric.Labels{})
		m.Foreign().SeriesCreated(&pod, "load", metric.Gauge, metric.Labels{})
		pod.Name = "scratch" // of the caller
		time.Sleep(10 * time.Second)
		m.ResolveOwners()
		cache := metric.Workload{Kind: "StatefulSet", Name: "cache", UID: "s2"}
		m.want(t, cache, "hits", nil, metric.NoKind)
		cluster.controllers["cache-0"] = cache
		m.ResolveOwners()
		m.want(t, cache, "hits", nil, metric.Counter)
		m.want(t, cache, "load", nil, metric.NoKind)

		pod.Name = "nobody"
		m.Foreign().SeriesCreated(&pod, "hits", metric.Counter, metric.Labels{})
		time.Sleep(2 * keepUnknown)
		m.ResolveOwners()
		if len(m.unknown) != 0 {
			t.Errorf("%d series of unknown pods are kept", len(m.unknown))
		}
	})
}

// Pods without a controller never get one: those of a namespace leave room for the pods of others.
func TestUnknownPodsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newTown()
		m := NewTracker(cluster)
		for i := range maxUnknown {
			pod := metric.Object{Resource: "pods", Namespace: "evil", Name: fmt.Sprint("bare-", i)}
			m.Foreign().SeriesCreated(&pod, "hits", metric.Counter, metric.Labels{})
		}
		pod := metric.Object{Resource: "pods", Namespace: "shop", Name: "cache-0"}
		m.Foreign().SeriesCreated(&pod, "hits", metric.Counter, metric.Labels{})
		cache := metric.Workload{Kind: "StatefulSet", Name: "cache", UID: "s2"}
		cluster.controllers["cache-0"] = cache
		m.ResolveOwners()
		m.want(t, cache, "hits", nil, metric.Counter)
		time.Sleep(2 * keepUnknown)
		m.ResolveOwners()
		if len(m.unknown) != 0 || m.unknownOf.Held() != 0 {
			t.Errorf("%d series of unknown pods are kept, and %d are counted", len(m.unknown), m.unknownOf.Held())
		}
	})
}
