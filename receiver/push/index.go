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
	routes = append(routes, &httpserver.Route{Paths: []string{openapiPath}, Index: []string{openapiPath}, Get: answerOpenAPI})
	index := &httpserver.Route{Paths: []string{"/", "/v1", "/v1/"}}
	paths := httpserver.IndexOf(routes)
	index.Get = func(x *httpserver.Request) { describe(x, paths) }
	return append(routes, index)
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
