package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

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
		r := f.newestRejection(refusal{v.Object, metric.BareName(m.Name), true})
		if r != nil && RejectsSeries(r, f.Now) && !f.hasRoom("pods", v.Object) {
			all = append(all, podWithout{v.Object, absence{why: "pushed more, but " + wordsOfRejection(r), refused: true}})
		}
	}
	return all
}

// hasRoom reports whether a limit is known to have rejected nothing since it changed: it was raised after
// the rejections that are remembered.
func (f *Facts) hasRoom(resource, name string) bool {
	return slices.ContainsFunc(f.Limits, func(one inspect.Limit) bool {
		return one.Of.Resource == resource && one.Of.Name == name && one.WantedMetrics == 0 && one.WantedSeries == 0
	})
}

// ofRejectedSeries looks for values that lack series, because a limit rejects them. Of pods it is a fault
// if these series may change what the controller decides.
func (f *Facts) ofRejectedSeries(i int, metrics []MetricReport) *Finding {
	m := &f.Autoscaler.Metrics[i]
	if metrics[i].Fault != "" || len(f.reading(i).Values) == 0 {
		return nil
	}
	if m.Source == sourceExternal {
		return f.ofRejectedExternal(m)
	}
	all := f.incomplete(i)
	if len(all) == 0 {
		return nil
	}
	out := &Finding{Cause: SeriesRejected, Metric: m.Name, Warning: true, Remedy: f.toRaise(m),
		Text: fmt.Sprintf("the value of %s is incomplete: %s", f.share(i, all), wordsOf(all))}
	if wants, most := f.wanted(metrics), f.mostWith(i, all, metrics); most > wants {
		out.Warning = false
		out.Text += fmt.Sprintf(". By these values the controller wants %s; with all series it may want up to %d", replicas(wants), most)
	}
	return out
}

// ofRejectedExternal is a note about an external metric of which a limit rejects further series: the
// autoscaler may not select them.
func (f *Facts) ofRejectedExternal(m *inspect.AutoscalerMetric) *Finding {
	for i := range f.Rejections {
		r := &f.Rejections[i]
		if r.Metric == metric.BareName(m.Name) && RejectsSeries(r, f.Now) && !f.hasRoom("namespaces", f.Autoscaler.Namespace) {
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
