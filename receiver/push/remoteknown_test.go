package push

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/identity"
)

// twin is a server over a real table, with or without the line cache.
type twin struct {
	gateway
	table *aggregate.Table
}

// withoutCache hides the cache of a writer.
type withoutCache struct {
	knowsNone
	receiver.Applier
}

func startTwin(t *testing.T, newApplier func(*aggregate.Table) Applier) twin {
	var table *aggregate.Table
	h := start(t, inMemory, func(_ *Config, p *Parts) {
		config := aggregate.DefaultConfig()
		config.Windows = []time.Duration{10 * time.Second, time.Hour}
		table = aggregate.New(config, identity.New(identity.DefaultConfig(), cluster{}, nil).Describe, p.Logger)
		p.NewApplier, p.Reader = func() Applier { return newApplier(table) }, readerOf(table)
	})
	h.table = nil
	return twin{gateway{h}, table}
}

// holds lists the values of all series of some names.
func (w twin) holds(names []string) (all []string) {
	for _, name := range names {
		for _, stat := range []metric.Stat{metric.Total, metric.Last, metric.Count} {
			asked := metric.Expression{Name: name, Stat: stat}
			points, err := readerOf(w.table).External(metric.Query{Namespace: "default", Expression: asked})
			for _, p := range points {
				all = append(all, fmt.Sprint(name, stat, p.Labels, p.Value))
			}
			pods, failed := readerOf(w.table).Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "*", Expression: asked})
			for _, p := range pods {
				all = append(all, fmt.Sprint(name, stat, p.Object, p.Value))
			}
			all = append(all, fmt.Sprint(name, stat, err == nil, failed == nil))
		}
	}
	slices.Sort(all)
	return all
}

// randomWrite is a request of 1.0 with a few of a few series: sorted and unsorted, known and new,
// counters and gauges, resets and late samples, stale markers, and what has to be rejected.
func randomWrite(r *rand.Rand, names []string) string {
	var request []byte
	for range 1 + r.IntN(80) {
		pairs := []string{"__name__", names[r.IntN(len(names))], "a", fmt.Sprint(r.IntN(3))}
		switch r.IntN(12) {
		case 0:
			pairs = append(pairs, "namespace", "shop", "pod", fmt.Sprint("web-", r.IntN(2)))
		case 1:
			pairs = append(pairs[2:], pairs[:2]...)
		case 2:
			pairs = append(pairs, "a", "twice")
		case 3:
			pairs = append(pairs, "__type__", "counter")
		}
		var one []byte
		for pair := range slices.Chunk(pairs, 2) {
			one = bytesField(one, 1, bytesField(bytesField(nil, 1, []byte(pair[0])), 2, []byte(pair[1])))
		}
		for range 1 + r.IntN(8)/7 {
			v, at := float64(r.IntN(40))/4, time.Now()
			switch r.IntN(20) {
			case 0:
				v = math.Float64frombits(0x7ff0000000000002)
			case 1:
				at = at.Add(-2 * time.Minute)
			case 2:
				at = at.Add(-7 * time.Minute)
			case 3:
				v = 1e30 // too large for a counter
			}
			one = bytesField(one, 2, remoteSample(v, at))
		}
		request = bytesField(request, 1, one)
	}
	if r.IntN(6) == 0 { // the type of a name becomes known
		of := numberField(nil, 1, 1+r.Uint64N(2))
		request = bytesField(request, 3, bytesField(of, 2, []byte(names[r.IntN(len(names))])))
	}
	return string(s2.EncodeSnappy(nil, request))
}

// The same requests have the same answers and lead to the same values, with the line cache and
// without. Counts depend on the ticks in which the samples arrived, so time passes between two
// requests only.
func TestRemoteWriteOfKnownSeries(t *testing.T) {
	inVirtualTime(t, remoteWriteOfKnownSeries)
}

func remoteWriteOfKnownSeries(t *testing.T) {
	with := startTwin(t, func(table *aggregate.Table) Applier { return table.NewWriter() })
	without := startTwin(t, func(table *aggregate.Table) Applier { return withoutCache{Applier: table.NewWriter()} })
	names := []string{"a_total", "b_total", "c", "d", "e", "f"}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 300 {
		time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
		body := randomWrite(r, names)
		got, said := with.ask("POST", "/api/v1/write", body)
		want, wanted := without.ask("POST", "/api/v1/write", body)
		const written = "X-Prometheus-Remote-Write-Samples-Written"
		if got.StatusCode != want.StatusCode || said != wanted || got.Header.Get(written) != want.Header.Get(written) {
			t.Fatalf("request %d: %s, %s written: %s\nwithout the cache %s, %s written: %s",
				i, got.Status, got.Header.Get(written), said, want.Status, want.Header.Get(written), wanted)
		}
		if a, b := with.holds(names), without.holds(names); !slices.Equal(a, b) {
			t.Fatalf("request %d leads to\n%q\nwithout the cache to\n%q", i, a, b)
		}
	}
	if with.server.Account().Applied() != without.server.Account().Applied() || with.table.Series() < 10 {
		t.Error(with.server.Account().Applied(), without.server.Account().Applied(), with.table.Series())
	}
	for _, w := range []twin{with, without} {
		if in, held := w.table.Balance(); in != held {
			t.Errorf("applied %v, held %v", in, held)
		}
	}
}
