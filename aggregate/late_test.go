package aggregate

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// wideHistogram is a histogram of a thousand buckets, as of some time ago.
func wideHistogram(ago time.Duration) *metric.Sample {
	bounds, counts := make([]float64, 1000), make([]float64, 1001)
	for i := range bounds {
		bounds[i], counts[i] = float64(i+1), 1
	}
	s := pushOf(metric.Merge, histogram(bounds, counts, 1))
	s.Name, s.Dated, s.Late = []byte("h"), time.Now().Add(-ago).UnixNano(), ago > 0
	return s
}

// A late sample has the units that it changed saved, not all those of a large body, and is restored.
func TestALateSampleIsSavedAlone(t *testing.T) {
	start(t, func(f *fixture) {
		disk := newSaved()
		delta := func() int {
			before := len(disk.deltas[0])
			disk.flush(f.Table, never)
			time.Sleep(time.Second)
			disk.flush(f.Table, never)
			return lengths(disk.deltas[0][before:])
		}
		for i := range 80 {
			f.apply(wideHistogram(0))
			for member := range 50 {
				f.push(fmt.Sprintf("s:m%d-%d|s|#pod:a,ns:ns", i, member))
			}
			disk.flush(f.Table, func(int) bool { return i == 79 })
			time.Sleep(time.Second)
		}
		delta()
		whole, ago := len(f.AppendState(nil, 0)), 40*time.Second
		f.apply(wideHistogram(ago))
		if got := delta(); got > whole/5 {
			t.Errorf("a late histogram has %d bytes saved of %d", got, whole)
		}
		f.push(fmt.Sprintf("s:late|s|#pod:a,ns:ns|T%d", time.Now().Add(-ago).Unix()))
		if got := delta(); got > whole/20 {
			t.Errorf("a late member has %d bytes saved of %d", got, whole)
		}
		again := disk.restore(f.t)
		for _, asked := range []string{"h:count:1m", "h:p50:1m", "h:sum:1m", "s:unique:1m", "s:unique:10s"} {
			if want, got := f.ask(asked), again.ask(asked); want != got {
				t.Errorf("%s is %s, restored %s", asked, want, got)
			}
		}
	})
}

func lengths(all [][]byte) (n int) {
	for _, one := range all {
		n += len(one)
	}
	return n
}
