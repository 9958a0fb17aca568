package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Measures a new series, from its bytes to its place in the table, as wired, without sockets and
// store: CPU time, the least of all rounds.
func BenchmarkBirth(b *testing.B) {
	const series = 750_000
	var packets [][]byte
	var packet []byte
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(series) {
		packet = fmt.Appendf(packet, "http.requests.m%d:1|c|#namespace:ns%d,pod:web-%d,code:%d", i%20, i/20%5, i/100%1500, 200+i/150000)
		if bytes.Count(packet, []byte{'\n'}) == guardPacket-1 {
			packets = append(packets, packet)
			packet = nil
			continue
		}
		packet = append(packet, '\n')
	}
	tuneCollector()
	least, said := time.Hour, time.Hour
	for b.Loop() {
		path, table := newPath(b)
		begun := cpuTime()
		path.apply(nil, packets)
		least = min(least, cpuTime()-begun)
		begun = cpuTime()
		var dst []byte
		for block := range table.Blocks() {
			dst = table.AppendDelta(dst[:0], block)
		}
		said = min(said, cpuTime()-begun)
		if table.Series() != series {
			b.Fatal(table.Series())
		}
		path.writer.Close()
	}
	b.ReportMetric(float64(least.Nanoseconds())/series, "ns/series")
	b.ReportMetric(float64(said.Nanoseconds())/series, "ns/told")
}

// cpuTime is what the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPage writes a page of 200,000 counters: as 20 names of 10,000 pods each, and as a name
// for each. The figures are per page.
func BenchmarkPage(b *testing.B) {
	const all = 200_000
	for _, c := range []struct {
		name  string
		names int
		form  exposition.Format
	}{{"20names/text", 20, exposition.Text}, {"20names/protobuf", 20, exposition.Protobuf}, {"eachnamed/text", all, exposition.Text}} {
		b.Run(c.name, func(b *testing.B) {
			table := aggregate.New(aggregate.DefaultConfig(), func(s *metric.Sample, d *metric.Description) metric.Reason {
				d.Object = *s.Object
				return metric.Applied
			}, slog.New(slog.DiscardHandler))
			w := table.NewWriter()
			for i := range all {
				o := &metric.Object{Resource: "pods", Namespace: "shop", Name: fmt.Sprint("web-", i/c.names)}
				if r := w.Apply(&metric.Sample{Name: fmt.Append(nil, "http.requests.m", i%c.names), Kind: metric.Counter, Op: metric.Add, Whole: 1, Object: o}); r != metric.Applied {
					b.Fatal(r)
				}
				if i%1024 == 0 {
					w.Quiesce()
				}
			}
			w.Close()
			source := exportSource{merged: aggregate.NewMerged(table), freshen: func() {}}
			b.ReportAllocs()
			for b.Loop() {
				written, err := export.NewPage(source, export.Options{Format: c.form}).Write(io.Discard)
				if err != nil || written.Series != all || written.LeftOut != 0 {
					b.Fatal(written, err)
				}
			}
		})
	}
}
