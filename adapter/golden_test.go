package adapter

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

const (
	customRoot   = "/apis/custom.metrics.k8s.io/"
	externalRoot = "/apis/external.metrics.k8s.io/v1beta1/"
	protobuf     = "application/vnd.kubernetes.protobuf"
)

// customPaths are the paths of the custom metrics API proposal, "API Paths", with their variations.
var customPaths = map[string]string{
	"object":              "namespaces/shop/pods/web-1/http_requests",
	"all-objects":         "namespaces/shop/pods/*/http_requests",
	"stat-window":         "namespaces/shop/pods/*/http_requests:rate:10s",
	"no-window":           "namespaces/shop/pods/web-1/memory_bytes",
	"escaped-slash":       `namespaces/shop/pods/web-1/fs%5C%7Cusage`,
	"metric-selector":     "namespaces/shop/pods/*/http_requests?metricLabelSelector=path%3Dapi",
	"empty-selectors":     "namespaces/shop/pods/*/http_requests?labelSelector=&metricLabelSelector=",
	"group-resource":      "namespaces/shop/ingresses.networking.k8s.io/main/hits-per-second",
	"group-resource-all":  "namespaces/shop/ingresses/*/hits-per-second",
	"old-group":           "namespaces/shop/ingress.extensions/*/hits-per-second",
	"cluster-object":      "nodes/node-a/temperature",
	"cluster-all-objects": "nodes/*/temperature",
	"namespace":           "namespaces/shop/metrics/queue-length",
}

var externalPaths = map[string]string{
	"all-series":      "namespaces/shop/orders_waiting",
	"label-selector":  "namespaces/shop/orders_waiting?labelSelector=queue%3Deu_west%2Ctier%3Dgold",
	"escaped-slash":   `namespaces/shop/jobs%5C%7Cdone`,
	"stat-and-window": `namespaces/shop/jobs%5C%7Cdone:rate:10s`,
}

func TestGoldenAnswers(t *testing.T) {
	a := start(t, shop())
	for _, version := range []string{"v1beta1", "v1beta2"} {
		for name, path := range customPaths {
			a.compare(t, "custom-"+version+"-"+name, customRoot+version+"/"+path)
		}
	}
	for name, path := range externalPaths {
		a.compare(t, "external-"+name, externalRoot+path)
	}
}

// compare compares the JSON with a golden file, and the protobuf with the JSON.
func (a *api) compare(t *testing.T, name, path string) {
	t.Run(name, func(t *testing.T) {
		resp, body := a.get(t, path, "application/json")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", resp.StatusCode, body)
		}
		var indented bytes.Buffer
		must(t, json.Indent(&indented, body, "", "  "))
		golden(t, name+".json", indented.Bytes())

		resp, raw := a.get(t, path, protobuf)
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), protobuf) {
			t.Fatalf("protobuf: status %d, type %q", resp.StatusCode, resp.Header.Get("Content-Type"))
		}
		if again := asJSON(t, raw); again != asJSON(t, body) {
			t.Errorf("protobuf says otherwise than JSON:\n%s\n%s", again, body)
		}
	})
}

// asJSON decodes an answer of either encoding and prints it as JSON.
func asJSON(t *testing.T, body []byte) string {
	t.Helper()
	object, kind, err := cmserver.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	must(t, err)
	out, err := runtime.Encode(cmserver.Codecs.LegacyCodec(kind.GroupVersion()), object)
	must(t, err)
	return string(out)
}

// The window's name differs: "window" in custom v1beta1 and external, "windowSeconds" in custom
// v1beta2; a value without a window has neither.
func TestWindowIsNamedAsEachVersionNamesIt(t *testing.T) {
	a := start(t, shop())
	for _, c := range []struct {
		path, field string
		want        any
	}{
		{customRoot + "v1beta1/namespaces/shop/pods/web-1/http_requests:10s", "window", 10.0},
		{customRoot + "v1beta2/namespaces/shop/pods/web-1/http_requests:10s", "windowSeconds", 10.0},
		{externalRoot + `namespaces/shop/jobs%5C%7Cdone`, "window", 60.0},
		{customRoot + "v1beta1/namespaces/shop/pods/web-1/memory_bytes", "window", nil},
		{customRoot + "v1beta2/namespaces/shop/pods/web-1/memory_bytes", "windowSeconds", nil},
		{externalRoot + "namespaces/shop/orders_waiting", "window", nil},
	} {
		_, body := a.get(t, c.path, "application/json")
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal(body, &list); err != nil || len(list.Items) == 0 {
			t.Fatalf("%s: %v: %s", c.path, err, body)
		}
		if got := list.Items[0][c.field]; got != c.want {
			t.Errorf("%s: %s is %v, want %v", c.path, c.field, got, c.want)
		}
	}
}
