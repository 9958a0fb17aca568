package loadtest

import "slices"

// lineFigures returns the figures of a load of lines that have no column: those with aims, and
// those that only a Sluice server has.
func (m *measurement) lineFigures(run Run, peers []Run) []Figure {
	return slices.Concat(m.costFigures(run, peers), m.memoryFigures(run),
		[]Figure{{Name: "gc_share", Unit: "%", Value: 100 * run.GCShare}})
}

// costFigures compares the cost of a line with the aims at the rate.
func (m *measurement) costFigures(run Run, peers []Run) (figures []Figure) {
	add := func(name, unit string, value float64, aim Aim) {
		figures = append(figures, Figure{Name: name, Unit: unit, Value: value, Aim: aim})
	}
	aims := m.scenario.Aims[m.rate]
	if aims.Floors != 0 {
		add("blocking_floors_per_line", "", run.BlockingRatio(), Aim{Most: aims.Floors})
	}
	if aims.CorePercent != 0 {
		add("core_share", "%", 100*run.Server.Busy(), Aim{Most: aims.CorePercent})
	}
	if len(peers) > 0 {
		add("cheapest_peer_ratio", "", cheapest(peers)/run.Server.CPUPerLine(), Aim{Least: aims.Cheaper})
	}
	return figures
}

// cheapest returns the lowest cost of a line.
func cheapest(runs []Run) float64 {
	costs := make([]float64, len(runs))
	for i, run := range runs {
		costs[i] = run.Server.CPUPerLine()
	}
	return slices.Min(costs)
}

// manySeries is the number of series from which memory per series is meaningful.
const manySeries = 100_000

// memoryFigures returns the memory per series.
func (m *measurement) memoryFigures(run Run) (figures []Figure) {
	add := func(name, unit string, value float64, aim Aim) {
		figures = append(figures, Figure{Name: name, Unit: unit, Value: value, Aim: aim})
	}
	if series := float64(m.scenario.Series()); series >= manySeries {
		anon, file := run.Memory.AnonBytes-run.Idle.AnonBytes, run.Memory.FileBytes-run.Idle.FileBytes
		add("anon_bytes_per_series", "B", float64(anon)/series, Aim{Most: m.scenario.BytesPerSeries})
		add("file_bytes_per_series", "B", float64(file)/series, Aim{})
	}
	return figures
}
