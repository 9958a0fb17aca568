package main

import (
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/store"
	"github.com/sluice-metrics/sluice/workload"
)

// documents joins the documents that the store persists beside the table: groups, and in a cluster
// the metrics that workloads have pushed. Keys of both are hashes of different texts. The first
// byte of a workload's document identifies it.
type documents struct {
	groups    *group.Groups
	workloads *workload.Tracker // nil: standalone
}

// Changed implements store.Documents.
func (d documents) Changed(all bool) []store.DocumentKey {
	var keys []store.DocumentKey
	for _, key := range d.groups.Changed(all) {
		keys = append(keys, store.DocumentKey(key))
	}
	if d.workloads == nil {
		return keys
	}
	for _, key := range d.workloads.Changed(all) {
		keys = append(keys, store.DocumentKey(key))
	}
	return keys
}

// AppendDocument implements store.Documents.
func (d documents) AppendDocument(dst []byte, key store.DocumentKey) ([]byte, bool) {
	if d.workloads != nil {
		if dst, there := d.workloads.AppendDocument(dst, workload.Key(key)); there {
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
	case d.workloads == nil:
		return nil // the data folder was a cluster's before
	}
	return d.workloads.RestoreDocument(workload.Key(key), value)
}

// groupTable is the table for groups: it removes series by their exact labels.
type groupTable struct{ table *aggregate.Table }

// Remove implements group.Table.
func (g groupTable) Remove(o metric.Object, name string, sets []metric.Labels) {
	if o.External() {
		g.table.Remove(o.Namespace, name, sets)
		return
	}
	// The UID of an object is not known here, so Delete matches the labels of all its series; they
	// are few.
	match := func(have metric.Labels) bool { return have == sets[0] }
	if len(sets) > 1 {
		these := make(map[metric.Labels]struct{}, len(sets))
		for _, set := range sets {
			these[set] = struct{}{}
		}
		match = func(have metric.Labels) bool { _, ok := these[have]; return ok }
	}
	g.table.Delete(metric.Query{
		Resource: o.Resource, Namespace: o.Namespace, Object: o.Name,
		Expression: metric.Expression{Name: name}, MatchLabels: match,
	})
}

// Lifetime implements group.Table.
func (g groupTable) Lifetime() time.Duration { return g.table.Lifetime() }
