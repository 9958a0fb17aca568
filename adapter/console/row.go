package console

import "math"

// A row keeps ten minutes by the second, and an hour by ten seconds (docs/adr/0104).
const (
	fineSeconds = 600
	coarseStep  = 10
	coarseSlots = 360
	// rowBytes are those of a row's values.
	rowBytes = 4 * (fineSeconds + coarseSlots)
)

// row is one value over time, in two rings by Unix second. A slot of ten seconds has their newest value.
type row struct {
	id     string
	last   int64 // second of the newest value
	fine   [fineSeconds]float32
	coarse [coarseSlots]float32
}

func newRow(id string) *row {
	r := &row{id: id}
	r.skip(0, fineSeconds-1)
	r.skip(0, coarseStep*coarseSlots-1)
	return r
}

// skip clears the seconds after one second, up to another one.
func (r *row) skip(after, to int64) {
	for s := max(after+1, to-fineSeconds+1); s <= to; s++ {
		r.fine[s%fineSeconds] = float32(math.NaN())
	}
	for s := max(after/coarseStep+1, to/coarseStep-coarseSlots+1); s <= to/coarseStep; s++ {
		r.coarse[s%coarseSlots] = float32(math.NaN())
	}
}

// put sets the value of a second, which is not before the newest one.
func (r *row) put(second int64, v float64) {
	r.last = second
	r.fine[second%fineSeconds], r.coarse[second/coarseStep%coarseSlots] = float32(v), float32(v)
}

// putPast sets the value of an earlier second. A slot of ten seconds keeps a value that it has.
func (r *row) putPast(second int64, v float64) {
	r.fine[second%fineSeconds] = float32(v)
	if slot := &r.coarse[second/coarseStep%coarseSlots]; math.IsNaN(float64(*slot)) {
		*slot = float32(v)
	}
}

// read returns n values up to a second, the oldest first, at distances of step: 1, or coarseStep.
func (r *row) read(last int64, step, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		back := int64(n - 1 - i)
		if step == coarseStep {
			values[i] = float64(r.coarse[(last/coarseStep-back)%coarseSlots])
		} else {
			values[i] = float64(r.fine[(last-back)%fineSeconds])
		}
	}
	return values
}
