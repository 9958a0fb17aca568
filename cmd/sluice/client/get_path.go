package client

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// The API groups that get reads. The Horizontal Pod Autoscaler prefers v1beta2.
const (
	CustomAPI   = "/apis/custom.metrics.k8s.io/v1beta2"
	ExternalAPI = "/apis/external.metrics.k8s.io/v1beta1"
)

// asked is one question to a metrics API.
type asked struct {
	namespace       string
	what, metric    string
	labels, objects string      // selectors; empty: all
	api             *metricsAPI // that answers; nil: not connected yet
}

// path is the path and query of the question. A "/" in the metric's name is written "\|".
func (q asked) path() (string, error) {
	if q.metric == "" {
		return "", errors.New("METRIC is empty; must be name[:stat][:window]")
	}
	namespace := q.namespace
	if namespace == "" {
		namespace = "default"
	}
	metric := url.PathEscape(strings.ReplaceAll(q.metric, "/", `\|`))
	if q.what == "external" {
		if q.objects != "" {
			return "", errors.New("--selector picks objects, which external metrics have none of; must be --labels")
		}
		return ExternalAPI + "/namespaces/" + url.PathEscape(namespace) + "/" + metric +
			query("labelSelector", q.labels), nil
	}
	resource, name, err := splitObject(q.what, ", or external")
	if err != nil {
		return "", fmt.Errorf("WHAT %w", err)
	}
	k := kindOf(resource)
	selectors := query("labelSelector", q.objects, "metricLabelSelector", q.labels)
	name = url.PathEscape(name)
	switch {
	case k.canonical == "namespaces":
		return CustomAPI + "/namespaces/" + name + "/metrics/" + metric + selectors, nil
	case !k.namespaced:
		return CustomAPI + "/" + url.PathEscape(k.resource) + "/" + name + "/" + metric + selectors, nil
	}
	return CustomAPI + "/namespaces/" + url.PathEscape(namespace) + "/" + url.PathEscape(k.resource) + "/" + name + "/" + metric + selectors, nil
}

// query is the URL query of the pairs that have a value.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}
