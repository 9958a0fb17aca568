package aggregate

import (
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"log/slog"
	"testing"
	"time"
)

// BenchmarkRoll is what it costs, a series, to note the values of 750,000 counters that all
// changed, and to encode them for the store: as rolled before, and rolled with it.
func BenchmarkRoll(b *testing.B) {
	const series = 750_000
	table := New(DefaultConfig(), describeByPod, slog.New(slog.DiscardHandler))
	w := table.NewWriter()
	for _, s := range samplesOf(series, "c") {
		w.Apply(s)
	}
	w.Offline()
	change := func() {
		for i := range table.blocks.made.Load() {
			one := table.blocks.at[i].Load()
			for place := range uint32(kind.BlockSeries) {
				if c := &one.page.cells[place]; c.State.Load()&kind.Live != 0 {
					c.Value.Add(3)
					one.page.dirty.Mark(place)
				}
			}
		}
		table.Clock.Offset += time.Second
	}
	var delta []byte
	save := func() (bytes int) {
		for block := range table.Blocks() {
			delta = table.AppendDelta(delta[:0], block)
			bytes += len(delta)
		}
		return bytes
	}
	for range 8 {
		change()
		save()
	}
	each := func(b *testing.B, run func()) {
		for b.Loop() {
			b.StopTimer()
			change()
			b.StartTimer()
			run()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series), "ns/series")
	}
	b.Run("roll", func(b *testing.B) { each(b, table.Roll) })
	b.Run("save", func(b *testing.B) {
		bytes := 0
		each(b, func() {
			b.StopTimer()
			table.Roll()
			b.StartTimer()
			bytes = save()
		})
		b.ReportMetric(float64(bytes)/series, "B/series")
	})
	b.Run("both", func(b *testing.B) { each(b, func() { save() }) })
}
