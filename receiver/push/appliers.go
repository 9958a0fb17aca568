package push

import (
	"sync/atomic"

	"github.com/sluice-metrics/sluice/receiver"
)

// appliers is a bounded free list of parked Appliers: there are many more connections than requests that
// apply at one moment, and each Applier costs the table memory. Slots are taken and filled by one atomic
// exchange, so no request waits for another; who takes an Applier out of its slot owns it.
type appliers struct {
	fresh func() receiver.Applier
	slots []atomic.Pointer[parked]
	ended atomic.Bool
}

// parked boxes an Applier, so that a slot can hold a pointer.
type parked struct{ receiver.Applier }

func newAppliers(fresh func() receiver.Applier, n int) *appliers {
	return &appliers{fresh: fresh, slots: make([]atomic.Pointer[parked], n)}
}

// take hands out an Applier that is ready to Apply. near spreads the takers over the slots.
func (a *appliers) take(near uint64) *parked {
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
	return &parked{a.fresh()}
}

// give takes an Applier back, after a batch: it passes the boundary and parks.
func (a *appliers) give(near uint64, p *parked) {
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

// close gives up those that are parked, and those that come back later.
func (a *appliers) close() {
	a.ended.Store(true)
	for i := range a.slots {
		if p := a.slots[i].Swap(nil); p != nil {
			p.Close()
		}
	}
}
