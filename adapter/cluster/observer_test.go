package cluster

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
)

// told records the calls of an Observer.
type told struct {
	mu        sync.Mutex
	known     [][]netip.Addr
	gone      []metric.Object
	limits    []string
	asked     []string
	resources int
}

func (t *told) observer() Observer {
	locked := func(f func()) {
		t.mu.Lock()
		defer t.mu.Unlock()
		f()
	}
	return Observer{
		SendersChanged:     func(a []netip.Addr) { locked(func() { t.known = append(t.known, a) }) },
		ObjectGone:         func(o metric.Object) { locked(func() { t.gone = append(t.gone, o) }) },
		LimitsChanged:      func(n string) { locked(func() { t.limits = append(t.limits, n) }) },
		AutoscalersChanged: func(n string) { locked(func() { t.asked = append(t.asked, n) }) },
		ResourcesChanged:   func() { locked(func() { t.resources++ }) },
	}
}

// isGone reports whether the object was reported as gone.
func (t *told) isGone(o metric.Object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.gone, o)
}

func (t *told) count() (known, gone, limits, asked int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known), len(t.gone), len(t.limits), len(t.asked)
}
