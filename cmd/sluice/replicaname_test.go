package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
		cfg := parsed(t, dir, "--replica-peers", loopbackAddresses(t, 1)[0], "--replica-insecure", "--log-level", "info")
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
