package remotewrite

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// flood sends requests of as many senders of one share until the state keeps nothing more, and returns the bytes that
// it says it keeps.
func (p *pieces) flood(share string, request func(n int) []byte) int {
	p.Helper()
	f := NewConverter(DefaultOptions())
	for n, before := 0, -1; p.memory.held.Held() > before; n++ {
		before = p.memory.held.Held()
		f.Remember(p.memory, fmt.Sprint(share, n/4), share)
		if fault := f.Reset(request(n), V1, p.now); fault.Reason != metric.Applied {
			p.Fatal(fault.Error())
		}
		for f.Next() { //nolint:revive // faults are what the flood gets in the end
		}
	}
	return p.memory.held.Held()
}

// typesOf is a request with types of new metrics.
func typesOf(n int) []byte {
	types := map[string]Type{}
	for i := range 4000 {
		types[fmt.Sprint("flood_", n, "_", i, strings.Repeat("x", 300))] = CounterType
	}
	return request1(types)
}

// partsOf is a request with parts of new histograms, a few of each.
func partsOf(parts int) func(n int) []byte {
	return func(n int) []byte {
		var all []one
		for i := range 5000 {
			for le := range parts {
				all = append(all, one{labels: []string{"flood_bucket", "le", fmt.Sprint(le), "n", fmt.Sprint(n, "_", i)},
					samples: []Sample{{Value: 1, Timestamp: nowMillis}}})
			}
		}
		return request1(nil, all...)
	}
}

func TestFloodsKeepNoSenderOut(t *testing.T) {
	for name, request := range map[string]func(int) []byte{"types": typesOf, "parts": partsOf(10)} {
		t.Run(name, func(t *testing.T) {
			p := newPieces(t)
			first := p.flood("a", request)
			if left := maxHeld - first; left < maxHeld/5 {
				t.Fatalf("one share leaves %d of %d bytes", left, maxHeld)
			}
			if left := maxHeld - p.flood("b", request); left < maxHeld/20 {
				t.Fatalf("two shares leave %d of %d bytes", left, maxHeld)
			}
			p.feed("prometheus", V1, request1(map[string]Type{"requests": CounterType}))
			p.wants(p.at([]string{"requests"}, 2), "requests counter 2")
			low, high := []string{"x_bucket", "le", "1"}, []string{"x_bucket", "le", "+Inf"}
			p.wants(p.at(low, 1))
			p.wants(p.at(high, 3, []string{"x_sum"}, 7))
			p.now = p.now.Add(15 * time.Second)
			p.wants(p.at(high, 5, []string{"x_sum"}, 9), "x [1] [1 2] n=3 sum=7")
			p.now = p.now.Add(11 * time.Minute)
			p.feed("prometheus", V1, request1(map[string]Type{"requests": CounterType})) // sweeps
			if known := typesBytes + typeBytes + len("requests"); p.memory.held.Held() != known || p.memory.held.Len() != 1 {
				t.Errorf("%d bytes of %d shares are counted when all is forgotten but one type; must be %d",
					p.memory.held.Held(), p.memory.held.Len(), known)
			}
		})
	}
}

// The memory that is counted is not less than the memory that is taken.
func TestMemoryOfSendersIsCounted(t *testing.T) {
	for name, request := range map[string]func(int) []byte{"types": typesOf, "parts": partsOf(10), "single parts": partsOf(1)} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			p := newPieces(t)
			counted := p.flood("a", request)
			if taken := heap() - before; float64(taken) > 1.1*float64(counted) {
				t.Errorf("%d bytes are counted, and %d taken", counted, taken)
			}
			runtime.KeepAlive(p.memory)
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Of a name that no series may have, no type is kept.
func TestTypesOfLongNames(t *testing.T) {
	p := newPieces(t)
	p.feed("prometheus", V1, request1(map[string]Type{strings.Repeat("x", metric.MaxNameLength+1): CounterType}))
	if p.memory.held.Held() != typesBytes {
		t.Errorf("%d bytes are kept of a name that is too long", p.memory.held.Held()-typesBytes)
	}
}

// A histogram without end ends at a number of parts.
func TestPartsOfOneHistogramAreBounded(t *testing.T) {
	p := newPieces(t)
	for n := range 4 {
		var all []one
		for i := range maxParts / 2 {
			all = append(all, one{labels: []string{"x_bucket", "le", fmt.Sprint(4*i + n)},
				samples: []Sample{{Value: 1, Timestamp: p.now.UnixMilli()}}})
		}
		lines := p.feed("prometheus", V1, request1(nil, all...))
		if rejected := len(lines) > 0; rejected != (n >= 2) {
			t.Errorf("request %d: %q", n, lines)
		}
	}
	for _, w := range p.memory.assemblies {
		if len(w.keys) != maxParts {
			t.Errorf("%d parts of a histogram, want %d", len(w.keys), maxParts)
		}
	}
}

// A request with a part of a large histogram looks at a few of its parts: all senders wait for that.
func TestPartsAreMergedWithoutASort(t *testing.T) {
	compared := 0
	compare := func(a, b int) int { compared++; return cmp.Compare(a, b) }
	for _, others := range [][]int{{}, {-1}, {2*maxParts + 1}, {maxParts + 1}, {-1, 1, 3, maxParts - 1, 2*maxParts + 1}} {
		var all []int
		for i := range maxParts {
			all = append(all, 2*i)
		}
		all, compared = append(all, others...), 0
		mergeSorted(all, maxParts, compare)
		if !slices.IsSorted(all) || len(all) != maxParts+len(others) {
			t.Errorf("%d are not merged", others)
		}
		if most := 16 * len(others); compared > most {
			t.Errorf("%d comparisons for %d, want %d at most", compared, others, most)
		}
	}
}

// A known part of the largest histogram, in the largest of its moments.
func BenchmarkPartOfALargeHistogram(b *testing.B) {
	m, parts := NewSenderState(), make([]part, maxParts-1)
	for i := range parts {
		parts[i] = part{at: nowMillis, role: bucketRole, bound: float64(i), of: HistogramType}
	}
	m.join(1, 1, HistogramType, parts, nowMillis)
	for b.Loop() {
		if m.join(1, 1, HistogramType, parts[:1], nowMillis).reject {
			b.Fatal("rejected")
		}
	}
}
