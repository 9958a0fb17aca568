package main

import (
	"runtime"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
)

// groupBounds are what groups may take. Without a cluster nobody's namespace has a share.
func (c *serverConfig) groupBounds() group.Config {
	bounds := c.groups
	if c.standalone {
		bounds.NamespaceShare = 0
	}
	return bounds
}

// exactly takes series out of the table by their very labels.
type exactly struct{ table *aggregate.Table }

// Remove implements group.Table.
func (e exactly) Remove(o metric.Object, name string, sets []metric.Labels) {
	if o.External() {
		e.table.Remove(o.Namespace, name, sets)
		return
	}
	// An object's UID is the cluster's to say, so its series are looked through; there are few of one object.
	match := func(have metric.Labels) bool { return have == sets[0] }
	if len(sets) > 1 {
		these := make(map[metric.Labels]struct{}, len(sets))
		for _, set := range sets {
			these[set] = struct{}{}
		}
		match = func(have metric.Labels) bool { _, ok := these[have]; return ok }
	}
	e.table.Delete(metric.Query{
		Resource: o.Resource, Namespace: o.Namespace, Object: o.Name,
		Expression: metric.Expression{Name: name}, MatchLabels: match,
	})
}

// Lifetime implements group.Table.
func (e exactly) Lifetime() time.Duration { return e.table.Lifetime() }

// buildInformation is what GET /api/v1/status says of the build.
func buildInformation() map[string]string {
	version, commit := built()
	return map[string]string{"version": version, "revision": commit, "goVersion": runtime.Version()}
}
