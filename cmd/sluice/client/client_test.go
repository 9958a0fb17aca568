package client

import (
	"os"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/cmd/sluice/command/commandtest"
)

func TestMain(m *testing.M) {
	ConnectTimeout = time.Hour
	os.Exit(m.Run())
}

// called runs one command line and returns what it did.
func called(args ...string) (code int, out, errs string) {
	return calledWith("", args...)
}

func calledWith(input string, args ...string) (code int, out, errs string) {
	return commandtest.Run(command.NewRoot("", Commands()...), input, args...)
}

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
