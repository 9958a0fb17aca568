package native

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
)

// read answers a GET of the path that was pushed to, with or without a stat and a window.
func (h *Handler) read(x *httpserver.Request) {
	q, f := h.query(x, httpserver.ParamLabel|httpserver.ParamSum, metric.Get)
	if f != nil {
		x.Fail(f)
		return
	}
	if err := h.allowed(x, &q); err != nil {
		x.Fail(queryFault(err))
		return
	}
	points, err := h.points(q)
	if err == nil {
		points = finite(points)
	}
	if err == nil && len(points) == 0 {
		err = metric.NotFoundf("no series of %q here has a value", q.Expression.Name)
	}
	if err != nil {
		x.Fail(queryFault(err))
		return
	}
	if q.sum {
		if points, f = h.sum(&q, points); f != nil {
			x.Fail(f)
			return
		}
	}
	answerPoints(x, q.Expression, points)
}

// answerPoints answers with points: with many, or with large ones, in pieces, because all may take a multiple of the memory.
func answerPoints(x *httpserver.Request, e metric.Expression, points []metric.Point) {
	all, largest := 0, 0
	for i := range points {
		size := itemBytes + len(points[i].Labels.Packed())
		all, largest = all+size, max(largest, size)
	}
	if all <= httpserver.SmallAnswer {
		answer := readAnswer{Items: make([]item, len(points))}
		for i := range points {
			answer.Items[i] = newItem(e, &points[i])
		}
		x.Reply(fasthttp.StatusOK, answer)
		return
	}
	memory := int64(unsafe.Sizeof(metric.Point{}))*int64(len(points)) + 4*int64(largest)
	x.Stream(httpserver.ContentType, memory, func(w *bufio.Writer) error { return writePoints(w, e, points) })
}

// itemBytes is the size of an item without its labels.
const itemBytes = 256

// writePoints writes a readAnswer.
func writePoints(w *bufio.Writer, e metric.Expression, points []metric.Point) error {
	var piece bytes.Buffer
	to := json.NewEncoder(&piece)
	to.SetEscapeHTML(false)
	_, _ = w.WriteString(`{"items":[`)
	for i := range points {
		piece.Reset()
		if i > 0 {
			piece.WriteByte(',')
		}
		if err := to.Encode(newItem(e, &points[i])); err != nil { // impossible, as for every answer
			return err
		}
		if _, err := w.Write(piece.Bytes()[:piece.Len()-1]); err != nil {
			return err
		}
	}
	_, err := w.WriteString("]}\n")
	return err
}

// allowed asks the policies about an external metric.
func (h *Handler) allowed(x *httpserver.Request, q *asked) error {
	if h.policies == nil || q.Resource != "" {
		return nil
	}
	request := policy.Request{Namespace: q.Namespace, Expression: q.Expression, Reader: x.Sender().Reader()}
	q.MayRead = func(expression, selector string) error {
		r := request
		r.Expression = metric.ParseExpression(expression)
		more, err := h.requirements(selector)
		if err != nil {
			return err
		}
		r.Selector = slices.Concat(request.Selector, more)
		return h.policies.Check(r)
	}
	for _, l := range q.RequiredLabels {
		request.Selector = append(request.Selector, policy.Requirement{Key: l.Key, Operator: policy.In,
			Values: []string{metric.SelectorValue(l.Value)}})
	}
	return h.policies.Check(request)
}

// remove answers a DELETE.
func (h *Handler) remove(x *httpserver.Request) {
	q, f := h.query(x, httpserver.ParamLabel|httpserver.ParamSync, metric.Delete)
	if f == nil {
		f = httpserver.CheckName(x.Path.Metric) // a name with a stat or a window names no series
	}
	if f != nil {
		x.Fail(f)
		return
	}
	end, f := x.BeginDeletion()
	if f != nil {
		x.Fail(f)
		return
	}
	n := h.reader.Delete(q.Query)
	end()
	if n == 0 {
		x.Fail(queryFault(metric.NotFoundf("no series of %q here to delete", x.Path.Metric)))
		return
	}
	if q.sync != httpserver.NoSync {
		if f := x.SyncDeletion(q.sync); f != nil {
			x.Reply(f.Status, struct {
				Error *httpserver.ErrorAnswer `json:"error"`
				httpserver.DeleteAnswer
			}{f.Answer(), httpserver.DeleteAnswer{Deleted: n, Replica: x.Replica()}})
			return
		}
	}
	x.Reply(fasthttp.StatusOK, httpserver.DeleteAnswer{Deleted: n, Replica: x.Replica()})
}

