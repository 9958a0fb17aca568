package push

import (
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
)

type indexAnswer struct {
	Name  string   `json:"name"`
	Paths []string `json:"paths"`
	Notes []string `json:"notes"`
}

// withIndex adds the routes that describe the others.
func withIndex(routes []*httpserver.Route) []*httpserver.Route {
	openapi := &httpserver.Route{
		Paths: []string{"/openapi.json"}, Index: []string{"/openapi.json"},
		Tag: "about", Operations: []httpserver.Operation{
			{Method: "GET", Path: "/openapi.json", ID: "openapi", Summary: "This document", Answers: "200:OpenAPI"},
		},
	}
	index := &httpserver.Route{
		Paths: []string{"/", "/v1", "/v1/"},
		Tag:   "about", Operations: []httpserver.Operation{
			{Method: "GET", Path: "/", ID: "describe", Summary: "What this port takes, in short; also at /v1", Answers: "200:Index"},
		},
	}
	var paths []string
	var document []byte
	index.Get = func(x *httpserver.Request) { describe(x, paths) }
	openapi.Get = func(x *httpserver.Request) {
		x.HTTP.SetStatusCode(fasthttp.StatusOK)
		x.HTTP.SetContentType(httpserver.ContentType)
		x.HTTP.SetBody(document)
	}
	routes = append(routes, openapi, index)
	paths, document = httpserver.IndexOf(routes), describeRoutes(routes)
	return routes
}

// describe answers the index.
func describe(x *httpserver.Request, paths []string) {
	x.Reply(fasthttp.StatusOK, indexAnswer{
		Name:  "sluice: metrics over HTTP",
		Paths: paths,
		Notes: []string{
			"GET /openapi.json says all of this for machines: parameters, bodies, answers.",
			"PUT sets a gauge, POST adds to a counter; the body is a number.",
			"?type=counter|gauge|timer|set, ?label=key=value (repeatable), ?ttl=1h or forever, ?rate=0.1, ?sync=true",
			"GET reads {metric}, or {metric}:{stat}:{window}; the name * reads all objects. DELETE removes.",
			`"/" in a metric's name is written "%2F" or "\|".`,
			`A line of /v1/samples: {"name":"jobs_done","type":"counter","value":1,"namespace":"shop","object":"pods/web-1","labels":{"queue":"mail"}}`,
		},
	})
}
