package explain

import (
	"fmt"
	"slices"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// unscraped is the target of a pod (empty: of any) that names a metric and cannot be scraped, or the fault of
// the pod's announcement; nil: there is none.
func (f *Facts) unscraped(pod string, m *inspect.AutoscalerMetric) *inspect.Target {
	bare := metric.BareName(m.Name)
	for i := range f.Targets {
		t := &f.Targets[i]
		names := slices.Contains(t.Names, bare) || t.State == inspect.TargetInvalid && pod != ""
		if (pod == "" || t.Pod == pod) && names && (t.Fault() != "" || slices.Contains(t.Missing, bare)) {
			return t
		}
	}
	return nil
}

// wordsOfTarget are the end of a sentence about a pod.
func wordsOfTarget(t *inspect.Target, bare string) string {
	switch {
	case t.State == inspect.TargetInvalid:
		return "announces endpoints wrongly: " + t.Error
	case t.Fault() == "":
		return fmt.Sprintf("announces %s, which is scraped and does not have %s", t.Endpoint, bare)
	case t.Agent != "":
		return fmt.Sprintf("announces %s, which cannot be scraped by the agent of node %s: %s", t.Endpoint, t.Agent, t.Error)
	}
	return fmt.Sprintf("announces %s, which cannot be scraped: %s", t.Endpoint, t.Error)
}

// judgeTargets is the finding about a metric that pods announce and that cannot be scraped; false: there is no such pod.
func (f *Facts) judgeTargets(m *inspect.AutoscalerMetric, out *Finding) bool {
	t := f.unscraped("", m)
	if t == nil {
		return false
	}
	out.Cause = NotScraped
	out.Text = "pod " + t.Pod + " " + wordsOfTarget(t, metric.BareName(m.Name))
	out.Remedy = f.toScrape()
	return true
}

func (f *Facts) toScrape() []string {
	return []string{"sluice list targets -n " + f.Autoscaler.Namespace + " -o wide"}
}
