package httpserver

import (
	"sync/atomic"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
)

// appliers is a bounded free list of offline Appliers: there are many more connections than
// requests that apply at one moment, and each Applier costs the table memory. An atomic exchange
// takes or fills a slot, so no request waits for another. The goroutine that took an Applier owns
// it.
type appliers struct {
	fresh func() Applier
	slots []atomic.Pointer[PooledApplier]
	ended atomic.Bool
}

// PooledApplier boxes an Applier, so that a slot can hold a pointer.
type PooledApplier struct{ Applier }

// Applier has a cache of lines, for protocols whose series come with labels: it maps the labels of known series, as
// on the wire, to their series.
type Applier interface {
	receiver.Applier
	// LookupLines looks lines up for the other methods. The lines must not change until the next
	// LookupLines looks lines up for the other methods. The lines must not change until the next
	// LookupLines.
	LookupLines([]metric.Line)
	// KnownKind returns the kind of the series of the i-th line, or false if the line was never
	// seen.
	KnownKind(i int) (metric.Kind, bool)
	// ApplyKnownSample applies a sample, without name and labels, to the series of the i-th line,
	// which is known. It returns false if Apply has to be called, with name and labels.
	ApplyKnownSample(i int, s *metric.Sample) bool
}

func newAppliers(fresh func() Applier, n int) *appliers {
	return &appliers{fresh: fresh, slots: make([]atomic.Pointer[PooledApplier], n)}
}

// take returns an Applier that is online. near spreads the goroutines over the slots.
func (a *appliers) take(near uint64) *PooledApplier {
	n := uint64(len(a.slots))
	for i := range n {
		slot := &a.slots[(near+i)%n]
		if slot.Load() == nil {
			continue
		}
		if p := slot.Swap(nil); p != nil {
			p.Online()
			return p
		}
	}
	return &PooledApplier{a.fresh()}
}

// give returns an Applier after a batch: it is quiescent, then offline.
func (a *appliers) give(near uint64, p *PooledApplier) {
	p.Quiesce()
	p.Offline()
	n := uint64(len(a.slots))
	for i := range n {
		slot := &a.slots[(near+i)%n]
		if !a.ended.Load() && slot.Load() == nil && slot.CompareAndSwap(nil, p) {
			return
		}
	}
	p.Close()
}

// close closes the offline Appliers now, and the others when they are given back.
func (a *appliers) close() {
	a.ended.Store(true)
	for i := range a.slots {
		if p := a.slots[i].Swap(nil); p != nil {
			p.Close()
		}
	}
}
