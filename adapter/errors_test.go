package adapter

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestErrors(t *testing.T) {
	m := shop()
	external := metric.Object{Namespace: "shop"}
	m.put(
		held{pod("nan"), "broken", metric.Gauge, labelled(), metric.Float(math.NaN()), noon},
		held{pod("huge"), "huge", metric.Gauge, labelled(), metric.Int(9223372036854776), noon},
		held{pod("big-1"), "big", metric.Gauge, labelled(), metric.Int(9e15), noon},
		held{pod("big-2"), "big", metric.Gauge, labelled(), metric.Int(9e15), noon},
		held{external, "infinite", metric.Gauge, labelled(), metric.Float(math.Inf(1)), noon},
		held{external, "half", metric.Gauge, labelled("a", "1"), metric.Float(math.NaN()), noon},
		held{external, "half", metric.Gauge, labelled("a", "2"), metric.Int(1), noon},
		held{external, "debt", metric.Gauge, labelled("a", "1"), metric.Int(-9e15), noon},
		held{external, "debt", metric.Gauge, labelled("a", "2"), metric.Int(-9e15), noon},
		held{external, "namespaces", metric.Gauge, labelled(), metric.Int(1), noon},
	)
	a := start(t, m)
	const pods = "namespaces/shop/pods/"
	for _, c := range []struct {
		name, path string
		code       int
		reason     metav1.StatusReason
		message    string
	}{
		{"never seen", pods + "web-1/nope", 404, metav1.StatusReasonNotFound, `no series of "nope" in "shop"; last seen 26h ago, expired after 24h`},
		{"all of none", pods + "*/nope", 404, metav1.StatusReasonNotFound, "last seen 26h ago"},
		{"another namespace", "namespaces/other/pods/*/http_requests", 404, metav1.StatusReasonNotFound, "http_requests"},
		{"unknown resource", "namespaces/shop/widgets/a/m", 404, metav1.StatusReasonNotFound, `no resource "widgets"`},
		{"ambiguous resource", "namespaces/shop/events/a/m", 400, metav1.StatusReasonBadRequest, "ambiguous: events (core), events.events.k8s.io"},
		{"window not kept", pods + "web-1/http_requests:3m", 400, metav1.StatusReasonBadRequest, "window 3m is not kept: 10s, 1m are"},
		{"pods in no namespace", "pods/web-1/http_requests", 400, metav1.StatusReasonBadRequest, "must be requested as namespaces/{namespace}/pods/web-1/http_requests"},
		{"nodes in a namespace", "namespaces/shop/nodes/node-a/temperature", 400, metav1.StatusReasonBadRequest, "must be requested as nodes/node-a/temperature"},
		{"namespace's status", "namespaces/shop/status", 400, metav1.StatusReasonBadRequest, "namespaces/shop/metrics/{metric}"},
		{"object labels", pods + "*/http_requests?labelSelector=app%3Dweb", 400, metav1.StatusReasonBadRequest, "not known without a cluster"},
		{"object labels of one", pods + "web-1/http_requests?labelSelector=app%3Dweb", 400, metav1.StatusReasonBadRequest, "not known without a cluster"},
		{"malformed labelSelector", pods + "*/http_requests?labelSelector=%3D%3D", 400, metav1.StatusReasonBadRequest, ""},
		{"malformed metricLabelSelector", pods + "*/http_requests?metricLabelSelector=path%3D%2Fapi%3D", 400, metav1.StatusReasonBadRequest, "metricLabelSelector"},
		{"illegal metricLabelSelector value", pods + "*/http_requests?metricLabelSelector=path%3D%2Fapi", 400, metav1.StatusReasonBadRequest, "metricLabelSelector"},
		{"metricLabelSelector over 63 bytes", pods + "*/http_requests?metricLabelSelector=path%3D" + strings.Repeat("a", 64), 400, metav1.StatusReasonBadRequest, "metricLabelSelector"},
		{"malformed fieldSelector", pods + "*/http_requests?fieldSelector=a", 400, metav1.StatusReasonBadRequest, ""},
		{"not a number", pods + "nan/broken", 404, metav1.StatusReasonNotFound, "NaN"},
		{"none a number", pods + "*/broken", 404, metav1.StatusReasonNotFound, "no value"},
		{"overflow", pods + "huge/huge", 422, metav1.StatusReasonInvalid, "9223372036854776"},
		{"overflow among all", pods + "*/huge", 422, metav1.StatusReasonInvalid, "9223372036854776"},
		{"overflowing sum", pods + "*/big", 422, metav1.StatusReasonInvalid, "sum"},
		{"empty name", pods + "/http_requests", 404, "", ""},
		{"metric of a namespace, and more", "namespaces/shop/metrics/queue-length/more", 404, metav1.StatusReasonNotFound, "does not exist; must be"},
		{"path too short", "namespaces/shop/pods", 400, metav1.StatusReasonBadRequest, ""},
		{"path too long", pods + "web-1/http_requests/more", 404, "", ""},
		{"upper directories", pods + "../http_requests/x", 404, "", ""},
	} {
		for _, version := range []string{"v1beta1/", "v1beta2/"} {
			t.Run(version+c.name, func(t *testing.T) { a.refuses(t, customRoot+version+c.path, c.code, c.reason, c.message) })
		}
	}
	for _, c := range []struct {
		name, path string
		code       int
		reason     metav1.StatusReason
		message    string
	}{
		{"never seen", "namespaces/shop/nope", 404, metav1.StatusReasonNotFound, "last seen 26h ago"},
		{"window not kept", "namespaces/shop/orders_waiting:3m", 400, metav1.StatusReasonBadRequest, "10s, 1m are"},
		{"malformed labelSelector", "namespaces/shop/orders_waiting?labelSelector=%3D%3D", 400, metav1.StatusReasonBadRequest, ""},
		{"illegal labelSelector value", "namespaces/shop/orders_waiting?labelSelector=a%3D%2Fapi", 400, metav1.StatusReasonBadRequest, ""},
		{"infinite", "namespaces/shop/infinite", 404, metav1.StatusReasonNotFound, "+Inf"},
		{"one of two is no number", "namespaces/shop/half", 404, metav1.StatusReasonNotFound, "{a=1}"},
		{"overflowing negative sum", "namespaces/shop/debt", 422, metav1.StatusReasonInvalid, "sum"},
		{"namespace's status", "namespaces/shop/status", 404, metav1.StatusReasonNotFound, "does not exist; must be"},
		{"watch", "namespaces/shop/orders_waiting?watch=true", 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"no namespace", "namespaces//orders_waiting", 404, "", ""},
	} {
		t.Run("external/"+c.name, func(t *testing.T) { a.refuses(t, externalRoot+c.path, c.code, c.reason, c.message) })
	}
}

