package rollup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// in runs a test in virtual time.
func in(t *testing.T, test func(s *shop)) {
	synctest.Test(t, func(t *testing.T) { test(newShop(t)) })
}

// An object without a series of its own is answered by its pods' series.
func TestRollUp(t *testing.T) {
	in(t, func(s *shop) {
		s.run("web", "web-1", "web-2", "web-3")
		s.run("db", "db-1")
		s.pods["loose"] = metric.Workload{}
		s.services["front"] = []string{"web-1", "loose", "db-1"}
		s.push("pods/web-1 requests:30|c|#code:200", "pods/web-2 requests:10|c|#code:200", "pods/web-2 requests:5|c|#code:500",
			"pods/db-1 requests:100|c", "pods/loose requests:1000|c",
			"pods/web-1 busy:3|g", "pods/web-2 busy:4|g", "pods/db-1 busy:9|g",
			"pods/web-1 latency:10|ms", "pods/web-1 latency:20|ms", "pods/web-2 latency:90|ms",
			"pods/web-1 users:ann|s", "pods/web-2 users:ann|s", "pods/web-2 users:bob|s")
		time.Sleep(5 * time.Second)
		s.wants(map[string]string{
			"deployments.apps/web requests:count":           "web=45 (3 of 3)",
			"deployments.apps/web requests:total":           "web=45 (2 of 3)",
			"deployments.apps/web requests":                 "web=4.5 (3 of 3)",
			"deployments.apps/web requests:count{code=200}": "web=40 (3 of 3)",
			"deployments.apps/web requests:count{code=500}": "web=5 (3 of 3)",
			"deployments.apps/web busy":                     "web=7 (2 of 3)",
			"deployments.apps/web busy:max:10s":             "web=7 (2 of 3)",
			"deployments.apps/web latency":                  "web=40 (2 of 3)",
			"deployments.apps/web latency:max":              "web=90 (2 of 3)",
			"deployments.apps/web latency:count":            "web=3 (2 of 3)",
			"deployments.apps/web users":                    "web=2 (3 of 3)",
			"services/front requests:count":                 "front=1130 (3 of 3)",
			"services/front busy":                           "front=12 (2 of 3)",
			"services/front users":                          "front=1 (1 of 3)",
			"deployments.apps/* requests:count":             "db=100 (1 of 1), web=45 (3 of 3)",
			"deployments.apps/* busy":                       "db=9 (1 of 1), web=7 (2 of 3)",
			"deployments.apps/* latency:max":                "web=90 (2 of 3)",
			"services/* busy":                               "front=12 (2 of 3)",
			"pods/* busy":                                   "db-1=9, web-1=3, web-2=4",
			"pods/web-3 requests:count":                     "web-3=0",
			"deployments.apps/none requests":                `no series of "requests" for deployments.apps/none in "shop": none was ever received`,
			"deployments.apps/web requests:p95":             `"requests" is a counter: it has rate, count, total, but no p95`,
			"deployments.apps/web requests:7s":              `window 7s of "requests:7s" is not kept; the windows are 10s, 1m`,
			"deployments.apps/web never":                    `no series of "never" for the pods of deployments.apps/web in "shop": none was ever received`,
			"deployments.apps/web latency{a=b}":             `no series of "latency" for the pods of deployments.apps/web in "shop" has labels that match the selector`,
			"deployments.apps/web requests:count{code=404}": `no series of "requests" for the pods of deployments.apps/web in "shop" has labels that match the selector`,
			"deployments.apps/db latency":                   `no series of "latency" for the pods of deployments.apps/db in "shop": other pods have it, and none of these`,
			"ingresses.networking.k8s.io/main requests":     `no series of "requests" for ingresses.networking.k8s.io/main in "shop": none was ever received`,
			"deployments.apps/* never":                      `no series of "never" for the pods of deployments.apps/db in "shop": none was ever received`,
		})
		time.Sleep(2 * time.Minute)
		s.wants(map[string]string{
			"deployments.apps/web latency":        `"latency" for the pods of deployments.apps/web in "shop" has no mean: nothing was observed in the last 1m`,
			"deployments.apps/web requests:count": "web=0 (3 of 3)",
		})
		s.services = nil
		if _, err := s.reader.Begin().Objects(query("services/front busy")); !errors.Is(err, metric.ErrNotReady) {
			t.Error(err)
		}
	})
}

// A pod that never counted has counted 0, and a pod that is not ready is absent, as in a list of pods.
func TestRollUpOfPodsThatNeverCounted(t *testing.T) {
	in(t, func(s *shop) {
		s.run("web", "web-1", "web-2", "web-3")
		s.push("pods/web-1 requests:30|c")
		s.unready["web-3"] = true
		s.wants(map[string]string{"deployments.apps/web requests:count": "web=30 (2 of 3)"})
		delete(s.pods, "web-1") // it is gone, and with it the only series
		s.run("web", "web-4")
		s.wants(map[string]string{
			"deployments.apps/web requests:count": "web=0 (2 of 3)",
			"deployments.apps/web requests":       "web=0 (2 of 3)",
			"deployments.apps/* requests":         "web=0 (2 of 3)",
			"deployments.apps/web requests:total": `no series of "requests" for the pods of deployments.apps/web in "shop": other pods have it, and none of these`,
		})
		points, err := s.reader.Begin().Objects(query("deployments.apps/web requests:rate:10s"))
		if err != nil || points[0].Window != 10*time.Second || points[0].Time != time.Now() || points[0].Object.Resource != "deployments.apps" {
			t.Errorf("%v, %v", points, err)
		}
	})
}

