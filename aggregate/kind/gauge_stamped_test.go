package kind

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// stampedValue is a value that tells its timestamp: of even ones in two words that have to be of
// one write, for no float64 says it.
func stampedValue(at uint32) metric.Number {
	if at%2 == 0 {
		return metric.Decimal(1<<60+int64(at), int64(at))
	}
	return metric.Int(int64(at))
}

// dateOf is the date of a timestamp: many share a second.
func dateOf(at uint32) int64 { return int64(at) * 10_000_019 }

// timestampOf is the timestamp that a value tells. False: it is of two.
func timestampOf(n metric.Number) (at int64, ok bool) {
	whole, nano, exact := n.Decimal()
	if whole >= 1<<60 {
		return whole - 1<<60, exact && whole-1<<60 == int64(nano)
	}
	return whole, exact && nano == 0
}

// S1, S2, S3: with many writers at once a reader sees a value together with its timestamp, never
// goes back in time, and at the end the newest value stands.
func TestStampedGaugeNeverGoesBack(t *testing.T) {
	g := new(stamped)
	g.begin(math.Float64bits(0), 0)
	var stop atomic.Bool
	var writers, readers sync.WaitGroup
	readers.Go(func() {
		last := int64(0)
		for !stop.Load() {
			n, _ := g.number()
			v, whole := timestampOf(n)
			if v < last || !whole {
				t.Errorf("%+v after %v", n, last)
				return
			}
			last = v
		}
	})
	const most = 20_000
	for w := range 4 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for at := range uint32(most) {
				// The value is its timestamp; some come late.
				late := at - min(at, uint32(r.IntN(50)))
				g.assign(stampedValue(late), dateOf(late), math.MaxInt64, 0)
			}
			g.assign(stampedValue(most), dateOf(most), math.MaxInt64, 0)
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	if n, _ := g.number(); n != stampedValue(most) {
		t.Errorf("%+v stands, want %d", n, most)
	}
	if claimed := bits.OnesCount32(g.claims.Load()); claimed != 1 {
		t.Errorf("%d slots are claimed, want the one that the head names", claimed)
	}
}

// Shifts from many writers all count.
func TestStampedShiftsAddUp(t *testing.T) {
	g := new(stamped)
	g.begin(GaugeUnset, 0)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for range 10_000 {
				g.shift(metric.Decimal(1<<45, 100_000_000), int64(w), math.MaxInt64)
			}
		})
	}
	writers.Wait()
	if n, _ := g.number(); n != metric.Int(40_000<<45+4000) {
		t.Errorf("%+v, want 40000 times 2^45 and a tenth", n)
	}
}

// The parts of a gauge merge to one value, in whatever order they come.
func TestMergeGauges(t *testing.T) {
	part := func(value int64, at, follows uint64, shifts int64, rank int) GaugePart {
		return GaugePart{Value: metric.Int(value), At: at, Follows: follows, Shifts: metric.Int(shifts), Rank: rank}
	}
	for name, c := range map[string]struct {
		parts []GaugePart
		want  int64
	}{
		"the newest assignment":                   {[]GaugePart{part(3, 10, 0, 0, 0), part(5, 20, 0, 0, 1)}, 5},
		"of equal assignments, the least rank":    {[]GaugePart{part(3, 10, 0, 0, 0), part(5, 10, 0, 0, 1), part(7, 10, 0, 0, 2)}, 3},
		"shifts that follow the assignment":       {[]GaugePart{part(3, 10, 0, 0, 0), part(0, 15, 10, 4, 1)}, 7},
		"shifts that follow an earlier one":       {[]GaugePart{part(3, 10, 0, 0, 0), part(0, 15, 5, 4, 1)}, 3},
		"shifts alone":                            {[]GaugePart{part(3, 0, 0, 3, 0), part(4, 0, 0, 4, 1)}, 7},
		"an assignment on a clock that is behind": {[]GaugePart{part(3, 10, 0, 0, 0), {Value: metric.Int(5), At: 4, Ahead: 7 * time.Millisecond, Rank: 1}}, 5},
	} {
		for range len(c.parts) {
			if got, _ := MergeGauges(c.parts); got != metric.Int(c.want) {
				t.Errorf("%s: %s, want %d", name, got.Append(nil), c.want)
			}
			c.parts = append(slices.Clone(c.parts[1:]), c.parts[0])
		}
	}
}
