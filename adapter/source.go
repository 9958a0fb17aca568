package adapter

import "github.com/sluice-metrics/sluice/metric"

// Source answers what the API is asked. Its errors are told apart with errors.Is: metric.ErrNotFound,
// metric.ErrInvalidQuery; their messages are shown to the reader. It is called from many goroutines at once.
type Source interface {
	// Objects returns one point for each object that has the metric. The points are the caller's, who may write over them.
	Objects(metric.Query) ([]metric.Point, error)
	// External returns the points of a namespace's external metric, which the reader will add up; likewise.
	External(metric.Query) ([]metric.Point, error)
	// Zero returns the point of a counter or a set that received nothing, without its object.
	Zero(metric.Expression) metric.Point
	// Listed returns metrics that exist, sorted by resource (external first) and name: the first limit of external ones,
	// then the first limit of objects'.
	Listed(limit int) []metric.Discovered
}
