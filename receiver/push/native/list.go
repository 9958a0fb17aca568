package native

import (
	"net/url"
	"strconv"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
)

// Lister lists what can be read.
type Lister interface {
	// Namespaces lists the namespaces that have metrics.
	Namespaces(inspect.Query) inspect.Page[string]
	Metrics(inspect.Query) inspect.Page[inspect.Metric]
	// Series returns some series of a metric on objects of a resource (empty: external), at most limit.
	Series(namespace, resource, name string, limit int) []inspect.Series
}

// Lists serves the paths above metrics.
type Lists struct {
	lister   Lister
	policies policy.Checker
}

// NewLists makes the handler. Without a lister (nil) nothing is listed. Without policies each value that is
// listed may be read.
func NewLists(lister Lister, policies policy.Checker) *Lists { return &Lists{lister, policies} }

// matchList reads /v1/namespaces and /v1/namespaces/{namespace}, also with a "/" at the end.
func matchList(path []byte, p *httpserver.Path) (bool, *httpserver.Fault) {
	if n := len(path); n > 1 && path[n-1] == '/' {
		path = path[:n-1]
	}
	var segments httpserver.Segments
	n, f := segments.Cut(path)
	if f != nil || n != 2 && n != 3 || segments[0] != "v1" || segments[1] != "namespaces" {
		return false, nil // another route names the fault
	}
	*p = httpserver.Path{Namespace: segments[2]}
	return true, nil
}

// list answers a GET of a path above metrics.
func (h *Lists) list(x *httpserver.Request) {
	name := "namespaces"
	if x.Path.Namespace != "" {
		name = "metrics"
	}
	q, f := listQuery(x, name)
	if f == nil && h.lister == nil {
		f = queryFault(metric.NotFoundf("nothing is listed here"))
	}
	if f != nil {
		x.Fail(f)
		return
	}
	if name == "namespaces" {
		h.listNamespaces(x, q)
	} else {
		h.listMetrics(x, q)
	}
}

// listQuery reads the parameters of a list.
func listQuery(x *httpserver.Request, name string) (q inspect.Query, f *httpserver.Fault) {
	q.Namespace = x.Path.Namespace
	if q.Namespace != "" {
		f = httpserver.CheckNamespace(q.Namespace)
	}
	if f == nil {
		f = x.EachParam(x.HTTP.URI().QueryString(), func(key, value string) *httpserver.Fault {
			return setListParam(&q, name, key, value)
		})
	}
	if f != nil {
		f.Uncounted = true
	}
	return q, f
}

func setListParam(q *inspect.Query, name, key, value string) *httpserver.Fault {
	var err error
	switch key {
	case "limit":
		if q.Most, err = strconv.Atoi(value); err != nil || q.Most < 1 || q.Most > inspect.MaxMost {
			return httpserver.BadRequest("limit is %q; must be a number from 1 to %d", value, inspect.MaxMost)
		}
	case "continue":
		if q.After, err = inspect.ParseToken(name, value); err != nil {
			return httpserver.BadRequest("continue %q %v; must be that of the page before", value, err)
		}
	default:
		return httpserver.BadRequest("the parameter %q is unknown: this request takes limit, continue", key)
	}
	return nil
}

type namespacesAnswer struct {
	Namespaces []namespaceAnswer `json:"namespaces"`
	Continue   string            `json:"continue,omitempty"`
}

type namespaceAnswer struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// listNamespaces answers with the namespaces that have metrics and that the sender may read.
func (h *Lists) listNamespaces(x *httpserver.Request, q inspect.Query) {
	page := h.lister.Namespaces(q)
	f := x.AskToList(metric.Get, func(yield func(metric.Object) bool) {
		for _, namespace := range page.Items {
			if !yield(metric.Object{Namespace: namespace}) {
				return
			}
		}
	})
	if f != nil {
		x.Fail(f)
		return
	}
	answer := namespacesAnswer{Namespaces: []namespaceAnswer{}, Continue: page.Next.Token("namespaces")}
	for _, namespace := range page.Items {
		if mayList(x, namespace) {
			answer.Namespaces = append(answer.Namespaces, namespaceAnswer{namespace, "/v1/namespaces/" + namespace})
		}
	}
	x.Reply(fasthttp.StatusOK, answer)
}

