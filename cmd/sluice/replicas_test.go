package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
	"github.com/sluice-metrics/sluice/metric"
)

// testReplica is one of several servers of a test. It can be stopped and started again.
type testReplica struct {
	*dataPath
	t     *testing.T
	dir   string
	flags []string
	stop  context.CancelFunc
	done  chan error
}

func (r *testReplica) start() {
	r.t.Helper()
	cfg := parsed(r.t, r.dir, r.flags...)
	ctx, cancel := context.WithCancel(context.Background())
	p, err := wire(ctx, cfg, newLogger(os.Stderr, cfg.log))
	if err != nil {
		cancel()
		r.t.Fatal(err)
	}
	r.dataPath, r.stop, r.done = p, cancel, make(chan error, 1)
	go func() { r.done <- p.run(ctx) }()
}

// end stops the server in order, if it runs.
func (r *testReplica) end() {
	r.t.Helper()
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop = nil
	if err := <-r.done; err != nil {
		r.t.Error(err)
	}
}

// replicaHost is a loopback address of this process alone, so that nothing else takes a port between its
// choice and the start of the server.
var replicaHost = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))

// lastReplicaPort is the last that a test was given: none is given twice. They are not those that the kernel
// chooses from, as for a listener of another process at all addresses.
var lastReplicaPort atomic.Int32

// loopbackAddresses are addresses on which nothing listens.
func loopbackAddresses(n int) (all []string) {
	for range n {
		all = append(all, fmt.Sprintf("%s:%d", replicaHost, 20000+lastReplicaPort.Add(1)))
	}
	return all
}

// replicasOf makes n servers without starting them.
func replicasOf(t *testing.T, n int, more ...string) []*testReplica {
	t.Helper()
	addresses := loopbackAddresses(n)
	var all []*testReplica
	for i, address := range addresses {
		r := &testReplica{t: t, dir: t.TempDir()}
		r.flags = append([]string{"--replica-name", fmt.Sprintf("sluice-%d", i), "--replica-listen", address,
			"--replica-peers", strings.Join(addresses, ",")}, more...)
		t.Cleanup(r.end)
		all = append(all, r)
	}
	return all
}

// count adds to a counter.
func (r *testReplica) count(name string, n int) {
	r.t.Helper()
	if status, body := spoken(r.t, r.dataPath, "POST", "/v1/statsd", fmt.Sprintf("%s:%d|c\n", name, n)); status/100 != 2 {
		r.t.Fatalf("%d: %s", status, body)
	}
}

// total reads the counter; -1: there is none.
func (r *testReplica) total(name string) float64 {
	r.t.Helper()
	_, body := spoken(r.t, r.dataPath, "GET", "/v1/namespaces/default/external/"+name+":total", "")
	var answer struct{ Items []struct{ Value float64 } }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Items) != 1 {
		return -1
	}
	return answer.Items[0].Value
}

// reads waits until all servers answer with a total.
func reads(t *testing.T, name string, want float64, all ...*testReplica) {
	t.Helper()
	var got []float64
	eventually(t, func() bool {
		got = got[:0]
		for _, r := range all {
			got = append(got, r.total(name))
		}
		return !slices.ContainsFunc(got, func(v float64) bool { return v != want })
	}, func() string { return fmt.Sprintf("%s reads %v, want %v", name, got, want) })
}

// eventually waits until something is so, and else says what is instead.
func eventually(t *testing.T, is func() bool, instead func() string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(instead())
		}
	}
}

// secured returns the flags of TLS between replicas, with a certificate of an authority of its own.
func secured(t *testing.T) []string {
	t.Helper()
	cert, key, ca := testauthority.New(t).Sign(t, t.TempDir(), testauthority.Leaf{Host: replicaHost})
	return []string{"--replica-tls-cert-file", cert, "--replica-tls-key-file", key, "--replica-tls-ca-file", ca}
}

// ready waits for the line of the replicas in /readyz.
func (r *testReplica) ready() {
	r.t.Helper()
	var detail string
	eventually(r.t, func() (ready bool) {
		for _, check := range r.checks() {
			if check.Name == "replicas" {
				ready, detail = check.State()
			}
		}
		return ready
	}, func() string { return "not ready: " + detail })
}

