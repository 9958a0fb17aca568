package adapter

import (
	"sync"

	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/metric"
)

// rooms are for the points of answers, crowdedRooms for those of large ones: they are 20 MB for 150,000 objects, and gone after
// two cycles of the collector, which looks through them, in which nobody asked for such an answer.
var (
	smallBuffers = sync.Pool{New: func() any { return new([]metric.Point) }}
	largeBuffers = sync.Pool{New: func() any { return new([]metric.Point) }}
)

// takeRoom takes room for an answer of some points, which need not have as much yet.
func takeBuffer(points int) []metric.Point {
	if points > valuelist.MaxSmall {
		return *largeBuffers.Get().(*[]metric.Point)
	}
	return *smallBuffers.Get().(*[]metric.Point)
}

// giveRoom gives back what takeRoom took, with the points that came into it.
func returnBuffer(points []metric.Point) {
	clear(points) // or strings of what is gone would stay
	points = points[:0]
	if cap(points) > valuelist.MaxSmall {
		largeBuffers.Put(&points)
		return
	}
	smallBuffers.Put(&points)
}
