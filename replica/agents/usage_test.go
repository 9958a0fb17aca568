package agents

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
)

// A report is at another replica as it was, and as old.
func TestReportsArriveAsTheyWere(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	d := usage.Derived{Mean: 0.5, Max: 2, NinetyFive: 1.5, Covered: time.Minute}
	used := usage.Usage{End: now, Windows: [usage.Windows]usage.Derived{d, d, d, {Mean: 1, Max: 3, NinetyFive: 2, Covered: time.Hour}}}
	sent := usage.Report{Number: 7, At: now.Add(-9 * time.Second), Records: []usage.Record{
		{Newest: usage.Newest{State: usage.Waits}},
		{Container: metric.Container{Namespace: "shop", Pod: "web-0", Name: "web"}, Started: now.Add(-time.Hour), Since: now.Add(-time.Hour),
			CPU: used, Memory: used, Newest: usage.Newest{CPU: 5e8, Memory: 1 << 30, End: now, Window: 10 * time.Second}},
	}}
	node, got, err := DecodeUsage(EncodeUsage("a", &sent, now), now)
	if err != nil || node != "a" || !reflect.DeepEqual(got, sent) {
		t.Errorf("%s %+v %v, want a %+v", node, got, err, sent)
	}
	for _, message := range []string{"", "x", "\x0a\x01a", "\x0a\x01a\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x00"} {
		if _, _, err := DecodeUsage([]byte(message), now); err == nil {
			t.Errorf("%q is taken for a report", message)
		}
	}
}

// What the usage of 10,000 nodes with 15 containers each takes at a server: each tells it every ten seconds.
func BenchmarkUsageReports(b *testing.B) {
	const nodes, containers = 10_000, 15
	now := time.Unix(1_790_000_000, 0)
	d := usage.Derived{Mean: 0.5, Max: 2, NinetyFive: 1.5, Covered: time.Minute}
	used := usage.Usage{End: now, Windows: [usage.Windows]usage.Derived{d, d, d, d}}
	message := func(node string, number uint64) []byte {
		r := usage.Report{Number: number, At: now, Records: []usage.Record{{CPU: used, Memory: used}}}
		for i := range containers {
			r.Records = append(r.Records, usage.Record{Container: metric.Container{Namespace: "shop", Pod: fmt.Sprint(node, "-", i), Name: "web"},
				Started: now, Since: now, CPU: used, Memory: used, Newest: usage.Newest{CPU: 5e8, Memory: 1 << 30, End: now, Window: 10 * time.Second}})
		}
		return EncodeUsage(node, &r, now)
	}
	latest, before, after, bytes := usage.NewLatest(), new(runtime.MemStats), new(runtime.MemStats), 0
	runtime.GC()
	runtime.ReadMemStats(before)
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		text := message(fmt.Sprint("node-", n%nodes), uint64(n+1))
		bytes = len(text)
		b.StartTimer()
		node, r, err := DecodeUsage(text, now)
		if err != nil {
			b.Fatal(err)
		}
		latest.Set(node, r, now)
	}
	runtime.GC()
	runtime.ReadMemStats(after)
	b.ReportMetric(float64(bytes), "B/report")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(min(b.N, nodes)), "heap-B/node")
	runtime.KeepAlive(latest)
}