func (a *api) refuses(t *testing.T, path string, code int, reason metav1.StatusReason, message string) {
	t.Helper()
	resp, body := a.get(t, path, "application/json")
	if resp.StatusCode != code {
		t.Fatalf("status %d, want %d: %s", resp.StatusCode, code, body)
	}
	if reason == "" {
		return
	}
	s := status(t, body)
	if s.Reason != reason || int(s.Code) != code || !strings.Contains(s.Message, message) {
		t.Errorf("code %d, reason %q, message %q; want reason %q, message with %q", s.Code, s.Reason, s.Message, reason, message)
	}
	// kubectl prints the details of a 422, not its message.
	if d := s.Details; code == 422 && (d == nil || d.Kind == "" || d.Name == "" || len(d.Causes) != 1 || d.Causes[0].Message != s.Message) {
		t.Errorf("a 422 with the details %+v", d)
	}
}

// One object whose value is not a number does not hide the others.
func TestNotANumberIsAbsentFromAList(t *testing.T) {
	m := shop()
	m.put(held{pod("web-3"), "memory_bytes", metric.Gauge, labelled(), metric.Float(math.NaN()), noon})
	a := start(t, m)
	resp, body := a.get(t, customRoot+"v1beta2/namespaces/shop/pods/*/memory_bytes", "")
	if resp.StatusCode != 200 || strings.Contains(string(body), "web-3") || !strings.Contains(string(body), "web-1") {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
}

// A question that the cluster view cannot answer yet is 503 with its reason, no server error.
func TestNotReadyIsUnavailable(t *testing.T) {
	err := target{name: "m"}.status(metric.NotReadyf("the pods of Services are not known yet"))
	if codeOf(err) != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "not known yet") {
		t.Errorf("%d %v", codeOf(err), err)
	}
}

