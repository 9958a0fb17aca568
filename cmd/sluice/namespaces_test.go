package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/rule/ruletest"
)

// withNamespaces is a cluster with namespaces, by name and UID.
func withNamespaces(uids map[string]string) *fakeCluster {
	c := newFakeCluster()
	for name, uid := range uids {
		c.items["/api/v1/namespaces"] = append(c.items["/api/v1/namespaces"], namespaceObject(name, uid))
	}
	return c
}

// namespaceObject is a namespace that was created a second ago.
func namespaceObject(name, uid string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "uid": uid,
		"resourceVersion": "1", "creationTimestamp": time.Now().Add(-time.Second).UTC().Format(time.RFC3339)}}
}

// hasMetrics checks whether a namespace has what giveMetrics gave it.
func hasMetrics(t *testing.T, p *dataPath, namespace string, want bool) {
	t.Helper()
	wanted := map[bool]int{true: 200, false: 404}[want]
	for _, path := range []string{"external/jobs", "external/batch", "configmaps/one/held"} {
		if status, body := spoken(t, p, "GET", "/v1/namespaces/"+namespace+"/"+path, ""); status != wanted {
			t.Errorf("%s of %s: %d %s, want %d", path, namespace, status, body, wanted)
		}
	}
	if _, page := spoken(t, p, "GET", "/metrics", ""); strings.Contains(page, `namespace="`+namespace+`"`) != want {
		t.Errorf("groups of %s, want them: %v:\n%s", namespace, want, page)
	}
}

func giveMetrics(t *testing.T, p *dataPath, namespace string) {
	t.Helper()
	accepted(t, p, "PUT", "/v1/namespaces/"+namespace+"/external/jobs", "7")
	accepted(t, p, "PUT", "/v1/namespaces/"+namespace+"/configmaps/one/held", "7")
	accepted(t, p, "PUT", "/metrics/job/nightly/namespace/"+namespace, "# TYPE batch gauge\nbatch 7\n")
}

// A namespace that was deleted while Sluice was down leaves nothing to one that has its name now. Data
// without a UID belong to the first namespace that is seen.
func TestNamespacesInheritNothing(t *testing.T) {
	t.Parallel()
	const unwatched = "--object-kinds=services"
	for name, c := range map[string]struct {
		before   []string // arguments of the first start
		now      map[string]string
		kept     bool
		nextKept bool // if the UID is another one once more
	}{
		"the same":      {now: map[string]string{"shop": "1"}, kept: true},
		"another":       {now: map[string]string{"shop": "2"}},
		"deleted":       {now: map[string]string{"other": "2"}},
		"older data":    {before: []string{unwatched}, now: map[string]string{"shop": "2"}, kept: true},
		"never existed": {before: []string{unwatched}, kept: true, nextKept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			t.Run("before", func(t *testing.T) {
				giveMetrics(t, startedWithData(t, withNamespaces(map[string]string{"shop": "1"}), data, c.before...), "shop")
			})
			for _, when := range []string{"after", "again"} {
				t.Run(when, func(t *testing.T) {
					hasMetrics(t, startedWithData(t, withNamespaces(c.now), data), "shop", c.kept)
				})
			}
			t.Run("unwatched", func(t *testing.T) {
				hasMetrics(t, startedWithData(t, withNamespaces(map[string]string{"shop": "3"}), data, unwatched), "shop", c.kept)
			})
			t.Run("next", func(t *testing.T) {
				hasMetrics(t, startedWithData(t, withNamespaces(map[string]string{"shop": "3"}), data), "shop", c.nextKept)
			})
		})
	}
}

