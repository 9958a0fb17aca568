package group

import (
	"cmp"
	"slices"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// MergedFamilies merges the families of groups for one exposition: one per name, sorted by name,
// with the push times of every group. Pushes do not compare groups, so groups may contradict each
// other. Of two values of one series, the first group's counts; so does the first type of a name,
// if either type is a histogram or summary. Plain numbers of different types become untyped. A
// family with the name of another family's samples is left out. Names that the escaping makes equal
// are one name.
func MergedFamilies(groups []Group, escaping exposition.Escaping) []exposition.Family {
	var e familyMerger
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

type familyMerger struct {
	at  map[string]int // by name
	all []mergedFamily
}

// mergedFamily is a family of one or several groups.
type mergedFamily struct {
	exposition.Family
	shared bool                // metrics are the slice of its only group
	series map[string]struct{} // of the family, once it is of several groups
	packed []byte
}

func (e *familyMerger) add(f *exposition.Family) {
	i, there := e.at[f.Name]
	if !there {
		e.at[f.Name] = len(e.all)
		e.all = append(e.all, mergedFamily{Family: *f, shared: true})
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

func (e *mergedFamily) append(metrics []exposition.Metric) {
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

func (e *familyMerger) typeOf(name string) (exposition.Type, bool) {
	i, there := e.at[name]
	if !there {
		return 0, false
	}
	return e.all[i].Type, true
}
