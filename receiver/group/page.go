package group

import (
	"cmp"
	"slices"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// MergedFamilies merges the families of groups for one exposition: one per name, sorted by name,
// with the push times of every group. Pushes do not compare groups, so groups may contradict each
// other. Of two values of one series, the first group's counts; so does the first type of a name,
// if either type is a histogram or summary. Plain numbers of different types become untyped. A
// family with the name of another family's samples is left out. No namespace leaves out what
// another one pushed: histograms and summaries that prevent it are exposed as plain numbers. Names
// that the escaping makes equal are one name; those that it makes equal to a push time's are
// ignored, as are those of Sluice's own metrics.
func MergedFamilies(groups []Group, escaping exposition.Escaping) []exposition.Family {
	groups, alike := newestFirst(groups)
	e := familyMerger{at: map[string]int{}}
	for i := range groups {
		namespace := groups[i].addedNamespace()
		for _, f := range groups[i].contents.families {
			exposed := exposition.Escape(shown(&f.Family, namespace), escaping)
			if !isOwn(exposed.Name) && !exposition.IsSluices(exposed.Name) {
				e.add(exposed, groups[i].Key.Namespace, exposed == &f.Family)
			}
		}
	}
	if len(groups) > 0 {
		own := PushTimeFamilies(groups)
		for i := range own {
			e.add(&own[i], severalNamespaces, !alike)
		}
	}
	e.splitOwners()
	kept := make([]exposition.Family, 0, len(e.all))
	for i := range e.all {
		if _, clash := exposition.SampleOwner(e.all[i].Name, e.typeOf); !clash && len(e.all[i].Metrics) > 0 {
			kept = append(kept, e.all[i].Family)
		}
	}
	slices.SortFunc(kept, func(a, b exposition.Family) int { return cmp.Compare(a.Name, b.Name) })
	return kept
}

type familyMerger struct {
	at    map[string]int // by name
	all   []mergedFamily
	plain fair.Shares[string, int] // samples of families that were split, by namespace
}

// maxSplit bounds the numbers that histograms and summaries are split into, of half a kilobyte each. One namespace may have
// three times what is left; its families beyond are left out.
const maxSplit = 1 << 16

// mergedFamily is a family of one or several groups.
type mergedFamily struct {
	exposition.Family
	namespace string              // of its groups, or severalNamespaces
	shared    bool                // metrics are the slice of its only group
	series    map[string]struct{} // of the family, once it is of several groups
	packed    []byte
}

// severalNamespaces is no namespace's name.
const severalNamespaces = "*"

func (e *mergedFamily) isOnlyOf(namespace string) bool {
	return e.namespace == namespace && namespace != severalNamespaces
}

// add adds a family of a namespace. distinct: no two of its metrics have equal labels.
func (e *familyMerger) add(f *exposition.Family, namespace string, distinct bool) {
	i, there := e.at[f.Name]
	if !there {
		e.at[f.Name] = len(e.all)
		e.all = append(e.all, mergedFamily{Family: *f, namespace: namespace, shared: true})
		if !distinct {
			e.all[len(e.all)-1].unshare()
		}
		return
	}
	to := &e.all[i]
	switch {
	case to.Type == f.Type:
	case isCompound(to.Type) || isCompound(f.Type):
		if !to.isOnlyOf(namespace) {
			e.split(i)
			e.addSplit(f, namespace)
		}
		return
	case len(to.Metrics) == 0: // it was split
		to.Type = f.Type
	default:
		to.Type = exposition.UntypedType
	}
	if to.namespace != namespace {
		to.namespace = severalNamespaces
	}
	if to.shared {
		to.unshare()
	}
	to.Help = cmp.Or(to.Help, f.Help)
	to.append(f.Metrics)
}

// split replaces a histogram or summary by plain numbers.
func (e *familyMerger) split(i int) {
	whole := e.all[i]
	if !isCompound(whole.Type) {
		return
	}
	e.all[i] = mergedFamily{Family: exposition.Family{Name: whole.Name}, namespace: severalNamespaces}
	e.all[i].unshare()
	e.addSplit(&whole.Family, whole.namespace)
}

// addSplit adds a family as plain numbers.
func (e *familyMerger) addSplit(f *exposition.Family, namespace string) {
	if !isCompound(f.Type) {
		e.add(f, namespace, false)
		return
	}
	n := samplesOf(f)
	if n > e.plain.More(namespace, maxSplit) {
		return
	}
	e.plain.Add(namespace, n)
	plain := exposition.Plain(f)
	for i := range plain {
		e.add(&plain[i], namespace, false)
	}
}

func samplesOf(f *exposition.Family) (n int) {
	for i := range f.Metrics {
		n += 2
		if s := f.Metrics[i].Summary; s != nil {
			n += len(s.Quantiles)
		}
		if h := f.Metrics[i].Histogram; h != nil {
			n += len(h.Buckets)
		}
	}
	return n
}

// splitOwners splits the families whose samples have the name of a family of another namespace.
func (e *familyMerger) splitOwners() {
	for i := 0; i < len(e.all); i++ { // it grows
		owner, clash := exposition.SampleOwner(e.all[i].Name, e.typeOf)
		if clash && !e.all[e.at[owner]].isOnlyOf(e.all[i].namespace) {
			e.split(e.at[owner])
		}
	}
}

// unshare gives the family metrics of its own, of which no two have equal labels.
func (e *mergedFamily) unshare() {
	first := e.Metrics
	e.shared, e.Metrics, e.series = false, nil, make(map[string]struct{}, 2*len(first))
	e.append(first)
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
