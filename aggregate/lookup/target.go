package lookup

import "github.com/sluice-metrics/sluice/metric"

// Ref names a series and its generation, so that a reader notices when its place was reused.
type Ref struct {
	Number uint32
	State  uint32
}

// A target is where an alias leads, in one word, so that it changes at once: a series' number and
// state, by which a writer sees that the place has another series by now; or a rejection with the
// turn of the table's limits, by which a writer sees that it has to ask again.
const RefusalBit = 1 << 63

func (r Ref) Target() uint64 { return uint64(r.State)<<32 | uint64(r.Number) }

func TargetRef(target uint64) Ref { return Ref{Number: uint32(target), State: uint32(target >> 32)} }

func RefusalTarget(r metric.Reason, epoch uint32) uint64 {
	return RefusalBit | uint64(epoch)<<8 | uint64(r)
}

func TargetRefusal(target uint64) (r metric.Reason, epoch uint32) {
	return metric.Reason(target), uint32(target >> 8)
}
