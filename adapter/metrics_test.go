package adapter

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	a := start(t, shop())
	registry := prometheus.NewPedanticRegistry()
	must(t, a.Register(registry))
	if err := a.Register(registry); err == nil {
		t.Error("registered twice")
	}
	a.get(t, customRoot+"v1beta1/namespaces/shop/pods/*/http_requests", "")
	a.get(t, customRoot+"v1beta2/namespaces/shop/pods/*/nope", "")
	a.get(t, externalRoot+"namespaces/shop/orders_waiting", "")
	a.get(t, "/apis/made.up/v1/namespaces/x/y", "")
	a.do(t, "MADEUP", customRoot+"v1beta1/namespaces/shop/pods/*/http_requests", "")
	for labels, want := range map[[3]string]float64{
		{"get", "custom.metrics.k8s.io", "200"}:    1,
		{"get", "custom.metrics.k8s.io", "404"}:    1,
		{"list", "external.metrics.k8s.io", "200"}: 1,
		{"list", "other", "404"}:                   1,
		{"other", "custom.metrics.k8s.io", "405"}:  1,
	} {
		if got := testutil.ToFloat64(a.metrics.requests.WithLabelValues(labels[:]...)); got != want {
			t.Errorf("%v: %v, want %v", labels, got, want)
		}
	}
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "sluice_api_") && !strings.HasPrefix(f.GetName(), "sluice_connections") {
			t.Errorf("%s", f.GetName())
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if got := testutil.CollectAndCount(a.metrics.duration); got < 3 {
		t.Errorf("%d durations", got)
	}
}
