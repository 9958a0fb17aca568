package cluster

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter"
	watcher "github.com/sluice-metrics/sluice/adapter/autoscaler"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manyMetrics are short external metrics, which take twenty times their size in memory.
func manyMetrics(n int) (all []autoscalingv2.MetricSpec) {
	for i := range n {
		all = append(all, externalMetric(fmt.Sprint("m", i)))
	}
	return all
}

func TestMetricsOfAutoscalersLeaveRoom(t *testing.T) {
	a := newAutoscalers(&Observer{})
	const most = 4 << 20
	a.room = newObjectRoom(0, most)
	put := func(namespace, name string, metrics int) *autoscaler {
		one, _ := a.convert(anAutoscaler(namespace, name, manyMetrics(metrics)...))
		a.put(one)
		return one
	}
	for i := range 60 {
		put("flood", fmt.Sprint("h", i), 100)
	}
	full := a.room.room.Of("flood")
	if full == 0 || full > most*3/4 {
		t.Errorf("one namespace takes %d bytes of %d", full, most)
	}
	last := a.named[objectName{"flood", "h59"}]
	if last.document.Metrics != nil || last.metrics != nil || !strings.Contains(last.document.Fault(), "more metrics than Sluice has memory for") {
		t.Errorf("beyond the room, %d metrics are kept; fault %q", len(last.document.Metrics), last.document.Fault())
	}
	if one := put("flood", "small", 0); one.document.Unread != "" {
		t.Errorf("an autoscaler without metrics needs no room: %q", one.document.Unread)
	}
	if one := put("shop", "web", 3); len(one.document.Metrics) != 3 || one.document.Unread != "" {
		t.Errorf("another namespace has no room: %q", one.document.Unread)
	}
	for range 20 {
		put("flood", "h0", 100)
	}
	if now := a.room.room.Of("flood"); now > full {
		t.Errorf("changes of one autoscaler take room: %d bytes were %d", now, full)
	}
	a.drop("flood", "h0")
	a.drop("flood", "h1")
	if one := put("flood", "h59", 100); len(one.document.Metrics) != 100 {
		t.Error("deleted autoscalers leave no room")
	}
	a.convert(anAutoscaler("flood", "lost", manyMetrics(1)...)) // of a list that broke off
	web, _ := a.convert(anAutoscaler("shop", "web", manyMetrics(3)...))
	a.replace([]*autoscaler{web})
	if a.room.room.Of("flood") != 0 || a.room.room.Of("shop") == 0 || len(a.room.taken) != 1 {
		t.Errorf("after a list: %v is taken", a.room.taken)
	}
	a.replace(nil)
	if held := a.room.room.Held(); held != 0 || len(a.room.taken) != 0 {
		t.Errorf("%d bytes are taken by no autoscalers", held)
	}
}

// A first list is converted whole before any of it is indexed.
func TestAListOfAutoscalersTakesRoomAtOnce(t *testing.T) {
	a := newAutoscalers(&Observer{})
	const room = 1 << 20
	a.room = newObjectRoom(0, room)
	transform := (&reflectorStore[*autoscaler]{index: a, convert: a.convert}).Transformer()
	var listed []any
	kept := 0
	for i := range 60 {
		one, err := transform(anAutoscaler("flood", fmt.Sprint("h", i), manyMetrics(100)...))
		must(t, err)
		listed, kept = append(listed, one), kept+len(one.(*autoscaler).document.Metrics)
	}
	if most := room / autoscalerMetricBytes; kept == 0 || kept > most {
		t.Errorf("a list keeps %d metrics before it is complete; must be at most %d", kept, most)
	}
	runtime.KeepAlive(listed)
}

// Large clusters never come near the bound, even if one namespace has all their autoscalers.
func TestOrdinaryAutoscalersHaveRoom(t *testing.T) {
	value := quantity.MustParse("1500m")
	spec := externalMetric("http_requests_in_flight_of_checkout:max:10s")
	spec.External.Metric.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"queue": "orders", "region": "eu-central-1"}}
	spec.External.Target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &value}
	for _, c := range []struct{ autoscalers, metrics int }{{5000, 3}, {1000, 30}} {
		room := newObjectRoom(0, maxAutoscalerRoom)
		for i := range c.autoscalers {
			h := anAutoscaler("shop", fmt.Sprint("web-", i))
			for range c.metrics {
				h.Spec.Metrics = append(h.Spec.Metrics, spec)
			}
			if why := room.takeMetrics(h); why != "" {
				t.Fatal(why)
			}
		}
		if held := room.room.Held(); held > maxAutoscalerRoom*3/4/2 {
			t.Errorf("%d autoscalers of %d metrics take %d bytes: more than half of what a namespace may", c.autoscalers, c.metrics, held)
		}
	}
}

// missingReader has no value of any metric.
type missingReader struct{}

func (missingReader) Read(_ *inspect.Autoscaler, m *inspect.AutoscalerMetric) (watcher.Reading, error) {
	return watcher.Reading{}, metric.NotFoundf("no series of the external metric %q in the namespace: none was ever received", m.Name)
}

func (missingReader) HeldBack(*inspect.Autoscaler) []explain.Held { return nil }

// What is counted of autoscalers is at least what they take, with the watcher's answers.
func TestCountedMemoryOfAutoscalers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := heap()
		a := newAutoscalers(&Observer{})
		w := watcher.New(watcher.Parts{List: a.list, Begin: func() watcher.Reader { return missingReader{} }, Ready: func() bool { return true },
			Quantity: adapter.Quantity, NotAsked: func(string) error { return nil }, Events: &View{events: newEvents(nil, newResources(), quiet)}, Logger: quiet})
		for i := range 200 {
			one, _ := a.convert(anAutoscaler(fmt.Sprint("team-", i/20), fmt.Sprint("h", i), manyMetrics(100)...))
			a.put(one)
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(time.Minute)
		end()
		<-done
		if m := w.Autoscalers(inspect.Query{Namespace: "team-9"}).Items[19].Metrics[99]; !m.Missing || m.Why == "" {
			t.Fatalf("not read: %+v", m)
		}
		took, counted := int64(heap())-int64(before), a.room.room.Held()
		t.Logf("%d bytes a metric, %d counted", took/20_000, counted/20_000)
		if took > counted {
			t.Errorf("200 autoscalers take %d bytes, and %d are counted", took, counted)
		}
		runtime.KeepAlive([]any{a, w})
	})
}
