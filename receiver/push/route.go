package push

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// place is what a path leads to.
type place uint8

const (
	nowhere place = iota
	index         // the description of the API
	openapi       // the same for machines
	samples       // NDJSON
	statsdLines
	otlpMetrics
	series // one metric of one object, or an external one
	remoteWriting

	// Of a Pushgateway.
	grouped // a group
	exposed // all groups, as an exposition
	groupList
	gatewayStatus
	health
	wipe
)

// route is a path, taken apart. Its strings are its own.
type route struct {
	place     place
	namespace string
	resource  string // as the path says it; empty: external
	name      string
	metric    string // with "\|" already read as "/"
	grouping  metric.Labels
}

// paths is what an unknown path is answered with, and what the index shows.
var paths = []string{
	"PUT, POST, GET, DELETE /v1/namespaces/{namespace}/{resource}/{name}/{metric}",
	"PUT, POST, GET, DELETE /v1/namespaces/{namespace}/metrics/{metric}",
	"PUT, POST, GET, DELETE /v1/namespaces/{namespace}/external/{metric}",
	"PUT, POST, GET, DELETE /v1/{cluster resource}/{name}/{metric}",
	"PUT, POST, GET, DELETE /v1/external/{metric}",
	"POST /v1/samples",
	"PUT, POST /v1/statsd",
	"POST /api/v1/write",
	"POST /v1/metrics",
	"PUT, POST, DELETE /metrics/job/{job}{/label/value}",
	"GET /metrics",
	"GET /api/v1/metrics",
	"GET /api/v1/status",
	"GET /-/ready, /-/healthy",
	"GET /openapi.json",
}

// maxSegments is "v1" and the five segments of the longest path.
const maxSegments = 6

// routeTo is where a path leads.
func (s *Server) routeTo(path []byte) (route, *fault) {
	if r, f := s.parseGateway(path); f != nil || r.place != nowhere {
		return r, f
	}
	return parseRoute(path)
}

// parseRoute reads a path as it stands in the request's first line: segments are cut at "/" before they are
// percent-decoded, so that "%2F" never makes a segment and ".." never climbs.
func parseRoute(path []byte) (route, *fault) {
	if len(path) == 0 || path[0] != '/' {
		return route{}, unknownPath(path)
	}
	switch string(path) {
	case "/", "/v1", "/v1/":
		return route{place: index}, nil
	case openapiPath:
		return route{place: openapi}, nil
	case "/api/v1/write":
		return route{place: remoteWriting}, nil
	}
	var segments [maxSegments]string
	n, f := decodeSegments(&segments, path)
	if f != nil {
		return route{}, f
	}
	if segments[0] != "v1" {
		return route{}, unknownPath(path)
	}
	return routeOf(segments[1:n], path)
}

// decodeSegments decodes a path into one string and cuts that up.
func decodeSegments(segments *[maxSegments]string, path []byte) (int, *fault) {
	var room [256]byte
	var ends [maxSegments]int
	text, n := room[:0], 0
	for rest, more := path[1:], true; more; n++ {
		if n == maxSegments {
			return 0, unknownPath(path)
		}
		var segment []byte
		segment, rest, more = bytes.Cut(rest, []byte{'/'})
		if len(segment) == 0 {
			return 0, emptySegment(path)
		}
		var bad int
		if text, bad = unescape(text, segment, false); bad >= 0 {
			return 0, badEscape("path", segment, bad)
		}
		ends[n] = len(text)
	}
	all, start := string(text), 0
	for i := range n {
		segments[i], start = all[start:ends[i]], ends[i]
	}
	return n, nil
}

func routeOf(s []string, path []byte) (route, *fault) {
	switch {
	case len(s) == 1 && s[0] == "samples":
		return route{place: samples}, nil
	case len(s) == 1 && s[0] == "statsd":
		return route{place: statsdLines}, nil
	case len(s) == 1 && s[0] == "metrics":
		return route{place: otlpMetrics}, nil
	case len(s) == 2 && s[0] == "external":
		return route{place: series, metric: slashed(s[1])}, nil
	case len(s) == 1 && s[0] == "external":
		return route{}, badRequest("the metric's name is missing: /v1/external/{metric}")
	case len(s) == 3 && s[0] == "namespaces" && (s[2] == "external" || s[2] == "metrics"):
		return route{}, badRequest("the metric's name is missing: /v1/namespaces/%s/%s/{metric}", s[1], s[2])
	case len(s) == 4 && s[0] == "namespaces" && s[2] != "external" && s[2] != "metrics":
		return route{}, badRequest("the metric's name is missing: /v1/namespaces/%s/%s/%s/{metric}", s[1], s[2], s[3])
	case len(s) == 3 && s[0] == "namespaces":
		return route{}, badRequest("a namespace's own metric has the path /v1/namespaces/%s/metrics/%s", s[1], s[2])
	case len(s) == 3 && s[0] == "external":
		return route{}, badRequest(`a "/" in a metric's name is written "%%2F" or "\|": /v1/external/%s\|%s`, s[1], s[2])
	case len(s) == 3:
		return route{place: series, resource: s[0], name: s[1], metric: slashed(s[2])}, nil
	case len(s) == 4 && s[0] == "namespaces" && s[2] == "external":
		return route{place: series, namespace: s[1], metric: slashed(s[3])}, nil
	case len(s) == 4 && s[0] == "namespaces" && s[2] == "metrics":
		return route{place: series, resource: "namespaces", name: s[1], metric: slashed(s[3])}, nil
	case len(s) == 5 && s[0] == "namespaces":
		return route{place: series, namespace: s[1], resource: s[2], name: s[3], metric: slashed(s[4])}, nil
	}
	return route{}, unknownPath(path)
}