// A Handler serves the paths of single metrics, and /v1/samples.
type Handler struct {
	reader   Reader
	alive    func(metric.Object) bool
	policies policy.Checker
	// requirements parses the selectors of operands that rules have.
	requirements func(selector string) ([]policy.Requirement, error)
}

// Reader reads and deletes series. Errors are metric.ErrNotFound or metric.ErrInvalidQuery.
type Reader interface {
	Objects(metric.Query) ([]metric.Point, error)
	External(metric.Query) ([]metric.Point, error)
	// Delete removes the series that the query would read, and returns how many. It uses
	// Expression.Name only.
	Delete(metric.Query) int
	// Computes reports whether a rule computes the metric of a query, so values don't add up.
	Computes(metric.Query) bool
}

// New makes the handler. alive reports whether an object's values may be read; nil: all may. Without
// policies every reader may ask for what its rights allow; with them, requirements parses the
// selectors of operands that rules have.
func New(reader Reader, alive func(metric.Object) bool, policies policy.Checker,
	requirements func(selector string) ([]policy.Requirement, error)) *Handler {
	return &Handler{reader, alive, policies, requirements}
}

// Routes returns the routes of the protocol.
func (h *Handler) Routes() []*httpserver.Route {
	return []*httpserver.Route{
		{
			Match: matchSeries,
			Index: []string{
				"/v1/namespaces/{namespace}/{resource}/{name}/{metric}",
				"/v1/namespaces/{namespace}/metrics/{metric}",
				"/v1/namespaces/{namespace}/external/{metric}",
				"/v1/{cluster resource}/{name}/{metric}",
				"/v1/external/{metric}",
			},
			Get: h.read, Put: pushValue, Post: pushValue, Delete: h.remove, Fail: (*httpserver.Request).FailPush,
			Tag: "metrics", Operations: operations(),
		},
		{
			Paths: []string{"/v1/samples"}, Index: []string{"/v1/samples"},
			Post: pushSamples, Fail: (*httpserver.Request).FailPush,
			Tag: "metrics", Operations: []httpserver.Operation{{
				Method: "POST", Path: "/v1/samples", ID: "pushSamples",
				Summary: "Takes samples, one JSON object a line", Description: httpserver.LinesDescription,
				Params: "sync encoding", Body: "Lines", Answers: "200:Pushed 202:Held",
			}},
		},
	}
}

// asked is a query with the parameters that concern HTTP only.
type asked struct {
	metric.Query
	sync httpserver.Sync
	sum  bool
}

func (h *Handler) query(x *httpserver.Request, may httpserver.ParamSet, verb metric.Verb) (asked, *httpserver.Fault) {
	p, f := x.ParseParams(x.HTTP.URI().QueryString(), may)
	if f != nil {
		return asked{}, f
	}
	if f := x.CheckSync(p.Sync); f != nil {
		return asked{}, f
	}
	if f := x.Path.Check(true); f != nil {
		return asked{}, f
	}
	expression, err := metric.AskedExpression(x.Path.Metric)
	if err != nil {
		return asked{}, queryFault(err)
	}
	o, f := x.Target(x.Path.Namespace, x.Path.Resource, x.Path.Name)
	if f != nil {
		return asked{}, f
	}
	if f := x.May(verb, o); f != nil {
		return asked{}, f
	}
	return asked{sync: p.Sync, sum: p.Sum, Query: metric.Query{
		Resource: o.Resource, Namespace: o.Namespace, Object: o.Name,
		Expression: expression, MatchLabels: metric.HavingAll(p.Labels), RequiredLabels: p.Labels,
		MatchObject: h.alive,
	}}, nil
}

func (h *Handler) points(q asked) ([]metric.Point, error) {
	if q.Resource == "" {
		return h.reader.External(q.Query)
	}
	return h.reader.Objects(q.Query)
}

