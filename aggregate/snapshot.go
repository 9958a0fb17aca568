package aggregate

import (
	"slices"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// A Snapshot answers several queries as of one moment: all windows end at it. The first query reads
// the clocks, after its Reserve. Samples that arrive between two queries may be in the second
// answer only, as they may be in the second half of one large answer. A Snapshot is used within a
// second, by one goroutine.
type Snapshot struct {
	merged *Merged
	clocks []source // as read by the first query; nil: not yet
}

// Begin starts the queries of a moment.
func (m *Merged) Begin() *Snapshot { return &Snapshot{merged: m} }

// sources returns the origins for one query.
func (s *Snapshot) sources() ([]source, error) {
	s.readClocks()
	return slices.Clone(s.clocks), s.merged.incomplete()
}

func (s *Snapshot) readClocks() {
	if s.clocks == nil {
		s.clocks = s.merged.sources()
	}
}

// now is the moment, of the own clock.
func (s *Snapshot) now() window.Moment {
	s.readClocks()
	return s.clocks[ownSource(s.clocks)].now
}

// Zero is Table.Zero.
func (s *Snapshot) Zero(asked metric.Expression) metric.Point {
	return s.merged.own.zeroAt(asked, s.now())
}

// Objects is Merged.Objects.
func (s *Snapshot) Objects(q metric.Query) ([]metric.Point, error) {
	m, key := s.merged, index.Key{Resource: q.Resource, Namespace: q.Namespace, Name: q.Expression.Name}
	most := 0
	if q.Reserve != nil {
		most = m.mostObjects(key, &q)
	}
	points, err := pointBuffer(&q, most)
	if err != nil {
		return nil, err
	}
	sources, err := s.sources()
	if err != nil {
		return nil, err
	}
	r, err := m.plan(sources, &q, key)
	if err != nil {
		return nil, err
	}
	defer r.end()
	if q.Kind != nil {
		*q.Kind = r.Kind
	}
	var matched bool
	if q.RollUp != nil {
		points, matched = r.rollUp(points, q.RollUp)
	} else {
		points, matched = r.objects(slices.Grow(points, r.mostFound()))
	}
	return points, r.failure(&q, points, matched)
}

// mostObjects is an upper bound of the points of Objects.
func (m *Merged) mostObjects(key index.Key, q *metric.Query) int {
	if q.RollUp != nil {
		return 1
	}
	return m.mostEntries(key, q)
}

// External is Merged.External.
func (s *Snapshot) External(q metric.Query) ([]metric.Point, error) {
	q.Resource, q.Object = "", ""
	m, key := s.merged, index.Key{Namespace: q.Namespace, Name: q.Expression.Name}
	most := 0
	if q.Reserve != nil {
		if most = m.mostEntries(key, &q); most == 0 {
			most = m.mostEntries(index.Key{Name: key.Name}, &q)
		}
	}
	points, err := pointBuffer(&q, most)
	if err != nil {
		return nil, err
	}
	sources, err := s.sources()
	if err != nil {
		return nil, err
	}
	r, err := m.plan(sources, &q, key)
	if err != nil {
		return nil, err
	}
	defer r.end()
	parts := r.next()
	points, matched := r.externalParts(points, ofKind(parts, r.Kind))
	for i := range points {
		points[i].Object = parts[0].Entry.Object()
	}
	return points, r.failure(&q, points, matched)
}
