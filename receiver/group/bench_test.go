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

func benchTable() *aggregate.Table {
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

const benchBody = `# HELP backup_last_success_seconds When it went well.
# TYPE backup_last_success_seconds gauge
backup_last_success_seconds %d
# TYPE backup_bytes_total counter
backup_bytes_total{kind="full"} %d
backup_bytes_total{kind="delta"} 12
# TYPE backup_duration_seconds gauge
backup_duration_seconds 12.5
backup_errors 0
`

// A push costs the same, however many groups there are: read, merged, checked, and applied to a
// real table. The sub-benchmark "same" pushes to the groups in turn; "new" makes one and deletes
// one.
func BenchmarkPush(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint("groups=", n), func(b *testing.B) {
			table := benchTable()
			gs := group.New(group.DefaultConfig(), aggregate.NewMerged(table))
			w := table.NewWriter()
			defer w.Close()
			reader := exposition.NewTextReader(exposition.DefaultOptions())
			var body []byte
			keys := make([]group.Key, n)
			push := func(i, value int) {
				body = fmt.Appendf(body[:0], benchBody, value, value)
				families, fault := reader.Read(body)
				if fault.Reason != metric.Applied {
					b.Fatal(fault.Error())
				}
				o, r := gs.Push(&group.Push{Key: keys[i], Families: families, Now: time.Unix(int64(value), 0), Applier: w})
				if r != nil || o.Applied != 5 {
					b.Fatal(o, r)
				}
				w.Quiesce()
			}
			for i := range keys {
				keys[i] = keyNumber(i)
				push(i, 1)
			}
			gs.Changed(false)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				push(i*7919%n, i+2)
				if i%1000 == 0 {
					gs.Changed(false)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pushes/s")
			b.ReportMetric(float64(gs.Bytes())/float64(n), "B/group")
		})
	}
}
