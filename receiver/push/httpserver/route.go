package httpserver

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// A Route serves some paths with a handler for each method.
type Route struct {
	// Paths are compared literally.
	Paths []string
	// Match serves paths with variables: it reports whether a path is the route's, and reads the
	// variables. The fault of a path that matches is answered by Fail; one of a path that does not
	// match says why no route serves it. Routes are asked in the order of their registration.
	Match func(path []byte, into *Path) (matched bool, f *Fault)
	// Index lists the paths for people: in the index, and in the answer to an unknown path.
	Index []string

	// Handlers by method; nil: 405. Get serves HEAD too.
	Get, Put, Post, Delete func(*Request)
	// Fail answers a PUT or a POST that is rejected before its handler runs. Nil: Request.Fail,
	// which counts no sample.
	Fail func(*Request, *Fault)
	// Public routes look at no credential.
	Public bool
	// Disabled routes are described, but not served.
	Disabled bool

	// Operations and Tag describe the route for the OpenAPI document: at least one operation for
	// each handler.
	Operations []Operation
	Tag        string
}

// Path holds the variables of a path. The strings are copies.
type Path struct {
	Namespace string
	Resource  string // as the path spells it; empty: external
	Name      string
	Metric    string        // with "\\|" already read as "/"
	Grouping  metric.Labels // of a Pushgateway group
}

// Handler returns the handler of a method, or nil.
func (r *Route) Handler(method string) func(*Request) {
	switch method {
	case fasthttp.MethodGet, fasthttp.MethodHead:
		return r.Get
	case fasthttp.MethodPut:
		return r.Put
	case fasthttp.MethodPost:
		return r.Post
	case fasthttp.MethodDelete:
		return r.Delete
	}
	return nil
}

// allowed lists those of some methods that the route serves.
func (r *Route) allowed(methods ...string) string {
	return strings.Join(slices.DeleteFunc(methods, func(m string) bool { return r.Handler(m) == nil }), ", ")
}

// Router finds the route of a path.
type Router struct {
	literal  map[string]*Route
	matching []*Route
	Index    []string
	Routes   []*Route
}

// NewRouter makes a Router of routes, which are asked in their order.
func NewRouter(routes []*Route) *Router {
	r := &Router{literal: map[string]*Route{}, Routes: routes}
	for _, route := range routes {
		if route.Disabled {
			continue
		}
		for _, path := range route.Paths {
			r.literal[path] = route
		}
		if route.Match != nil {
			r.matching = append(r.matching, route)
		}
	}
	r.Index = IndexOf(routes)
	return r
}

// IndexOf lists the methods and paths of routes, for people.
func IndexOf(routes []*Route) (lines []string) {
	for _, route := range routes {
		methods := route.allowed(fasthttp.MethodPut, fasthttp.MethodPost, fasthttp.MethodGet, fasthttp.MethodDelete)
		for _, path := range route.Index {
			lines = append(lines, methods+" "+path)
		}
	}
	return lines
}

// Find returns the route of a path and reads the path's variables. With a fault the route may be
// nil.
func (r *Router) Find(path []byte, into *Path) (*Route, *Fault) {
	if route := r.literal[string(path)]; route != nil {
		return route, nil
	}
	for _, route := range r.matching {
		if matched, f := route.Match(path, into); matched {
			return route, f
		} else if f != nil {
			return nil, f
		}
	}
	var segments Segments
	n, f := segments.Cut(path)
	if f != nil {
		return nil, f
	}
	if n > 0 {
		if route := r.literal["/"+strings.Join(segments[:n], "/")]; route != nil && n == bytes.Count(path, []byte{'/'}) {
			return route, nil // spelled with percent signs
		}
	}
	f = r.unknown(path)
	if n == 0 && len(path) > 0 && path[0] == '/' {
		f.Message += ": it has an empty segment"
	}
	return nil, f
}

func (r *Router) unknown(path []byte) *Fault {
	return &Fault{
		Status: fasthttp.StatusNotFound, Reason: "path", Uncounted: true, paths: r.Index,
		Message: fmt.Sprintf("%q is not a path of this server", Clip(path)),
	}
}

func wrongMethod(r *Route, m string) *Fault {
	allow := r.allowed(fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodPut, fasthttp.MethodPost,
		fasthttp.MethodDelete)
	return &Fault{
		Status: fasthttp.StatusMethodNotAllowed, Reason: "method", Uncounted: true, allow: allow,
		Message: m + " is not allowed on this path; must be one of " + allow,
	}
}
