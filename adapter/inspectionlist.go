package adapter

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// documents is a page, whatever its documents are.
type documents struct {
	items []inspect.Document
	next  inspect.Key
}

type pageOf func(inspect.Query) documents

// pages are the lists by resource.
func pages(source inspect.Source) map[string]pageOf {
	return map[string]pageOf{
		"metrics":     asDocuments(source.Metrics),
		"objects":     asDocuments(source.Objects),
		"senders":     asDocuments(source.Senders),
		"rejections":  asDocuments(source.Rejections),
		"groups":      asDocuments(source.Groups),
		"limituses":   asDocuments(source.Limits),
		"autoscalers": asDocuments(source.Autoscalers),
		"rules":       asDocuments(source.Rules),
		"targets":     asDocuments(source.Targets),
		"policies":    asDocuments(source.Policies),
		"agents":      asDocuments(source.Agents),
	}
}

// asDocuments makes a list of one type a list of documents.
func asDocuments[T any, P interface {
	*T
	inspect.Document
}](list func(inspect.Query) inspect.Page[T]) pageOf {
	return func(q inspect.Query) documents {
		page := list(q)
		all := documents{make([]inspect.Document, len(page.Items)), page.Next}
		for i := range page.Items {
			all.items[i] = P(&page.Items[i])
		}
		return all
	}
}

// handler answers requests for a list.
func (n *inspection) handler(resource inspect.Resource) restful.RouteFunction {
	return func(req *restful.Request, resp *restful.Response) {
		w, r := resp.ResponseWriter, req.Request
		q, form, err := parseList(r, resource.Name)
		if err == nil && resource.Name == "policies" {
			err = n.source.UnknownPolicies()
		}
		if err != nil {
			fail(w, r, resource.Name, err)
			return
		}
		end, err := n.begin(r.Context())
		if err != nil {
			fail(w, r, resource.Name, err)
			return
		}
		body := form.page(resource, pages(n.readable(r.Context()))[resource.Name], q, time.Now())
		end()
		n.write(w, r, resource.Name, body)
	}
}

// warn names the replicas that are away in headers, which kubectl prints (RFC 9111 obsoleted the header;
// Kubernetes uses it for warnings of its own).
func (n *inspection) warn(w http.ResponseWriter) {
	for _, away := range n.source.Away() {
		if header, err := utilnet.NewWarningHeader(299, "-", away); err == nil {
			w.Header().Add("Warning", header)
		}
	}
}

// detail answers a request for one name; an empty namespace: in all.
type detail func(ctx context.Context, namespace, name string) (inspect.Document, error)

func (n *inspection) detailHandler(resource string, answer detail) restful.RouteFunction {
	of, _ := inspect.ResourceNamed(resource)
	return func(req *restful.Request, resp *restful.Response) {
		w, r := resp.ResponseWriter, req.Request
		info, err := infoOf(r)
		var form form
		if err == nil {
			form, err = formOf(r)
		}
		if err == nil && (info.Subresource != "" || len(info.Parts) > 2) {
			err = metric.NotFoundf("path %q does not exist", info.Path)
		}
		if err != nil {
			fail(w, r, resource, err)
			return
		}
		end, err := n.begin(r.Context())
		if err != nil {
			fail(w, r, resource, err)
			return
		}
		document, err := answer(r.Context(), info.Namespace, unescape(info.Name))
		var body []byte
		if err == nil {
			body = form.one(of, document, time.Now())
		}
		end()
		if err != nil {
			n.warn(w)
			fail(w, r, resource, err)
			return
		}
		n.write(w, r, resource, body)
	}
}

// write writes an answer. A long one has to be in the share of its reader, who may read slowly.
func (n *inspection) write(w http.ResponseWriter, r *http.Request, resource string, body []byte) {
	if len(body) > longAnswer {
		reader := shareOf(r.Context())
		if full := n.written.take(reader, len(body), "bytes of lists"); full != "" {
			fail(w, r, resource, apierrors.NewTooManyRequests(full, retryAfterSeconds))
			return
		}
		defer n.written.give(reader, len(body))
	}
	n.warn(w)
	writeJSON(w, body)
}

// maxDetailSeries bounds the series of a MetricDetail over all its metrics, and maxDetailLabels the bytes of their labels, but those of
// one series: each may have 128 KiB, and six times as much once they are encoded.
const maxDetailSeries, maxDetailLabels = 1000, 1 << 20

