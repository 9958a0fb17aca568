package usage

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// PointsQuery selects points of windows.
type PointsQuery struct {
	// Node selects those of the node; else Namespace and Pod select pods, of which empty ones are any.
	Node           bool
	Namespace, Pod string
	// Points end after After, and not after Until.
	After, Until time.Time
	// Step joins the points that end within a multiple of it.
	Step time.Duration
	// Count limits the points of a container to the newest; 0: all.
	Count int
}

// Used is what was used in a time: cores, and bytes.
type Used struct {
	End         time.Time
	Length      time.Duration
	CPU, Memory float64
}

// ContainerPoints are the points of a container, the oldest first.
type ContainerPoints struct {
	Container metric.Container
	Points    []Used
}

// MaxPoints bounds an answer: 1 MiB as a message.
const MaxPoints = 50_000

// ErrTooManyPoints is a metric.ErrInvalidQuery: a query has more points than fit an answer.
var ErrTooManyPoints = metric.InvalidQueryf(
	"there are more than %d points; select a namespace, pods, a later start, a longer step or a count", MaxPoints)

// Points returns the points that a query selects, by container. Those of a time of which not both resources are known
// are left out. The error is ErrTooManyPoints.
func (t *Tracker) Points(q *PointsQuery) (all []ContainerPoints, err error) {
	total := 0
	for name, c := range t.containers {
		if q.Node != (name.Pod == "") || q.Namespace != "" && q.Namespace != name.Namespace || q.Pod != "" && q.Pod != name.Pod {
			continue
		}
		points := q.points(&c.cpu, &c.memory)
		if total += len(points); total > MaxPoints {
			return nil, ErrTooManyPoints
		}
		if len(points) > 0 {
			all = append(all, ContainerPoints{name, points})
		}
	}
	return all, nil
}

// points joins the points of both resources.
func (q *PointsQuery) points(cpu, memory *History) (all []Used) {
	bytes := q.joined(memory)
	for _, p := range q.joined(cpu) {
		for len(bytes) > 0 && bytes[0].step < p.step {
			bytes = bytes[1:]
		}
		if len(bytes) > 0 && bytes[0].step == p.step {
			all = append(all, Used{time.UnixMilli(p.to), time.Duration(p.length) * time.Millisecond, p.mean(), bytes[0].mean()})
		}
	}
	if q.Count > 0 && len(all) > q.Count {
		all = all[len(all)-q.Count:]
	}
	return all
}

// joinedPoint are the points that end within a step. sum is of values, times milliseconds.
type joinedPoint struct {
	step, to, length int64
	sum              float64
}

func (p *joinedPoint) mean() float64 { return p.sum / float64(p.length) }

func (q *PointsQuery) joined(h *History) (all []joinedPoint) {
	for _, p := range h.points[h.firstAfter(q.After.UnixMilli()):] {
		if p.to > q.Until.UnixMilli() {
			break
		}
		// A point that ends where a step does is of that.
		step := (p.to - 1) / max(q.Step.Milliseconds(), 1)
		if n := len(all); n == 0 || all[n-1].step != step {
			all = append(all, joinedPoint{step: step})
		}
		last := &all[len(all)-1]
		last.to, last.length = p.to, last.length+int64(p.length)
		last.sum += float64(p.value) * float64(p.length)
	}
	return all
}
