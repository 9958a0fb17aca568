package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

// pair are two replicas, each with data of its own; the second one has stopped.
func pair(t *testing.T) (runs, stopped *testReplica) {
	t.Helper()
	all := replicasOf(t, 2, "--replica-insecure")
	for _, r := range all {
		r.start()
		r.count("jobs", 25)
	}
	reads(t, "jobs", 50, all...)
	all[1].end()
	return all[0], all[1]
}

// as changes the name in the settings; later flags win.
func (r *testReplica) as(name string) *testReplica {
	r.flags = append(r.flags, "--replica-name", name)
	return r
}

// A replica without a name in its settings has that of its data, whatever the host's name is.
func TestReplicaKeepsTheNameOfItsData(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	b.as("").start()
	if got := b.cfg.replica().Name; got != "sluice-1" {
		t.Errorf("the replica's name is %q, want sluice-1, that of its data", got)
	}
	if origin, holder := b.cfg.limit.Origin, b.cfg.cluster.Replica; origin != "sluice-1" || holder != "sluice-1" {
		t.Errorf("limits have the name %q, the Lease %q, want sluice-1", origin, holder)
	}
	b.ready()
	b.count("jobs", 1)
	reads(t, "jobs", 51, a, b)
	if got := len(a.replication.replica.Origins()); got != 1 {
		t.Errorf("the other replica knows %d origins, want 1", got)
	}
}

// Data under the name of another replica would count twice.
func TestReplicaWithDataOfAnother(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	b.as("sluice-7")
	if p, err := wire(t.Context(), parsed(t, b.dir, b.flags...), slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("the replica started with the data of another one: ", p.abandon())
	}
	code, _, errs := called(t, onFreePorts(b.dir, b.flags...)...)
	if code != command.ExitUsage {
		t.Errorf("exit code %d, want %d", code, command.ExitUsage)
	}
	for _, want := range []string{`--replica-name is "sluice-7"`, b.dir, `must be "sluice-1"`, "--data-dir"} {
		if !strings.Contains(errs, want) {
			t.Errorf("the error does not say %s:\n%s", want, errs)
		}
	}
	if got := strings.Count(errs, "--replica-name"); got != 1 {
		t.Errorf("the setting is named %d times:\n%s", got, errs)
	}
	reads(t, "jobs", 50, a)
	b.as("sluice-1").start()
	b.ready()
	reads(t, "jobs", 50, a, b)
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
			if err := spoil(filepath.Join(r.dir, "REPLICA")); err != nil {
				t.Fatal(err)
			}
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
		cfg := parsed(t, dir, "--replica-peers", loopbackAddresses(t, 1)[0], "--replica-insecure", "--log-level", "info")
		if name != "" {
			if err := os.WriteFile(filepath.Join(dir, "REPLICA"), []byte(name+"\n"), 0o640); err != nil {
				t.Fatal(err)
			}
		} else {
			_ = os.Remove(filepath.Join(dir, "REPLICA"))
		}
		p := &dataPath{cfg: cfg, log: newLogger(&log, cfg.log)}
		if err := p.nameReplica(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "level=INFO"); got != want || !strings.Contains(log.String(), name) {
			t.Errorf("with the stored name %q the log has %d lines, want %d:\n%s", name, got, want, &log)
		}
	}
}
