package receiver

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

func TestComplaintsAreRateLimitedByReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logtest.Buffer{}
		c := newRejectionLog(slog.New(slog.NewTextHandler(log, nil)), "statsd_udp")
		for range 5 {
			c.rejected(statsd.Fault{Reason: metric.Malformed}, 4, []byte("foo:|g"), nil)
			c.rejected(statsd.Fault{Reason: metric.BadRate}, 7, []byte("a:1|c|@0"), nil)
			c.rejected(statsd.Fault{Reason: metric.Ignored}, 0, []byte("x:1|c"), nil)
		}
		time.Sleep(time.Second)
		c.rejected(statsd.Fault{Reason: metric.Malformed}, 4, []byte(strings.Repeat("\xff", 121)), nil)
		got := strings.Split(strings.TrimSpace(log.String()), "\n")
		want := []string{
			`level=WARN msg="line rejected" receiver=statsd_udp reason=malformed why="the line is cut off, or is not name:value|type" offset=4 line=foo:|g suppressed=0`,
			`level=WARN msg="line rejected" receiver=statsd_udp reason=rate why="rate is out of range; must be above 0 and at most 1" offset=7 line=a:1|c|@0 suppressed=0`,
			`level=WARN msg="line rejected" receiver=statsd_udp reason=malformed why="the line is cut off, or is not name:value|type" offset=4 line="` +
				strings.Repeat("�", 120) + `..." suppressed=4`,
		}
		if len(got) != len(want) {
			t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), log)
		}
		for i, line := range got {
			if !strings.HasSuffix(line, want[i]) {
				t.Errorf("line %d: %s\nwant %s", i, line, want[i])
			}
		}
	})
}

// A client's text is quoted once, and no byte of it reaches a terminal as a control character, in
// either format.
func TestComplaintsEscapeOnce(t *testing.T) {
	const line = "a\x1b[31m\x00\x7f\u009b\u0085\"q\" é:x\x7f|c"
	wants := map[string]string{
		"text": `reason=malformed why="\"x\\x7f\" is no number" offset=19 line="a\x1b[31m\x00���\"q\" é:x�|c" suppressed=0`,
		"json": `"reason":"malformed","why":"\"x\\x7f\" is no number","offset":19,"line":"a\u001b[31m\u0000���\"q\" é:x�|c","suppressed":0}`,
	}
	for name, make := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var log bytes.Buffer
		in := &ingester{
			scanner:    statsd.NewScanner(statsd.DefaultOptions()),
			applier:    &nothing{},
			account:    ledger.New().Open("statsd_udp"),
			rejections: newRejectionLog(slog.New(make(&log)), "statsd_udp"),
		}
		in.applyLines([]byte("\n" + line))
		got := strings.TrimSuffix(log.String(), "\n")
		for _, r := range got {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%s has %U: %q", name, r, got)
			}
		}
		if want := wants[name]; !strings.HasSuffix(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// A flood of bad lines is recorded in samples: what a line costs with a record and without.
func BenchmarkRejectedLines(b *testing.B) {
	for name, kept := range map[string]*record.Rejections{"not recorded": nil, "recorded": record.NewRejections(record.NewSenders())} {
		b.Run(name, func(b *testing.B) {
			in := &ingester{
				scanner:    statsd.NewScanner(statsd.DefaultOptions()),
				applier:    &nothing{},
				account:    ledger.New().Open("statsd_udp"),
				rejections: newRejectionLog(slog.New(slog.DiscardHandler), "statsd_udp"),
			}
			in.rejections.record = kept
			packet := []byte(strings.Repeat("http.requests.m7:x|c|#namespace:ns3,pod:web-12,code:201\n", 24))
			for b.Loop() {
				in.applyLines(packet)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(24*b.N), "ns/line")
		})
	}
}

func TestRejectedLinesAreRecorded(t *testing.T) {
	kept := record.NewRejections(nil)
	in := &ingester{
		scanner:    statsd.NewScanner(statsd.DefaultOptions()),
		applier:    &nothing{},
		account:    ledger.New().Open("statsd_udp"),
		rejections: newRejectionLog(slog.New(slog.DiscardHandler), "statsd_udp"),
		sender:     &metric.Sender{Key: 1, Pod: &metric.Pod{Namespace: "shop", Name: "web-1"}},
	}
	in.rejections.record = kept
	for range 3 {
		in.applyLines([]byte("depth:x|g\nno_value"))
	}
	all := kept.All()
	if len(all) != 2 || all[0].Metric != "no_value" || all[1].Metric != "depth" || all[1].Count != 3 || all[1].Sender != "web-1" ||
		all[1].Receiver != "statsd_udp" || all[1].Message == "" || all[1].Example != "depth:x|g" {
		t.Errorf("%+v", all)
	}
}

// The reason alone helps nobody: the record says which limit it was.
func TestRejectedLinesAreExplained(t *testing.T) {
	kept := record.NewRejections(nil)
	r := newRecorder()
	r.refuse = map[string]metric.Reason{"jobs": metric.OverLimit, "kinds": metric.KindConflict}
	in := &ingester{
		applier:    r.newApplier(),
		scanner:    statsd.NewScanner(statsd.DefaultOptions()),
		account:    ledger.New().Open("statsd_udp"),
		rejections: newRejectionLog(slog.New(slog.DiscardHandler), "statsd_udp"),
	}
	in.rejections.record = kept
	in.rejections.explain = func(reason metric.Reason, s *metric.Sample) string {
		if reason != metric.OverLimit {
			return ""
		}
		return "the limit of pod web-1, asked for " + string(s.Name)
	}
	in.applyLines([]byte("jobs:1|c\nkinds:1|c\nbad"))
	var got []string
	for _, rejection := range kept.All() {
		got = append(got, rejection.Metric+": "+rejection.Message)
	}
	want := []string{`bad: no ":" after the name; must be name:value|type`,
		"kinds: the metric is already of another kind; delete it first, or use another name",
		"jobs: the limit of pod web-1, asked for jobs"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
