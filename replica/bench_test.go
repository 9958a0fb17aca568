package replica

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
)

// cpu is the time that the process has had on processors.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bigTable has counters of pods with three labels.
func bigTable(b *testing.B, series int) (*aggregate.Table, func(i int)) {
	c := aggregate.DefaultConfig()
	c.MaxBytes = 4 << 30
	labels := []metric.Label{{Key: "code", Value: "200"}, {Key: "method", Value: "get"}, {Key: "path", Value: "/api/v1/orders"}}
	table := aggregate.New(c, func(s *metric.Sample, d *metric.Description) metric.Reason {
		d.Object = metric.Object{Resource: "pods", Namespace: "production", Name: "frontend-7d9c5b8f6d-" + string(s.Tags)}
		d.Labels = labels
		return metric.Applied
	}, slog.New(slog.DiscardHandler))
	w := table.NewWriter()
	push := func(i int) {
		s := metric.Sample{Name: fmt.Appendf(nil, "http.requests.m%d", i%7), Separator: ':', Kind: metric.Counter, Op: metric.Add, Whole: 1,
			Tags: fmt.Append(nil, i/7)}
		w.Online()
		if got := w.Apply(&s); got != metric.Applied {
			b.Fatal(got)
		}
		w.Offline()
	}
	for i := range series {
		push(i)
	}
	return table, push
}

func flushTable(r *Replica, table *aggregate.Table, buffer []byte) []byte {
	for block := range table.Blocks() {
		if buffer = table.AppendDelta(buffer[:0], block); len(buffer) > 0 {
			r.PublishDelta(block, buffer)
		}
	}
	r.PublishFlush(true)
	return buffer
}

func benchReplica(b *testing.B, e *exchange, name string, table *aggregate.Table) (*Replica, func() *aggregate.Shadow) {
	c := aggregate.DefaultConfig()
	c.MaxBytes = 4 << 30
	var shadow *aggregate.Shadow
	r, err := New(Config{Name: name, Cluster: "test"}, Parts{
		Bus: &endpoint{e, name}, Table: table, Epoch: NewEpoch(), Wall: time.Now, Logger: slog.New(slog.DiscardHandler), FlushSoon: func() {},
		NewShadow: func(string) Shadow {
			shadow = aggregate.NewShadow(c, slog.New(slog.DiscardHandler))
			return shadow
		},
		SetShadows: func([]Shadow, int) {},
	})
	must(b, err)
	return r, func() *aggregate.Shadow { return shadow }
}

// BenchmarkJoin measures a replica that starts beside one of many series.
func BenchmarkJoin(b *testing.B) {
	const series = 750_000
	table, _ := bigTable(b, series)
	for b.Loop() {
		e := newExchange()
		a, _ := benchReplica(b, e, "a", table)
		flushTable(a, table, nil)
		joiner, shadow := benchReplica(b, e, "b", aggregate.New(aggregate.DefaultConfig(), nil, slog.New(slog.DiscardHandler)))
		ctx, stop := context.WithCancel(b.Context())
		ended := make(chan error, 2)
		before, began := cpu(), time.Now()
		go func() { ended <- a.Run(ctx) }()
		go func() { ended <- joiner.Run(ctx) }()
		for ; time.Since(began) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
			if time.Since(began)/beatEvery > time.Duration(a.flushesSoFar()-1) {
				flushTable(a, table, nil)
			}
			if shadow() != nil && shadow().Series() == series {
				break
			}
		}
		b.ReportMetric(float64(cpu()-before)/series, "cpu-ns/series")
		b.ReportMetric(time.Since(began).Seconds(), "s/join")
		b.ReportMetric(float64(a.count.sent.Load())/series, "bytes/series")
		b.ReportMetric(float64(shadow().Series()), "series")
		stop()
		<-ended
		<-ended
	}
}

func (r *Replica) flushesSoFar() uint64 {
	n, _ := r.publisher.flushes()
	return n
}

// BenchmarkFlush measures publishing and applying a flush of 75,000 changed series, which are
// spread over all blocks.
func BenchmarkFlush(b *testing.B) {
	const series, changed = 750_000, 37_500
	for _, follow := range []bool{false, true} {
		b.Run(fmt.Sprint("follow=", follow), func(b *testing.B) {
			table, push := bigTable(b, series)
			e := newExchange()
			a, _ := benchReplica(b, e, "a", table)
			joiner, _ := benchReplica(b, e, "b", aggregate.New(aggregate.DefaultConfig(), nil, slog.New(slog.DiscardHandler)))
			var buffer []byte
			if follow {
				ctx, stop := context.WithCancel(b.Context())
				ended := make(chan error, 2)
				go func() { ended <- a.Run(ctx) }()
				go func() { ended <- joiner.Run(ctx) }()
				defer func() { stop(); <-ended; <-ended }()
				for range 200 {
					buffer = flushTable(a, table, buffer)
					time.Sleep(100 * time.Millisecond)
					if all := joiner.Origins(); len(all) > 0 && all[0].Complete {
						break
					}
				}
			}
			buffer = flushTable(a, table, buffer)
			var spent time.Duration
			sent, rounds := a.count.sent.Load(), 0
			for b.Loop() {
				for i := range changed {
					push((i*series/changed + rounds) % series)
				}
				before := cpu()
				buffer = flushTable(a, table, buffer)
				time.Sleep(100 * time.Millisecond) // the joiner applies it
				spent += cpu() - before
				rounds++
			}
			b.ReportMetric(float64(spent)/float64(rounds*changed), "cpu-ns/change")
			b.ReportMetric(float64(a.count.sent.Load()-sent)/float64(rounds*changed), "bytes/change")
		})
	}
}
