package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"

	dto "github.com/prometheus/client_model/go"
	"github.com/sluice-metrics/sluice/adapter/autoscaler"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

const (
	metricsFile  = "../../METRICS.md"
	metricsBegin = "<!-- the rest is written by: go test ./cmd/sluice -run TestMetrics -update -->\n"
)

// METRICS.md lists every metric that a running server shows, and no other, with type, labels and
// meaning.
func TestMetricsAreDocumented(t *testing.T) {
	p := started(t, t.TempDir(), "--statsd-unix", t.TempDir()+"/stream")
	atFirst := namesOf(t, p.registry)
	useEverything(t, p)
	all := both{p.registry, both{ofACluster(t, p.cfg.store.Dir), both{ofReplicas(t), both{ofAutoscalers(t), ofExports(t, p.cfg.store.Dir)}}}}
	table := metricsTable(t, all)

	text, err := os.ReadFile(metricsFile)
	must(t, err)
	introduction, _, ok := strings.Cut(string(text), metricsBegin)
	if !ok {
		t.Fatalf("%s has lost the line %q", metricsFile, metricsBegin)
	}
	for _, reason := range metric.Reasons() {
		if !strings.Contains(introduction, "| `"+reason.String()+"` | ") {
			t.Errorf("%s does not say what reason %s means", metricsFile, reason)
		}
	}
	conditions := introduction[strings.Index(introduction, "Not all are always there"):]
	for _, name := range namesOf(t, all) {
		if said := strings.Contains(conditions, "`"+name+"`"); strings.HasPrefix(name, "sluice_") && said == slices.Contains(atFirst, name) {
			t.Errorf("%s says of %s that it is not always there: %v", metricsFile, name, said)
		}
	}
	held(t, metricsFile, introduction+metricsBegin+table)
}

// namesOf are the metrics that are gathered.
func namesOf(t *testing.T, gatherer prometheus.Gatherer) []string {
	t.Helper()
	families, err := gatherer.Gather()
	must(t, err)
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	return names
}

// useEverything makes a server show the metrics that appear with their first use.
func useEverything(t *testing.T, p *dataPath) {
	t.Helper()
	if code, _, errs := called(t, "push", "--statsd", p.udpAddress(), "seen:1|c", "lost:1|c"); code != command.ExitOK {
		t.Fatal(errs)
	}
	if code, _, errs := called(t, "push", "--http", "http://"+p.push.Addr().String(), "--counter", "pushed", "1", "--sync"); code != command.ExitOK {
		t.Fatal(errs)
	}
	if code, _, errs := called(t, "get", "--kubeconfig", p.kubeconfig, "external", "pushed"); code != command.ExitOK {
		t.Fatal(errs)
	}
}

// ofACluster is the registry of a server in a cluster, whose API server is away. It looks at
// credentials, and shows the certificate of a folder.
func ofACluster(t *testing.T, certificates string) prometheus.Gatherer {
	t.Helper()
	p := awayFromAPIServer(t, "--namespace-metrics", "0", "--api-routes-file", routesFile(t, certificates), "--push-auth", "token",
		"--replica-name", "sluice-0", "--replica-listen", "127.0.0.1:0", "--replica-peers", loopbackAddresses(1)[0], "--replica-insecure", "--console-address", "127.0.0.1:0", "--wake", "--instant", "--scrape",
		"--push-tls-cert-file", filepath.Join(certificates, "tls.crt"), "--push-tls-key-file", filepath.Join(certificates, "tls.key"))
	if r := p.cluster.limits.Admit(&metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1", UID: "1"}, "seen", metric.Labels{}, 1); r != metric.Identity {
		t.Errorf("a pod that nobody knows: %v, want %v", r, metric.Identity)
	}
	if r := p.cluster.limits.Admit(&metric.Object{Namespace: "shop"}, "seen", metric.Labels{}, 1); r != metric.OverLimit {
		t.Errorf("a limit of no metrics: %v, want %v", r, metric.OverLimit)
	}
	if p.cluster.observer().SendersChanged(nil); !p.cluster.readmit.Load() {
		t.Error("what was refused does not ask again once a pod is known")
	}
	for _, check := range p.checks() {
		if ready, detail := check.State(); check.Name == "cluster" && (ready || !strings.Contains(detail, "waiting for")) {
			t.Errorf("without an API server the cluster is ready=%v: %q", ready, detail)
		}
	}
	return p.registry
}

