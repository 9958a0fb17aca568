package main

import (
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
