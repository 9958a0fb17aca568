package rule

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Read reads pushed metrics: of objects sorted by their names, or of a namespace's externals.
type Read func(metric.Query) ([]metric.Point, error)

// Points answers a query. A pushed metric of the name answers first: it is never hidden. If there is none,
// the rule of that name computes the answer, or the metric that a rename stands for answers. Without
// either, this is a plain read. begin returns a Read that answers all queries as of the moment of the first
// one.
func (s *Set) Points(q metric.Query, begin func() Read) ([]metric.Point, error) {
	if s.Empty() {
		return begin()(q)
	}
	if r := s.at(NamespaceOf(&q), q.Expression.Name); r != nil {
		return s.compute(r, q, begin)
	}
	return s.pushed(q, "", begin())
}

// Computes reports whether a rule computes the metric of a query.
func (s *Set) Computes(q *metric.Query) bool { return s.at(NamespaceOf(q), q.Expression.Name) != nil }

// Defines reports whether a rule computes the metric of a query, or gives its name to another one.
func (s *Set) Defines(q *metric.Query) bool {
	_, renamed := s.pushedName(NamespaceOf(q), q.Expression.Name)
	return renamed != nil || s.Computes(q)
}

// pushed reads a pushed metric or, if there is none of the name, the one that a rename gives the name
// to. selector is that of an operand.
func (s *Set) pushed(q metric.Query, selector string, read Read) ([]metric.Point, error) {
	points, err := read(q)
	if len(s.renames) == 0 || !metric.Absent(err) {
		return points, err
	}
	name, r := s.pushedName(NamespaceOf(&q), q.Expression.Name)
	if r == nil {
		return points, err
	}
	asked := q
	asked.Expression.Name = name
	if err := mayRead(&q, asked.Expression.String(), selector); err != nil {
		return nil, err
	}
	if points, err = read(asked); err == nil {
		r.note(&q, points)
	}
	return points, err
}

// NamespaceOf is the namespace whose rules hold for a query. Namespaces themselves are in none.
func NamespaceOf(q *metric.Query) string {
	if q.Resource == "namespaces" && q.Object != "*" {
		return q.Object
	}
	return q.Namespace
}

// compute computes the answer of a rule, unless the metric is pushed.
func (s *Set) compute(r *Rule, q metric.Query, begin func() Read) ([]metric.Point, error) {
	asked := q
	asked.Reserve = nil // of the answer's points
	if points, err := begin()(asked); !metric.Absent(err) {
		return points, err
	}
	if q.Expression.Stat != metric.NoStat || q.Expression.Window != 0 {
		return nil, metric.InvalidQueryf("%q is computed by %s; must be asked for as %q: its operands have stats and windows of their own",
			q.Expression.String(), &r.Document, r.Metric())
	}
	read, first := begin(), true
	points, err := r.Compute(q.Resource == "", q.Resource != "" || q.MayRead == nil, func(o *Operand) ([]metric.Point, error) {
		if err := mayRead(&q, o.Metric, o.Selector); err != nil {
			return nil, err
		}
		query := o.query(&q, first)
		first = false
		return s.pushed(query, o.Selector, read)
	})
	if err == nil {
		r.note(&q, points)
	}
	return points, err
}

// mayRead asks whether the reader of a query may read a pushed metric.
func mayRead(q *metric.Query, expression, selector string) error {
	if q.MayRead == nil {
		return nil
	}
	return q.MayRead(expression, selector)
}

// Compute computes the rule of its operands, which are read in their order: values of objects, or
// the series of external metrics. The points of the first operand become those of the answer. told: an error may have
// the operands' values; of external metrics, some who may read the rule's metric may not read those.
func (r *Rule) Compute(external, told bool, read func(*Operand) ([]metric.Point, error)) ([]metric.Point, error) {
	parts, err := r.read(read)
	if err != nil {
		return nil, err
	}
	if external {
		return r.combine(sums(parts), told)
	}
	for _, points := range parts {
		if !slices.IsSortedFunc(points, byObject) {
			slices.SortFunc(points, byObject)
		}
	}
	return r.combine(parts, told)
}

// read reads all operands, also after one that has no value: the rule is absent if all are, and unknown if only some
// are, in whatever order.
func (r *Rule) read(read func(*Operand) ([]metric.Point, error)) ([][]metric.Point, error) {
	parts, known := make([][]metric.Point, len(r.operands)), false
	var missing *Operand
	var why error // of missing
	for i := range r.operands {
		points, err := read(&r.operands[i])
		switch {
		case err == nil:
			parts[i] = points
		case !errors.Is(err, metric.ErrNotFound):
			return nil, r.without(&r.operands[i], err, false)
		case missing == nil:
			missing, why = &r.operands[i], err
		}
		known = known || err == nil || errors.Is(err, metric.ErrUnknown)
	}
	if missing != nil {
		return nil, r.without(missing, why, known)
	}
	return parts, nil
}

