package main

import (
	"github.com/sluice-metrics/sluice/adapter"
	"github.com/sluice-metrics/sluice/aggregate/answer"
	"github.com/sluice-metrics/sluice/aggregate/rollup"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/replica"
	"github.com/sluice-metrics/sluice/replica/deletion"
	"github.com/sluice-metrics/sluice/store"
)

// documents joins the documents that the store persists beside the table: groups, in a cluster the
// metrics that workloads have pushed and the UIDs of namespaces, and of replicas their deletions and the
// epoch of the table.
// Keys are hashes of different texts. The first byte of a document says what it is; groups have the
// others.
type documents struct {
	groups     *group.Groups
	workloads  *rollup.Tracker // nil: standalone
	namespaces *namespaces     // nil: standalone
	deletions  *deletion.Log   // nil: there are no other replicas
	epoch      *replica.Epoch  // nil: there are no other replicas
}

// Changed implements store.Documents.
func (d documents) Changed(all bool) []store.DocumentKey {
	var keys []store.DocumentKey
	for _, key := range d.groups.Changed(all) {
		keys = append(keys, store.DocumentKey(key))
	}
	if d.workloads != nil {
		for _, key := range d.workloads.Changed(all) {
			keys = append(keys, store.DocumentKey(key))
		}
	}
	if d.epoch != nil && d.epoch.Changed(all) {
		keys = append(keys, replica.EpochKey)
	}
	return keys
}

// AppendDocument implements store.Documents.
func (d documents) AppendDocument(dst []byte, key store.DocumentKey) ([]byte, bool) {
	if d.epoch != nil && key == replica.EpochKey {
		return d.epoch.AppendDocument(dst), true
	}
	if d.workloads != nil {
		if dst, there := d.workloads.AppendDocument(dst, rollup.Key(key)); there {
			return dst, true
		}
	}
	return d.groups.AppendDocument(dst, group.Hash(key))
}

// Following implements store.Documents: deletions, and a namespace's UID, follow what was removed.
func (d documents) Following(all bool) map[store.DocumentKey][]byte {
	documents := map[store.DocumentKey][]byte{}
	if d.namespaces != nil {
		documents = d.namespaces.following(all)
	}
	if d.deletions != nil {
		for key, document := range d.deletions.Following(all) {
			documents[store.DocumentKey(key)] = document
		}
	}
	return documents
}

// RestoreDocument implements store.Documents. Documents of parts that this process doesn't have are
// skipped: the data folder may have been a cluster's or a replica's before.
func (d documents) RestoreDocument(key store.DocumentKey, value []byte) error {
	switch {
	case key == replica.EpochKey:
		if d.epoch == nil {
			return nil
		}
		return d.epoch.RestoreDocument(value)
	case deletion.IsDocument(value):
		if d.deletions == nil {
			return nil
		}
		return d.deletions.RestoreDocument(deletion.Key(key), value)
	case isNamespaceDocument(value):
		if d.namespaces == nil {
			return nil
		}
		return d.namespaces.RestoreDocument(key, value)
	case !rollup.IsDocument(value):
		return d.groups.RestoreDocument(group.Hash(key), value)
	case d.workloads == nil:
		return nil
	}
	return d.workloads.RestoreDocument(rollup.Key(key), value)
}

// reader answers and deletes for those who ask over the network, as of the request: what the sockets still
// gather is applied first.
func (p *dataPath) reader() *answer.Reader {
	parts := p.readerParts()
	parts.Freshen = p.statsd.Freshen
	if log := p.replication.deletions; log != nil {
		parts.Deleting = func(q metric.Query) {
			log.Add(&deletion.Selector{
				Resource: q.Resource, Namespace: q.Namespace, Object: q.Object,
				Name: q.Expression.Name, Labels: q.RequiredLabels,
			})
		}
	}
	return answer.New(parts)
}

// ownReader answers Sluice's own watchers, which notice samples when they are applied.
func (p *dataPath) ownReader() *answer.Reader { return answer.New(p.readerParts()) }

// autoscalerReader reads for Sluice's own watchers of autoscalers.
func (p *dataPath) autoscalerReader() *adapter.AutoscalerReader {
	return adapter.NewAutoscalerReader(adapter.Parts{Source: p.ownReader(), Cluster: p.cluster.view,
		Policies: p.cluster.policies})
}

func (p *dataPath) readerParts() answer.Parts {
	parts := answer.Parts{Merged: p.merged, Rules: &p.rules.Current}
	if p.usage != nil {
		parts.Usage = p.usage.answers()
	}
	if p.cluster.view != nil {
		parts.Cluster, parts.Workloads = p.cluster.view, p.cluster.workloads
		if p.cfg.cluster.Announcements {
			parts.Announces = p.cluster.view.Announces
		}
	}
	return parts
}

// watches notice that answers may have changed.
func (p *dataPath) watches() *answer.Watches {
	return answer.NewWatches(p.merged, &p.rules.Current, p.readerParts().Usage)
}
