package lookup

import "github.com/sluice-metrics/sluice/metric"

// Ref identifies a series by number and generation. If the place was reused, the cell's state
// differs from State.
type Ref struct {
	Number uint32
	State  uint32
}

// The target of an alias is one word, so that it changes atomically. It is either a series' number
// and state, or a rejection and the table's retry epoch at that time. A state that differs from the
// cell's means that the place was reused. An epoch that differs from the table's means that the
// sample may be accepted now.

// RefusalBit is set in the targets that are rejections.
const RefusalBit = 1 << 63

func (r Ref) Target() uint64 { return uint64(r.State)<<32 | uint64(r.Number) }

func TargetRef(target uint64) Ref { return Ref{Number: uint32(target), State: uint32(target >> 32)} }

func RefusalTarget(r metric.Reason, epoch uint32) uint64 {
	return RefusalBit | uint64(epoch)<<8 | uint64(r)
}

func TargetRefusal(target uint64) (r metric.Reason, epoch uint32) {
	return metric.Reason(target), uint32(target >> 8)
}