// What a namespace had that was deleted while Sluice was down is read by nobody before the namespaces are known, at any
// door of the push port and of the console, and is gone once they are, however long the rest of the cluster takes.
func TestNothingIsReadBeforeTheNamespacesAreKnown(t *testing.T) {
	t.Parallel()
	doors := []string{"/v1/namespaces", "/v1/namespaces/shop", "/v1/namespaces/shop/external/jobs",
		"/v1/namespaces/shop/configmaps/one/held", "/metrics", "/metrics/series", "/api/v1/metrics"}
	pages := []string{"/overview", "/metrics", "/metric?namespace=shop&name=batch", "/groups", "/senders", "/try?line=x:1%7Cg"}
	for path, fault := range map[string]int{"/api/v1/namespaces": 500, "/apis/autoscaling/v2/horizontalpodautoscalers": 403} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			t.Run("before", func(t *testing.T) {
				p := startedWithData(t, withNamespaces(map[string]string{"shop": "1"}), data)
				giveMetrics(t, p, "shop")
				accepted(t, p, "PUT", "/metrics/job/about/namespace/shop/sluice_object/configmaps%2Fone", "held_too 7\n")
			})
			t.Run("after", func(t *testing.T) {
				now := withNamespaces(map[string]string{"shop": "2"})
				now.faults = map[string]int{path: fault}
				p := started(t, data, append(clusterFlags(t, now), "--console-address", "127.0.0.1:0")...)
				only := "waiting for " + resourceOf(path) + ";"
				var why string
				eventually(t, func() bool {
					_, why = p.cluster.state()
					return strings.HasPrefix(why, only)
				}, func() string { return why })
				known := fault == 403
				eventually(t, func() bool { return p.cluster.compared.Load() == known }, func() string { return "not compared" })
				check := func(door string, status int, body string, words ...string) {
					if !known && (status != 503 || !strings.Contains(body, "Sluice is reading the cluster")) {
						t.Errorf("GET %s: %d %s, want 503", door, status, body)
					}
					for _, had := range words {
						if known && status == 200 && strings.Contains(body, had) {
							t.Errorf("GET %s has what the former namespace had: %s", door, body)
							break
						}
					}
				}
				for _, door := range doors {
					status, body := spoken(t, p, "GET", door, "")
					check(door, status, body, "jobs\"", "batch", "held\"", "held_too", "held{", "nightly")
				}
				for _, door := range pages {
					status, body := page(t, p, door)
					check("console"+door, status, body, "jobs<", "held<", "held_too", "nightly")
				}
				if status, body := page(t, p, "/health"); status != 200 || !strings.Contains(body, "waiting for") {
					t.Errorf("the page of the process: %d %s, want what is waited for", status, body)
				}
				accepted(t, p, "PUT", "/v1/namespaces/shop/external/jobs", "8")
			})
		})
	}
}

// The end of a former namespace counts for own series, also after the clock was set back by an hour since they were
// restored. Restored ones are older than it, though the API server's clock may be behind.
func TestFormerNamespacesEndAfterTheRestore(t *testing.T) {
	t.Parallel()
	before := time.Now().Add(-time.Second)
	ahead := time.Now().Add(time.Hour) // by the clock of then
	if end := endOfOwn(before, ahead, time.Minute); !end.Equal(before) {
		t.Errorf("what was received for %v since the restore stays", end.Sub(before))
	}
	if end := endOfOwn(before, before.Add(-time.Hour), time.Hour); !end.Equal(before) {
		t.Errorf("the end is %v off", end.Sub(before))
	}
	restored := time.Now()
	if end := endOfOwn(before, restored, time.Millisecond); !end.Equal(restored) {
		t.Errorf("what was restored stays: the end is %v early", restored.Sub(end))
	}
}

