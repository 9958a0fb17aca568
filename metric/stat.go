package metric

import "math"

// Stat is what is asked of a series.
type Stat uint8

// The stats. NoStat stands for "the one that the bare name means", see Kind.DefaultStat.
const (
	NoStat Stat = iota
	Rate        // per second over the window
	Count       // increase, or number of observations, in the window
	Total       // all since the series was first seen
	Last        // the newest value
	Mean
	Min
	Max
	Sum
	P50
	P75
	P90
	P95
	P99
	P999
	Unique // distinct members in the window
)

var statNames = [...]string{
	"", "rate", "count", "total", "last", "mean", "min", "max", "sum",
	"p50", "p75", "p90", "p95", "p99", "p999", "unique",
}

func (s Stat) String() string {
	if int(s) < len(statNames) {
		return statNames[s]
	}
	return "invalid"
}

// ParseStat reads what Stat.String prints; the empty string is no stat.
func ParseStat(s string) (Stat, bool) {
	for i := 1; i < len(statNames); i++ {
		if statNames[i] == s {
			return Stat(i), true
		}
	}
	return NoStat, false
}

// DefaultStat is what a bare metric name means for series of this kind.
func (k Kind) DefaultStat() Stat {
	switch k {
	case Counter:
		return Rate
	case Gauge:
		return Last
	case Timer:
		return Mean
	case Set:
		return Unique
	}
	return NoStat
}

// Stats lists what can be asked of a kind, its default first.
func (k Kind) Stats() []Stat {
	switch k {
	case Counter:
		return []Stat{Rate, Count, Total}
	case Gauge:
		return []Stat{Last, Mean, Min, Max}
	case Timer:
		return []Stat{Mean, Min, Max, Sum, Count, Rate, P50, P75, P90, P95, P99, P999}
	case Set:
		return []Stat{Unique}
	}
	return nil
}

// Has reports whether s can be asked of a kind.
func (k Kind) Has(s Stat) bool {
	for _, one := range k.Stats() {
		if one == s {
			return true
		}
	}
	return false
}

// Windowed reports whether the stat speaks of a window rather than of the series' whole life.
func (s Stat) Windowed() bool { return s != Last && s != Total }

// Adds reports whether values of this stat may be added up over label sets: what the Horizontal Pod
// Autoscaler does with every list of external metrics, asked or not.
func (s Stat) Additive() bool {
	switch s {
	case Rate, Count, Total, Last, Sum:
		return true
	}
	return false
}

// Quantile is the quantile in (0,1) that a percentile stat asks for, or NaN for any other stat.
func (s Stat) Quantile() float64 {
	switch s {
	case P50:
		return 0.50
	case P75:
		return 0.75
	case P90:
		return 0.90
	case P95:
		return 0.95
	case P99:
		return 0.99
	case P999:
		return 0.999
	}
	return math.NaN()
}
