package main

import (
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/rollup"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push"
	"github.com/sluice-metrics/sluice/replica/deletion"
)

// mergedTable is the merged answers of all replicas.
type mergedTable struct{ *aggregate.Merged }

// Begin implements rollup.Source.
func (t mergedTable) Begin() rollup.Snapshot { return t.Merged.Begin() }

// A freshTable is the merged answers as of the request: before a read or a deletion it has the
// datagrams applied that the sockets still gather.
type freshTable struct {
	mergedTable
	freshen func()
	// deletions are told to other replicas; nil: there are none.
	deletions *deletion.Log
}

// fresh returns the table for readers that ask over the network.
func (p *dataPath) fresh() freshTable {
	return freshTable{mergedTable{p.merged}, p.statsd.Freshen, p.replication.deletions}
}

// readerOf joins a table with what the cluster knows of pods, and with the rules: it answers all
// readers.
func (p *dataPath) readerOf(table rollup.Source) *rule.Reader {
	parts := rollup.Parts{Source: table}
	if p.cluster.view != nil {
		parts.Cluster, parts.Workloads = p.cluster.view, p.cluster.workloads
	}
	pushed := rollup.New(parts)
	return rule.NewReader(pushed, func() (objects, external rule.Read) {
		moment := pushed.Begin()
		return moment.Objects, moment.External
	}, &p.rules.Current)
}

// pushReader answers and deletes for HTTP push. A deletion removes own series only, never those of
// an object's pods.
type pushReader struct {
	*rule.Reader
	table freshTable
}

var _ push.Computer = pushReader{} // it is found by a type assertion

// Delete implements native.Reader.
func (r pushReader) Delete(q metric.Query) int { return r.table.Delete(q) }

// Begin implements rollup.Source.
func (t freshTable) Begin() rollup.Snapshot {
	t.freshen()
	return t.mergedTable.Begin()
}

func (t freshTable) Objects(q metric.Query) ([]metric.Point, error) {
	t.freshen()
	return t.Merged.Objects(q)
}

func (t freshTable) External(q metric.Query) ([]metric.Point, error) {
	t.freshen()
	return t.Merged.External(q)
}

func (t freshTable) Delete(q metric.Query) int {
	t.freshen()
	if t.deletions != nil {
		t.deletions.Add(&deletion.Selector{
			Resource: q.Resource, Namespace: q.Namespace, Object: q.Object,
			Name: q.Expression.Name, Labels: q.RequiredLabels,
		})
	}
	return t.Merged.Delete(q)
}