// The next holder of a namespace's name lists no value that a rule had in the former one.
func TestValuesOfRulesAreNotInherited(t *testing.T) {
	t.Parallel()
	p := startedIn(t, withNamespaces(map[string]string{"shop": "1"}), "--rules-file", ruletest.File(t, ruletest.Busy))
	accepted(t, p, "PUT", "/v1/namespaces/shop/external/busy_workers", "3")
	accepted(t, p, "PUT", "/v1/namespaces/shop/external/total_workers", "4")
	if status, body := spoken(t, p, "GET", "/v1/namespaces/shop/external/busy_ratio", ""); status != 200 {
		t.Fatal(status, body)
	}
	for _, want := range []string{"0.75", ""} {
		if listed := p.rules.Listed(); listed[1].Value != want {
			t.Errorf("listed: %+v, want the value %q", listed[1], want)
		}
		p.endNamespace("shop", "2", time.Now())
	}
}

// Namespaces that may not be listed at the start, as before the role is applied, hold up nobody. Once they are listed,
// what ended ones had goes as at any start, though the API server's clock may be behind.
func TestNamespacesThatAreForbiddenAtFirst(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	t.Run("before", func(t *testing.T) {
		p := startedWithData(t, withNamespaces(map[string]string{"shop": "1", "bank": "2"}), data)
		giveMetrics(t, p, "shop")
		giveMetrics(t, p, "bank")
	})
	t.Run("after", func(t *testing.T) {
		const list = "/api/v1/namespaces"
		behind := namespaceObject("shop", "3")
		behind["metadata"].(map[string]any)["creationTimestamp"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
		c := withNamespaces(map[string]string{"bank": "2"})
		c.items[list] = append(c.items[list], behind)
		c.forbid(list, true)
		p := startedWithData(t, c, data)
		c.forbid(list, false)
		eventually(t, func() bool {
			status, _ := spoken(t, p, "GET", "/v1/namespaces/shop/external/jobs", "")
			uids, _ := p.cluster.namespaces.all()
			return uids["shop"] == "3" && status == 404
		}, func() string { return "the former namespace's metric is there" })
		hasMetrics(t, p, "shop", false)
		hasMetrics(t, p, "bank", true)
	})
}

// News of a namespace's end may come late, with the next holder of the name: what that one has pushed meanwhile stays.
func TestLateNewsOfAnEndKeepTheNextHoldersMetrics(t *testing.T) {
	t.Parallel()
	const list = "/api/v1/namespaces"
	c := withNamespaces(map[string]string{"shop": "1", "bank": "3"})
	c.created = map[string]chan any{list: make(chan any)}
	p := startedIn(t, c)
	giveMetrics(t, p, "shop")
	for _, name := range []string{"shop", "bank"} { // the news of bank come after all of shop's
		next := namespaceObject(name, "of "+name)
		next["apiVersion"], next["kind"] = "meta.k8s.io/v1", "PartialObjectMetadata"
		next["metadata"].(map[string]any)["creationTimestamp"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
		c.created[list] <- next
		eventually(t, func() bool {
			uids, _ := p.cluster.namespaces.all()
			return uids[name] == "of "+name
		}, func() string { return "the news are not heard" })
	}
	hasMetrics(t, p, "shop", true)
}

// resourceOf is the resource of the path of a list, as /readyz says it.
func resourceOf(path string) string {
	if name, grouped := strings.CutPrefix(path, "/apis/autoscaling/v2/"); grouped {
		return name + ".autoscaling"
	}
	return strings.TrimPrefix(path, "/api/v1/")
}

// What is pushed for a namespace after its end is no later namespace's, across starts as well. After a day it is
// removed, and the name is as if it had never been seen.
func TestLatePushesAreNotInherited(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]bool{"taken again": false, "forgotten": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			t.Run("before", func(t *testing.T) {
				giveMetrics(t, startedWithData(t, withNamespaces(map[string]string{"shop": "1"}), data), "shop")
			})
			t.Run("gone", func(t *testing.T) {
				p := startedWithData(t, withNamespaces(nil), data)
				giveMetrics(t, p, "shop")
				hasMetrics(t, p, "shop", true)
			})
			t.Run("gone still", func(t *testing.T) {
				p := startedWithData(t, withNamespaces(nil), data)
				hasMetrics(t, p, "shop", true)
				if !forget {
					return
				}
				known := p.cluster.namespaces
				known.mu.Lock()
				known.ended["shop"] = time.Now().Add(-endedFor)
				known.mu.Unlock()
				p.endNamespaces()
				hasMetrics(t, p, "shop", false)
				giveMetrics(t, p, "shop")
			})
			t.Run("again", func(t *testing.T) {
				hasMetrics(t, startedWithData(t, withNamespaces(map[string]string{"shop": "2"}), data), "shop", forget)
			})
		})
	}
}

