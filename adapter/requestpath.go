package adapter

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// unescape decodes a metric's name in a path, where "\|" stands for "/" (external metrics API
// proposal). The autoscaler writes it that way.
func unescape(name string) string { return strings.ReplaceAll(name, `\|`, "/") }

// escape encodes a metric's name for a path.
func escape(name string) string { return strings.ReplaceAll(name, "/", `\|`) }

// customRequest is a parsed path of custom metrics.
type customRequest struct {
	namespace string
	resource  string
	object    string // "*": all
	metric    string
}

// parseCustomRequest reads the library's parsed path: {resource}/{name}/{metric}, with or without a
// namespace. For namespaces/{ns}/metrics/{metric} the resource is "namespaces", without a
// namespace. A name that no metric can have is metric.ErrInvalidQuery.
func parseCustomRequest(ctx context.Context) (customRequest, error) {
	path, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return customRequest{}, fmt.Errorf("the request has no path information: the handler chain is broken")
	}
	// The library takes an empty name for "*", and ignores anything after
	// namespaces/{ns}/metrics/{metric}.
	if len(path.Parts) != 3 || path.Name == "" || path.Subresource == "" {
		return customRequest{}, metric.NotFoundf(
			"path %q does not exist; must be [namespaces/{namespace}/]{resource}/{name or *}/{metric} or namespaces/{namespace}/metrics/{metric}", path.Path)
	}
	asked := customRequest{
		namespace: path.Namespace,
		resource:  path.Resource,
		object:    path.Name,
		metric:    unescape(path.Subresource),
	}
	_, err := metric.AskedExpression(asked.metric)
	return asked, err
}

// checkScope rejects a path with a cluster-scoped resource in a namespace, or a namespaced one
// outside.
func (a customRequest) checkScope(o objectKind) error {
	switch {
	case o.namespaced && a.namespace == "":
		return metric.InvalidQueryf("%s are namespaced; must be requested as namespaces/{namespace}/%s/%s/%s",
			o.resource, o.resource, a.object, escape(a.metric))
	case !o.namespaced && a.namespace != "" && o.resource == namespaces:
		return metric.InvalidQueryf("metrics of a namespace must be requested as namespaces/%s/metrics/{metric}",
			a.namespace)
	case !o.namespaced && a.namespace != "":
		return metric.InvalidQueryf("%s are not namespaced; must be requested as %s/%s/%s",
			o.resource, o.resource, a.object, escape(a.metric))
	}
	return nil
}

// parseExternalRequest reads namespaces/{namespace}/{metric}. The library would take "status" and
// "finalize" for subresources of the namespace, and "namespaces" for a resource.
func parseExternalRequest(ctx context.Context) (namespace, name string, err error) {
	path, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return "", "", fmt.Errorf("the request has no path information: the handler chain is broken")
	}
	if len(path.Parts) != 1 || path.Namespace == "" || path.Resource == "" {
		return "", "", metric.NotFoundf("path %q does not exist; must be namespaces/{namespace}/{metric}",
			path.Path)
	}
	return path.Namespace, unescape(path.Resource), nil
}