// A pod whose page is read for a counter, and that has none, is no pod of 0: its page could not be read.
func TestAnAnnouncedCounterIsNeverZero(t *testing.T) {
	in(t, func(s *shop) {
		s.run("web", "web-1", "web-2", "web-3")
		s.push("pods/web-1 requests:30|c", "pods/web-1 jobs:30|c")
		s.announced = map[string]bool{"web-1 requests": true, "web-2 requests": true}
		s.wants(map[string]string{
			"deployments.apps/web requests:count": "web=30 (2 of 3)",
			"pods/* requests:count":               "web-1=30, web-3=0",
			"pods/web-2 requests:count":           `no series of "requests" for pods/web-2 in "shop": none was ever received`,
			"pods/* jobs:count":                   "web-1=30, web-2=0, web-3=0",
		})
	})
}

// An own series answers alone, also where it has no value.
func TestOwnSeriesWins(t *testing.T) {
	in(t, func(s *shop) {
		s.run("web", "web-1")
		s.run("db", "db-1")
		s.push("pods/web-1 x:30|ms", "pods/db-1 x:40|ms", "deployments.apps/web x:5|ms", "deployments.apps/api x:7|ms",
			"pods/web-1 y:1|g", "pods/db-1 y:2|g", "deployments.apps/web y:100|g|#a:b")
		s.wants(map[string]string{
			"deployments.apps/web x":      "web=5",
			"deployments.apps/* x":        "api=7, db=40 (1 of 1), web=5",
			"deployments.apps/web y":      "web=100",
			"deployments.apps/web y{a=c}": `no series of "y" for deployments.apps/web in "shop" has labels that match the selector`,
			"deployments.apps/web y:rate": `"y" is a gauge: it has last, mean, min, max, but no rate`,
		})
		time.Sleep(2 * time.Minute)
		s.push("pods/web-1 x:30|ms", "pods/db-1 x:40|ms")
		s.wants(map[string]string{
			"deployments.apps/web x": `"x" for deployments.apps/web in "shop" has no mean: nothing was observed in the last 1m`,
			"deployments.apps/* x":   "db=40 (1 of 1)",
		})
		if n := s.table.Delete(query("deployments.apps/web x")); n != 1 {
			t.Fatalf("%d deleted", n)
		}
		s.wants(map[string]string{"deployments.apps/web x": "web=30 (1 of 1)"})
	})
}

// The bare name of a list is the kind of most objects.
func TestRollUpsOfOneList(t *testing.T) {
	in(t, func(s *shop) {
		s.run("a", "a-1")
		s.run("b", "b-1")
		s.run("c", "c-1")
		s.push("pods/a-1 x:3|g", "pods/b-1 x:60|c", "pods/c-1 x:4|g")
		time.Sleep(30 * time.Second)
		s.wants(map[string]string{"deployments.apps/* x": "a=3 (1 of 1), c=4 (1 of 1)", "deployments.apps/b x:count": "b=60 (1 of 1)"})
		q := query("deployments.apps/* x")
		q.MatchObject = func(o metric.Object) bool { return o.Name != "a" }
		q.Expression.Stat = metric.Last
		var reserved int
		q.Reserve = func(n int) ([]metric.Point, error) { reserved += n; return make([]metric.Point, n), nil }
		points, err := s.reader.Begin().Objects(q)
		if err != nil || len(points) != 1 || points[0].Object.Name != "c" || reserved < 1 {
			t.Errorf("%v, %v; %d reserved", points, err, reserved)
		}
	})
}

// A query may roll up all pods that it selects.
func TestRollUpOfSelectedPods(t *testing.T) {
	in(t, func(s *shop) {
		s.run("web", "web-1", "web-2", "web-3")
		s.push("pods/web-1 latency:10|ms", "pods/web-2 latency:30|ms", "pods/web-1 requests:4|c")
		for expression, want := range map[string]string{"latency": "*=20 (2 of 3)", "requests:count": "*=4 (3 of 3)"} {
			q := query("pods/* " + expression)
			q.RollUp = &metric.RollUp{Object: podNamed("*")}
			points, err := s.reader.Begin().Objects(q)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%s=%s (%d of %d)", points[0].Object.Name, points[0].Value.Append(nil), points[0].Pods.With, points[0].Pods.Of); got != want {
				t.Errorf("%s: %s, want %s", expression, got, want)
			}
		}
	})
}

