package autoscaler

import (
	"slices"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// Autoscalers returns the autoscalers of a namespace (empty: of all), sorted by namespace and name,
// with Sluice's answers as of the last round. The caller owns them.
func (w *Watcher) Autoscalers(namespace string) []inspect.Autoscaler {
	documents := w.parts.List(namespace)
	all := make([]inspect.Autoscaler, len(documents))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, document := range documents {
		all[i] = *document
		all[i].Metrics = slices.Clone(document.Metrics)
		one := w.held[name{document.Namespace, document.Name}]
		if one == nil || !slices.EqualFunc(one.document.Metrics, document.Metrics, inspect.SameMetric) {
			continue // not evaluated yet
		}
		for j := range all[i].Metrics {
			w.fill(&all[i].Metrics[j], &one.metrics[j])
		}
	}
	return all
}

// fill adds Sluice's answer to a metric.
func (w *Watcher) fill(m *inspect.AutoscalerMetric, s *state) {
	m.Asked, m.Missing, m.Why, m.Since = s.asked, s.missing, s.why, s.lack.since.UTC()
	m.HeldBack, m.Without = s.held.Why, slices.Clone(s.held.Without)
	if m.Values, m.Pods = s.values, s.pods; s.asked && !s.missing {
		m.Value = w.parts.Quantity(s.value)
	}
}
