package receiver

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

func TestComplaintsAreRateLimitedByReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		c := newComplaints(slog.New(slog.NewTextHandler(log, nil)), "statsd_udp")
		for range 5 {
			c.refused(metric.Malformed, 4, []byte("foo:|g"))
			c.refused(metric.BadRate, 7, []byte("a:1|c|@0"))
			c.refused(metric.Ignored, 0, []byte("x:1|c"))
		}
		time.Sleep(complaintInterval)
		c.refused(metric.Malformed, 4, []byte(strings.Repeat("\xff", 121)))
		got := strings.Split(strings.TrimSpace(log.String()), "\n")
		want := []string{
			`level=WARN msg="line refused" receiver=statsd_udp reason=malformed offset=4 line="\"foo:|g\"" suppressed=0`,
			`level=WARN msg="line refused" receiver=statsd_udp reason=rate offset=7 line="\"a:1|c|@0\"" suppressed=0`,
			`level=WARN msg="line refused" receiver=statsd_udp reason=malformed offset=4 line="\"` +
				strings.Repeat(`\\xff`, 120) + `\"..." suppressed=4`,
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
