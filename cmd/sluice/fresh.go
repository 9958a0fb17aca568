package main

import (
	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
)

// A freshTable is the table as of the request: before a read or a deletion it has the datagrams
// applied that the sockets still gather.
type freshTable struct {
	*aggregate.Table
	freshen func()
}

func (t freshTable) Objects(q metric.Query) ([]metric.Point, error) {
	t.freshen()
	return t.Table.Objects(q)
}

func (t freshTable) External(q metric.Query) ([]metric.Point, error) {
	t.freshen()
	return t.Table.External(q)
}

func (t freshTable) Delete(q metric.Query) int {
	t.freshen()
	return t.Table.Delete(q)
}
