package main

import (
	"runtime"
	"time"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/store"
	"github.com/sluice-metrics/sluice/workload"
)

// documents are what the store keeps beside the table: groups, and in a cluster what workloads have pushed. Their keys
// are hashes of different texts, and a workload's document says by its first byte that it is one.
type documents struct {
	groups *group.Groups
	pushed *workload.Tracker // nil: standalone
}

// Changed implements store.Documents.
func (d documents) Changed(all bool) []store.DocumentKey {
	var keys []store.DocumentKey
	for _, key := range d.groups.Changed(all) {
		keys = append(keys, store.DocumentKey(key))
	}
	if d.pushed == nil {
		return keys
	}
	for _, key := range d.pushed.Changed(all) {
		keys = append(keys, store.DocumentKey(key))
	}
	return keys
}

// AppendDocument implements store.Documents.
func (d documents) AppendDocument(dst []byte, key store.DocumentKey) ([]byte, bool) {
	if d.pushed != nil {
		if dst, there := d.pushed.AppendDocument(dst, workload.Key(key)); there {
			return dst, true
		}
	}
	return d.groups.AppendDocument(dst, group.Hash(key))
}

// RestoreDocument implements store.Documents.
func (d documents) RestoreDocument(key store.DocumentKey, value []byte) error {
	switch {
	case !workload.IsDocument(value):
		return d.groups.RestoreDocument(group.Hash(key), value)
	case d.pushed == nil:
		return nil // a data folder that a cluster's server had before
	}
	return d.pushed.RestoreDocument(workload.Key(key), value)
}

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
	return map[string]string{"version": sluice.Version, "revision": sluice.Commit(), "goVersion": runtime.Version()}
}
