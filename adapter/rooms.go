package adapter

import (
	"sync"

	"github.com/sluice-metrics/sluice/metric"
)

// fewPoints is the most that an answer has that is not large.
const fewPoints = 4096

// rooms are for the points of answers, crowdedRooms for those of large ones: they are 20 MB for 150,000 objects, and gone after
// two cycles of the collector, which looks through them, in which nobody asked for such an answer.
var (
	rooms        = sync.Pool{New: func() any { return new([]metric.Point) }}
	crowdedRooms = sync.Pool{New: func() any { return new([]metric.Point) }}
)

// takeRoom takes room for an answer of some points, which need not have as much yet.
func takeRoom(points int) []metric.Point {
	if points > fewPoints {
		return *crowdedRooms.Get().(*[]metric.Point)
	}
	return *rooms.Get().(*[]metric.Point)
}

// giveRoom gives back what takeRoom took, with the points that came into it.
func giveRoom(points []metric.Point) {
	clear(points) // or strings of what is gone would stay
	points = points[:0]
	if cap(points) > fewPoints {
		crowdedRooms.Put(&points)
		return
	}
	rooms.Put(&points)
}
