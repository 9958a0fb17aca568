package cluster

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
)

func endpoint(port uint16, path string, interval time.Duration, names ...string) metric.Endpoint {
	return metric.Endpoint{Port: port, Path: path, Interval: interval, Names: names}
}

func announcedBy(annotations map[string]string) *metric.Announcement {
	p := aPod("shop", "web-1", "u1")
	p.Annotations = annotations
	return announcementOf(p)
}

func TestAnnouncements(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name        string
		annotations map[string]string
		want        []metric.Endpoint
	}{
		{"none", nil, nil},
		{"the proposal's", map[string]string{CustomEndpointsAnnotation: `[
			{"api": "prometheus", "path": "/status", "port": "8080", "names": ["qps", "activeConnections"]},
			{"path": "/metrics", "port": "9090", "names": ["myMetric"]}]`},
			[]metric.Endpoint{endpoint(8080, "/status", 10*s, "qps", "activeConnections"), endpoint(9090, "/metrics", 10*s, "myMetric")}},
		{"a number as port, a string as names", map[string]string{CustomEndpointsAnnotation: `[{"port": 8080, "names": "qps"}]`},
			[]metric.Endpoint{endpoint(8080, "/metrics", 10*s, "qps")}},
		{"an interval", map[string]string{EndpointsAnnotation: `[{"port": 8000, "names": "vllm:num_requests_waiting", "interval": "1s"}]`},
			[]metric.Endpoint{endpoint(8000, "/metrics", s, "vllm:num_requests_waiting")}},
		{"all fields empty", map[string]string{CustomEndpointsAnnotation: `[{"api":"","path":"","port":"","names":[""]}]`}, nil},
		{"no port", map[string]string{CustomEndpointsAnnotation: `[{"names":["a"]},{"port":null},{"port":1,"names":["b"]}]`},
			[]metric.Endpoint{endpoint(1, "/metrics", 10*s, "b")}},
		{"an empty list", map[string]string{CustomEndpointsAnnotation: `[]`}, nil},
		{"an empty text", map[string]string{CustomEndpointsAnnotation: " "}, nil},
		{"one name twice", map[string]string{CustomEndpointsAnnotation: `[{"port": 1, "names": "a,b a"}]`},
			[]metric.Endpoint{endpoint(1, "/metrics", 10*s, "a", "b")}},
		{"a query", map[string]string{CustomEndpointsAnnotation: `[{"port": 1, "path": "/m?format=prometheus", "names": "a"}]`},
			[]metric.Endpoint{endpoint(1, "/m?format=prometheus", 10*s, "a")}},
		{"Sluice's own wins", map[string]string{EndpointsAnnotation: `[{"port": 1, "names": "a"}]`, CustomEndpointsAnnotation: `[{"port": 2, "names": "b"}]`},
			[]metric.Endpoint{endpoint(1, "/metrics", 10*s, "a")}},
		{"prometheus.io alone", map[string]string{prometheusScrape: "true", prometheusPort: "8080", prometheusPath: "/m"}, nil},
		{"prometheus.io with names", map[string]string{prometheusPort: "8080", prometheusPath: "/m", NamesAnnotation: "a, b"},
			[]metric.Endpoint{endpoint(8080, "/m", 10*s, "a", "b")}},
		{"names alone", map[string]string{NamesAnnotation: "a, b"}, nil},
		{"off", map[string]string{prometheusScrape: "false", prometheusPort: "8080", NamesAnnotation: "a",
			EndpointsAnnotation: `[{"port": 1, "names": "a"}]`, CustomEndpointsAnnotation: `[{`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := announcedBy(c.annotations)
			switch {
			case got == nil && c.want == nil:
			case got == nil || got.Fault != "" || !reflect.DeepEqual(got.Endpoints, c.want):
				t.Errorf("%+v; want %+v", got, c.want)
			}
		})
	}
}

