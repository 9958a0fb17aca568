package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// A file of providers that cannot be used ends the start, with the setting and every fault.
func TestRoutesFile(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "routes.yaml")
	must(t, os.WriteFile(broken, []byte("providers: [{name: keda, url: 'http://keda', caFile: /none}]"), 0o600))
	empty := filepath.Join(t.TempDir(), "routes.yaml")
	must(t, os.WriteFile(empty, nil, 0o600))
	read := func(file string) error {
		return (&dataPath{cfg: &serverConfig{routesFile: file}}).readRoutes(t.Context())
	}
	for file, words := range map[string][]string{
		"/none/routes.yaml": {"cannot be read", "no such file"},
		broken:              {"is invalid", `providers[0].url: is "http://keda"`, "providers[0].caFile: cannot be read", "providers[0].metrics: is empty"},
	} {
		err := read(file)
		for _, part := range words {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", file, err, part)
			}
		}
	}
	for _, file := range []string{"", empty} {
		if err := read(file); err != nil {
			t.Errorf("%q: %v", file, err)
		}
	}
}

// Autoscalers' metrics are told apart by their names and selectors; Sluice isn't said to lack those of others.
func TestProviderOfAnAutoscaler(t *testing.T) {
	p := awayFromAPIServer(t, "--api-routes-file", routesFile(t, started(t, t.TempDir()).cfg.store.Dir))
	a := &inspect.Autoscaler{Namespace: "shop"}
	for _, one := range []struct{ source, name, selector, want string }{
		{"External", "s0-cron", "scaledobject.keda.sh/name=web", "keda"},
		{"External", `datadogmetric@shop:a\|b`, "", "keda"},
		{"External", "jobs", "queue=mail", ""},
		{"External", "jobs", "!!", ""},
		{"Pods", "datadogmetric@shop:a", "", ""},
	} {
		m := &inspect.AutoscalerMetric{Source: one.source, Name: one.name, Selector: one.selector}
		if got, _ := p.provider(a, m); got != one.want {
			t.Errorf("%+v: %q", one, got)
		}
	}
}
