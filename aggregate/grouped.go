package aggregate

import (
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// EndUngrouped removes the series of groups that no group has, and returns their number. Each is called with a
// function that it calls for the series of every group. A flush writes series before groups, so a process that was
// killed in between may have left series whose group ended, or lost a family.
func (t *Table) EndUngrouped(each func(has func(o metric.Object, name string, sets []metric.Labels))) (gone int) {
	grouped := make([]uint64, int(t.blocks.made.Load())*kind.BlockSeries/64)
	each(func(o metric.Object, name string, sets []metric.Labels) {
		for _, r := range t.withLabels(o, name, sets) {
			grouped[r.Number/64] |= 1 << (r.Number % 64)
		}
	})
	var ungrouped []lookup.Ref
	for number := range uint32(len(grouped) * 64) {
		page, place := t.blocks.pageOf(number)
		state := page.cells[place].State.Load()
		if state&kind.Live != 0 && page.ttls[place].Load() == ttlGroup && grouped[number/64]&(1<<(number%64)) == 0 {
			ungrouped = append(ungrouped, lookup.Ref{Number: number, State: state})
		}
	}
	return t.evict(ungrouped, deleted, t.Clock.Now())
}

// EndUngrouped is Table.EndUngrouped of the own table.
func (m *Merged) EndUngrouped(each func(has func(o metric.Object, name string, sets []metric.Labels))) int {
	return m.own.EndUngrouped(each)
}
