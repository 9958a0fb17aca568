package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhatAnAutoscalerAsks(t *testing.T) {
	for _, c := range []struct {
		name   string
		metric autoscalingv2.MetricSpec
		want   []namedMetric
	}{
		{"pods", podsMetric("http_requests"), []namedMetric{{"pods", "http_requests"}}},
		{"stat", podsMetric("latency:p95"), []namedMetric{{"pods", "latency"}}},
		{"stat and window", podsMetric("latency:p95:10s"), []namedMetric{{"pods", "latency"}}},
		{"a name with a colon", podsMetric("a:b"), []namedMetric{{"pods", "a:b"}}},
		{"external", externalMetric("queue_depth:max"), []namedMetric{{"", "queue_depth"}}},
		{"an external in capitals", externalMetric("Queue_Depth:MAX"), []namedMetric{{"", "queue_depth"}}},
		{"pods in capitals", podsMetric("Requests"), []namedMetric{{"pods", "Requests"}}},
		{"slash", externalMetric(`queue\|orders:max:1m`), []namedMetric{{"", "queue/orders"}}},
		{"an Ingress", objectMetric("Ingress", "main", "requests"), []namedMetric{{onObjects, "requests"}}},
		{"a Deployment, rolled up or not", objectMetric("Deployment", "web", "requests"), []namedMetric{{onObjects, "requests"}, {"pods", "requests"}}},
		{"a Pod as an object", objectMetric("Pod", "a", "requests"), []namedMetric{{"pods", "requests"}}},
		{"its own Namespace", objectMetric("Namespace", "shop", "requests"), []namedMetric{{onObjects, "requests"}}},
		{"another Namespace", objectMetric("Namespace", "bank", "requests"), nil},
		{"cpu", autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := newAutoscaler(anAutoscaler("shop", "a", c.metric)).metrics; !slices.Equal(got, c.want) {
				t.Errorf("asks %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAskedBySeveralAutoscalers(t *testing.T) {
	heard := &told{}
	o := heard.observer()
	a := newAutoscalers(&o)
	v := &View{autoscalers: a}
	check := func(what string, want bool, changes int) {
		t.Helper()
		if v.NamedByAutoscaler("shop", "pods", "x") != want {
			t.Errorf("%s: asked for %v, want %v", what, !want, want)
		}
		if _, _, _, told := heard.count(); told != changes {
			t.Errorf("%s: told of %d changes, want %d", what, told, changes)
		}
	}
	a.put(newAutoscaler(anAutoscaler("shop", "a", podsMetric("x"), podsMetric("x:rate:10s"))))
	check("one", true, 1)
	a.put(newAutoscaler(anAutoscaler("shop", "b", podsMetric("x:count"))))
	check("a second", true, 1)
	a.drop("shop", "a")
	check("without the first", true, 1)
	a.put(newAutoscaler(anAutoscaler("shop", "b", podsMetric("x:total"))))
	check("the same by another stat", true, 1)
	a.put(newAutoscaler(anAutoscaler("shop", "b", podsMetric("y"))))
	check("the second asks otherwise", false, 2)
	a.replace([]*autoscaler{newAutoscaler(anAutoscaler("shop", "c", podsMetric("x")))})
	check("a list read anew", true, 4)
	a.replace(nil)
	check("an empty list", false, 5)
	if len(a.counts)+len(a.named) != 0 {
		t.Error("something stays")
	}

	a.put(newAutoscaler(anAutoscaler("shop", "a", podsMetric("p"), externalMetric("e"), objectMetric("Ingress", "i", "o"))))
	for _, c := range []struct {
		namespace, resource, name string
		want                      bool
	}{
		{"shop", "pods", "p", true}, {"shop", "", "e", true}, {"shop", "ingresses.networking.k8s.io", "o", true},
		{"bank", "pods", "p", false}, {"shop", "", "p", false}, {"shop", "pods", "o", false}, {"shop", "namespaces", "p", false},
	} {
		if got := v.NamedByAutoscaler(c.namespace, c.resource, c.name); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Autoscalers with the annotation sluice.dev/wake are reported at each change of any part.
func TestWakeIsObserved(t *testing.T) {
	var heard []string
	a := newAutoscalers(&Observer{WakeChanged: func(namespace, name string, now *inspect.Autoscaler) {
		is := "gone"
		if now != nil {
			is = fmt.Sprint(now.Wake.Annotation, now.DesiredReplicas)
		}
		heard = append(heard, namespace+"/"+name+" "+is)
	}})
	put := func(annotation string, desired int32) {
		h := anAutoscaler("shop", "a", externalMetric("x"))
		h.Status.DesiredReplicas = desired
		if annotation != "" {
			h.Annotations = map[string]string{inspect.WakeAnnotation: annotation}
		}
		a.put(newAutoscaler(h))
	}
	put("", 0)
	put("true", 1)
	put("true", 0)
	put("", 0)
	put("", 1)
	put("true", 0)
	a.drop("shop", "a")
	a.drop("shop", "a")
	put("true", 0)
	a.replace(nil)
	want := []string{"shop/a true1", "shop/a true0", "shop/a gone", "shop/a true0", "shop/a gone", "shop/a true0", "shop/a gone"}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

func TestListOfAutoscalers(t *testing.T) {
	a := newAutoscalers(&Observer{})
	v := &View{autoscalers: a}
	for _, key := range []objectName{{"shop", "b"}, {"bank", "z"}, {"shop", "a"}} {
		a.put(newAutoscaler(anAutoscaler(key.namespace, key.name, podsMetric("x"))))
	}
	names := func(namespace string) (all []string) {
		for _, autoscaler := range v.Autoscalers(namespace) {
			all = append(all, autoscaler.Namespace+"/"+autoscaler.Name)
		}
		return all
	}
	if got := fmt.Sprint(names(""), names("shop"), names("none")); got != "[bank/z shop/a shop/b] [shop/a shop/b] []" {
		t.Error(got)
	}
	a.drop("shop", "a")
	if got := fmt.Sprint(names("")); got != "[bank/z shop/b]" {
		t.Error(got)
	}
}

func TestPodsOfATarget(t *testing.T) {
	const rs, old = "6f9619ff-8b86-4011-b42d-00c04fc964ff", "6f9619ff-8b86-4011-b42d-00c04fc96400"
	v := &View{pods: newPods(&Observer{}), replicaSets: newReplicaSets()}
	for _, uid := range []types.UID{rs, old} {
		r, _ := newReplicaSet(aReplicaSet("web-"+string(uid[34:]), string(uid), ownedBy("Deployment", "web", "d")...))
		v.replicaSets.put(r)
	}
	for name, one := range map[string][3]string{
		"web-ff-a": {"ReplicaSet", "web-ff", rs}, "web-ff-b": {"ReplicaSet", "web-ff", rs}, "web-00-a": {"ReplicaSet", "web-00", old},
		"db-0": {"StatefulSet", "db", "s"},
	} {
		p := podOfController(name, one[0], one[1], one[2])
		if name == "web-ff-b" {
			p.Status.Conditions = nil
		}
		v.pods.put(newPod(p))
	}
	v.pods.put(newPod(aPod("shop", "alone", "u-alone")))
	for _, c := range []struct {
		kind, name  string
		live, ready int
	}{
		{"Deployment", "web", 3, 2}, {"ReplicaSet", "web-ff", 2, 1}, {"StatefulSet", "db", 1, 1}, {"Deployment", "db", 0, 0}, {"", "", 0, 0},
	} {
		all, ready, n := v.Targets().TargetPods("shop", c.kind, c.name)
		live, workloads := 0, 0
		for o := range all {
			if live++; o.UID == "" {
				t.Errorf("%s has no UID", o.Name)
			}
		}
		for _, workload := range ready {
			if workloads++; workload.UID == "" {
				t.Errorf("%s/%s: no workload", c.kind, c.name)
			}
		}
		if live != c.live || n != c.live || workloads != c.ready {
			t.Errorf("%s/%s: %d live (%d said), %d ready; want %d and %d", c.kind, c.name, live, n, workloads, c.live, c.ready)
		}
	}
}

// An autoscaler as large as the API server takes is compared with nothing, and not kept.
func TestLargeAutoscalers(t *testing.T) {
	var metrics []autoscalingv2.MetricSpec
	for i := range 2000 {
		metrics = append(metrics, externalMetric(fmt.Sprintf("queue_depth_of_the_mail_of_shop_%d", i)))
	}
	large := anAutoscaler("shop", "large", metrics...)
	large.Spec.MaxReplicas = 7
	a := newAutoscalers(&Observer{})
	one, ok := a.convert(large)
	if !ok || len(one.metrics) != 0 || len(one.document.Metrics) != 0 || one.document.MaxReplicas != 7 || one.document.Unread == "" {
		t.Errorf("%v, %d metrics of %d, %q", ok, len(one.metrics), len(metrics), one.document.Unread)
	}
	few, _ := a.convert(anAutoscaler("shop", "few", metrics[:100]...))
	if len(few.metrics) != 100 || len(few.document.Metrics) != 100 {
		t.Errorf("%d and %d of 100 metrics are kept", len(few.metrics), len(few.document.Metrics))
	}
}