func TestBadAnnouncements(t *testing.T) {
	many := strings.Repeat(`{"port": 1, "names": "a"},`, 499) + `{"port": 1, "names": "a"}`
	manyNames := make([]string, 65)
	for i := range manyNames {
		manyNames[i] = fmt.Sprintf("%q", fmt.Sprint("a", i))
	}
	for _, c := range []struct{ text, fault string }{
		{`[{"path": "/metrics", "port": "9090" "names": ["myMetric"]}]`, `at byte 38, after "s\", \"port\": \"9090\" \"": invalid character '"' after object key:value pair`},
		{`[{"port": 1`, "it ends at byte 11"},
		{`{"port": 1, "names": "a"}`, "a object stands where the list belongs"},
		{`[1]`, "a number stands where"},
		{`[{"port": [1], "names": "a"}]`, "at byte "},
		{`[{"port": 1, "names": 5}]`, "at byte "},
		{`[] []`, "has more after the list, at byte"},
		{`[{"port": 1, "name": "a"}]`, `unknown field "name"`},
		{`[{"port": 0, "names": "a"}]`, `endpoint 1: port is "0"; must be a number from 1 to 65535`},
		{`[{"port": 65536, "names": "a"}]`, `port is "65536"`},
		{`[{"port": "-1", "names": "a"}]`, `port is "-1"`},
		{`[{"port": 80.5, "names": "a"}]`, `port is "80.5"`},
		{`[{"port": "http", "names": "a"}]`, `port is "http"`},
		{`[{"port": 1, "names": "a"}, {"port": 2, "names": "b", "path": "/../secret"}]`, `endpoint 2: path is "/../secret"; must begin with /`},
		{`[{"port": 1, "names": "a", "path": "/%2E%2e/secret"}]`, "path is"},
		{`[{"port": 1, "names": "a", "path": "metrics"}]`, "path is"},
		{`[{"port": 1, "names": "a", "path": "/a b"}]`, "path is"},
		{`[{"port": 1, "names": "a", "path": "/a\r\nHost: x"}]`, "path is"},
		{`[{"port": 1, "names": "a", "path": "/` + strings.Repeat("a", 600) + `"}]`, "path has 601 bytes"},
		{`[{"port": 1}]`, "names are missing"},
		{`[{"port": 1, "names": []}]`, "names are missing"},
		{`[{"port": 1, "names": ["vllm:*"]}]`, `name "vllm:*" has a wildcard`},
		{`[{"port": 1, "names": [""]}]`, `name "" cannot be`},
		{`[{"port": 1, "names": ["a:max:10s"]}]`, `name "a:max:10s" cannot be`},
		{`[{"port": 1, "names": [` + strings.Join(manyNames, ",") + `]}]`, "has 65 names; must have at most 64"},
		{`[{"port": 1, "names": "a"}, {"port": 2, "names": "a"}]`, `endpoints 1 and 2 both name "a"`},
		{`[{"port": 1, "names": "a", "api": "statsd"}]`, `api is "statsd"`},
		{`[{"port": 1, "names": "a", "interval": "500ms"}]`, `interval is "500ms"; must be from 1s to 5m`},
		{`[{"port": 1, "names": "a", "interval": "1h"}]`, "interval is"},
		{`[{"port": 1, "names": "a", "interval": "soon"}]`, "interval is"},
		{"[" + many + "]", "has 500 endpoints; must have at most 16"},
		{strings.Repeat(" ", 256<<10), "has 262144 bytes; must have at most 16384"},
	} {
		got := announcedBy(map[string]string{EndpointsAnnotation: c.text})
		if got == nil || len(got.Endpoints) > 0 || !strings.Contains(got.Fault, c.fault) || !strings.HasPrefix(got.Fault, "annotation sluice.dev/endpoints: ") {
			t.Errorf("%.80s\n%+v\nwant the fault %s", c.text, got, c.fault)
		}
		if got != nil && len(got.Fault) > 400 {
			t.Errorf("%.80s: a fault of %d bytes", c.text, len(got.Fault))
		}
	}
	if got := announcedBy(map[string]string{CustomEndpointsAnnotation: `[{"port": 1, "names": "a", "interval": "1s"}]`}); got == nil || !strings.Contains(got.Fault, "has an interval") {
		t.Errorf("%+v: the proposal's annotation has no interval", got)
	}
	host := aPod("shop", "host", "u2")
	host.Spec.HostNetwork = true
	host.Annotations = map[string]string{EndpointsAnnotation: `[{"port": 1, "names": "a"}]`}
	if got := announcementOf(host); got == nil || !strings.Contains(got.Fault, "host network") {
		t.Errorf("%+v: a pod of the host network", got)
	}
}

