package agent

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/metric"
)

// Applier is one goroutine's way into a Collector, in the place of a table's writer.
type Applier struct {
	collector *Collector
	lines     int // of the last LookupLines
}

// NewApplier returns an Applier.
func (c *Collector) NewApplier() *Applier { return &Applier{collector: c} }

// Apply takes one sample, or returns the reason of its rejection: the server's, if that rejects the series.
func (a *Applier) Apply(s *metric.Sample) metric.Reason { return a.collector.apply(s) }

// An agent remembers no line: it parses each.

// LookupLines notes how many lines there are.
func (a *Applier) LookupLines(lines []metric.Line) { a.lines = len(lines) }

// ApplyKnown applies none.
func (a *Applier) ApplyKnown(int) int { return 0 }

// UnknownLines says that no line was seen before.
func (a *Applier) UnknownLines(from, limit int) int { return min(a.lines-from, limit) }

// KnownKind says that a line was not seen before.
func (a *Applier) KnownKind(int) (metric.Kind, bool) { return metric.NoKind, false }

// ApplyKnownSample applies none.
func (a *Applier) ApplyKnownSample(int, *metric.Sample) bool { return false }

// PrefetchNew does nothing.
func (a *Applier) PrefetchNew(int, []metric.Sample) {}

// Quiesce does nothing, as the methods after it: no memory of a Collector is used again.
func (a *Applier) Quiesce() {}

// Offline does nothing.
func (a *Applier) Offline() {}

// Online does nothing.
func (a *Applier) Online() {}

// Close does nothing.
func (a *Applier) Close() {}

// Senders are the senders of addresses, by their addresses alone, and not known: the server knows whose they are.
type Senders struct {
	all sync.Map
	n   atomic.Int64
}

// maxSenders bounds the remembered senders, of which a node has some hundred. Others cost an allocation each time.
const maxSenders = 1 << 14

// Sender returns the sender of an address.
func (s *Senders) Sender(address netip.Addr) *metric.Sender {
	if found, ok := s.all.Load(address); ok {
		return found.(*metric.Sender)
	}
	made := &metric.Sender{Key: metric.LocalKey | 1, Address: address.Unmap()}
	if s.n.Load() < maxSenders {
		if _, there := s.all.LoadOrStore(address, made); !there {
			s.n.Add(1)
		}
	}
	return made
}

// Prefetch does nothing.
func (s *Senders) Prefetch([]netip.Addr) {}
