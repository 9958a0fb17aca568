package remotewrite

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// pieces passes requests to converters that share a state, as shards do, and reports the outcome
// of each.
type pieces struct {
	*testing.T
	memory *SenderState
	now    time.Time
}

func (p *pieces) feed(sender string, v Version, body []byte) (lines []string) {
	p.Helper()
	f := NewConverter(DefaultOptions())
	f.Remember(p.memory, sender, sender)
	if fault := f.Reset(body, v, p.now); fault.Reason != metric.Applied {
		p.Fatal(fault.Error())
	}
	for f.Next() {
		switch s := &f.Sample; {
		case f.Fault.Reason != metric.Applied:
			lines = append(lines, f.Fault.Reason.String())
		case s.Histogram != nil:
			lines = append(lines, fmt.Sprintf("%s %v %v n=%v sum=%v", s.Name, s.Histogram.Bounds, s.Histogram.Counts, s.Histogram.Count, s.Histogram.Sum))
		default:
			lines = append(lines, fmt.Sprintf("%s %v %v", s.Name, s.Kind, s.Float()))
		}
	}
	if f.Lost > 0 {
		lines = append(lines, fmt.Sprintf("lost %d", f.Lost))
	}
	return lines
}

// wants converts a request of 1.0 and compares the outcome with lines.
func (p *pieces) wants(series []one, lines ...string) {
	p.Helper()
	if got := p.feed("prometheus", V1, request1(nil, series...)); fmt.Sprint(got) != fmt.Sprint(lines) {
		p.Errorf("%q, want %q", got, lines)
	}
}

func newPieces(t *testing.T) *pieces {
	return &pieces{t, NewSenderState(), time.UnixMilli(int64(nowMillis))}
}

// at makes series of one sample, each with its labels, at the present moment.
func (p *pieces) at(all ...any) (series []one) {
	for i := 0; i < len(all); i += 2 {
		series = append(series, one{labels: all[i].([]string), samples: []Sample{{Value: float64(all[i+1].(int)), Timestamp: p.now.UnixMilli()}}})
	}
	return series
}

func TestHistogramInPieces(t *testing.T) {
	p := newPieces(t)
	low, high := []string{"x_bucket", "le", "1"}, []string{"x_bucket", "le", "+Inf"}
	sum, count := []string{"x_sum"}, []string{"x_count"}
	p.wants(p.at(low, 1))
	p.wants(p.at(high, 3, sum, 7, count, 3)) // the first moment: nobody knows yet what else there is
	p.now = p.now.Add(15 * time.Second)
	p.wants(p.at(high, 5, sum, 9, count, 5), "x [1] [1 2] n=3 sum=7")
	p.wants(p.at(low, 2), "x [1] [2 3] n=5 sum=9")
	p.now = p.now.Add(15 * time.Second)
	p.wants(p.at(low, 2))
	p.wants(p.at(low, 2)) // sent again
	p.wants(p.at(high, 6, sum, 9))
	p.wants(p.at(count, 6), "x [1] [2 4] n=6 sum=9")
	p.now = p.now.Add(15 * time.Second)
	p.wants(p.at(low, 2, high, 8, sum, 9, count, 8), "x [1] [2 6] n=8 sum=9") // for once in one request
	p.now = p.now.Add(15 * time.Second)
	p.wants([]one{{labels: low, samples: []Sample{{Value: stale, Timestamp: p.now.UnixMilli()}}}}, "x timer 0")
}

// A part that arrives after its moment was completed without it is awaited from the next moment on.
// A moment that is sent again is not completed again.
func TestPartOfACompletedMoment(t *testing.T) {
	p := newPieces(t)
	low, middle, high := []string{"x_bucket", "le", "1"}, []string{"x_bucket", "le", "2"}, []string{"x_bucket", "le", "+Inf"}
	p.wants(p.at(low, 1, high, 3))
	p.now = p.now.Add(15 * time.Second)
	p.wants(p.at(low, 1, high, 3), "x [1] [1 2] n=3 sum=NaN", "x [1] [1 2] n=3 sum=NaN")
	p.wants(p.at(low, 1, middle, 2, high, 3))
	p.now = p.now.Add(15 * time.Second)
	p.wants(p.at(low, 1, high, 4))
	p.wants(p.at(middle, 2), "x [1 2] [1 1 2] n=4 sum=NaN")
}

