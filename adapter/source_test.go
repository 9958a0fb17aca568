package adapter

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// noon is the time of all values in these tests.
var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// memory is a Source with the series of a test: a gauge's last value, or a counter's rate.
type memory struct {
	mu     sync.Mutex
	series []held
	// blocked, if set, is received from before each answer.
	blocked chan struct{}
	entered chan struct{}
}

type held struct {
	object metric.Object
	name   string
	kind   metric.Kind
	labels metric.Labels
	value  metric.Number
	at     time.Time
}

func (m *memory) put(series ...held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.series = append(m.series, series...)
}

func (m *memory) Objects(q metric.Query) ([]metric.Point, error) {
	return m.answer(q, func(h held) bool {
		return h.object.Resource == q.Resource && h.object.Namespace == q.Namespace &&
			(q.Object == "*" || q.Object == h.object.Name) && (q.MatchObject == nil || q.MatchObject(h.object))
	})
}

func (m *memory) External(q metric.Query) ([]metric.Point, error) {
	return m.answer(q, func(h held) bool { return h.object.External() && h.object.Namespace == q.Namespace })
}

func (m *memory) answer(q metric.Query, about func(held) bool) ([]metric.Point, error) {
	if m.blocked != nil {
		m.entered <- struct{}{}
		<-m.blocked
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := q.Expression.Window; w != 0 && w != 10*time.Second && w != time.Minute {
		return nil, metric.InvalidQueryf("window %s is not kept: 10s, 1m are", metric.FormatWindow(w))
	}
	var points []metric.Point
	for _, h := range m.series {
		if h.name != q.Expression.Name || !about(h) || (q.MatchLabels != nil && !q.MatchLabels(h.labels)) {
			continue
		}
		if q.Kind != nil {
			*q.Kind = h.kind
		}
		p := h.point(q.Expression)
		last := len(points) - 1
		if last >= 0 && !h.object.External() && points[last].Object == h.object {
			points[last].Value = points[last].Value.Plus(p.Value)
			continue
		}
		points = append(points, p)
	}
	if len(points) == 0 {
		return nil, metric.NotFoundf("no series of %q in %q; last seen 26h ago, expired after 24h", q.Expression.Name, q.Namespace)
	}
	return points, nil
}

func (m *memory) Zero(a metric.Expression) metric.Point {
	return metric.Point{Time: noon, Window: cmp.Or(a.Window, time.Minute)}
}

func (h held) point(a metric.Expression) metric.Point {
	p := metric.Point{Object: h.object, Value: h.value, Time: h.at}
	if h.object.External() {
		p.Labels = h.labels
	}
	if h.kind == metric.Counter {
		p.Window = cmp.Or(a.Window, time.Minute)
	}
	return p
}

func (m *memory) Listed(limit int, hidden func(metric.Discovered) bool) []metric.Discovered {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []metric.Discovered
	for _, h := range m.series {
		list = append(list, metric.Discovered{Resource: h.object.Resource, Name: h.name, Kind: h.kind})
	}
	slices.SortFunc(list, func(a, b metric.Discovered) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	list = slices.DeleteFunc(slices.Compact(list), hidden)
	objects := slices.IndexFunc(list, func(discovered metric.Discovered) bool { return discovered.Resource != "" })
	if objects < 0 {
		objects = len(list)
	}
	return slices.Concat(list[:min(limit, objects)], list[objects:min(objects+limit, len(list))])
}

func labelled(pairs ...string) metric.Labels {
	var list []metric.Label
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, metric.Label{Key: pairs[i], Value: pairs[i+1]})
	}
	return metric.NewLabels(list)
}

func pod(name string) metric.Object {
	return metric.Object{Resource: "pods", Namespace: "shop", Name: name}
}

// shop is a namespace with every kind of object in the API proposals.
func shop() *memory {
	m := new(memory)
	ingress := metric.Object{Resource: "ingresses.networking.k8s.io", Namespace: "shop", Name: "main"}
	other := ingress
	other.Name = "side"
	queue := metric.Object{Namespace: "shop"}
	web1 := pod("web-1")
	web1.UID = "8f1e5a3c-0000-4000-8000-000000000001"
	m.put(
		held{web1, "http_requests", metric.Counter, labelled("path", "/api", "code", "200"), metric.Float(10.5), noon},
		held{web1, "http_requests", metric.Counter, labelled("path", "/login", "code", "500"), metric.Int(2), noon},
		held{pod("web-2"), "http_requests", metric.Counter, labelled("path", "/api", "code", "200"), metric.Int(0), noon.Add(3 * time.Second)},
		held{pod("web-1"), "memory_bytes", metric.Gauge, labelled(), metric.Int(1<<53 + 1), noon.Add(-time.Minute)},
		held{pod("web-1"), "fs/usage", metric.Gauge, labelled(), metric.Float(0.25), noon},
		held{ingress, "hits-per-second", metric.Counter, labelled(), metric.Int(10), noon},
		held{other, "hits-per-second", metric.Counter, labelled(), metric.Int(15), noon.Add(time.Second)},
		held{metric.Object{Resource: "namespaces", Name: "shop"}, "queue-length", metric.Gauge, labelled(), metric.Int(7), noon},
		held{metric.Object{Resource: "nodes", Name: "node-a"}, "temperature", metric.Gauge, labelled(), metric.Float(-3.5), noon},
		held{metric.Object{Resource: "nodes", Name: "node-b"}, "temperature", metric.Gauge, labelled(), metric.Float(41.25), noon},
		held{queue, "orders_waiting", metric.Gauge, labelled("queue", "eu/west", "tier", "gold"), metric.Int(12), noon},
		held{queue, "orders_waiting", metric.Gauge, labelled("queue", "us", "tier", "gold"), metric.Int(30), noon.Add(2 * time.Second)},
		held{queue, "jobs/done", metric.Counter, labelled("job", "nightly"), metric.Float(1.0 / 3), noon},
	)
	return m
}
