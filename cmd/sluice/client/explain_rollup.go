package client

import (
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// countPods adds to the values of Object metrics how many pods they are rolled up from: the metrics
// APIs have no field for that. It adds nothing if the user may not read Sluice's documents.
func (g *gatherer) countPods() {
	a := &g.facts.Autoscaler
	rolled := func(i int) *explain.Value {
		if r := &g.facts.Readings[i]; a.Metrics[i].Source == inspect.SourceObject && len(r.Values) == 1 {
			return &r.Values[0]
		}
		return nil
	}
	asked := false
	for i := range g.facts.Readings {
		asked = asked || rolled(i) != nil
	}
	if !asked {
		return
	}
	held, err := fetch[inspect.Autoscaler](g.ctx, g.api, inspectPath("autoscalers", g.namespace)+"/"+escaped(a.Name))
	if err != nil || len(held.Metrics) != len(a.Metrics) {
		return
	}
	for i := range held.Metrics {
		if v, m := rolled(i), &held.Metrics[i]; v != nil && m.Name == a.Metrics[i].Name {
			v.Pods = metric.PodCount{With: int32(m.Values), Of: int32(m.Pods)}
		}
	}
}
