package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
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

// loopbackAddresses were free a moment ago.
func loopbackAddresses(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}

// replicasOf makes n servers without starting them.
func replicasOf(t *testing.T, n int, more ...string) []*testReplica {
	t.Helper()
	addresses := loopbackAddresses(t, n)
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
func reads(t *testing.T, name string, want float64, timeout time.Duration, all ...*testReplica) {
	t.Helper()
	var got []float64
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got = got[:0]
		for _, r := range all {
			got = append(got, r.total(name))
		}
		if !slices.ContainsFunc(got, func(v float64) bool { return v != want }) {
			return
		}
	}
	t.Fatalf("after %v, %s reads %v, want %v", timeout, name, got, want)
}

func TestReplicasAnswerWithTheSum(t *testing.T) {
	all := replicasOf(t, 2, "--replica-insecure")
	for i, r := range all {
		r.start()
		r.count("jobs", i+1)
	}
	reads(t, "jobs", 3, 10*time.Second, all...)
}