// routesFile routes the metrics of KEDA to nobody.
func routesFile(t *testing.T, certificates string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "routes.yaml")
	must(t, os.WriteFile(path, []byte("providers:\n- {name: keda, url: 'https://"+loopbackAddresses(1)[0]+"', caFile: "+
		filepath.Join(certificates, "ca.crt")+", scaledObjects: true, metrics: ['datadogmetric@*']}\n"), 0o600))
	return path
}

// ofReplicas is the registry of a replica that has heard of another one.
func ofReplicas(t *testing.T) prometheus.Gatherer {
	t.Helper()
	all := replicasOf(t, 2, secured(t)...)
	for _, r := range all {
		r.start()
		r.count("jobs", 1)
	}
	reads(t, "jobs", 2, all...)
	return all[0].registry
}

func ofExports(t *testing.T, certificates string) prometheus.Gatherer {
	t.Helper()
	certificate := filepath.Join(certificates, "tls.crt")
	nobody := loopbackAddresses(1)[0]
	return started(t, t.TempDir(), "--relay-to", nobody, "--export-otlp", "http://"+nobody+"/v1/metrics",
		"--agents-address", "127.0.0.1:0", "--agents-tls-cert-file", certificate, "--agents-tls-key-file", filepath.Join(certificates, "tls.key"), "--otlp-grpc-address", "127.0.0.1:0",
		"--keda-address", "127.0.0.1:0", "--keda-client-names", "keda", "--keda-tls-cert-file", certificate,
		"--keda-tls-key-file", filepath.Join(certificates, "tls.key"), "--keda-tls-client-ca-file", certificate).registry
}

// ofAutoscalers is the registry of a watcher of one autoscaler.
func ofAutoscalers(t *testing.T) prometheus.Gatherer {
	t.Helper()
	w := autoscaler.New(autoscaler.Parts{
		List: func(string) []*inspect.Autoscaler {
			return []*inspect.Autoscaler{{Namespace: "shop", Name: "web", Metrics: []inspect.AutoscalerMetric{{Source: "External", Name: "jobs"}, {Source: "Pods", Name: "busy"}}}}
		},
		Begin:    func() autoscaler.Reader { return constantReader{} },
		Ready:    func() bool { return true },
		NotAsked: func(string) error { return nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	w.Changed()
	registry := prometheus.NewRegistry()
	registry.MustRegister(w)
	eventually(t, func() bool { return len(namesOf(t, registry)) > 0 }, func() string { return "the watcher of autoscalers has no metrics" })
	return registry
}

// constantReader reads 1 for each metric of an autoscaler.
type constantReader struct{}

func (constantReader) HeldBack(*inspect.Autoscaler) []explain.Held { return nil }

func (constantReader) Read(*inspect.Autoscaler, *inspect.AutoscalerMetric) (autoscaler.Reading, error) {
	return autoscaler.Reading{Sum: metric.Int(1), Values: 1}, nil
}

// both shows what either has, once.
type both struct{ one, other prometheus.Gatherer }

func (b both) Gather() ([]*dto.MetricFamily, error) {
	all, err := b.one.Gather()
	if err != nil {
		return nil, err
	}
	more, err := b.other.Gather()
	for _, family := range more {
		if !slices.ContainsFunc(all, func(f *dto.MetricFamily) bool { return f.GetName() == family.GetName() }) {
			all = append(all, family)
		}
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, err
}

// metricsTable prints what is gathered as a table. Names of the Go runtime's own metrics change
// with its versions and are left to its documentation.
func metricsTable(t *testing.T, gatherer prometheus.Gatherer) string {
	t.Helper()
	families, err := gatherer.Gather()
	must(t, err)
	var b strings.Builder
	b.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	rows := 0
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, "sluice_") {
			if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
				t.Errorf("metric %s: want names that begin with sluice_, go_ or process_", name)
			}
			continue
		}
		rows++
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(family.GetType().String()), labelsOf(family), family.GetHelp())
	}
	if rows < 20 {
		t.Errorf("%d metrics gathered: want those of every stage", rows)
	}
	return b.String()
}

func labelsOf(family *dto.MetricFamily) string {
	var names []string
	for _, m := range family.GetMetric() {
		for _, pair := range m.GetLabel() {
			if name := "`" + pair.GetName() + "`"; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