// Three replicas over TLS: one joins late and is ready with the values of all, one ends in order and
// takes nothing with it, and comes back with its own values from its disk.
func TestReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	all := replicasOf(t, 3, secured(t)...)
	a, b, c := all[0], all[1], all[2]
	a.start()
	b.start()
	a.count("jobs", 1)
	b.count("jobs", 2)
	reads(t, "jobs", 3, a, b)

	c.start()
	c.ready()
	if got := c.total("jobs"); got != 3 {
		t.Errorf("a late replica is ready and reads %v, want 3", got)
	}
	c.count("jobs", 4)
	reads(t, "jobs", 7, all...)

	b.count("jobs", 8) // not flushed yet
	b.end()
	for _, r := range []*testReplica{a, c} {
		if got := r.total("jobs"); got != 15 {
			t.Errorf("after the end of another replica %s reads %v, want 15", r.cfg.natsbus.Name, got)
		}
	}
	b.start()
	b.ready()
	if got := b.total("jobs"); got != 15 {
		t.Errorf("a replica that was restarted reads %v, want 15", got)
	}
	b.count("jobs", 16)
	reads(t, "jobs", 31, all...)
}

// The store's last flush is handed over before the connections end, and the APIs answer meanwhile.
func TestReplicasStopAfterTheStore(t *testing.T) {
	t.Parallel()
	r := replicasOf(t, 1, "--replica-insecure")[0]
	r.start()
	var names []string
	for _, s := range r.stages() {
		names = append(names, s.name)
	}
	if got := strings.Join(names, " "); !strings.Contains(got, "table store replicas bus api") {
		t.Errorf("the stages stop in the order %s", got)
	}
}

// Without other replicas there is nothing of them.
func TestNoReplicas(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	if r := &p.replication; r.bus != nil || r.replica != nil || r.epoch != nil || r.deletions != nil || p.cfg.table.Replicated {
		t.Error("there are parts of replicas")
	}
	for _, s := range p.stages() {
		if s.name == "replicas" || s.name == "bus" {
			t.Errorf("there is a stage %s", s.name)
		}
	}
}

// A replica that has not read the cluster does not publish what it restored, however long that takes: what a
// namespace had that was deleted meanwhile is not for others.
func TestNothingUnreadIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := false
		r := replication{reconciled: func() bool { return read }}
		flush := func() bool {
			defer func() { r.flushing = false }()
			return r.publishes()
		}
		for range 3 {
			if flush() {
				t.Error("published before the cluster is read")
			}
			time.Sleep(time.Hour)
		}
		r.publishes()
		read = true
		if r.publishes() {
			t.Error("half a flush is published")
		}
		r.flushing = false
		if !flush() {
			t.Error("not published once the cluster is read")
		}
	})
}

func TestFaultsOfReplicas(t *testing.T) {
	for want, flags := range map[string][]string{
		"--replica-peers is set without TLS; must have --replica-tls-cert-file, --replica-tls-key-file and --replica-tls-ca-file": {"--replica-peers", "a:6222"},
		"--nats-url is set, and so is --replica-peers": {"--replica-peers", "a:6222", "--replica-insecure", "--nats-url", "nats://b:4222"},
		"--replica-name is \"A\"":                      {"--replica-name", "A"},
	} {
		code, _, errs := called(t, onFreePorts(t.TempDir(), flags...)...)
		if code != command.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d: %s", flags, code, errs)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for setting, flags := range map[string][]string{
		"replica-tls-cert-file": {"--replica-peers", "a:6222", "--replica-listen", "127.0.0.1:0",
			"--replica-tls-key-file", missing, "--replica-tls-ca-file", missing},
		"nats-creds-file": {"--nats-url", "nats://127.0.0.1:1"},
		"nats-ca-file":    {"--nats-url", "tls://127.0.0.1:1"},
	} {
		code, _, errs := called(t, onFreePorts(t.TempDir(), append(flags, "--"+setting, missing)...)...)
		if code != command.ExitUsage || !strings.Contains(errs, "--"+setting+" cannot be read") {
			t.Errorf("exit code %d: %s", code, errs)
		}
	}
}