// mayList reports whether the sender may read the metrics of a namespace, as far as the API server was asked.
func mayList(x *httpserver.Request, namespace string) bool {
	if !x.ChecksTrust() {
		return true
	}
	reason, _ := x.MayNow(metric.Get, metric.Object{Namespace: namespace})
	return reason == metric.Applied
}

type metricsAnswer struct {
	Metrics  []metricAnswer `json:"metrics"`
	Continue string         `json:"continue,omitempty"`
}

// metricAnswer is a metric with the path that reads it.
type metricAnswer struct {
	inspect.Metric
	Path string `json:"path"`
}

// listMetrics answers with the metrics of a namespace.
func (h *Lists) listMetrics(x *httpserver.Request, q inspect.Query) {
	if f := x.May(metric.Get, metric.Object{Namespace: q.Namespace}); f != nil {
		x.Fail(f)
		return
	}
	page := h.lister.Metrics(q)
	f := x.AskToList(metric.Get, func(yield func(metric.Object) bool) {
		for i := range page.Items {
			if !yield(allOf(&page.Items[i])) {
				return
			}
		}
	})
	if f != nil {
		x.Fail(f)
		return
	}
	inspect.HideValues(page.Items, policy.ReaderView{Policies: h.policies, Reader: x.Sender().Reader()}, h.lister.Series)
	answer := metricsAnswer{Metrics: []metricAnswer{}, Continue: page.Next.Token("metrics")}
	for _, m := range page.Items {
		if mayReadAll(x, &m) {
			answer.Metrics = append(answer.Metrics, metricAnswer{m, pathOf(&m)})
		}
	}
	x.Reply(fasthttp.StatusOK, answer)
}

// mayReadAll reports whether the sender may read a metric of all objects.
func mayReadAll(x *httpserver.Request, m *inspect.Metric) bool {
	if !x.ChecksTrust() || m.Resource == "" {
		return true
	}
	reason, _ := x.MayNow(metric.Get, allOf(m))
	return reason == metric.Applied
}

// allOf is all objects that have a metric.
func allOf(m *inspect.Metric) metric.Object {
	return metric.Object{Resource: m.Resource, Namespace: m.Namespace, Name: metric.AllObjects}
}

// pathOf is the path that reads a metric, of all objects that have it.
func pathOf(m *inspect.Metric) string {
	path := "/v1/namespaces/" + m.Namespace
	if m.Resource == "" {
		return path + "/external/" + url.PathEscape(m.Name)
	}
	return path + "/" + m.Resource + "/" + metric.AllObjects + "/" + url.PathEscape(m.Name)
}

// Routes returns the route of the lists.
func (h *Lists) Routes() []*httpserver.Route {
	return []*httpserver.Route{{
		Match: matchList, Get: h.list, Index: []string{"/v1/namespaces", "/v1/namespaces/{namespace}"}, Tag: "metrics",
		Operations: []httpserver.Operation{
			{
				Method: "GET", Path: "/v1/namespaces", ID: "listNamespaces",
				Summary: "Lists the namespaces that have metrics and that the sender may read",
				Params:  "listLimit listContinue", Answers: "200:Namespaces 404:NotFound",
			},
			{
				Method: "GET", Path: "/v1/namespaces/{namespace}", ID: "listMetrics",
				Summary: "Lists the metrics of a namespace that the sender may read",
				Params:  "namespace listLimit listContinue", Answers: "200:Metrics 404:NotFound",
			},
		},
	}}
}
