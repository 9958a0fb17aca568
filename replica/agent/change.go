package agent

import (
	"slices"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

// change is some samples of a series that count as one: increments as their sum, a gauge as its last value. A client's
// running total, a histogram and the end of a series are changes of their own: they come once per push interval.
type change struct {
	op      metric.Op
	samples uint64
	number  metric.Number // of a counter or gauge
	rate    float64       // of values and members
	values  []float64     // of a timer
	members [][]byte      // of a set
	long    int64         // memory of the members, or of the histogram
	dated   int64         // the client's date; such a change has one sample

	started   int64 // of a running total
	late      bool  // it counts at its date
	histogram *agentwire.Histogram
}

const (
	// maxValues is the number of observations, or of members, of one change; maxMemberBytes is what more than one member take. A
	// server takes no message of several MiB.
	maxValues, maxMemberBytes = 1000, maxFrameBytes / 2
	// changeBytes is what a change takes beside its values and members, memberBytes a member beside its bytes, and
	// histogramBytes a histogram beside its buckets and quantiles, each of which takes quantileBytes. On the wire a quantile of 0
	// has two bytes.
	changeBytes, memberBytes, histogramBytes, quantileBytes = 160, 40, 160, 72
)

// newChange returns a sample as a change, without its value or member, or the reason why it is rejected.
func newChange(s *metric.Sample) (c change, rejected metric.Reason) {
	c.op, c.samples, c.dated = s.Op, 1, s.Dated
	switch s.Op {
	case metric.Add:
		whole, nanos, ok := s.Increment()
		if !ok {
			return c, metric.BadValue
		}
		c.number = metric.Decimal(whole, int64(nanos))
	case metric.Assign, metric.Shift:
		c.number = s.Number()
	case metric.Observe:
		if c.rate = s.Rate; s.Weight() > metric.MaxWeight { // a server would reject each sample, which makes a change of its own
			return c, metric.BadRate
		}
	case metric.Insert:
		c.rate = s.Rate
	case metric.Accumulate, metric.Merge:
		c.number, c.started, c.late = s.Number(), s.Started, s.Late
	case metric.MarkStale:
	default:
		return c, metric.Malformed
	}
	return c, metric.Applied
}

// own adds the value, member or histogram of the sample that the change was made of.
func (c *change) own(s *metric.Sample) {
	switch c.op {
	case metric.Observe:
		c.values = append(c.values, s.Float())
	case metric.Insert:
		c.members, c.long = append(c.members, clone(s.Member)), memberBytes+int64(len(s.Member))
	case metric.Accumulate, metric.Merge:
		c.histogram = agentwire.HistogramOf(s.Histogram)
		if h := s.Histogram; h != nil {
			c.long = histogramBytes + 8*int64(len(h.Bounds)+len(h.Counts)) + quantileBytes*int64(len(h.Quantiles))
		}
	}
}

func (c *change) bytes() int64 { return changeBytes + 8*int64(len(c.values)) + c.long }

// merge makes a change also count the next sample, if it can in the memory that is left. more is the memory that it took.
func (c *change) merge(s *metric.Sample, next change, left int64) (more int64, merged bool) {
	if c.dated != 0 || next.dated != 0 {
		return 0, false
	}
	switch {
	case next.op == metric.Add && c.op == metric.Add, next.op == metric.Shift && (c.op == metric.Shift || c.op == metric.Assign):
		sum, exact := plus(c.number, next.number)
		if !exact {
			return 0, false
		}
		c.number = sum
	case next.op == metric.Assign && (c.op == metric.Shift || c.op == metric.Assign):
		c.op, c.number = metric.Assign, next.number
	case next.op == metric.Observe && c.op == metric.Observe && c.rate == next.rate && len(c.values) < maxValues && left >= 8:
		c.values, more = append(c.values, s.Float()), 8
	case next.op == metric.Insert && c.op == metric.Insert && c.rate == next.rate:
		more = memberBytes + int64(len(s.Member))
		switch {
		case slices.ContainsFunc(c.members, func(m []byte) bool { return string(m) == string(s.Member) }):
			more = 0
		case len(c.members) >= maxValues || c.long+more > maxMemberBytes || more > left:
			return 0, false
		default:
			c.members, c.long = append(c.members, clone(s.Member)), c.long+more
		}
	default:
		return 0, false
	}
	c.samples++
	return more, true
}

// plus adds two decimals whose sum is exact, and an increment that a counter takes.
func plus(a, b metric.Number) (sum metric.Number, exact bool) {
	_, _, first := a.Decimal()
	_, _, second := b.Decimal()
	sum = a.Plus(b)
	whole, _, decimal := sum.Decimal()
	return sum, first && second && decimal && -metric.MaxIncrement < whole && whole < metric.MaxIncrement
}

// wire returns the change of a series of a number as the protocol has it.
func (c *change) wire(number uint32) *agentwire.Change {
	w := &agentwire.Change{Series: number, Samples: c.samples, Op: ops[c.op], Rate: c.rate, Values: c.values, Members: c.members,
		DatedNanos: c.dated, StartedNanos: c.started, Late: c.late, Histogram: c.histogram}
	if whole, nanos, ok := c.number.Decimal(); ok {
		w.Whole, w.Nanos = whole, nanos
	} else {
		w.Number = c.number.Float64()
	}
	return w
}

// numbered returns the definition of a series with its number on a stream.
func (s *series) numbered(number uint32) *agentwire.Series {
	d := s.definition
	return &agentwire.Series{Number: number, Address: d.Address, Kind: d.Kind, Name: d.Name, Tags: d.Tags, Separator: d.Separator,
		Container: d.Container, External: d.External, DefaultExternal: d.DefaultExternal,
		Object: d.Object, Labels: d.Labels, TtlNanos: d.TtlNanos}
}

var ops = map[metric.Op]agentwire.Op{metric.Add: agentwire.Op_ADD, metric.Assign: agentwire.Op_ASSIGN,
	metric.Shift: agentwire.Op_SHIFT, metric.Observe: agentwire.Op_OBSERVE, metric.Insert: agentwire.Op_INSERT,
	metric.Accumulate: agentwire.Op_ACCUMULATE, metric.Merge: agentwire.Op_MERGE, metric.MarkStale: agentwire.Op_MARK_STALE}
