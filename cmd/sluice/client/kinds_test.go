package client

import (
	"testing"
)

func TestShortNames(t *testing.T) {
	for what, want := range map[string]string{
		"po/web-1":   "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/web-1/m",
		"deploy/web": "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/deployments.apps/web/m",
		"no/n1":      "/apis/custom.metrics.k8s.io/v1beta2/nodes/n1/m",
		"ns/shop":    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/metrics/m",
	} {
		got, err := asked{what: what, metric: "m"}.path()
		if err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", what, got, err, want)
		}
	}
	for short, long := range shortNames {
		if k := kindOf(short); !k.known || k.canonical != long {
			t.Errorf("%s is %+v, want %s", short, k, long)
		}
	}
}