// sum adds points up to one, with the labels that they share. It fails for several objects and a
// stat that does not add, because the sum of two means is no mean.
func (h *Handler) sum(q *asked, points []metric.Point) ([]metric.Point, *httpserver.Fault) {
	if len(points) == 1 {
		return points, nil
	}
	if !h.adds(q, points) {
		f := httpserver.BadRequest("the values of %d objects do not add up for this stat; must be rate, count, total, last or sum: ask for one of them, or without sum=true", len(points))
		f.Uncounted = true
		return nil, f
	}
	point := points[0]
	for _, p := range points[1:] {
		point.Value, point.Labels = point.Value.Plus(p.Value), point.Labels.Intersection(p.Labels)
		point.Pods.With, point.Pods.Of = point.Pods.With+p.Pods.With, point.Pods.Of+p.Pods.Of
		if p.Time.After(point.Time) {
			point.Time = p.Time
		}
		if p.Object != point.Object {
			point.Object.Name = metric.AllObjects
		}
	}
	if len(finite([]metric.Point{point})) == 0 {
		return nil, queryFault(metric.Unknownf("the values of %q add up to more than a number can hold", q.Expression.Name))
	}
	return []metric.Point{point}, nil
}

// adds reports whether the values of the stat add up. The bare name is the last value without a
// window, otherwise the rate if the metric is a counter. Only a counter has a total.
func (h *Handler) adds(q *asked, points []metric.Point) bool {
	switch {
	case h.reader.Computes(q.Query):
		return false
	case q.Expression.Stat != metric.NoStat:
		return q.Expression.Stat.Additive()
	case points[0].Window == 0 || q.Resource == "": // External adds the series of its own accord
		return true
	}
	counter := *q
	counter.Expression.Stat, counter.Expression.Window = metric.Total, 0
	_, err := h.points(counter)
	return err == nil
}

// finite drops NaN and infinities, which JSON cannot express and nobody should scale by.
func finite(points []metric.Point) []metric.Point {
	kept := points[:0]
	for _, p := range points {
		if v := p.Value.Float64(); !math.IsNaN(v) && !math.IsInf(v, 0) {
			kept = append(kept, p)
		}
	}
	return kept
}

func queryFault(err error) *httpserver.Fault {
	if errors.Is(err, metric.ErrNotReady) {
		return httpserver.NotYet("%v", err)
	}
	f := &httpserver.Fault{Status: fasthttp.StatusInternalServerError, Reason: "internal", Message: err.Error()}
	switch {
	case errors.Is(err, metric.ErrNotFound):
		f.Status, f.Reason = fasthttp.StatusNotFound, "not_found"
	case errors.Is(err, metric.ErrInvalidQuery):
		f.Status, f.Reason = fasthttp.StatusBadRequest, "asked"
	case errors.Is(err, metric.ErrForbidden):
		f.Status, f.Reason = fasthttp.StatusForbidden, "policy"
	}
	return f
}

func newItem(e metric.Expression, p *metric.Point) item {
	it := item{
		Object:    objectAnswer{Resource: p.Object.Resource, Namespace: p.Object.Namespace, Name: p.Object.Name},
		Metric:    e.Name,
		Stat:      e.Stat.String(),
		Value:     numberText(p.Value),
		Timestamp: p.Time.UTC().Format(time.RFC3339Nano),
	}
	if p.Labels.Len() > 0 {
		it.Labels = p.Labels.Map()
	}
	if p.Window != 0 {
		it.Window = metric.FormatWindow(p.Window)
	}
	if p.Pods.Of > 0 {
		it.Pods = &podCount{p.Pods.With, p.Pods.Of}
	}
	return it
}

type readAnswer struct {
	Items []item `json:"items"`
}

type item struct {
	Object    objectAnswer      `json:"object"`
	Metric    string            `json:"metric"`
	Stat      string            `json:"stat,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Value     json.Number       `json:"value"`
	Timestamp string            `json:"timestamp"`
	Window    string            `json:"window,omitempty"`
	Pods      *podCount         `json:"pods,omitempty"`
}

// podCount counts the pods behind a roll-up: with a value, and all live ones.
type podCount struct {
	With int32 `json:"with"`
	Of   int32 `json:"of"`
}

type objectAnswer struct {
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

func numberText(n metric.Number) json.Number { return json.Number(n.Append(nil)) }
