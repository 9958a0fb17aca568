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
func (p *dataPath) pushedSomewhere(namespace, name string) string {
	list, _, _ := p.merged.Metrics(aggregate.Part{Namespace: namespace, Name: name, Most: 1})
	if len(list) == 0 {
		return ""
	}
	where := ofResource(list[0].Resource)
	if list[0].Namespace != "" {
		where += fmt.Sprintf(" in %q", list[0].Namespace)
	}
	return where
}
