package adapter

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// unescape reads a metric's name as it stands in a path, where "\|" stands for "/" (external metrics API
// proposal: the autoscaler writes it so by itself).
func unescape(name string) string { return strings.ReplaceAll(name, `\|`, "/") }

// escape writes a metric's name the way it is asked for.
func escape(name string) string { return strings.ReplaceAll(name, "/", `\|`) }

// askedObjects is the path of a custom metrics request, taken apart.
type customRequest struct {
	namespace string
	resource  string
	object    string // "*": all
	metric    string
}

// objectsAsked reads what the library made of the path: {resource}/{name}/{metric}, with or without a namespace
// before it. namespaces/{ns}/metrics/{metric} comes as resource "namespaces" in no namespace.
func parseCustomRequest(ctx context.Context) (customRequest, error) {
	path, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return customRequest{}, fmt.Errorf("the request has no path information: the handler chain is broken")
	}
	// The library takes an empty name for "*", and ignores what follows namespaces/{ns}/metrics/{metric}.
	if len(path.Parts) != 3 || path.Name == "" || path.Subresource == "" {
		return customRequest{}, metric.NotFoundf(
			"no path %q: want [namespaces/{namespace}/]{resource}/{name or *}/{metric} or namespaces/{namespace}/metrics/{metric}", path.Path)
	}
	return customRequest{
		namespace: path.Namespace,
		resource:  path.Resource,
		object:    path.Name,
		metric:    unescape(path.Subresource),
	}, nil
}

// scopedTo refuses a path that puts a cluster-scoped resource into a namespace, or a namespaced one into none.
func (a customRequest) checkScope(one objectKind) error {
	switch {
	case one.namespaced && a.namespace == "":
		return metric.InvalidQueryf("%s live in namespaces: ask for namespaces/{namespace}/%s/%s/%s",
			one.resource, one.resource, a.object, escape(a.metric))
	case !one.namespaced && a.namespace != "" && one.resource == namespaces:
		return metric.InvalidQueryf("metrics that describe a namespace are at namespaces/%s/metrics/{metric}", a.namespace)
	case !one.namespaced && a.namespace != "":
		return metric.InvalidQueryf("%s live in no namespace: ask for %s/%s/%s",
			one.resource, one.resource, a.object, escape(a.metric))
	}
	return nil
}

// externalAsked reads namespaces/{namespace}/{metric}. The library would take "status" and "finalize" for
// subresources of the namespace, and the metric for one called "namespaces".
func parseExternalRequest(ctx context.Context) (namespace, name string, err error) {
	path, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return "", "", fmt.Errorf("the request has no path information: the handler chain is broken")
	}
	if len(path.Parts) != 1 || path.Namespace == "" || path.Resource == "" {
		return "", "", metric.NotFoundf("no path %q: want namespaces/{namespace}/{metric}", path.Path)
	}
	return path.Namespace, unescape(path.Resource), nil
}
