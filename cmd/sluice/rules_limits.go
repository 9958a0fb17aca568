package main

import (
	"github.com/sluice-metrics/sluice/adapter/cluster"
)

// limitRules are the limits of a cluster view, where an autoscaler that names the metric of a rule
// names its operands.
type limitRules struct {
	*cluster.View
	rules *rulebook
}

// NamedByAutoscaler implements limit.Rules. Operands on pods may be read through other objects.
func (l limitRules) NamedByAutoscaler(namespace, resource, name string) bool {
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