// A replica that does not have the states of the others yet answers no read, at any door, and says why.
// Pushes are taken.
func TestDoorsOfAStartingReplica(t *testing.T) {
	t.Parallel()
	r := replicasOf(t, 1, "--replica-insecure")[0] // it waits for others to be heard
	r.start()
	r.count("jobs", 1)
	const why = "does not have the states of the others yet"
	doors := []string{"/v1/namespaces/default/external/jobs", "/v1/namespaces", "/v1/namespaces/default",
		"/metrics", "/metrics/series", "/api/v1/metrics"}
	for _, path := range doors {
		status, body := spoken(t, r.dataPath, "GET", path, "")
		if answers, _ := r.answers(); !answers && (status != http.StatusServiceUnavailable || !strings.Contains(body, why)) {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	jobs := metric.Query{Namespace: "default", Expression: metric.ParseExpression("jobs")}
	_, err := r.ownReader().External(jobs)
	asked, _ := r.triggers().Ask(trigger.Question{Namespace: "default", Metric: "jobs"})
	_, triggered := asked.Value()
	ready, missing := r.api.Ready()
	exports := r.exports()
	if answers, _ := r.answers(); !answers {
		for _, err := range []error{err, triggered} {
			if !errors.Is(err, metric.ErrNotReady) || !strings.Contains(err.Error(), why) {
				t.Errorf("a query: %v", err)
			}
		}
		if ready || !strings.Contains(missing, why) || exports {
			t.Errorf("the metrics APIs are ready: %v, %q; a Collector is sent series: %v", ready, missing, exports)
		}
	}
	r.ready()
	for _, path := range doors {
		if status, body := spoken(t, r.dataPath, "GET", path, ""); status != http.StatusOK {
			t.Errorf("GET %s of a ready replica: %d %s", path, status, body)
		}
	}
}

// as changes the name in the settings; later flags win.
func (r *testReplica) as(name string) *testReplica {
	r.flags = append(r.flags, "--replica-name", name)
	return r
}

// A folder without series is free for any name: a second origin counts nothing twice.
func TestReplicaTakesAFolderWithoutSeries(t *testing.T) {
	t.Parallel()
	r := replicasOf(t, 1, "--replica-insecure")[0]
	for _, name := range []string{"a", "b"} {
		r.as(name).start()
		r.end()
	}
	r.as("").start()
	if got := r.cfg.replica().Name; got != "b" {
		t.Errorf("the replica's name is %q, want b, the last one", got)
	}
	if origin, holder := r.cfg.limit.Origin, r.cfg.cluster.Replica; origin != "b" || holder != "b" {
		t.Errorf("limits have the name %q, the Lease %q, want b", origin, holder)
	}
}

// A folder that names no replica, from an earlier version or damaged, takes the name of the settings.
func TestDataWithoutAReplicaName(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(file string) error{
		"missing": os.Remove,
		"empty":   func(file string) error { return os.Truncate(file, 0) },
		"damaged": func(file string) error { return os.WriteFile(file, []byte("no name of a replica\x00"), 0o640) },
	} {
		t.Run(what, func(t *testing.T) {
			r := replicasOf(t, 1, "--replica-insecure")[0]
			r.start()
			r.count("jobs", 3)
			r.end()
			must(t, spoil(filepath.Join(r.dir, "REPLICA")))
			r.as("other").start()
			reads(t, "jobs", 3, r)
			r.end()
			r.as("").start()
			if got := r.cfg.replica().Name; got != "other" {
				t.Errorf("the replica's name is %q, want other", got)
			}
		})
	}
}

// The log says once why the name isn't the host's.
func TestKeptReplicaNameIsLogged(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]int{"": 0, "sluice-1": 1} {
		var log bytes.Buffer
		cfg := parsed(t, dir, "--replica-peers", loopbackAddresses(1)[0], "--replica-insecure", "--log-level", "info")
		if name != "" {
			must(t, os.WriteFile(filepath.Join(dir, "REPLICA"), []byte(name+"\n"), 0o640))
		} else {
			_ = os.Remove(filepath.Join(dir, "REPLICA"))
		}
		p := &dataPath{cfg: cfg, log: newLogger(&log, cfg.log)}
		must(t, p.nameReplica(t.Context()))
		if got := strings.Count(log.String(), "level=INFO"); got != want || !strings.Contains(log.String(), name) {
			t.Errorf("with the stored name %q the log has %d lines, want %d:\n%s", name, got, want, &log)
		}
	}
}