// slashed reads "\|" as "/": the spelling of the Kubernetes metrics APIs, where a path segment cannot hold one.
func slashed(name string) string { return strings.ReplaceAll(name, `\|`, "/") }

// check holds the names against what Kubernetes lets a path say.
// all: the request is one that may speak of all objects at once.
func (r *route) check(all bool) *fault {
	if r.namespace != "" {
		if f := checkNamespace(r.namespace); f != nil {
			return f
		}
	}
	if r.name == allObjects && r.resource != "" {
		if all {
			return nil
		}
		return badName(`"*" stands for all objects when reading and deleting; a push names one`)
	}
	if r.resource == "namespaces" {
		return checkNamespace(r.name)
	}
	if r.resource != "" {
		return checkObjectName(r.name)
	}
	return nil
}

// allObjects is the name that reads and deletes the metric of every object of the resource.
const allObjects = "*"

// checkNamespace: a namespace is an RFC 1123 label.
func checkNamespace(ns string) *fault {
	ok := len(ns) > 0 && len(ns) <= 63 && ns[0] != '-' && ns[len(ns)-1] != '-'
	for i := 0; ok && i < len(ns); i++ {
		c := ns[i]
		ok = c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z'
	}
	if !ok {
		return badName("%q is no namespace: one has 1 to 63 of a-z, 0-9 and -, and no - at its ends", ns)
	}
	return nil
}

// checkObjectName: any object's name is a path segment (apimachinery's IsValidPathSegmentName) and has at
// most 253 bytes.
func checkObjectName(name string) *fault {
	ok := name != "" && len(name) <= 253 && name != "." && name != ".." && !strings.ContainsAny(name, "/%")
	for i := 0; ok && i < len(name); i++ {
		ok = name[i] >= ' ' && name[i] < 0x7f
	}
	if !ok {
		return badName(`%q is no object's name: one has 1 to 253 printable ASCII bytes without "/" and "%%", and is not "." or ".."`, name)
	}
	return nil
}

// target is the object that a route or a line speaks of.
func (s *Server) target(namespace, resource, name string) (metric.Object, *fault) {
	if resource == "" {
		return metric.Object{Namespace: namespace}, nil
	}
	canonical, namespaced, err := s.resources.Canonical(resource)
	if err != nil {
		return metric.Object{}, unknownResource(err)
	}
	switch {
	case namespaced && namespace == "":
		return metric.Object{}, wrongScope("%s are in namespaces: say /v1/namespaces/{namespace}/%s/%s/{metric}, or \"namespace\" in a line", canonical, resource, name)
	case canonical == "namespaces" && namespace != "":
		return metric.Object{}, wrongScope("a namespace is in no namespace: say /v1/namespaces/%s/metrics/{metric}, or \"object\":\"namespaces/%s\" alone in a line", name, name)
	case !namespaced && namespace != "":
		return metric.Object{}, wrongScope("%s are in no namespace: say /v1/%s/%s/{metric}, or leave \"namespace\" out of a line", canonical, resource, name)
	}
	return metric.Object{Resource: canonical, Namespace: namespace, Name: name}, nil
}

// unescape appends b percent-decoded to dst; bad is the offset of an escape that is none, else -1.
// In a query a "+" is a space.
func unescape(dst, b []byte, query bool) (out []byte, bad int) {
	if !query && bytes.IndexByte(b, '%') < 0 {
		return append(dst, b...), -1
	}
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '%':
			if i+2 >= len(b) || hex(b[i+1]) > 15 || hex(b[i+2]) > 15 {
				return dst, i
			}
			dst = append(dst, hex(b[i+1])<<4|hex(b[i+2]))
			i += 2
		case c == '+' && query:
			dst = append(dst, ' ')
		default:
			dst = append(dst, c)
		}
	}
	return dst, -1
}

func hex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

func unknownPath(path []byte) *fault {
	return &fault{
		status: fasthttp.StatusNotFound, reason: "path", uncounted: true, paths: paths,
		message: fmt.Sprintf("%q is no path here", clip(path)),
	}
}

func emptySegment(path []byte) *fault {
	f := unknownPath(path)
	f.message += ": it has an empty segment"
	return f
}
