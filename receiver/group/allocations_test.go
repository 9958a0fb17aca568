//go:build !race

package group_test

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/group"
)

// TestKnownGroupAllocates holds a push of known series to a known group to what it leaves behind, a
// piece of memory a family and two for the group, and one for what it is handed over in. With -race
// the pool of mergers loses some.
func TestKnownGroupAllocates(t *testing.T) {
	const body = "# TYPE a_total counter\na_total{s=\"x\"} %d\n# TYPE b gauge\nb %d\n# TYPE c gauge\nc{s=\"x\"} 12.75\n"
	table := tableOfMany()
	gs := group.New(group.DefaultConfig(), aggregate.NewMerged(table))
	w := table.NewWriter()
	defer w.Close()
	reader, key, text, value := exposition.NewTextReader(exposition.DefaultOptions()), keyNumber(1), []byte(nil), 1000
	push := func() {
		value++
		text = fmt.Appendf(text[:0], body, value, value)
		families, fault := reader.Read(text)
		if fault.Reason != metric.Applied {
			t.Fatal(fault.Error())
		}
		o, r := gs.Push(&group.Push{Key: key, Families: families, Replace: true, Now: time.Unix(int64(value), 0), Applier: w})
		if r != nil || o.Applied != 3 {
			t.Fatal(o, r)
		}
		w.Quiesce()
	}
	push()
	const most = 3 + 2 + 1 + 2 // and the two numbers that the test prints
	if n := testing.AllocsPerRun(1000, push); n > most {
		t.Errorf("%v allocations a push: want %d at most", n, most)
	}
}

// tableOfMany is a table with room for many groups.
func tableOfMany() *aggregate.Table {
	c := aggregate.DefaultConfig()
	c.MaxSeries, c.MaxBytes = 2_000_000, 4<<30
	return aggregate.New(c, func(s *metric.Sample, d *metric.Description) metric.Reason {
		d.Object, d.Labels = *s.Object, metric.SortLabels(s.AppendLabels(d.Labels[:0]))
		return metric.Applied
	}, slog.New(slog.NewTextHandler(io.Discard, nil)))
}

func keyNumber(i int) group.Key {
	return group.Key{Labels: metric.NewLabels([]metric.Label{{Key: "job", Value: "backup"}, {Key: "host", Value: fmt.Sprint("host-", i)}})}
}
