package push

import (
	"errors"
	"math"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// read answers a GET: the path that was pushed to, perhaps with a stat and a window.
func (x *exchange) read(r *route) {
	q, f := x.query(r, allowLabel|allowSum, metric.Get)
	if f != nil {
		x.fail(f)
		return
	}
	points, err := x.server.points(q)
	if err == nil {
		points = finite(points)
	}
	if err == nil && len(points) == 0 {
		err = metric.NotFoundf("no series of %q here has a value", q.Expression.Name)
	}
	if err != nil {
		x.fail(queryFault(err))
		return
	}
	if q.sum {
		if points, f = x.server.sum(&q, points); f != nil {
			x.fail(f)
			return
		}
	}
	answer := readAnswer{Items: make([]item, len(points))}
	for i := range points {
		answer.Items[i] = newItem(&q, &points[i])
	}
	x.reply(fasthttp.StatusOK, answer)
}

// remove answers a DELETE.
func (x *exchange) remove(r *route) {
	q, f := x.query(r, allowLabel|allowSync, metric.Delete)
	if f == nil {
		f = checkName(r.metric) // a name with a stat or a window would not say which series to delete
	}
	if f != nil {
		x.fail(f)
		return
	}
	n := x.server.reader.Delete(q.Query)
	if n == 0 {
		x.fail(queryFault(metric.NotFoundf("no series of %q here to delete", r.metric)))
		return
	}
	if q.sync {
		if f := x.server.sync(); f != nil {
			x.reply(f.status, struct {
				Error *errorAnswer `json:"error"`
				deleteAnswer
			}{f.answer(), deleteAnswer{n}})
			return
		}
	}
	x.reply(fasthttp.StatusOK, deleteAnswer{n})
}

// asked is a query with what concerns HTTP alone.
type asked struct {
	metric.Query
	sync, sum bool
}

func (x *exchange) query(r *route, may allowed, verb metric.Verb) (asked, *fault) {
	p, f := x.parseParams(x.http.URI().QueryString(), may)
	if f != nil {
		return asked{}, f
	}
	if p.sync && x.server.syncer == nil {
		return asked{}, noStore()
	}
	if f := r.check(true); f != nil {
		return asked{}, f
	}
	o, f := x.server.target(r.namespace, r.resource, r.name)
	if f != nil {
		return asked{}, f
	}
	if f := x.may(verb, o); f != nil {
		return asked{}, f
	}
	return asked{sync: p.sync, sum: p.sum, Query: metric.Query{
		Resource: o.Resource, Namespace: o.Namespace, Object: o.Name,
		Expression: metric.ParseExpression(r.metric), MatchLabels: matcher(p.labels), MatchObject: x.server.alive,
	}}, nil
}

func (s *Server) points(q asked) ([]metric.Point, error) {
	if q.Resource == "" {
		return s.reader.External(q.Query)
	}
	return s.reader.Objects(q.Query)
}

// sum adds points up to one, with the labels that they share. Values of a stat that does not add, of several objects, are a fault:
// the sum of two means is nothing.
func (s *Server) sum(q *asked, points []metric.Point) ([]metric.Point, *fault) {
	if len(points) == 1 {
		return points, nil
	}
	if !s.adds(q, points) {
		f := badRequest("the values of %d objects do not add up for this stat; must be rate, count, total, last or sum: ask for one of them, or without sum=true", len(points))
		f.uncounted = true
		return nil, f
	}
	one := points[0]
	for _, p := range points[1:] {
		one.Value, one.Labels = one.Value.Plus(p.Value), sharedLabels(one.Labels, p.Labels)
		if p.Time.After(one.Time) {
			one.Time = p.Time
		}
		if p.Object != one.Object {
			one.Object.Name = allObjects
		}
	}
	return []metric.Point{one}, nil
}

// adds reports whether values of the stat add up. The bare name is last without a window, and else the rate if the metric is a
// counter: that alone has a total.
func (s *Server) adds(q *asked, points []metric.Point) bool {
	switch {
	case q.Expression.Stat != metric.NoStat:
		return q.Expression.Stat.Additive()
	case points[0].Window == 0 || q.Resource == "": // what does not add comes as one from External
		return true
	}
	counter := *q
	counter.Expression.Stat, counter.Expression.Window = metric.Total, 0
	_, err := s.points(counter)
	return err == nil
}

func sharedLabels(a, b metric.Labels) metric.Labels {
	var shared []metric.Label
	for key, value := range a.All() {
		if other, ok := b.Get(key); ok && other == value {
			shared = append(shared, metric.Label{Key: key, Value: value})
		}
	}
	return metric.NewLabels(shared)
}

// finite leaves out what JSON cannot say and nobody should scale by.
func finite(points []metric.Point) []metric.Point {
	kept := points[:0]
	for _, p := range points {
		if v := p.Value.Float64(); !math.IsNaN(v) && !math.IsInf(v, 0) {
			kept = append(kept, p)
		}
	}
	return kept
}

func queryFault(err error) *fault {
	f := &fault{status: fasthttp.StatusInternalServerError, reason: "internal", message: err.Error()}
	switch {
	case errors.Is(err, metric.ErrNotFound):
		f.status, f.reason = fasthttp.StatusNotFound, "not_found"
	case errors.Is(err, metric.ErrInvalidQuery):
		f.status, f.reason = fasthttp.StatusBadRequest, "asked"
	}
	return f
}

func newItem(q *asked, p *metric.Point) item {
	it := item{
		Object:    objectAnswer{Resource: p.Object.Resource, Namespace: p.Object.Namespace, Name: p.Object.Name},
		Metric:    q.Expression.Name,
		Stat:      q.Expression.Stat.String(),
		Value:     numberText(p.Value),
		Timestamp: p.Time.UTC().Format(time.RFC3339Nano),
	}
	if p.Labels.Len() > 0 {
		it.Labels = p.Labels.Map()
	}
	if p.Window != 0 {
		it.Window = metric.FormatWindow(p.Window)
	}
	return it
}
