package aggregate

import "github.com/sluice-metrics/sluice/metric"

// ref names a series and its generation, so that a reader notices when its place was given to another.
type ref struct {
	number uint32
	state  uint32
}

// A target is what an alias leads to, in one word so that it changes at once: a series' number with its state,
// by which a writer sees that the place belongs to another series by now; or a refusal with the turn of the
// table's limits that it was decided in, by which a writer sees that it has to ask again.
const refusalBit = 1 << 63

func (r ref) target() uint64 { return uint64(r.state)<<32 | uint64(r.number) }

func targetRef(target uint64) ref { return ref{number: uint32(target), state: uint32(target >> 32)} }

func refusalTarget(r metric.Reason, turn uint32) uint64 {
	return refusalBit | uint64(turn)<<8 | uint64(r)
}

func targetRefusal(target uint64) (r metric.Reason, turn uint32) {
	return metric.Reason(target), uint32(target >> 8)
}