func TestUnknownErrorIsInternal(t *testing.T) {
	err := target{name: "m"}.status(errors.New("disk on fire"))
	var s interface{ Status() metav1.Status }
	if !errors.As(err, &s) || s.Status().Code != 500 || s.Status().Message != "disk on fire" {
		t.Errorf("%v", err)
	}
	if err := (target{}).status(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// The kube-apiserver follows a redirect of an aggregated API with its own identity (CVE-2022-3172).
func TestNeverRedirects(t *testing.T) {
	a := start(t, shop())
	for _, path := range []string{
		"/", "//", "/.", "/..", "/apis", "/apis/", "//apis", "/apis//", "/api", "/api/", "/api/v1", "/apis/..", "/apis/./",
		"/apis/custom.metrics.k8s.io", "/apis/custom.metrics.k8s.io/", "/apis//custom.metrics.k8s.io/v1beta1",
		"/apis/custom.metrics.k8s.io/v1beta1/", "/apis/custom.metrics.k8s.io/v1beta1//", "/apis/custom.metrics.k8s.io/v1beta1/..",
		"/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/web-1/http_requests/",
		"/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/../pods/web-1/http_requests",
		"/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop//pods/web-1/http_requests",
		"/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/orders_waiting/",
		"/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/..", "/apis/nope.k8s.io/v1",
		"/debug/pprof", "/debug/pprof/", "/debug/flags", "/metrics", "/version/", "/openapi", "/openapi/v2/", "/openapi/v3/",
		"/openapi/v2?hash=1", "/openapi/v3?hash=1", "/openapi/v3/apis/custom.metrics.k8s.io/v1beta1?hash=1", "/openapi/v3/apis/external.metrics.k8s.io/v1beta1?hash=1", "/healthz/", "/livez/", "/readyz/x",
		"/%2e%2e/apis", "/\\example.com", "//example.com/%2f..",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			resp, _ := a.do(t, method, path, "")
			if resp.StatusCode >= 300 && resp.StatusCode < 400 || resp.Header.Get("Location") != "" {
				t.Errorf("%s %s: %d to %q", method, path, resp.StatusCode, resp.Header.Get("Location"))
			}
			if resp.StatusCode >= 500 {
				t.Errorf("%s %s: %d", method, path, resp.StatusCode)
			}
		}
	}
}

// Writing verbs and unknown representations are rejected as such, never with 500.
func TestRefusedVerbsAndRepresentations(t *testing.T) {
	a := start(t, shop())
	for _, path := range []string{
		customRoot + "v1beta1/namespaces/shop/pods/web-1/http_requests",
		externalRoot + "namespaces/shop/orders_waiting",
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if resp, body := a.do(t, method, path, ""); resp.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, body)
			}
		}
		for _, accept := range []string{
			"application/json;as=Table;g=meta.k8s.io;v=v1",
			"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
			"image/png",
		} {
			resp, body := a.get(t, path, accept)
			if resp.StatusCode != http.StatusNotAcceptable {
				t.Errorf("%s as %s: %d %s", path, accept, resp.StatusCode, body)
			}
		}
	}
}
