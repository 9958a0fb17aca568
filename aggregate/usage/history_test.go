package usage

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestWindowsAreExact plays a kubelet's points (10 to 30 s apart, gaps, values over eleven decades) to
// histories, and compares each window with exact fractions over all points ever added. The mean of a history
// is within 2 parts in ten million, its maximum and percentile are values as 32 bits hold them; the
// percentile of a day is within one percent of values whose rank is within 0.2 percent.
func TestWindowsAreExact(t *testing.T) {
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 1))
		var h History
		var all []Point
		now := time.UnixMilli(1_790_000_000_000 + random.Int64N(int64(24*time.Hour/time.Millisecond)))
		for range 8_000 {
			from := now
			if random.IntN(200) == 0 {
				from = from.Add(time.Duration(random.Int64N(int64(20 * time.Minute)))).Truncate(time.Millisecond)
			}
			now = from.Add(time.Duration(10_000+random.IntN(20_000)) * time.Millisecond)
			p := Point{from, now, math.Exp(random.NormFloat64()*6 - 3)}
			if random.IntN(50) == 0 {
				p.Value = 0
			}
			if !h.Add(p) {
				t.Fatalf("seed %d: a point was not taken: %+v", seed, p)
			}
			all = append(all, p)
			if random.IntN(200) != 0 {
				continue
			}
			u, ok := h.Read()
			if !ok || !u.End.Equal(now) {
				t.Fatalf("seed %d: End = %v, want %v", seed, u.End, now)
			}
			for w := Minute; w <= Hour; w++ {
				check(t, seed, u.Windows[w], modelOf(all, now.Add(-w.Length())), 0)
			}
			start := now.Add(-24 * time.Hour)
			if over := start.Sub(start.Truncate(5 * time.Minute)); over > 0 {
				start = start.Add(5*time.Minute - over)
			}
			check(t, seed, u.Windows[Day], modelOf(all, start), 0.01)
			newest := modelOf(all[len(all)-1:], time.Time{})
			check(t, seed, u.Windows[TenSeconds], newest, 0)
		}
		if most := 500; len(h.points) > most || len(h.parts) > 289 {
			t.Errorf("seed %d: the history has %d points and %d parts; want at most %d and 289", seed, len(h.points), len(h.parts), most)
		}
	}
}

// model is a window by exact arithmetic.
type model struct {
	mean, max float64
	values    []weighted
	covered   time.Duration
}

func modelOf(all []Point, after time.Time) (m model) {
	sum, total := new(big.Rat), int64(0)
	for _, p := range slices.Backward(all) {
		from := p.From
		if from.Before(after) {
			from = after
		}
		weight := p.To.Sub(from).Milliseconds()
		if weight <= 0 {
			break
		}
		sum.Add(sum, new(big.Rat).Mul(new(big.Rat).SetFloat64(p.Value), new(big.Rat).SetInt64(weight)))
		total += weight
		m.max = max(m.max, p.Value)
		m.values = append(m.values, weighted{p.Value, weight})
	}
	m.mean, _ = sum.Quo(sum, new(big.Rat).SetInt64(total)).Float64()
	m.covered = time.Duration(total) * time.Millisecond
	slices.SortFunc(m.values, func(a, b weighted) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	return m
}

// rank returns the least value that held, with all smaller ones, for a share of the time, in thousandths.
func (m model) rank(thousandths int64) float64 {
	total, below := m.covered.Milliseconds(), int64(0)
	for _, v := range m.values {
		below += v.weight
		if below*1000 >= total*thousandths {
			return v.value
		}
	}
	return m.max
}

func check(t *testing.T, seed uint64, got Derived, want model, percentile float64) {
	t.Helper()
	const held = 1e-7 // of 32 bits
	if d := got.Covered - want.covered; d != 0 {
		t.Errorf("seed %d: covered %v, want %v", seed, got.Covered, want.covered)
	}
	if !within(got.Mean, want.mean, want.mean, 2*held) {
		t.Errorf("seed %d: mean %v, want %v", seed, got.Mean, want.mean)
	}
	if !within(got.Max, want.max, want.max, held) {
		t.Errorf("seed %d: maximum %v, want %v", seed, got.Max, want.max)
	}
	low, high := want.rank(950), want.rank(950)
	if percentile > 0 {
		low, high = want.rank(948), want.rank(952)
	}
	if !within(got.NinetyFive, low, high, percentile+held) {
		t.Errorf("seed %d: 95th percentile %v, want %v to %v", seed, got.NinetyFive, low, high)
	}
}

func within(got, low, high, share float64) bool { return got >= low*(1-share) && got <= high*(1+share) }

func TestPointsThatAreNotTaken(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1_790_000_000+int64(seconds), 0) }
	var h History
	if _, ok := h.Read(); ok {
		t.Error("a history without a point has usage")
	}
	if !h.Add(Point{at(0), at(10), 1}) {
		t.Fatal("the first point was not taken")
	}
	for name, p := range map[string]Point{
		"a second time":    {at(0), at(10), 1},
		"an overlap":       {at(9), at(20), 1},
		"no length":        {at(20), at(20), 1},
		"backwards":        {at(30), at(20), 1},
		"over five min":    {at(20), at(321), 1},
		"a negative one":   {at(20), at(30), -1},
		"NaN":              {at(20), at(30), math.NaN()},
		"infinity":         {at(20), at(30), math.Inf(1)},
		"more than 32 bit": {at(20), at(30), 1e39},
	} {
		if h.Add(p) {
			t.Errorf("%s was taken", name)
		}
	}
	if u, _ := h.Read(); u.Windows[Day].Mean != 1 || u.Windows[Day].Covered != 10*time.Second {
		t.Errorf("the day is %+v, want the first point", u.Windows[Day])
	}
}

// TestAClockThatJumps: a point a hundred years later is one.
func TestAClockThatJumps(t *testing.T) {
	var h History
	at := time.Unix(1_790_000_000, 0)
	h.Add(Point{at, at.Add(10 * time.Second), 4})
	at = at.AddDate(100, 0, 0)
	if !h.Add(Point{at, at.Add(10 * time.Second), 2}) {
		t.Fatal("the point was not taken")
	}
	if u, _ := h.Read(); u.Windows[Day].Max != 2 || u.Windows[Hour].Max != 2 {
		t.Errorf("after a hundred years a day has %+v", u.Windows[Day])
	}
}

func BenchmarkRead(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	var h History
	now := time.UnixMilli(1_790_000_000_000)
	for range 24 * 360 {
		h.Add(Point{now, now.Add(10 * time.Second), 0.2 + random.Float64()/10})
		now = now.Add(10 * time.Second)
	}
	b.ReportMetric(float64(16*cap(h.points)+24*cap(h.parts)+4*cap(h.bins)), "B")
	b.ReportAllocs()
	for b.Loop() {
		h.Read()
	}
}