// The fault of an announcement is logged, listed and written into an Event. It quotes no token of a path.
func TestFaultsOfAnnouncementsShowNoSecrets(t *testing.T) {
	far := `{"port": 1, "names": "` + strings.Repeat("a", 8<<10) + `"}, ` // a fault's surroundings are looked at
	for _, annotations := range []map[string]string{
		{EndpointsAnnotation: `[` + far + `{"port": 1, "names": "a", "path": "/m?token=hunter2hunter2" x}]`},
		{EndpointsAnnotation: `[{"port": 1, "names": "a", "path": "/m", "interval": "token=hunter2hunter2"}]`},
		{EndpointsAnnotation: `[{"port": 1, "names": "a", "path": "/m?token=hunter2hunter2 "}]`},
		{EndpointsAnnotation: `[{"port": 1, "names": "a", "path": "/m?token=hunter2hunter2" x}]`},
		{CustomEndpointsAnnotation: `[{"port": 1, "names": "a", "path": "/m?token=hunter2hunter2` + strings.Repeat("x", 60) + ` "}]`},
		{NamesAnnotation: "a", prometheusPort: "1", prometheusPath: "/m?token=hunter2hunter2 "},
	} {
		if got := announcedBy(annotations); got == nil || !strings.Contains(got.Fault, "***") || strings.Contains(got.Fault, "ter2") {
			t.Errorf("%v: %+v", annotations, got)
		}
	}
}

func FuzzAnnouncement(f *testing.F) {
	f.Add(`[{"api": "prometheus", "path": "/status", "port": "8080", "names": ["qps", "activeConnections"], "interval": "1s"}]`)
	f.Add(`[{"port": 1, "names": "a,b"}, {"port": ""}]`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseEndpoints(text, true)
		if err != nil && len(all) > 0 {
			t.Fatal("a fault and endpoints")
		}
		seen := map[string]bool{}
		for _, e := range all {
			if e.Port == 0 || e.Path == "" || e.Path[0] != '/' || strings.Contains(e.Path, "..") || e.Interval < minInterval ||
				e.Interval > maxInterval || len(e.Names) == 0 || len(e.Names) > maxEndpointNames {
				t.Fatalf("%+v", e)
			}
			for _, name := range e.Names {
				if seen[name] || metric.CheckName(name) != metric.Applied || strings.Contains(name, "*") {
					t.Fatalf("name %q", name)
				}
				seen[name] = true
			}
		}
	})
}

// The view has the announcing pods alone, and a version that changes with them.
func TestAnnouncedPods(t *testing.T) {
	v := &View{pods: newPods(&Observer{})}
	convert := v.pods.convert(true)
	put := func(name, address, annotation string) {
		p := aPod("shop", name, "u-"+name, address)
		if annotation != "" {
			p.Annotations = map[string]string{EndpointsAnnotation: annotation}
		}
		short, _ := convert(p)
		v.pods.put(short)
	}
	all, first := v.AnnouncedPods(0)
	if all == nil || len(all) != 0 || first == 0 {
		t.Fatalf("%v, version %d: want an empty list", all, first)
	}
	put("plain", "10.0.0.1", "")
	if all, now := v.AnnouncedPods(first); all != nil || now != first {
		t.Fatalf("%v, version %d: a pod that announces nothing is no change", all, now)
	}
	put("web", "10.0.0.2", `[{"port": 1, "names": "a"}]`)
	all, second := v.AnnouncedPods(first)
	if len(all) != 1 || second == first || all[0].Address.String() != "10.0.0.2" || all[0].Name != "web" {
		t.Fatalf("%+v, version %d", all, second)
	}
	put("web", "10.0.0.2", `[{"port": 2, "names": "a"}]`) // the annotation can be changed
	if all, second = v.AnnouncedPods(second); len(all) != 1 || all[0].Endpoints[0].Port != 2 {
		t.Fatalf("%+v after a change", all)
	}
	for pod, want := range map[string]bool{"web": true, "plain": false, "gone": false} {
		if got := v.Announces(metric.Object{Resource: "pods", Namespace: "shop", Name: pod}, "a"); got != want {
			t.Errorf("pod %s announces a: %v, want %v", pod, got, want)
		}
	}
	if v.Announces(metric.Object{Resource: "pods", Namespace: "shop", Name: "web"}, "b") {
		t.Error("pod web announces b")
	}
	v.pods.drop("shop", "web")
	if all, _ = v.AnnouncedPods(second); all == nil || len(all) != 0 {
		t.Fatalf("%+v after the pod is gone", all)
	}
	announcing := aPod("shop", "x", "ux")
	announcing.Annotations = map[string]string{EndpointsAnnotation: `[{"port": 1, "names": "a"}]`}
	if short, _ := v.pods.convert(false)(announcing); short.announcement != nil {
		t.Error("a view that is not asked keeps announcements")
	}
}

