package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/adapter/autoscaler"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/metric"
)

// watchAutoscalers makes the watcher of what autoscalers get. It reads the table without asking the
// sockets for the datagrams that they still gather: a round is no answer, and would wake them.
func (p *dataPath) watchAutoscalers() *autoscaler.Watcher {
	view := p.cluster.view
	reader := p.autoscalerReader()
	return autoscaler.New(autoscaler.Parts{
		List: view.Autoscalers,
		Begin: func() autoscaler.Reader {
			return &autoscalerReader{from: reader, targets: view.Targets(), recorded: p.rejections, agentOf: p.agentOf(),
				limits: inspection{limits: p.cluster.limits, limitSources: view.LimitSources, targets: p.targets()}}
		},
		Ready: func() bool {
			ready, _ := p.answers()
			return ready
		},
		Quantity: adapter.Quantity,
		Hint:     p.hint,
		Provider: p.provider,
		Events:   view,
		Logger:   p.log,
		NotAsked: p.notAsked,
	})
}

// notAsked says why no controller asks this Sluice for pushed metrics of a source; nil: it is asked.
func (p *dataPath) notAsked(source string) error {
	group, served := explain.GroupOf(source), p.cfg.api.CustomMetrics
	if group == explain.ExternalGroup {
		served = p.cfg.api.ExternalMetrics
	}
	switch {
	case !served:
		return fmt.Errorf("this Sluice does not serve %s", group)
	case slices.Contains(p.cfg.unregistered, group):
		return fmt.Errorf("another server answers %s, which is not registered for this Sluice (setting api-unregistered)", group)
	}
	return nil
}

// autoscalerReader reads in one round.
type autoscalerReader struct {
	from     *adapter.AutoscalerReader
	targets  *cluster.Targets
	recorded *record.Rejections
	limits   inspection // of limits and targets alone
	agentOf  func(node string) (inspect.Agent, bool)
	// rejections are those of this round by namespace, once they are needed. limited are the metrics of
	// which a limit lately rejected series, by their names as rejections show them.
	rejections map[string][]inspect.Rejection
	limited    map[namespacedName]bool
}

type namespacedName struct{ namespace, name string }

// HeldBack implements autoscaler.Reader. The rejections are this replica's: what another one rejected
// counts as not pushed here.
func (r *autoscalerReader) HeldBack(a *inspect.Autoscaler) []explain.Held {
	r.readRejections()
	facts := r.from.Facts(a, r.targets)
	facts.Rejections, facts.AgentOf = r.rejections[a.Namespace], r.agentOf
	if r.limits.targets != nil {
		facts.Targets = r.limits.targets(a.Namespace)
	}
	if slices.ContainsFunc(a.Metrics, func(m inspect.AutoscalerMetric) bool { return r.isLimited(a.Namespace, m.Name) }) {
		facts.Limits = r.limits.Limits(inspect.Query{Namespace: a.Namespace, Most: inspect.MaxMost}).Items
	}
	return explain.HeldBack(facts)
}

// Read implements autoscaler.Reader.
func (r *autoscalerReader) Read(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) (autoscaler.Reading, error) {
	r.readRejections()
	reading, err := r.from.Of(a, m, r.targets)
	return autoscaler.Reading{Sum: reading.Sum, Values: reading.Values, Pods: reading.Pods,
		Rejected: r.isLimited(a.Namespace, m.Name)}, err
}

// isLimited reports whether a limit lately rejected series of a metric, as an autoscaler names it.
func (r *autoscalerReader) isLimited(namespace, name string) bool {
	return len(r.limited) > 0 && r.limited[namespacedName{namespace, record.ShownMetric(metric.BareName(name))}]
}

// readRejections reads the rejections once in a round.
func (r *autoscalerReader) readRejections() {
	if r.rejections != nil {
		return
	}
	r.rejections, r.limited = map[string][]inspect.Rejection{}, map[namespacedName]bool{}
	now := time.Now()
	for _, rejection := range r.recorded.All() {
		r.rejections[rejection.Namespace] = append(r.rejections[rejection.Namespace], rejection)
		if explain.RejectsSeries(&rejection, now) {
			r.limited[namespacedName{rejection.Namespace, rejection.Metric}] = true
		}
	}
}

// maxHintNames bounds the names of a namespace among which a hint looks.
const maxHintNames = 500

// hint returns a sentence on what the name of a missing metric may have meant: another sort of
// object, or a name like it. Events show it to readers of unknown rights, so it names no external metric that
// discovery doesn't list.
func (p *dataPath) hint(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) string {
	bare, source := metric.BareName(m.Name), m.Source
	if m.ObjectKind == "Pod" {
		source = inspect.SourcePods
	}
	list, _, _ := p.merged.Metrics(aggregate.Part{Namespace: a.Namespace, Most: maxHintNames})
	var alike, others []string
	hidden := func(name string) bool { return p.cluster.policies != nil && p.cluster.policies.Hidden(name, false) }
	for _, metricSummary := range list {
		if metricSummary.Resource == "" && hidden(metricSummary.Name) {
			continue
		}
		if sourceOf(metricSummary.Resource) == source {
			alike = append(alike, metricSummary.Name)
		} else if metricSummary.Name == bare {
			others = append(others, ofResource(metricSummary.Resource))
		}
	}
	if slices.Contains(alike, bare) {
		return "" // of other objects, or with other labels
	}
	if len(others) > 0 {
		return fmt.Sprintf("It is pushed here %s.", strings.Join(others, " and "))
	}
	if near := suggest.Nearest(bare, alike); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	return ""
}

// ofResource says what a metric of a resource describes.
func ofResource(resource string) string {
	if resource == "" {
		return "as an external metric"
	}
	return "as a metric of " + resource
}
