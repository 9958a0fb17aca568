package adapter

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
)

// rawSource is a fakeUsage of pods on two nodes, whose agents have points.
type rawSource struct {
	fakeUsage
	mu    sync.Mutex // guards the fields below
	asked []string
	fail  error
	wait  chan struct{} // nil: none
	many  int           // points of each container; 0: two
}

func (r *rawSource) Pods(namespace, name string, selector labels.Selector) []usage.Pod {
	all := r.fakeUsage.Pods(namespace, name, selector)
	for i := range all {
		all[i].Node, all[i].Created = map[string]string{"a": "near", "b": "near", "c": "far"}[all[i].Name], noon
	}
	return all
}

func (r *rawSource) Points(_ context.Context, node string, q *usage.PointsQuery) (all []usage.ContainerPoints, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	after := ""
	if q.After.Unix() != 0 {
		after = q.After.UTC().Format(time.RFC3339)
	}
	r.asked = append(r.asked, fmt.Sprintf("%s node=%t %s/%s after=%s step=%v count=%d", node, q.Node, q.Namespace, q.Pod, after, q.Step, q.Count))
	if r.wait != nil {
		r.mu.Unlock()
		<-r.wait
		r.mu.Lock()
	}
	points := []usage.Used{{End: noon.Add(5 * time.Second), Length: 10 * time.Second, CPU: 9, Memory: 9}, // of a former pod of the name
		{End: noon.Add(20 * time.Second), Length: 10 * time.Second, CPU: 0.25, Memory: 1 << 20}}
	for len(points) < r.many {
		points = append(points, points[1])
	}
	for _, name := range []metric.Container{{}, {Namespace: "shop", Pod: "a", Name: "web"}, {Namespace: "shop", Pod: "a", Name: "proxy"}, {Namespace: "mail", Pod: "c", Name: "main"}} {
		if q.Node == (name.Pod == "") {
			all = append(all, usage.ContainerPoints{Container: name, Points: points})
		}
	}
	return all, r.fail
}

func (r *rawSource) questions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.asked
	r.asked = nil
	slices.Sort(all)
	return all
}

