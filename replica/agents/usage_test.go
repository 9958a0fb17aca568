package agents

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agent"
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
	}, Seconds: &usage.Seconds{At: now, Values: []usage.Second{usage.Unknown, {CPU: 0.5, Memory: 1000}}}}
	node, got, err := DecodeUsage(EncodeUsage("a", &sent, now), now)
	if err != nil || node != "a" || !reflect.DeepEqual(got, sent) {
		t.Errorf("%s %+v %v, want a %+v", node, got, err, sent)
	}
	node, got, err = DecodeUsage(EncodeSeconds("a", 7, sent.Seconds), now)
	if want := (usage.Report{Number: 7, Seconds: sent.Seconds}); err != nil || node != "a" || !reflect.DeepEqual(got, want) {
		t.Errorf("seconds: %s %+v %v, want a %+v", node, got, err, want)
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
		must(b, err)
		latest.Set(node, r, now)
	}
	runtime.GC()
	runtime.ReadMemStats(after)
	b.ReportMetric(float64(bytes), "B/report")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(min(b.N, nodes)), "heap-B/node")
	runtime.KeepAlive(latest)
}

// reported is what servers were told of usage.
type reported struct {
	mu      sync.Mutex        // guards the fields below
	known   map[string]string // nodes of containers by ID
	asked   int
	reports []usage.Report
	seconds int // those of the newest report
}

func (r *reported) parts() Parts {
	parts := newTable().parts()
	parts.Usage = func(_ string, report usage.Report) []Renewal {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reports = append(r.reports, report)
		return nil
	}
	parts.Seconds = func(node string, number uint64, s *usage.Seconds) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if last := r.reports[len(r.reports)-1]; number == last.Number && len(s.Values) == len(last.Records) && node == "a" {
			r.seconds++
		}
	}
	parts.ContainerNamed = func(id string) (c metric.Container, node string, ok bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked++
		node, ok = r.known[id]
		return metric.Container{Namespace: "shop", Pod: "web-" + id, Name: "web"}, node, ok
	}
	return parts
}

// know has servers know the nodes of containers.
func (r *reported) know(all map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = all
}

// await waits for a report with containers of pods, whose newest point is a step long, and for some seconds.
func (r *reported) await(t *testing.T, pods string, seconds int) {
	t.Helper()
	got := ""
	for range 30_000 {
		time.Sleep(10 * time.Millisecond)
		r.mu.Lock()
		enough := r.seconds >= seconds
		got = ""
		if len(r.reports) > 0 {
			for _, one := range r.reports[len(r.reports)-1].Records {
				if d := one.CPU.Windows[usage.TenSeconds]; d.Covered == 10*time.Second && d.Mean == 0.5 && one.Newest.CPU == 5e8 {
					got += one.Container.Pod + " "
				}
			}
		}
		r.mu.Unlock()
		if got == pods && enough {
			return
		}
	}
	t.Fatalf("the containers of %q are reported, want %q, and %d seconds", got, pods, seconds)
}

// A source knows containers by their IDs. The server names those of the agent's node, once it knows them; then their
// windows come, and their seconds, which are those of the newest windows. A server without names gets neither seconds
// nor questions.
func TestContainersAreNamed(t *testing.T) {
	used, began := 0, time.Now().Truncate(10*time.Second)
	source := agent.UsageSource{Interval: 2 * time.Millisecond, Read: func(context.Context) (*metric.UsagePage, error) {
		used++
		at := began.Add(time.Duration(used) * time.Second)
		r := metric.UsageReading{CPU: time.Duration(used) * time.Second / 2, CPUAt: at, Memory: 1000, MemoryAt: at}
		return &metric.UsagePage{Step: 10 * time.Second, Readings: map[metric.Container]metric.UsageReading{{}: r},
			Unnamed: map[string]metric.UsageReading{"1": r, "2": r, "sandbox": r}}, nil
	}}
	told := &reported{}
	stop := tells(t, told.parts(), source)
	told.await(t, " ", 10)
	told.know(map[string]string{"1": "a", "2": "b"})
	told.await(t, " web-1 ", 20)
	told.know(map[string]string{"2": "a"})
	told.await(t, " web-1 web-2 ", 30)
	stop()

	told = &reported{}
	parts := told.parts()
	parts.ContainerNamed = nil
	defer tells(t, parts, source)()
	told.await(t, " ", 0)
	if told.mu.Lock(); told.seconds != 0 || told.asked != 0 {
		t.Errorf("a server without names was told %d seconds, and asked for %d names", told.seconds, told.asked)
	}
	told.mu.Unlock()
}

// tells runs an agent that tells a server what a source says.
func tells(t *testing.T, parts Parts, source agent.UsageSource) (stop func()) {
	t.Helper()
	return tellsTo(t, serve(t, "127.0.0.1:0", parts), source)
}

func tellsTo(t *testing.T, server *served, source agent.UsageSource) (stop func()) {
	t.Helper()
	cfg := agent.DefaultConfig()
	cfg.Server, cfg.Node, cfg.Insecure = server.Addr().String(), "a", true
	link, err := agent.NewLink(cfg, "test", agent.NewCollector(cfg), slog.New(slog.DiscardHandler))
	must(t, err)
	used := agent.NewUsage(source, slog.New(slog.DiscardHandler))
	link.Tell(used)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- used.Run(ctx) }()
	go func() { done <- link.Run(ctx) }()
	return func() {
		end()
		for range 2 {
			must(t, <-done)
		}
	}
}
