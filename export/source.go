package export

import "github.com/sluice-metrics/sluice/metric"

// Source is the table.
type Source interface {
	// Families returns the metrics that match. match must not call the source.
	Families(match func(*metric.Family) bool) []metric.Family
	// Reader returns a Reader for one goroutine.
	Reader() Reader
}

// Reader reads series.
type Reader interface {
	// Series calls yield for each live series of a family that has a kind, until yield returns
	// false. The series is valid until yield returns, which may wait.
	Series(f *metric.Family, k metric.Kind, yield func(*metric.LiveSeries) bool)
}
