package main

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

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
