package main

import (
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/deletion"
	"github.com/sluice-metrics/sluice/metric"
)

// A freshTable is the merged answers as of the request: before a read or a deletion it has the
// datagrams applied that the sockets still gather.
type freshTable struct {
	*aggregate.Merged
	freshen func()
	// deletions are told to other replicas; nil: there are none.
	deletions *deletion.Log
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