// The name of a metric keeps no annotation of 256 KiB.
func TestNamesKeepNoAnnotation(t *testing.T) {
	const pods = 64
	var all [pods]*metric.Announcement
	before := heap()
	for i := range all {
		all[i] = announcedBy(map[string]string{prometheusPort: "8080",
			NamesAnnotation: fmt.Sprint("name_", i, strings.Repeat(" ", 200<<10))})
	}
	if took := int64(heap()) - int64(before); took > pods*10<<10 {
		t.Errorf("%d KiB for the name of each pod", took/pods>>10)
	}
	if all[7].Endpoints[0].Names[0] != "name_7" {
		t.Errorf("%+v", all[7])
	}
}

// Announcements of many short names take several times their length.
func TestAnnouncementsOfOneNamespaceLeaveRoom(t *testing.T) {
	p := newPods(&Observer{})
	p.announcementRoom = newObjectRoom(0, 1<<20)
	convert := p.convert(true)
	announced := func(namespace, name string, names int) *corev1.Pod {
		said := make([]string, maxEndpoints)
		for i := range names {
			said[i%maxEndpoints] += fmt.Sprintf("n%d ", i)
		}
		text := ""
		for i, one := range said {
			if one != "" {
				text += fmt.Sprintf(`,{"port": %d, "names": %q}`, i+1, one)
			}
		}
		return annotated(aPod(namespace, name, "u-"+name), EndpointsAnnotation, "["+text[1:]+"]")
	}
	announcing := func(namespace, name string, names int) *pod {
		one, _ := convert(announced(namespace, name, names))
		return one
	}
	var list []*pod
	for i := range 100 {
		list = append(list, announcing("flood", fmt.Sprint("p", i), maxEndpoints*maxEndpointNames))
	}
	if held := p.announcementRoom.room.Of("flood"); held == 0 || held > 3<<18 {
		t.Errorf("one namespace takes %d bytes of a list that is not complete", held)
	}
	if got := list[99].announcement; len(got.Endpoints) != 0 || !strings.Contains(got.Fault, "more than Sluice has memory for") {
		t.Errorf("beyond the room: %+v", got)
	}
	if got := announcing("shop", "web", 200).announcement; got.Fault != "" || len(got.Endpoints) != maxEndpoints {
		t.Errorf("another namespace has no room: %+v", got)
	}
	p.replace(list)
	if p.announcementRoom.room.Of("shop") != 0 || p.announcementRoom.room.Of("flood") == 0 {
		t.Errorf("after a list: %v is taken", p.announcementRoom.taken)
	}
	p.drop("flood", "p0")
	if again := announcing("flood", "p99", maxEndpoints*maxEndpointNames); again.announcement.Fault != "" {
		t.Error("a deleted pod leaves no room")
	}
	over, _ := convert(finished(announced("flood", "p1", maxEndpoints*maxEndpointNames)))
	if p.put(over); p.announcementRoom.taken[objectName{"flood", "p1"}] != 0 {
		t.Error("a pod that has finished takes room")
	}
	small := announcing("flood", "small", 30)
	if p.replace(nil); small.announcement.Fault != "" || len(p.announcementRoom.taken) != 0 {
		t.Errorf("%+v; %v is taken by no pods", small.announcement, p.announcementRoom.taken)
	}
}
