package main

import (
	"fmt"

	"github.com/sluice-metrics/sluice/adapter/cluster"
	"github.com/sluice-metrics/sluice/adapter/customkind"
	"github.com/sluice-metrics/sluice/aggregate"
)

// limitCluster are the limits of a cluster view, where an autoscaler that names the metric of a rule
// names its operands.
type limitCluster struct {
	*cluster.View
	rules *customkind.Rulebook
}

// NamedByAutoscaler implements limit.Cluster. Operands on pods may be read through other objects.
func (l limitCluster) NamedByAutoscaler(namespace, resource, name string) bool {
	if l.View.NamedByAutoscaler(namespace, resource, name) {
		return true
	}
	return l.rules.Set().NamesFor(namespace, name, func(read string) bool {
		return l.View.NamedByAutoscaler(namespace, resource, read) ||
			resource == "pods" && l.View.NamedByAutoscaler(namespace, "deployments.apps", read)
	})
}

// rulesChanged has limits and autoscalers looked at again.
func (c *clusterSide) rulesChanged() {
	last := ""
	for _, a := range c.view.Autoscalers("") {
		if a.Namespace != last {
			last = a.Namespace
			c.limits.AutoscalersChanged(last)
		}
	}
	c.autoscalers.Changed()
}

// pushedSomewhere is customkind.Rulebook.Pushed.
func (p *dataPath) pushedSomewhere(asked map[customkind.Name]bool) map[customkind.Name]string {
	places := make(map[aggregate.Place]bool, len(asked))
	for name := range asked {
		places[aggregate.Place{Namespace: name.Namespace, Name: name.Metric}] = true
	}
	pushed := map[customkind.Name]string{}
	for as, place := range p.merged.Pushed(places) {
		where := ofResource(place.Resource)
		if place.Namespace != "" {
			where += fmt.Sprintf(" in %q", place.Namespace)
		}
		pushed[customkind.Name{Namespace: as.Namespace, Metric: as.Name}] = where
	}
	return pushed
}
