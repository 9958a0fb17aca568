package metric

import (
	"iter"
	"math"
)

// Stat is a function over a window of a series, or over the whole life of a series.
type Stat uint8

// The stats. NoStat selects the kind's default (Kind.DefaultStat). A new stat needs a row in statTable and a
// place in kindTable. The tests over all kinds and their stats then name what lacks it: a function of a kind (go
// test ./aggregate), the row in the documentation (go test .).
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

	numStats
)

// statTable holds the properties of each stat: see the methods of the same names.
var statTable = [numStats]struct {
	name     string
	windowed bool
	additive bool
	quantile float64 // 0: not a percentile
}{
	Rate:   {name: "rate", windowed: true, additive: true},
	Count:  {name: "count", windowed: true, additive: true},
	Total:  {name: "total", additive: true},
	Last:   {name: "last", additive: true},
	Mean:   {name: "mean", windowed: true},
	Min:    {name: "min", windowed: true},
	Max:    {name: "max", windowed: true},
	Sum:    {name: "sum", windowed: true, additive: true},
	P50:    {name: "p50", windowed: true, quantile: 0.50},
	P75:    {name: "p75", windowed: true, quantile: 0.75},
	P90:    {name: "p90", windowed: true, quantile: 0.90},
	P95:    {name: "p95", windowed: true, quantile: 0.95},
	P99:    {name: "p99", windowed: true, quantile: 0.99},
	P999:   {name: "p999", windowed: true, quantile: 0.999},
	Unique: {name: "unique", windowed: true},
}

// Stats lists all stats but NoStat.
func Stats() []Stat {
	all := make([]Stat, 0, numStats-1)
	for s := Rate; s < numStats; s++ {
		all = append(all, s)
	}
	return all
}

func (s Stat) String() string {
	if s < numStats {
		return statTable[s].name
	}
	return "invalid"
}

// ParseStat parses the output of Stat.String. The empty string is not a stat.
func ParseStat(s string) (Stat, bool) {
	for i := Rate; i < numStats; i++ {
		if statTable[i].name == s {
			return i, true
		}
	}
	return NoStat, false
}

// Windowed reports whether the stat is evaluated over a window rather than over the whole life of
// the series.
func (s Stat) Windowed() bool { return s >= numStats || s == NoStat || statTable[s].windowed }

// Additive reports whether values of this stat may be added up over label sets. The Horizontal Pod
// Autoscaler adds up every list of external metrics.
func (s Stat) Additive() bool { return s < numStats && statTable[s].additive }

// Quantile is the quantile in (0,1) of a percentile stat, and NaN for any other stat.
func (s Stat) Quantile() float64 {
	if s < numStats && statTable[s].quantile != 0 {
		return statTable[s].quantile
	}
	return math.NaN()
}

// RollUp makes a query answer one point for all selected objects: their series are read as if they
// were label sets of one object. Of objects that have the metric in different kinds, only one kind
// is read. For last and total, the point's time is that of the object whose newest sample is
// oldest.
type RollUp struct {
	// Object is the object of the point.
	Object Object
	// Each, if not nil, is called with each object that has a matching series, in the order of
	// names.
	Each func(Object)
}

// PodCount is the number of pods behind a roll-up.
type PodCount struct {
	With int32 // pods that have a value, or read 0
	Of   int32 // all live pods
}

// PodSet is a set of live pods.
type PodSet struct {
	All iter.Seq[Object]
	// Ready yields the ready ones that have a controller, with their workloads.
	Ready iter.Seq2[Object, Workload]
	Len   int
}

// PodOwner is an object with its pods.
type PodOwner struct {
	Object Object
	Pods   PodSet
}