// All queries of a moment read the same pods, and windows that end at one moment.
func TestMoment(t *testing.T) {
	in(t, func(s *shop) {
		s.run("web", "web-1", "web-2")
		for range 20 {
			s.push("pods/web-1 busy:1|c", "pods/web-2 busy:3|c", "pods/web-1 total:2|c", "pods/web-2 total:6|c")
			time.Sleep(time.Second)
		}
		m := s.reader.Begin()
		first := s.ask(m, "deployments.apps/web busy:rate:10s")
		time.Sleep(time.Second)
		s.run("web", "web-3")
		s.push("pods/web-3 total:100|c")
		if second := s.ask(m, "deployments.apps/web total:total"); second != "web=160 (2 of 2)" {
			t.Errorf("of another pod: %s", second)
		}
		if second := s.ask(m, "deployments.apps/web busy:rate:10s"); second != first {
			t.Errorf("%s, then %s", first, second)
		}
		if s.asked != 1 {
			t.Errorf("pods were asked for %d times", s.asked)
		}
		for object, want := range map[string]string{"pods/*": "web-1=20, web-2=60, web-3=0", "pods/web-3": "web-3=0"} {
			if got := s.ask(m, object+" busy:count:1m"); got != want {
				t.Errorf("%s: %s, want %s", object, got, want)
			}
		}
	})
}

// Roll-ups are what the raw samples of the pods say, with zeros as in lists of pods, for random
// workloads, Services, and pods that come and go.
func TestRollUpsEqualBruteForce(t *testing.T) {
	for seed := range uint64(20) {
		in(t, func(s *shop) {
			random := rand.New(rand.NewPCG(seed, 60))
			counts, lasts, pushed := map[string]float64{}, map[string]float64{}, map[string]bool{}
			for i := range 400 {
				pod := fmt.Sprintf("pod-%d", random.IntN(12))
				switch random.IntN(20) {
				case 0:
					delete(s.pods, pod)
				case 1:
					s.services[fmt.Sprint("svc-", random.IntN(3))] = append([]string(nil), pod, fmt.Sprintf("pod-%d", random.IntN(12)))
				case 2:
					s.unready[pod] = !s.unready[pod]
				}
				if random.IntN(4) == 0 && s.pods[pod].UID == "" {
					s.run(fmt.Sprint("app-", random.IntN(3)), pod)
				}
				if s.pods[pod].UID == "" {
					continue
				}
				if random.IntN(2) == 0 {
					s.push(fmt.Sprintf("pods/%s n:%d|c", pod, i))
					counts[pod] += float64(i)
					pushed[s.pods[pod].UID] = true
				} else {
					s.push(fmt.Sprintf("pods/%s g:%d|g", pod, i))
					lasts[pod] = float64(i)
				}
			}
			s.check(random, "n:count", counts, pushed)
			s.check(random, "g", lasts, nil)
		})
	}
}

// check compares the roll-ups of all Deployments and Services with the values of their pods. pushed are
// the workloads whose ready pods have a value, 0 at least.
func (s *shop) check(_ *rand.Rand, expression string, values map[string]float64, pushed map[string]bool) {
	s.t.Helper()
	members := map[string][]string{}
	for pod, workload := range s.pods {
		if workload.UID != "" {
			members["deployments.apps/"+workload.Name] = append(members["deployments.apps/"+workload.Name], pod)
		}
	}
	for service, pods := range s.services {
		slices.Sort(pods)
		pods = slices.DeleteFunc(slices.Compact(pods), func(pod string) bool { return s.pods[pod].UID == "" })
		if s.services[service] = pods; len(pods) > 0 {
			members["services/"+service] = pods
		} else {
			delete(s.services, service)
		}
	}
	lists := map[string][]string{}
	for object, pods := range members {
		sum, with := 0.0, 0
		for _, pod := range pods {
			v, has := values[pod]
			if sum += v; has || pushed[s.pods[pod].UID] && !s.unready[pod] {
				with++
			}
		}
		resource, name, _ := strings.Cut(object, "/")
		want := fmt.Sprintf("%s=%v (%d of %d)", name, sum, with, len(pods))
		if got := s.ask(s.reader.Begin(), object+" "+expression); with > 0 && got != want || with == 0 && !strings.HasPrefix(got, "no series") {
			s.t.Errorf("%s %s: %s; want %s", object, expression, got, want)
		}
		if with > 0 {
			lists[resource] = append(lists[resource], want)
		}
	}
	for resource, want := range lists {
		slices.Sort(want)
		if got := s.ask(s.reader.Begin(), resource+"/* "+expression); got != strings.Join(want, ", ") {
			s.t.Errorf("%s %s: %s; want %s", resource, expression, got, want)
		}
	}
}

// Standalone, the table answers.
func TestReaderWithoutACluster(t *testing.T) {
	in(t, func(s *shop) {
		s.push("pods/web-1 x:3|g", "deployments.apps/web y:1|g")
		s.reader = New(Parts{Begin: s.reader.parts.Begin})
		s.wants(map[string]string{"pods/* x": "web-1=3", "deployments.apps/web y": "web=1",
			"deployments.apps/web x": `no series of "x" for deployments.apps/web in "shop": none was ever received`})
		if got := s.ask(s.reader.Begin(), "pods/* x"); got != "web-1=3" {
			t.Error(got)
		}
	})
}