// The agents of the nodes that have selected pods are asked, once each, and of the answers only those pods are said, since
// they were created.
func TestRawUsage(t *testing.T) {
	source := &rawSource{}
	a := startUsed(t, source)
	root := "/apis/usage.sluice.dev/v1alpha1"
	const stat = `{"timestamp":"2026-03-14T12:00:20Z","window":"10s","usage":{"cpu":"250m","memory":"1Mi"}}`
	says := func(path, want string, asked ...string) {
		t.Helper()
		status, body := got(t, a, root+path, "application/json")
		_, body, _ = strings.Cut(body, `"items":`)
		if body = withoutDates(body); status != http.StatusOK || !strings.Contains(body, strings.ReplaceAll(want, "STAT", stat)) || strings.Contains(body, `"9"`) && !strings.Contains(path, "nodes") {
			t.Errorf("%s: %d %s, want %s", path, status, body, want)
		}
		if got := source.questions(); !slices.Equal(got, asked) {
			t.Errorf("%s asks\n%q, want\n%q", path, got, asked)
		}
	}
	near, far := "near node=false / after= step=10s count=0", "far node=false / after= step=10s count=0"
	says("/rawpods", `"containers":[{"name":"proxy","stats":[STAT]},{"name":"web","stats":[STAT]}]`, far, near)
	says("/rawpods?fieldSelector=metadata.name%3Dc", `"containers":[{"name":"main","stats":[STAT]}]`, far)
	says("/rawpods?labelSelector=app%3Da", `"name":"a"`, near)
	says("/namespaces/shop/rawpods?step=60&count=3&start=2026-11-28T04:00:00Z&end=%222026-11-28T05:00:00Z%22", `"name":"a"`,
		"near node=false shop/ after=2026-11-28T04:00:00Z step=1m0s count=3")
	says("/rawnodes?count=5", `"machine":{"stats":[`, "node node=true / after= step=10s count=5")
	for path, want := range map[string]string{"/namespaces/shop/rawpods/a": `"kind":"RawPod"`, "/rawnodes/node": `"kind":"RawNode"`} {
		if status, body := got(t, a, root+path, "application/json"); status != http.StatusOK || !strings.Contains(body, want) || !strings.Contains(body, stat) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	source.questions()
	for path, want := range map[string]string{"/namespaces/shop/rawpods": "proxy", "/rawnodes/node": "250m"} {
		if status, body := got(t, a, root+path, "application/json;as=Table;v=v1;g=meta.k8s.io"); status != http.StatusOK || !strings.Contains(body, `"kind":"Table"`) || !strings.Contains(body, want) {
			t.Errorf("%s as a table: %d %s", path, status, body)
		}
	}
	source.questions()
	for query, want := range map[string]string{
		"step=15": "multiple of 10 seconds", "step=0": "multiple of 10 seconds", "step=x": "multiple of 10 seconds", "step=131080": "multiple",
		"count=0": "from 1 on", "count=-1": "from 1 on", "start=yesterday": "must be a time", "end=1": "must be a time",
	} {
		if status, body := got(t, a, root+"/rawpods?"+query, "application/json"); status != http.StatusBadRequest || !strings.Contains(body, want) || !strings.Contains(body, url.QueryEscape(strings.Split(query, "=")[0])) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	if asked := source.questions(); len(asked) != 0 {
		t.Errorf("agents were asked %q", asked)
	}
	if status, _ := got(t, a, root+"/namespaces/shop/rawpods/absent", "application/json"); status != http.StatusNotFound {
		t.Errorf("a pod that there is not: %d", status)
	}
}

// An agent that does not answer, and more points than fit an answer, fail the request; so do too many requests at a time.
func TestRawUsageThatFails(t *testing.T) {
	source := &rawSource{fail: metric.NotReadyf("the points of node near cannot be read")}
	a := startUsed(t, source)
	path := "/apis/usage.sluice.dev/v1alpha1/rawpods"
	fails := func(code int, want string) {
		t.Helper()
		if status, body := got(t, a, path, "application/json"); status != code || !strings.Contains(body, want) {
			t.Errorf("%d %s, want %d", status, body, code)
		}
	}
	fails(http.StatusServiceUnavailable, "node near")
	source.fail, source.many = nil, usage.MaxPoints/2
	fails(http.StatusBadRequest, "more than 50000 points")
	source.many, source.wait = 0, make(chan struct{})
	var done sync.WaitGroup
	for range maxRawEach {
		done.Go(func() {
			if status, body := got(t, a, path, "application/json"); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	for source.questions(); ; time.Sleep(time.Millisecond) {
		source.mu.Lock()
		asked := len(source.asked)
		source.mu.Unlock()
		if asked == 2*maxRawEach { // two nodes each
			break
		}
	}
	fails(http.StatusTooManyRequests, "2 of them of this reader")
	close(source.wait)
	done.Wait()
}

// Readers that don't read their answers keep places, and memory, of their own alone.
func TestSlowReadersOfRawUsage(t *testing.T) {
	source := &rawSource{many: 16_000}
	a := startUsed(t, source)
	path := "/apis/usage.sluice.dev/v1alpha1/namespaces/shop/rawpods?pretty=true" // 10 MB: more than sockets hold
	var slow []net.Conn
	for range maxRawEach {
		slow = append(slow, a.deaf(t, path))
	}
	status := func() int {
		status, _ := got(t, a, path, "application/json")
		return status
	}
	eventually(t, "answers that nobody reads keep their places", func() bool {
		if status() == http.StatusTooManyRequests {
			return true
		}
		slow = append(slow, a.deaf(t, path)) // one may have come after this request, and found no place
		return false
	})
	for range 100 {
		if now := status(); now != http.StatusTooManyRequests {
			t.Fatalf("%d", now)
		}
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
	eventually(t, "there is room again", func() bool { return status() == http.StatusOK })
}