// Two senders' histograms of one name are two.
func TestPiecesOfSenders(t *testing.T) {
	p := newPieces(t)
	low, high := []string{"x_bucket", "le", "1"}, []string{"x_bucket", "le", "+Inf"}
	for range 2 {
		p.feed("a", V1, request1(nil, p.at(low, 1)...))
		p.feed("b", V1, request1(nil, p.at(high, 3, []string{"x_sum"}, 3)...))
		p.now = p.now.Add(15 * time.Second)
	}
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	if len(p.memory.assemblies) != 1 {
		t.Errorf("%d histograms are in pieces, want that of a", len(p.memory.assemblies))
	}
}

// Parts whose rest never arrives are rejected in the end, so that the sender learns of it.
func TestPiecesThatNeverBecomeWhole(t *testing.T) {
	p := newPieces(t)
	last := []string(nil)
	for range 40 {
		last = p.feed("prometheus", V1, request1(nil, p.at([]string{"x_bucket", "le", "1"}, 1)...))
		p.now = p.now.Add(15 * time.Second)
	}
	if fmt.Sprint(last) != "[malformed lost 1]" {
		t.Errorf("%q", last)
	}
	p.now = p.now.Add(time.Hour)
	p.feed("prometheus", V1, request1(nil, p.at([]string{"y"}, 1)...))
	p.feed("prometheus", V1, request1(nil, p.at([]string{"z_bucket", "le", "1"}, 1)...))
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	if len(p.memory.assemblies) != 1 || p.memory.held.Held() != p.memory.assemblies[one0(p.memory.assemblies)].size() {
		t.Errorf("%d histograms, %d bytes are kept", len(p.memory.assemblies), p.memory.held.Held())
	}
}

func one0(all map[uint64]*assembly) uint64 {
	for key := range all {
		return key
	}
	return 0
}

// Metadata of 1.0 arrive in requests of their own, and hold as long as they are repeated.
func TestTypesAreRemembered(t *testing.T) {
	p := newPieces(t)
	x := []string{"requests"}
	p.wants(p.at(x, 1), "requests gauge 1")
	if got := p.feed("prometheus", V1, request1(map[string]Type{"requests": CounterType})); got != nil {
		t.Error(got)
	}
	p.wants(p.at(x, 2), "requests counter 2")
	if got := p.feed("another", V1, request1(nil, p.at(x, 2)...)); fmt.Sprint(got) != "[requests gauge 2]" {
		t.Errorf("another sender: %q", got)
	}
	p.feed("prometheus", V1, request1(map[string]Type{"requests": GaugeType})) // of another target
	p.wants(p.at(x, 3), "requests gauge 3")
	p.feed("prometheus", V1, request1(map[string]Type{"requests": CounterType}))
	p.wants(p.at(x, 3), "requests gauge 3")
	p.now = p.now.Add(11 * time.Minute)
	p.feed("prometheus", V1, request1(map[string]Type{"requests": CounterType})) // they agree again
	p.wants(p.at(x, 4), "requests counter 4")
	p.now = p.now.Add(11 * time.Minute)
	p.wants(p.at(x, 5), "requests gauge 5")
}

// Shards send at the same time: whatever the order, the last moment's total is what is handed on
// last.
func TestPiecesOfShardsAtOnce(t *testing.T) {
	p := newPieces(t)
	const moments, shards = 50, 4
	var mu sync.Mutex
	best := 0.0
	var sending sync.WaitGroup
	for shard := range shards {
		sending.Go(func() {
			f := NewConverter(DefaultOptions())
			for n := range moments {
				series := one{labels: []string{"x_bucket", "le", fmt.Sprint(shard)}, samples: []Sample{{Value: float64(n + 1), Timestamp: nowMillis + int64(n)*1000}}}
				all := []one{series}
				if shard == 0 {
					series.labels = []string{"x_bucket", "le", "+Inf"}
					all = append(all, series, one{labels: []string{"x_sum"}, samples: series.samples})
				}
				f.Remember(p.memory, "prometheus", "prometheus")
				f.Reset(request1(nil, all...), V1, p.now.Add(time.Minute))
				for f.Next() {
					mu.Lock()
					if f.Fault.Reason != metric.Applied {
						t.Error(f.Fault.Error())
					} else {
						best = max(best, f.Sample.Histogram.Count)
					}
					mu.Unlock()
				}
			}
		})
	}
	sending.Wait()
	if best < moments-maxWaiting-1 {
		t.Errorf("the last total that was handed on is %v of %d", best, moments)
	}
}

// A sender repeats its types each minute, in bodies whose memory is reused. The types that are
// remembered do not borrow from it.
func TestTypesOutliveTheirRequests(t *testing.T) {
	p := newPieces(t)
	for range 2 {
		body := request1(map[string]Type{"requests": CounterType})
		p.feed("prometheus", V1, body)
		clear(body)
	}
	p.wants(p.at([]string{"requests"}, 1), "requests counter 1")
}
