package group

import "github.com/sluice-metrics/sluice/metric"

// Restrict drops the series from a snapshot that a reader may not have. all reports whether the reader may
// have all series of a metric, one whether it may have one of them.
func (g *Group) Restrict(all func(name string, k metric.Kind) bool, one func(name string, k metric.Kind, labels metric.Labels) bool) {
	kept := contents{times: g.contents.times}
	var labels sampleBuilder
	for _, f := range g.contents.families {
		k := kindOf(f.Type)
		if all(f.Name, k) {
			kept.families = append(kept.families, f)
			continue
		}
		some := &family{Family: f.Family, pushed: f.pushed}
		some.Metrics = nil
		for i := range f.Metrics {
			if one(f.Name, k, labels.labelSet(&g.Object, f, i)) {
				some.Metrics = append(some.Metrics, f.Metrics[i])
			}
		}
		if len(some.Metrics) > 0 {
			kept.families = append(kept.families, some)
		}
	}
	g.contents = &kept
}
