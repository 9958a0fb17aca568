package rule

import (
	"sync/atomic"

	"github.com/sluice-metrics/sluice/metric"
)

// Current holds the present Set. Any goroutine may use it.
type Current struct{ set atomic.Pointer[Set] }

// Set returns the present rules; nil: none.
func (c *Current) Set() *Set { return c.set.Load() }

// Replace replaces the rules.
func (c *Current) Replace(s *Set) { c.set.Store(s) }

// Source reads pushed metrics.
type Source interface {
	Objects(metric.Query) ([]metric.Point, error)
	External(metric.Query) ([]metric.Point, error)
	Listed(limit int) []metric.Discovered
}

// Reader reads pushed metrics and those of rules. Any goroutine may use it.
type Reader struct {
	Source
	rules *Current
	// begin returns reads that answer all queries as of the moment of the first one.
	begin func() (objects, external Read)
}

// NewReader returns a reader over a source.
func NewReader(from Source, begin func() (objects, external Read), rules *Current) *Reader {
	return &Reader{from, rules, begin}
}

// Objects implements Source.
func (r *Reader) Objects(q metric.Query) ([]metric.Point, error) {
	set := r.rules.Set()
	if set.Empty() {
		return r.Source.Objects(q)
	}
	return set.Points(q, r.Source.Objects, func() Read { objects, _ := r.begin(); return objects })
}

// External implements Source.
func (r *Reader) External(q metric.Query) ([]metric.Point, error) {
	set := r.rules.Set()
	if set.Empty() {
		return r.Source.External(q)
	}
	q.Resource, q.Object = "", ""
	return set.Points(q, r.Source.External, func() Read { _, external := r.begin(); return external })
}

// Listed implements Source.
func (r *Reader) Listed(limit int) []metric.Discovered {
	return r.rules.Set().Listed(r.Source.Listed(limit))
}

// Computes reports whether a rule has the metric of a query. Its values don't add up.
func (r *Reader) Computes(q metric.Query) bool {
	return r.rules.Set().at(namespaceOf(&q), q.Expression.Name) != nil
}
