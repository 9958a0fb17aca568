package main

import (
	"runtime"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/store"
)

// groupBounds are what groups may take. Without a cluster nobody's namespace has a share.
func (c *config) groupBounds() group.Config {
	bounds := c.groups
	if c.standalone {
		bounds.NamespaceShare = 0
	}
	return bounds
}

// documents are the groups, as the store keeps them.
type documents struct{ groups *group.Groups }

// Changed implements store.Documents.
func (d documents) Changed(all bool) []store.DocumentKey {
	changed := d.groups.Changed(all)
	keys := make([]store.DocumentKey, len(changed))
	for i, key := range changed {
		keys[i] = store.DocumentKey(key)
	}
	return keys
}

// AppendDocument implements store.Documents.
func (d documents) AppendDocument(dst []byte, key store.DocumentKey) ([]byte, bool) {
	return d.groups.AppendDocument(dst, group.Hash(key))
}

// RestoreDocument implements store.Documents.
func (d documents) RestoreDocument(key store.DocumentKey, value []byte) error {
	return d.groups.RestoreDocument(group.Hash(key), value)
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
		Asked: metric.Asked{Name: name}, Match: match,
	})
}

// Lifetime implements group.Table.
func (e exactly) Lifetime() time.Duration { return e.table.Lifetime() }

// buildInformation is what GET /api/v1/status says of the build.
func buildInformation() map[string]string {
	version, commit := built()
	return map[string]string{"version": version, "revision": commit, "goVersion": runtime.Version()}
}
