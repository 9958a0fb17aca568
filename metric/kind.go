package metric

import "slices"

// Kind says how the samples of a series combine.
type Kind uint8

// The kinds. The zero Kind is invalid, so that a forgotten kind is noticed. A new kind needs a row
// in kindTable; the tests over Kinds find the tables of other packages that lack it.
const (
	NoKind  Kind = iota
	Counter      // increments add up
	Gauge        // the newest value counts
	Timer        // observations form a distribution (also "histogram" and "distribution")
	Set          // distinct members are counted

	numKinds
)

// kindTable holds each kind's name, other spellings of the name, and legal stats, the default
// first.
var kindTable = [numKinds]struct {
	name    string
	aliases []string
	stats   []Stat
}{
	NoKind:  {name: "none"},
	Counter: {name: "counter", stats: []Stat{Rate, Count, Total}},
	Gauge:   {name: "gauge", stats: []Stat{Last, Mean, Min, Max}},
	Timer: {
		name: "timer", aliases: []string{"histogram", "distribution"},
		stats: []Stat{Mean, Min, Max, Sum, Count, Rate, P50, P75, P90, P95, P99, P999},
	},
	Set: {name: "set", stats: []Stat{Unique}},
}

// Kinds lists all kinds but NoKind.
func Kinds() []Kind {
	all := make([]Kind, 0, numKinds-1)
	for k := Counter; k < numKinds; k++ {
		all = append(all, k)
	}
	return all
}

func (k Kind) String() string {
	if k < numKinds {
		return kindTable[k].name
	}
	return "invalid"
}

// ParseKind parses the output of Kind.String. "histogram" and "distribution" are timers.
func ParseKind(s string) (Kind, bool) {
	for k := Counter; k < numKinds; k++ {
		if kindTable[k].name == s || slices.Contains(kindTable[k].aliases, s) {
			return k, true
		}
	}
	return NoKind, false
}

// DefaultStat is the stat that a bare metric name selects for series of this kind.
func (k Kind) DefaultStat() Stat {
	if stats := k.Stats(); len(stats) > 0 {
		return stats[0]
	}
	return NoStat
}

// Stats lists the stats that are legal for the kind, the default first. Callers must not change the
// slice.
func (k Kind) Stats() []Stat {
	if k < numKinds {
		return kindTable[k].stats
	}
	return nil
}

// Has reports whether a stat is legal for the kind.
func (k Kind) Has(s Stat) bool { return slices.Contains(k.Stats(), s) }

// Conflict says why a sample of another kind is rejected, and the remedy. NoKind: the kind that is
// there is not known.
func (k Kind) Conflict(pushed Kind) string {
	existing := "a " + k.String()
	if k == NoKind {
		existing = "of another kind"
	}
	return "is already " + existing + "; cannot push it as a " + pushed.String() + ": delete it first, or use another name"
}
