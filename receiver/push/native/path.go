package native

import (
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// matchSeries reads the path of one metric: of an object in a namespace, of the namespace itself,
// of an object of the cluster, or external.
func matchSeries(path []byte, p *httpserver.Path) (bool, *httpserver.Fault) {
	var segments httpserver.Segments
	n, f := segments.Cut(path)
	if f != nil || n < 2 || segments[0] != "v1" {
		return false, f
	}
	switch s := segments[1:n]; {
	case len(s) == 2 && s[0] == "external":
		*p = httpserver.Path{Metric: slashed(s[1])}
	case len(s) == 1 && s[0] == "external":
		return false, httpserver.BadRequest("the metric's name is missing: /v1/external/{metric}")
	case len(s) == 3 && s[0] == "namespaces" && (s[2] == "external" || s[2] == "metrics"):
		return false, httpserver.BadRequest("the metric's name is missing: /v1/namespaces/%s/%s/{metric}", s[1], s[2])
	case len(s) == 4 && s[0] == "namespaces" && s[2] != "external" && s[2] != "metrics":
		return false, httpserver.BadRequest("the metric's name is missing: /v1/namespaces/%s/%s/%s/{metric}%s", s[1], s[2], s[3],
			meant("/v1/namespaces/"+s[1]+"/", s[2], s[3], "external", "metrics"))
	case len(s) == 2 && suggest.Nearest(s[0], []string{"external"}) != "":
		return false, httpserver.BadRequest("there is no path /v1/%s/%s%s", s[0], s[1], meant("/v1/", s[0], s[1], "external"))
	case len(s) == 3 && s[0] == "namespaces":
		return false, httpserver.BadRequest("a namespace's own metric has the path /v1/namespaces/%s/metrics/%s", s[1], s[2])
	case len(s) == 3 && s[0] == "external":
		return false, httpserver.BadRequest(`a "/" in a metric's name is written "%%2F" or "\|": /v1/external/%s\|%s`, s[1], s[2])
	case len(s) == 3:
		*p = httpserver.Path{Resource: s[0], Name: s[1], Metric: slashed(s[2])}
	case len(s) == 4 && s[0] == "namespaces" && s[2] == "external":
		*p = httpserver.Path{Namespace: s[1], Metric: slashed(s[3])}
	case len(s) == 4 && s[0] == "namespaces" && s[2] == "metrics":
		*p = httpserver.Path{Resource: "namespaces", Name: s[1], Metric: slashed(s[3])}
	case len(s) == 5 && s[0] == "namespaces":
		*p = httpserver.Path{Namespace: s[1], Resource: s[2], Name: s[3], Metric: slashed(s[4])}
	default:
		return false, nil
	}
	return true, nil
}

// meant continues the fault of a path with the one that has the nearest of some words in the place of word.
func meant(before, word, metric string, words ...string) string {
	if best := suggest.Nearest(word, words); best != "" {
		return fmt.Sprintf("; did you mean %s%s/%s?", before, best, metric)
	}
	return ""
}

// slashed reads "\|" as "/": the Kubernetes metrics APIs spell it so, because a path segment cannot
// hold one.
func slashed(name string) string { return strings.ReplaceAll(name, `\|`, "/") }
