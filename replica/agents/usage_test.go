package agents

import (
	"reflect"
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
