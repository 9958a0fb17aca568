package adapter

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/internal/fair"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// inspection serves the API group inspect.sluice.dev: lists of what this process holds, in pages
// (docs/adr/0054). The chain of handlers authenticates, authorizes and bounds its requests like
// those of the metrics APIs.
type inspection struct {
	source   inspect.Source
	policies Policies
	// scans bounds the pages that are made at once: each visits the whole index. Readers take turns.
	scans   *fair.Turns[string]
	timeout time.Duration // longest wait for scans
	// written are the bytes of long answers until their readers have them: each series may have 60 KiB of labels.
	written *readerShares
}

// maxScans is the number of pages that are made at once, and maxWritten the bytes of those that are written, beside
// longAnswer of each.
const maxScans, maxWritten, longAnswer = 2, 64 << 20, 64 << 10

var inspectVersion = schema.GroupVersion{Group: inspect.Group, Version: inspect.Version}

func newInspection(source inspect.Source, policies Policies, timeout time.Duration) *inspection {
	return &inspection{source: source, policies: policies, scans: fair.NewTurns[string](maxScans, maxScans),
		timeout: timeout, written: newReaderShares(maxWritten, 0)}
}

func (n *inspection) group() group {
	return group{versions: []schema.GroupVersion{inspectVersion}, list: inspectResources, routes: n.routes}
}

// inspectResources is the discovery of the group.
func inspectResources() (all []metav1.APIResource) {
	for _, resource := range inspect.Resources {
		verbs := metav1.Verbs{"list"}
		if hasDetail(resource.Name) {
			verbs = metav1.Verbs{"get", "list"}
		}
		all = append(all, metav1.APIResource{Name: resource.Name, SingularName: resource.Singular, Namespaced: !resource.Cluster(),
			Kind: resource.Kind, Verbs: verbs})
	}
	return all
}

// hasDetail reports whether single documents of a resource can be requested by name.
func hasDetail(resource string) bool { return resource == "metrics" || resource == "autoscalers" }

// routes adds the paths of all lists, in a namespace and over all, and of the documents by name.
func (n *inspection) routes(service *restful.WebService) {
	for _, resource := range inspect.Resources {
		add := func(scope, operation string) {
			route := service.GET(scope+resource.Name).To(n.handler(resource)).
				Doc(resource.Doc).Operation("list"+operation).Produces("application/json").
				Param(service.QueryParameter("limit", fmt.Sprintf("Items of the page: %d by default, at most %d.",
					inspect.DefaultMost, inspect.MaxMost)).DataType("integer")).
				Param(service.QueryParameter("continue", "The token of the page before, metadata.continue.").DataType("string")).
				Returns(http.StatusOK, "OK", resource.List)
			service.Route(withNamespace(service, route, scope))
		}
		if resource.Cluster() {
			add("/", resource.Kind)
			continue
		}
		add("/", resource.Kind+"ForAllNamespaces")
		add("/namespaces/{namespace}/", "Namespaced"+resource.Kind)
	}
	n.detailRoutes(service, "metrics", inspect.MetricDetail{}, n.metricDetail)
	n.detailRoutes(service, "autoscalers", inspect.Autoscaler{}, n.autoscaler)
}

// withNamespace describes the path parameter of a namespaced route.
func withNamespace(service *restful.WebService, route *restful.RouteBuilder, scope string) *restful.RouteBuilder {
	if strings.Contains(scope, "{namespace}") {
		route.Param(service.PathParameter("namespace", "The namespace of the items.").DataType("string"))
	}
	return route
}

func (n *inspection) detailRoutes(service *restful.WebService, resource string, model any, answer detail) {
	r, _ := inspect.ResourceNamed(resource)
	for scope, operation := range map[string]string{"/": "InAllNamespaces", "/namespaces/{namespace}/": "Namespaced"} {
		route := service.GET(scope+resource+"/{name}").To(n.detailHandler(resource, answer)).
			Doc("One name: "+r.Doc).Operation("get"+operation+r.Kind).Produces("application/json").
			Param(service.PathParameter("name", `The name; "/" is written "\|".`).DataType("string")).
			Returns(http.StatusOK, "OK", model)
		service.Route(withNamespace(service, route, scope))
	}
}

// begin waits for the right to make a page. The returned function gives it back.
func (n *inspection) begin(ctx context.Context) (end func(), err error) {
	reader := shareOf(ctx)
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	if n.scans.Await(ctx, reader) == nil {
		return func() { n.scans.Give(reader) }, nil
	}
	return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d lists are being made, which is the limit, and this one waited for %s; retry later",
		maxScans, n.timeout), retryAfterSeconds)
}

// fail answers with a Status.
func fail(w http.ResponseWriter, r *http.Request, resource string, err error) {
	about := target{resource: schema.GroupResource{Group: inspect.Group, Resource: resource}}
	if info, ok := request.RequestInfoFrom(r.Context()); ok {
		about.name = info.Name
	}
	responsewriters.ErrorNegotiated(about.status(err), cmserver.Codecs, inspectVersion, w, r)
}