// startIn starts a replica in a cluster.
func (r *testReplica) startIn(c *fakeCluster) {
	r.t.Helper()
	r.flags = append(r.flags[:slices.Index(append(r.flags, "--standalone=false"), "--standalone=false")], clusterFlags(r.t, c)...)
	r.start()
	awaitCluster(r.t, r.dataPath)
}

// reads reports whether a replica has an external metric of a namespace, and whether it exposes its group.
func (r *testReplica) reads(namespace, name string) (value, group bool) {
	r.t.Helper()
	status, _ := spoken(r.t, r.dataPath, "GET", "/v1/namespaces/"+namespace+"/external/"+name, "")
	_, page := spoken(r.t, r.dataPath, "GET", "/metrics", "")
	return status == 200, strings.Contains(page, `job="`+name+`"`)
}

func (r *testReplica) gives(namespace, name string) {
	r.t.Helper()
	accepted(r.t, r.dataPath, "PUT", "/v1/namespaces/"+namespace+"/external/"+name, "7")
	accepted(r.t, r.dataPath, "PUT", "/metrics/job/"+name+"/namespace/"+namespace, "# TYPE of_"+name+" gauge\nof_"+name+" 7\n")
}

// Replicas that start one after the other give a later namespace nothing of the former one, of which another
// one may still have the data; and each keeps what that namespace has got since.
func TestNamespacesOfReplicasInheritNothing(t *testing.T) {
	t.Parallel()
	all := replicasOf(t, 2, "--replica-insecure")
	a, b := all[0], all[1]
	in := func(uid string) *fakeCluster {
		// Creation times have seconds, and births in shadows have ticks.
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(3 * time.Second)))
		return withNamespaces(map[string]string{"shop": uid})
	}
	has := func(name string) {
		t.Helper()
		for _, r := range all {
			var value, group bool
			eventually(t, func() bool { value, group = r.reads("shop", name); return value && group },
				func() string {
					return fmt.Sprintf("%s is missing at %s: value %v, group %v", name, r.cfg.replica().Name, value, group)
				})
		}
	}
	// lacks reads while the replicas come to know each other.
	lacks := func(names ...string) {
		t.Helper()
		known := func() bool {
			return !slices.ContainsFunc(all, func(r *testReplica) bool {
				o := r.replication.replica.Origins()
				ready, _ := r.replication.replica.Ready()
				return !ready || len(o) != 1 || !o[0].Complete || o[0].StandingStill
			})
		}
		for more := 3; more > 0; time.Sleep(10 * time.Millisecond) {
			if known() {
				more--
			}
			for _, r := range all {
				for _, name := range names {
					if value, group := r.reads("shop", name); value || group {
						t.Fatalf("%s has %s of the former namespace: value %v, group %v", r.cfg.replica().Name, name, value, group)
					}
				}
			}
		}
	}
	first := withNamespaces(map[string]string{"shop": "1"})
	a.startIn(first)
	b.startIn(first)
	a.gives("shop", "first_a")
	b.gives("shop", "first_b")
	has("first_a")
	has("first_b")
	a.end()
	b.end()

	second := in("2")
	a.startIn(second)
	if value, group := a.reads("shop", "first_a"); value || group {
		t.Fatalf("the former namespace's metric is there: value %v, group %v", value, group)
	}
	b.startIn(second)
	lacks("first_a", "first_b")
	a.gives("shop", "second_a")
	b.gives("shop", "second_b")
	has("second_a")
	has("second_b")
	a.end()
	b.end()

	third := in("3")
	b.startIn(third)
	b.gives("shop", "third_b")
	a.startIn(third)
	lacks("second_a", "second_b")
	has("third_b")
	for _, r := range all { // a rollover
		r.end()
		r.startIn(third)
	}
	has("third_b")
	lacks("first_a", "first_b", "second_a", "second_b")
}

