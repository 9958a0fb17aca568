package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// inTurn sends requests to servers in turn, each with sync=all.
type inTurn struct {
	t    *testing.T
	all  []*testReplica
	next int
}

func newInTurn(t *testing.T, n int, more ...string) *inTurn {
	t.Helper()
	all := replicasOf(t, n, append(more, "--replica-insecure")...)
	for _, r := range all {
		r.start()
	}
	r := &inTurn{t: t, all: all}
	eventually(t, func() bool {
		return !slices.ContainsFunc(all, func(one *testReplica) bool { return len(one.replication.replica.Origins()) < n-1 })
	}, func() string { return "the replicas don't know each other" })
	for _, one := range all {
		one.ready()
	}
	return r
}

// send sends a request to the next server, and returns the answer.
func (r *inTurn) send(status int, method, path, body string) string {
	r.t.Helper()
	to := r.all[r.next%len(r.all)]
	r.next++
	got, text := spoken(r.t, to.dataPath, method, path, body, "Sluice-Sync", "all")
	if got != status {
		r.t.Errorf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	return text
}

// pushed sends a change of a group.
func (r *inTurn) pushed(status int, method, path, body string) {
	r.t.Helper()
	if text := r.send(status, method, path, body); status/100 == 2 && !strings.Contains(text, `"replica":"sluice-`) {
		r.t.Errorf("%s %s: %s names no replica", method, path, text)
	}
}

// exposes checks GET /metrics of every server, without times and comments.
func (r *inTurn) exposes(lines ...string) {
	r.t.Helper()
	for _, testReplica := range r.all {
		var got []string
		_, text := spoken(r.t, testReplica.dataPath, "GET", "/metrics", "")
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "push_") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		if !slices.Equal(got, lines) {
			r.t.Errorf("%s exposes\n%s\nwant\n%s", testReplica.cfg.replica().Name, strings.Join(got, "\n"), strings.Join(lines, "\n"))
		}
	}
}

// serves waits until every server reads a value; an empty value: none. It is a flush late where a
// table loses series that another replica's push removed from a group.
func (r *inTurn) serves(expression, want string) {
	r.t.Helper()
	var got []string
	eventually(r.t, func() bool {
		got = got[:0]
		for _, testReplica := range r.all {
			got = append(got, testReplica.reading(expression))
		}
		return !slices.ContainsFunc(got, func(text string) bool { return text != want })
	}, func() string { return fmt.Sprintf("%s reads %q, want %q", expression, got, want) })
}

func (r *testReplica) reading(expression string) string {
	r.t.Helper()
	status, text := spoken(r.t, r.dataPath, "GET", "/v1/external/"+expression, "")
	var answer struct {
		Items []struct {
			Value  json.Number
			Labels map[string]string
		}
	}
	if status != 200 {
		return ""
	}
	must(r.t, json.Unmarshal([]byte(text), &answer))
	var all []string
	for _, one := range answer.Items {
		delete(one.Labels, "instance")
		all = append(all, fmt.Sprint(one.Labels, " ", one.Value))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestWipeAtReplicas: a wipe deletes groups that another replica has not published yet.
func TestWipeAtReplicas(t *testing.T) {
	t.Parallel()
	r := newInTurn(t, 2, "--http-admin-wipe")
	for i := range 4 {
		for n := range 3 {
			accepted(t, r.all[1].dataPath, "PUT", fmt.Sprintf("/metrics/job/%d", n), "m 1\n")
		}
		status, text := spoken(t, r.all[0].dataPath, "PUT", "/api/v1/admin/wipe", "")
		if status != 202 || !strings.Contains(text, `"deleted":3`) {
			t.Errorf("wipe %d: %d %s", i, status, text)
		}
		r.serves("m", "")
		r.exposes()
	}
}

// TestDocumentsOfAReplicaThatWasAway: a replica that comes back has the groups of the others, and
// loses what was deleted meanwhile.
func TestDocumentsOfAReplicaThatWasAway(t *testing.T) {
	t.Parallel()
	r := newInTurn(t, 2)
	away := r.all[1]
	for _, method := range []string{"PUT", "POST"} { // to either
		r.pushed(200, method, "/metrics/job/"+method, "m 1\n")
		r.send(200, "PUT", "/v1/external/depth?label=by%3D"+method+"&sync=all", "4")
		r.next++
	}
	r.send(200, "PUT", "/v1/external/stays?sync=all", "9")
	away.end()
	r.all = r.all[:1]
	r.pushed(202, "DELETE", "/metrics/job/POST", "")
	r.pushed(200, "PUT", "/metrics/job/new", "m 3\n")
	r.send(200, "DELETE", "/v1/external/depth?sync=all", "")
	away.start()
	away.ready()
	r.all = append(r.all, away)
	r.serves("m", "map[job:PUT] 1, map[job:new] 3")
	r.serves("depth", "")
	r.serves("stays", "map[] 9")
	r.exposes(`m{instance="",job="PUT"} 1`, `m{instance="",job="new"} 3`)
}
