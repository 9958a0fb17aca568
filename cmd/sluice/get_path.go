package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// The API groups that get reads. v1beta2 is what the Horizontal Pod Autoscaler prefers.
const (
	customAPI   = "/apis/custom.metrics.k8s.io/v1beta2"
	externalAPI = "/apis/external.metrics.k8s.io/v1beta1"
)

// clusterScoped are the resources of Kubernetes itself that live in no namespace.
var clusterScoped = map[string]bool{
	"nodes": true, "persistentvolumes": true, "namespaces": true,
	"storageclasses.storage.k8s.io": true, "ingressclasses.networking.k8s.io": true,
}

// asked is one question to a metrics API.
type asked struct {
	namespace       string
	what, metric    string
	labels, objects string // selectors; empty: all
}

// path is the question as path and query of the API. A "/" in the metric's name is written "\|" there.
func (q asked) path() (string, error) {
	if q.metric == "" {
		return "", errors.New("METRIC is empty: want name[:stat][:window]")
	}
	namespace := q.namespace
	if namespace == "" {
		namespace = "default"
	}
	metric := url.PathEscape(strings.ReplaceAll(q.metric, "/", `\|`))
	if q.what == "external" {
		if q.objects != "" {
			return "", errors.New("--selector picks objects, and external metrics have none: want --labels")
		}
		return externalAPI + "/namespaces/" + url.PathEscape(namespace) + "/" + metric +
			query("labelSelector", q.labels), nil
	}
	resource, name, ok := strings.Cut(q.what, "/")
	if !ok || resource == "" || name == "" {
		return "", fmt.Errorf("%q: want <resource>/<name>, <resource>/* or external", q.what)
	}
	selectors := query("labelSelector", q.objects, "metricLabelSelector", q.labels)
	name = url.PathEscape(name)
	switch {
	case resource == "namespaces":
		return customAPI + "/namespaces/" + name + "/metrics/" + metric + selectors, nil
	case clusterScoped[resource]:
		return customAPI + "/" + url.PathEscape(resource) + "/" + name + "/" + metric + selectors, nil
	}
	return customAPI + "/namespaces/" + url.PathEscape(namespace) + "/" + url.PathEscape(resource) + "/" + name + "/" + metric + selectors, nil
}

// query prints the pairs that have a value.
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