// readable is the source, without the values that policies keep from the reader.
func (n *inspection) readable(ctx context.Context) inspect.Source {
	return inspect.Restrict(n.source, policy.ReaderView{Policies: n.policies, Reader: readerOf(ctx)})
}

func (n *inspection) metricDetail(ctx context.Context, namespace, name string) (inspect.Document, error) {
	source := n.readable(ctx)
	d := &inspect.MetricDetail{Metrics: source.Metrics(inspect.Query{Namespace: namespace, Name: name}).Items,
		Series: []inspect.Series{}, Senders: source.MetricSenders(namespace, name), Windows: source.Windows()}
	labels := 0
	for i := range d.Metrics {
		m := &d.Metrics[i]
		if len(d.Series) >= maxDetailSeries || labels >= maxDetailLabels {
			break
		}
		for _, s := range source.Series(m.Namespace, m.Resource, m.Name, inspect.DetailSeries) {
			if labels += bytesOfLabels(s.Labels); labels < maxDetailLabels || len(d.Series) == 0 {
				d.Series = append(d.Series, s)
			}
		}
	}
	if len(d.Metrics) == 0 {
		return nil, metric.NotFoundf("there is no metric %q%s", name, inNamespace(namespace))
	}
	return d, nil
}

func bytesOfLabels(labels map[string]string) (n int) {
	for key, value := range labels {
		n += len(key) + len(value)
	}
	return n
}

func (n *inspection) autoscaler(_ context.Context, namespace, name string) (inspect.Document, error) {
	found := n.source.Autoscalers(inspect.Query{Namespace: namespace, Name: name, Most: 2}).Items
	switch len(found) {
	case 0:
		return nil, metric.NotFoundf("there is no HorizontalPodAutoscaler %q%s", name, inNamespace(namespace))
	case 1:
		return &found[0], nil
	}
	return nil, metric.InvalidQueryf("several namespaces have a HorizontalPodAutoscaler %q; must be requested as namespaces/{namespace}/autoscalers/%s",
		name, name)
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %q", namespace)
}

// parseList reads the query and the form of the answer.
func parseList(r *http.Request, resource string) (q inspect.Query, as form, err error) {
	info, err := infoOf(r)
	if err != nil {
		return q, as, err
	}
	if as, err = formOf(r); err != nil {
		return q, as, err
	}
	values := r.URL.Query()
	q.Namespace = info.Namespace
	if text := values.Get("limit"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return q, as, metric.InvalidQueryf("limit is %q; must be a number from 0 to %d", text, inspect.MaxMost)
		}
		q.Most = int(min(n, inspect.MaxMost))
	}
	if q.After, err = inspect.ParseToken(resource, values.Get("continue")); err != nil {
		return q, as, metric.InvalidQueryf("continue %.100q %v; must be metadata.continue of a page of %s",
			values.Get("continue"), err, resource)
	}
	return q, as, nil
}

// infoOf returns the parsed path of a request for lists, and rejects what lists cannot do.
func infoOf(r *http.Request) (*request.RequestInfo, error) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok {
		return nil, fmt.Errorf("the request has no path information: the handler chain is broken")
	}
	values := r.URL.Query()
	if watch, _ := strconv.ParseBool(values.Get("watch")); watch || info.Verb == "watch" {
		return nil, metric.InvalidQueryf("%s cannot be watched; repeat the request instead", info.Resource)
	}
	for _, selector := range []string{"labelSelector", "fieldSelector"} {
		if values.Get(selector) != "" {
			return nil, metric.InvalidQueryf("%s is not supported for %s; filter the answer instead", selector, info.Resource)
		}
	}
	return info, nil
}

// form is the form of an answer: Kubernetes' table if table is set.
type form struct {
	table bool
	// object is the parameter includeObject of tables: "None", "Metadata" or "Object".
	object string
}

// formOf reads the Accept header.
func formOf(r *http.Request) (form, error) {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if accept == "" {
		return form{}, nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		media, parameters, _ := strings.Cut(strings.TrimSpace(clause), ";")
		switch {
		case media != "application/json" && media != "*/*" && media != "application/*":
		case strings.Contains(parameters, "as=Table") && strings.Contains(parameters, "v=v1beta1"):
		case strings.Contains(parameters, "as=Table"):
			return form{true, r.URL.Query().Get("includeObject")}, nil
		case !strings.Contains(parameters, "as="):
			return form{}, nil
		}
	}
	return form{}, notAcceptable
}

var notAcceptable = target{}.failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
	fmt.Errorf("only application/json is served, also with as=Table;v=v1;g=meta.k8s.io"))