// A replica that starts with nothing beside one that cannot read the cluster any more shows nothing of a namespace that
// has changed hands meanwhile, and the other one ends it too. What both got since stays.
func TestAReplicaThatIsBlindKeepsNoFormerNamespace(t *testing.T) {
	t.Parallel()
	all := replicasOf(t, 2, "--replica-insecure")
	blind, fresh := all[0], all[1]
	blind.startIn(withNamespaces(map[string]string{"shop": "1"})) // its watch says nothing any more
	blind.gives("shop", "former")
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(3 * time.Second))) // creation times have seconds
	fresh.startIn(withNamespaces(map[string]string{"shop": "2"}))
	for known := false; !known; {
		origins := fresh.replication.replica.Origins()
		ready, _ := fresh.replication.replica.Ready()
		known = ready && len(origins) == 1 && origins[0].Complete
		if value, group := fresh.reads("shop", "former"); value || group {
			t.Fatalf("the former namespace's: value %v, group %v", value, group)
		}
	}
	eventually(t, func() bool {
		value, group := blind.reads("shop", "former")
		return !value && !group
	}, func() string { return "the blind replica has the former namespace's still" })
	blind.gives("shop", "later")
	for _, r := range all {
		eventually(t, func() bool {
			value, group := r.reads("shop", "later")
			return value && group
		}, func() string { return "what the namespace got since is missing at " + r.cfg.replica().Name })
		if value, group := r.reads("shop", "former"); value || group {
			t.Errorf("%s: the former namespace's: value %v, group %v", r.cfg.replica().Name, value, group)
		}
	}
}

// A replica that starts gets the state of one that is away from the others, and none of what that has of a namespace that has
// ended, however much was deleted since.
func TestManyDeletionsBringNoFormerNamespaceBack(t *testing.T) {
	t.Parallel()
	all := replicasOf(t, 3, "--replica-insecure")
	away, told, fresh := all[0], all[1], all[2]
	first := withNamespaces(map[string]string{"shop": "1", "mine": "3"})
	first.created = map[string]chan any{"/api/v1/namespaces": make(chan any)}
	away.startIn(withNamespaces(map[string]string{"shop": "1"}))
	told.startIn(first)
	away.gives("shop", "former")
	eventually(t, func() bool { value, _ := told.reads("shop", "former"); return value }, func() string { return "nothing was told" })
	away.end()
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(3 * time.Second))) // creation times have seconds
	next := namespaceObject("shop", "2")
	next["apiVersion"], next["kind"] = "meta.k8s.io/v1", "PartialObjectMetadata"
	first.created["/api/v1/namespaces"] <- next
	ended := func(r *testReplica) {
		t.Helper()
		eventually(t, func() bool {
			value, group := r.reads("shop", "former")
			return !value && !group
		}, func() string {
			value, group := r.reads("shop", "former")
			return fmt.Sprintf("%s has what the former namespace had: value %v, group %v", r.cfg.replica().Name, value, group)
		})
	}
	ended(told)
	for i := range 10_001 {
		spoken(t, told.dataPath, "DELETE", fmt.Sprintf("/v1/namespaces/mine/external/m%d", i), "")
	}
	fresh.startIn(withNamespaces(map[string]string{"shop": "2", "mine": "3"}))
	fresh.ready()
	ended(fresh)
	ended(told)
	if origins := fresh.replication.replica.Origins(); len(origins) != 2 {
		t.Errorf("%d origins, want the one that is away as well", len(origins))
	}
}
