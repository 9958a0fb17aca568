package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/resource"
)

// toAdmit are the commands that help pods without a value.
func (f *Facts) toAdmit(m *inspect.AutoscalerMetric, without []podWithout) []string {
	in := " -n " + f.Autoscaler.Namespace
	for _, p := range without {
		if r := f.rejectionOf(p.name, m); p.rejected && r.Reason == byLimit {
			return f.toRaise(m)
		}
	}
	return []string{"sluice list refused" + in, "kubectl logs" + in + " " + without[0].name + "  # does it push?"}
}

// toRaise are the commands that raise the limits which reject a metric: those of pods, or that of the
// namespace for everything else.
func (f *Facts) toRaise(m *inspect.AutoscalerMetric) []string {
	entry, ofPods := "sluice.dev/Namespace", false
	if m.Source == sourcePods || m.Source == sourceObject && m.ObjectKind == "Pod" {
		entry, ofPods = "sluice.dev/Pod", true
	}
	show := "sluice list limits -n " + f.Autoscaler.Namespace
	needed, sources := f.needed(ofPods)
	switch {
	case len(needed) == 0:
		return []string{show, fmt.Sprintf("kubectl edit limitrange -n %s  # type %s: raises sluice.dev/metrics or sluice.dev/series (docs/limits.md)",
			f.Autoscaler.Namespace, entry)}
	case f.LimitRanges == nil && sources != "":
		return []string{show, fmt.Sprintf("kubectl edit limitrange -n %s %s  # type %s, max: %s",
			f.Autoscaler.Namespace, strings.ReplaceAll(sources, ",", " "), entry, maximaText(needed))}
	}
	return append(f.raise(entry, needed), show)
}

// The resources of LimitRanges that Sluice reads.
const (
	limitOfMetrics = "sluice.dev/metrics"
	limitOfSeries  = "sluice.dev/series"
)

// needed are the maxima with which nothing would be rejected, by resource, and the names of the
// LimitRanges that set the present ones. Of series there is an estimate: a tenth is added.
func (f *Facts) needed(ofPods bool) (needed map[string]int, sources string) {
	needed = map[string]int{}
	for i := range f.Limits {
		l := &f.Limits[i]
		if (l.Of.Resource == "pods") != ofPods || l.WantedMetrics == 0 && l.WantedSeries == 0 {
			continue
		}
		sources = l.Source
		if l.WantedMetrics > l.MaxMetrics {
			needed[limitOfMetrics] = max(needed[limitOfMetrics], l.WantedMetrics)
		}
		if l.WantedSeries > l.MaxSeries {
			needed[limitOfSeries] = max(needed[limitOfSeries], roundUp(l.WantedSeries+l.WantedSeries/10))
		}
	}
	return needed, sources
}

// roundUp rounds up to two digits.
func roundUp(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit - 1) / unit * unit
}

func maximaText(needed map[string]int) string {
	var all []string
	for _, name := range []string{limitOfMetrics, limitOfSeries} {
		if n := needed[name]; n > 0 {
			all = append(all, fmt.Sprintf("%s: %q", name, strconv.Itoa(n)))
		}
	}
	return strings.Join(all, ", ")
}

// raise patches each LimitRange that sets a lower maximum: the lowest of all holds. Without one it adds
// an entry, or makes a LimitRange.
func (f *Facts) raise(entry string, needed map[string]int) (commands []string) {
	missing := map[string]string{}
	for _, name := range []string{limitOfMetrics, limitOfSeries} {
		if n := needed[name]; n > 0 {
			if !slices.ContainsFunc(f.LimitRanges, func(r LimitRange) bool { return r.sets(entry, name) }) {
				missing[name] = strconv.Itoa(n)
			}
		}
	}
	for _, r := range f.LimitRanges {
		var changes []map[string]any
		for i, limitEntry := range r.Entries {
			for _, name := range []string{limitOfMetrics, limitOfSeries} {
				if n := needed[name]; limitEntry.Type == entry && n > 0 && limitEntry.isBelow(name, n) {
					changes = append(changes, map[string]any{"op": "replace", "value": strconv.Itoa(n),
						"path": fmt.Sprintf("/spec/limits/%d/max/%s", i, strings.ReplaceAll(name, "/", "~1"))})
				}
			}
		}
		if len(missing) > 0 && (r.Name == newLimitRange || r.has(entry)) {
			changes = append(changes, map[string]any{"op": "add", "path": "/spec/limits/-",
				"value": map[string]any{"type": entry, "max": missing}})
			missing = nil
		}
		if len(changes) > 0 {
			commands = append(commands, fmt.Sprintf("kubectl patch limitrange -n %s %s --type=json -p %s",
				f.Autoscaler.Namespace, r.Name, quoted(changes)))
		}
	}
	if len(missing) > 0 {
		commands = append(commands, applying(map[string]any{"apiVersion": "v1", "kind": "LimitRange",
			"metadata": map[string]any{"name": newLimitRange, "namespace": f.Autoscaler.Namespace},
			"spec":     map[string]any{"limits": []any{map[string]any{"type": entry, "max": missing}}}}))
	}
	return commands
}

