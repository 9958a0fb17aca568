package answer

import (
	"errors"
	"slices"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/rollup"
	"github.com/sluice-metrics/sluice/aggregate/rule"
	"github.com/sluice-metrics/sluice/metric"
)

// Parts are the dependencies of a Reader. Cluster and Workloads are both set, or neither: standalone.
type Parts struct {
	Merged    *aggregate.Merged
	Rules     *rule.Current
	Cluster   rollup.Cluster
	Workloads rollup.Workloads
	// Announces is rollup.Parts.Announces.
	Announces func(pod metric.Object, name string) bool
	// Usage answers for what agents report that pods and nodes use; nil: it is not served.
	Usage Usage
	// Freshen applies what sockets still gather, before each read and deletion; nil: it may come later.
	Freshen func()
	// Deleting is told of each deletion before it; nil: nobody is.
	Deleting func(metric.Query)
}

// Usage answers for usage of pods and nodes. Any goroutine may call the methods.
type Usage interface {
	// Has reports whether Points may answer for a metric of a resource. Listed are those metrics.
	Has(resource, name string) bool
	Listed() []metric.Discovered
	Points(metric.Query) ([]metric.Point, error)
	// News grows with what Points answers from.
	News() uint64
}

// Reader answers queries. Any goroutine may use it. Errors wrap metric.ErrNotFound, metric.ErrNotReady or
// metric.ErrInvalidQuery, and readers see their messages.
type Reader struct {
	parts  Parts
	pushed *rollup.Reader
}

// New makes a Reader.
func New(parts Parts) *Reader {
	r := &Reader{parts: parts}
	r.pushed = rollup.New(rollup.Parts{Begin: r.begin, Cluster: parts.Cluster, Workloads: parts.Workloads,
		Announces: parts.Announces})
	return r
}

func (r *Reader) begin() rollup.Snapshot {
	if r.parts.Freshen != nil {
		r.parts.Freshen()
	}
	return r.parts.Merged.Begin()
}

// Objects returns one point per object that has the metric, sorted by name. The caller owns the points.
func (r *Reader) Objects(q metric.Query) ([]metric.Point, error) {
	set := r.parts.Rules.Set()
	return set.Points(q, func() rule.Read { return r.orUsage(set, r.pushed.Begin().Objects) })
}

// orUsage answers for usage where no rule has the name, and no object that is asked for has a pushed series
// of it: an answer never mixes both, whose units may differ.
func (r *Reader) orUsage(rules *rule.Set, pushed rule.Read) rule.Read {
	if r.parts.Usage == nil {
		return pushed
	}
	return func(q metric.Query) ([]metric.Point, error) {
		if !r.parts.Usage.Has(q.Resource, q.Expression.Name) || rules.Defines(&q) {
			return pushed(q)
		}
		kind, asked := metric.NoKind, q
		asked.Kind = &kind
		points, err := pushed(asked)
		if kind == metric.NoKind && errors.Is(err, metric.ErrInvalidQuery) { // such as a window that tables do not keep
			asked.Expression, asked.Reserve = metric.Expression{Name: q.Expression.Name}, nil
			if _, absent := pushed(asked); errors.Is(absent, metric.ErrNotFound) {
				err = absent
			}
		}
		if kind == metric.NoKind && errors.Is(err, metric.ErrNotFound) {
			return r.parts.Usage.Points(q)
		}
		if q.Kind != nil && kind != metric.NoKind {
			*q.Kind = kind
		}
		return points, err
	}
}

// External returns the points of a namespace's external metric, which the client adds up. The caller owns
// the points.
func (r *Reader) External(q metric.Query) ([]metric.Point, error) {
	q.Resource, q.Object = "", ""
	return r.parts.Rules.Set().Points(q, func() rule.Read { return r.pushed.Begin().External })
}

// Listed returns the existing metrics: usage, then the pushed ones, sorted by resource (external first) and name, up to
// limit external ones and up to limit of objects, then those of rules. Hidden ones (nil: none) are left out, with those that
// rules make of them.
func (r *Reader) Listed(limit int, hidden func(metric.Discovered) bool) []metric.Discovered {
	all := r.parts.Merged.Listed(limit)
	if hidden != nil {
		all = slices.DeleteFunc(all, hidden)
	}
	all = r.parts.Rules.Set().Listed(all)
	if r.parts.Usage == nil {
		return all
	}
	return append(r.parts.Usage.Listed(), all...)
}

// Computes reports whether a rule computes the metric of a query. Its values don't add up.
func (r *Reader) Computes(q metric.Query) bool { return r.parts.Rules.Set().Computes(&q) }

// Delete removes the series that a query selects, at all replicas, and returns their number: own series
// only, never those of an object's pods.
func (r *Reader) Delete(q metric.Query) int {
	if r.parts.Freshen != nil {
		r.parts.Freshen()
	}
	if r.parts.Deleting != nil {
		r.parts.Deleting(q)
	}
	return r.parts.Merged.Delete(q)
}
