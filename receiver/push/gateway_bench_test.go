package push

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// tableOnly lets a benchmark push and never delete.
type tableOnly struct{ *aggregate.Table }

func (tableOnly) Remove(metric.Object, string, []metric.Labels) {}
func (tableOnly) Hide(metric.Object, string, []metric.Labels)   {}

// A push over loopback, to 5,000 groups in turn, as the real table takes it. The client is in the
// same process.
func BenchmarkGroupPush(b *testing.B) {
	const groups = 5000
	table := tableOnly{aggregate.New(aggregate.DefaultConfig(), func(s *metric.Sample, d *metric.Description) metric.Reason {
		d.Object, d.Labels = *s.Object, metric.SortLabels(s.AppendLabels(d.Labels[:0]))
		return metric.Applied
	}, slog.New(slog.DiscardHandler))}
	cfg := DefaultConfig()
	cfg.Address = "127.0.0.1:0"
	s, err := New(cfg, Parts{
		NewApplier: func() receiver.Applier { return table.NewWriter() }, Reader: table, Resources: cluster{},
		Groups: group.New(group.DefaultConfig(), table), Ledger: ledger.New(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	requests := make([][]byte, groups)
	const body = "# TYPE done counter\ndone{kind=\"full\"} 12\ndone{kind=\"delta\"} 3\n# TYPE last gauge\nlast 1.7e9\ntook 12.5\nerrors 0\n"
	for i := range requests {
		requests[i] = fmt.Appendf(nil, "PUT /metrics/job/backup/host/host-%d HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", i, len(body), body)
	}
	var next atomic.Int64
	b.SetBytes(int64(len(requests[0])))
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		answers := bufio.NewReader(c)
		for pb.Next() {
			if _, err := c.Write(requests[next.Add(1)%groups]); err != nil {
				b.Error(err)
				return
			}
			res, err := http.ReadResponse(answers, nil)
			if err != nil || res.StatusCode != 200 {
				b.Error(err, res)
				return
			}
			_, _ = answers.Discard(int(res.ContentLength))
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pushes/s")
}