// newLimitRange is the name of a LimitRange that is made.
const newLimitRange = "pushed-metrics"

func (r *LimitRange) has(entry string) bool {
	return slices.ContainsFunc(r.Entries, func(limitEntry LimitEntry) bool { return limitEntry.Type == entry })
}

func (r *LimitRange) sets(entry, name string) bool {
	return slices.ContainsFunc(r.Entries, func(e LimitEntry) bool { return e.Type == entry && e.Max[name] != "" })
}

// isBelow reports whether the entry sets a maximum that is lower than n.
func (e *LimitEntry) isBelow(name string, n int) bool {
	q, err := resource.ParseQuantity(e.Max[name])
	return e.Max[name] != "" && err == nil && q.AsApproximateFloat64() < float64(n) // an exact comparison of "1e2000000000" takes an hour
}

// lately is how long after its last rejected sample a sender counts as one that is still rejected: some
// intervals between pushes.
const lately = 2 * time.Minute

// RejectsSeries reports whether a limit rejects series of a sender now.
func RejectsSeries(r *inspect.Rejection, now time.Time) bool {
	return r.Reason == byLimit && now.Sub(r.Last) < lately
}

// byLimit is the reason of a sample that a limit rejects.
var byLimit = metric.OverLimit.String()

// incomplete lists the pods whose value of a metric lacks series, because a limit rejects them.
func (f *Facts) incomplete(i int) (all []podWithout) {
	m := &f.Autoscaler.Metrics[i]
	if m.Source != sourcePods {
		return nil
	}
	for _, v := range f.reading(i).Values {
		r := f.newestRejection(rejectedSeries{v.Object, metric.BareName(m.Name), true})
		if r != nil && RejectsSeries(r, f.Now) && !f.hasRoom("pods", v.Object) {
			all = append(all, podWithout{name: v.Object, absence: absence{why: "pushed more, but " + wordsOfRejection(r), rejected: true}})
		}
	}
	return all
}

// hasRoom reports whether a limit is known to have rejected nothing since it changed: it was raised after
// the rejections that are remembered.
func (f *Facts) hasRoom(resource, name string) bool {
	return slices.ContainsFunc(f.Limits, func(l inspect.Limit) bool {
		return l.Of.Resource == resource && l.Of.Name == name && l.WantedMetrics == 0 && l.WantedSeries == 0
	})
}

// judgeRejectedSeries looks for values that lack series, because a limit rejects them. Of pods it is a fault
// if these series may change what the controller decides.
func (f *Facts) judgeRejectedSeries(i int, metrics []MetricReport) *Finding {
	m := &f.Autoscaler.Metrics[i]
	if metrics[i].Fault != "" || len(f.reading(i).Values) == 0 {
		return nil
	}
	if m.Source == sourceExternal {
		return f.judgeRejectedExternal(m)
	}
	all := f.incomplete(i)
	if len(all) == 0 {
		return nil
	}
	out := &Finding{Cause: SeriesRejected, Metric: m.Name, Warning: true, Remedy: f.toRaise(m),
		Text: fmt.Sprintf("the value of %s is incomplete: %s", f.share(i, all), wordsOf(all))}
	if wants, most := f.wanted(metrics), f.mostWith(i, all, metrics); most > wants {
		out.Warning = false
		out.Text += fmt.Sprintf(". By these values the controller wants %s; with all series it may want up to %d",
			replicas(wants), most)
	}
	return out
}

// judgeRejectedExternal is a note about an external metric of which a limit rejects further series: the
// autoscaler may not select them.
func (f *Facts) judgeRejectedExternal(m *inspect.AutoscalerMetric) *Finding {
	for i := range f.Rejections {
		r := &f.Rejections[i]
		if r.Metric == metric.BareName(m.Name) && RejectsSeries(r, f.Now) &&
			!f.hasRoom("namespaces", f.Autoscaler.Namespace) {
			return &Finding{Cause: SeriesRejected, Metric: m.Name, Warning: true, Remedy: f.toRaise(m),
				Text: fmt.Sprintf("the value may be incomplete: %s pushed more, but %s", r.Sender, wordsOfRejection(r))}
		}
	}
	return nil
}

// share is "1 of 3 pods": some of those that a metric is of.
func (f *Facts) share(i int, some []podWithout) string {
	return fmt.Sprintf("%d of %s", len(some), count(max(len(f.Pods), len(f.reading(i).Values)), "pod"))
}

// mostWith is the largest number of replicas that the controller may want if some pods' values of metric i
// were larger.
func (f *Facts) mostWith(i int, pods []podWithout, metrics []MetricReport) int32 {
	return f.wantedWith(i, pods, highest(len(f.reading(i).Values)), metrics)
}
