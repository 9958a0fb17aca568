package group

import (
	"cmp"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Exposed puts the families of groups together as one exposition can have them: one for each name, in order of the names,
// with the two that every group has of its own. Groups know nothing of each other, so they may say what does not go
// together; then the first group is right: of two values of one series, and of two types of a name, where one is a
// histogram's or a summary's. Plain numbers of different types are untyped together. A family whose name is that of another
// one's samples is left out. Names that an escaping makes the same are one name.
func MergedFamilies(groups []Group, escaping exposition.Escaping) []exposition.Family {
	var e exposing
	e.at = map[string]int{}
	for i := range groups {
		for _, f := range groups[i].contents.families {
			e.add(exposition.Escape(&f.Family, escaping))
		}
	}
	kept := make([]exposition.Family, 0, len(e.all)+2)
	for i := range e.all {
		if _, clash := exposition.SampleOwner(e.all[i].Name, e.typeOf); !clash {
			kept = append(kept, e.all[i].Family)
		}
	}
	if len(groups) > 0 {
		own := PushTimeFamilies(groups)
		kept = append(kept, own[:]...)
	}
	slices.SortFunc(kept, func(a, b exposition.Family) int { return cmp.Compare(a.Name, b.Name) })
	return kept
}

type exposing struct {
	at  map[string]int // by name
	all []exposed
}

// exposed is a family of perhaps several groups.
type exposed struct {
	exposition.Family
	shared bool                // with the one group that it is of
	series map[string]struct{} // that it has, once it is of several
	packed []byte
}

func (e *exposing) add(f *exposition.Family) {
	i, there := e.at[f.Name]
	if !there {
		e.at[f.Name] = len(e.all)
		e.all = append(e.all, exposed{Family: *f, shared: true})
		return
	}
	to := &e.all[i]
	if to.Type != f.Type {
		if isCompound(to.Type) || isCompound(f.Type) {
			return
		}
		to.Type = exposition.UntypedType
	}
	if to.shared {
		first := to.Metrics
		to.shared, to.Metrics, to.series = false, nil, make(map[string]struct{}, 2*len(first))
		to.append(first)
	}
	to.Help = cmp.Or(to.Help, f.Help)
	to.append(f.Metrics)
}

func (e *exposed) append(metrics []exposition.Metric) {
	for i := range metrics {
		e.packed = metric.AppendLabels(e.packed[:0], metrics[i].Labels)
		if _, twice := e.series[string(e.packed)]; !twice {
			e.series[string(e.packed)] = struct{}{}
			e.Metrics = append(e.Metrics, metrics[i])
		}
	}
}

func isCompound(t exposition.Type) bool {
	return t == exposition.SummaryType || t.IsHistogram()
}

func (e *exposing) typeOf(name string) (exposition.Type, bool) {
	i, there := e.at[name]
	if !there {
		return 0, false
	}
	return e.all[i].Type, true
}
