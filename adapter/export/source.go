package export

import (
	"context"

	"github.com/sluice-metrics/sluice/metric"
)

// Source is the table, and the disk that keeps it.
type Source interface {
	// Families returns the metrics that match. match must not call the source.
	Families(match func(*metric.Family) bool) []metric.Family
	// Reader returns a Reader for one goroutine.
	Reader() Reader
	// Persist returns once neither a kill nor a power cut takes back what was read before the call.
	Persist(ctx context.Context) error
	// Persisting returns why Persist would fail, as far as known.
	Persisting() error
}

// Reader reads series.
type Reader interface {
	// Series calls yield for each live series of a family that has a kind, until yield returns
	// false. The series is valid until yield returns, which may wait.
	Series(f *metric.Family, k metric.Kind, yield func(*metric.LiveSeries) bool)
}

// Cumulative reports whether exports show a kind as totals since the birth of a series. Readers take
// a total that falls for a reset and count all of it again, so an export sends none before Persist
// has returned, and leaves them out while the source isn't persisting (docs/adr/0072).
func Cumulative(k metric.Kind) bool { return totals.Has(k) }

const totals = metric.KindSet(1<<metric.Counter | 1<<metric.Timer)