// query is the query of an operand. The first one fills the buffer of the answer.
func (o *Operand) query(q *metric.Query, first bool) metric.Query {
	query := *q
	query.Expression, query.Kind, query.RequiredLabels = o.metric, nil, nil
	if !first {
		query.Reserve = nil
	}
	switch asked := q.MatchLabels; {
	case o.match == nil:
	case asked == nil:
		query.MatchLabels = o.match
	default:
		query.MatchLabels = func(set metric.Labels) bool { return asked(set) && o.match(set) }
	}
	return query
}

// without is the error of an operand that has no value. unknown: others have one, or some have one that is not known.
func (r *Rule) without(o *Operand, err error, unknown bool) error {
	fault, why := metric.NotFoundf, "has no value"
	switch {
	case errors.Is(err, metric.ErrInvalidQuery):
		fault, why = metric.InvalidQueryf, "is invalid"
	case !errors.Is(err, metric.ErrNotFound):
		return err
	case unknown:
		fault = metric.Unknownf
	case errors.Is(err, metric.ErrIdle):
		fault = metric.Idlef
	}
	return fault("%q is computed by %s, and its operand %s %s: %v", r.Metric(), &r.Document, o.Name, why, err)
}

func byObject(a, b metric.Point) int {
	if order := strings.Compare(a.Object.Name, b.Object.Name); order != 0 {
		return order
	}
	return strings.Compare(a.Object.UID, b.Object.UID)
}

// sums adds up the series of each operand of an external metric, as their reader would: a ratio is then a
// ratio of sums.
func sums(parts [][]metric.Point) [][]metric.Point {
	for i, points := range parts {
		point := points[0]
		for _, p := range points[1:] {
			point.Value, point.Labels = point.Value.Plus(p.Value), point.Labels.Intersection(p.Labels)
			joinTimes(&point, &p)
		}
		points[0] = point
		parts[i] = points[:1]
	}
	return parts
}

// combine computes a value for each object that has all operands. Its points are those of the first
// operand.
func (r *Rule) combine(parts [][]metric.Point, told bool) ([]metric.Point, error) {
	var reason error // why an object has no value
	all, rest := parts[0], parts[1:]
	values, kept := make([]float64, len(parts)), all[:0]
	for _, p := range all {
		values[0] = p.Value.Float64()
		if !r.gather(&p, rest, values[1:]) {
			continue
		}
		v, err := r.value.evaluate(values)
		if err != nil {
			reason = err
			continue
		}
		p.Value = metric.Computed(v)
		kept = append(kept, p)
	}
	clear(all[len(kept):])
	if len(kept) > 0 {
		return kept, nil
	}
	if reason != nil && !told {
		reason = errNoNumber
	}
	if reason != nil {
		return nil, metric.Unknownf("%q is computed by %s, and has no value: %v", r.Metric(), &r.Document, reason)
	}
	return nil, metric.Unknownf("%q is computed by %s, and no object has all of its operands: %s",
		r.Metric(), &r.Document,
		strings.Join(r.Reads(), ", "))
}

var errNoNumber = errors.New("it is infinite or not a number")

// gather finds the values of the other operands for the object of a point, and joins their times. It
// cuts off the objects that come before.
func (r *Rule) gather(p *metric.Point, rest [][]metric.Point, values []float64) bool {
	found := true
	for i, points := range rest {
		for len(points) > 0 && byObject(points[0], *p) < 0 {
			points = points[1:]
		}
		rest[i] = points
		if len(points) == 0 || byObject(points[0], *p) != 0 {
			found = false
			continue
		}
		values[i] = points[0].Value.Float64()
		joinTimes(p, &points[0])
		if p.Object.External() {
			p.Labels = p.Labels.Intersection(points[0].Labels)
		}
	}
	return found
}

// joinTimes makes a point as old as the older one, and its window the longer one.
func joinTimes(p *metric.Point, other *metric.Point) {
	if other.Time.Before(p.Time) {
		p.Time = other.Time
	}
	p.Window = max(p.Window, other.Window)
}

// lastValue is the newest answer of a rule.
type lastValue struct{ at atomic.Pointer[Value] }

// Value is a value that a rule had.
type Value struct {
	Object metric.Object // of the first point
	// Asked is the namespace that was asked, whose policies hold: a metric of all namespaces has none.
	Asked  string
	Number metric.Number
	Time   time.Time // of the answer
}

// note remembers an answer to a query.
func (r *Rule) note(q *metric.Query, points []metric.Point) {
	if len(points) > 0 {
		r.last.at.Store(&Value{points[0].Object, NamespaceOf(q), points[0].Value, time.Now()})
	}
}

// EndNamespace forgets the answers about a namespace, which ended: the next one of its name has these rules, too.
func (s *Set) EndNamespace(name string) {
	if s == nil {
		return
	}
	for _, c := range s.compiled {
		if c.rule == nil {
			continue
		}
		last := c.rule.Last()
		if last != nil && (last.Asked == name || last.Object.Resource == "namespaces" && last.Object.Name == name) {
			c.rule.last.at.CompareAndSwap(last, nil)
		}
	}
}

// Last returns the newest answer to any reader; nil: there was none since the start, or its namespace ended.
func (r *Rule) Last() *Value { return r.last.at.Load() }
