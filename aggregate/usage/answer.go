package usage

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// The metrics of a pod or a node, and the resources of both.
const (
	cpuMetric, memoryMetric   = "cpu", "memory"
	podResource, nodeResource = "pods", "nodes"
)

// Answers answers queries for the metrics cpu, in cores, and memory, in bytes, of pods and nodes: the stats
// last, mean, max and p95 of all windows. Any goroutine may use it.
type Answers struct {
	Latest *Latest
	// Pods lists the live pods of a namespace (empty: of all) and a name (empty: any), in any order.
	Pods func(namespace, name string) []Pod
	// Node returns the UID of a node, and when it was created; empty: nodes are not watched. Not ok:
	// it does not exist.
	Node func(name string) (uid string, created time.Time, ok bool)
}

// Has reports whether a metric of a resource may be answered.
func (*Answers) Has(resource, name string) bool {
	return (resource == podResource || resource == nodeResource) && (name == cpuMetric || name == memoryMetric)
}

// Listed are the metrics that there may be.
func (*Answers) Listed() (all []metric.Discovered) {
	for _, resource := range []string{nodeResource, podResource} {
		for _, name := range []string{cpuMetric, memoryMetric} {
			all = append(all, metric.Discovered{Resource: resource, Name: name, Kind: metric.Gauge})
		}
	}
	return all
}

// News numbers what agents have reported: answers may be others once it has grown.
func (a *Answers) News() uint64 { return a.Latest.News() }

// Points answers a query for a metric that it Has, with a point of each object whose usage is known, by
// namespace and name.
func (a *Answers) Points(q metric.Query) ([]metric.Point, error) {
	asked, err := measureOf(&q)
	if err != nil {
		return nil, err
	}
	var points []metric.Point
	now := time.Now()
	if q.Resource == podResource {
		points = a.podPoints(&q, asked, now)
	} else {
		points = a.nodePoints(&q, asked, now)
	}
	if len(points) == 0 {
		return nil, metric.NotFoundf("%q is neither pushed for %s %q, nor do agents report its usage", q.Expression.Name, q.Resource, q.Object)
	}
	if q.Kind != nil {
		*q.Kind = metric.Gauge
	}
	slices.SortFunc(points, func(a, b metric.Point) int {
		if by := strings.Compare(a.Object.Namespace, b.Object.Namespace); by != 0 {
			return by
		}
		return strings.Compare(a.Object.Name, b.Object.Name)
	})
	return reserved(&q, points)
}

// reserved moves points to the reader's buffer.
func reserved(q *metric.Query, points []metric.Point) ([]metric.Point, error) {
	if q.Reserve == nil {
		return points, nil
	}
	buffer, err := q.Reserve(len(points))
	return append(buffer[:0], points...), err
}

func (a *Answers) podPoints(q *metric.Query, asked measure, now time.Time) (points []metric.Point) {
	name := q.Object
	if name == metric.AllObjects {
		name = ""
	}
	for _, pod := range a.Pods(q.Namespace, name) {
		of := metric.Object{Resource: podResource, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		if q.MatchObject != nil && !q.MatchObject(of) {
			continue
		}
		records, seconds := a.Latest.containers(&pod, now)
		if slices.ContainsFunc(records, func(r Record) bool { return pod.Renewed(&r) }) {
			continue
		}
		if p, ok := asked.point(records, seconds); ok {
			p.Object = of
			points = append(points, p)
		}
	}
	return points
}

func (a *Answers) nodePoints(q *metric.Query, asked measure, now time.Time) (points []metric.Point) {
	for _, name := range a.Latest.Nodes(now) {
		if q.Object != metric.AllObjects && q.Object != name {
			continue
		}
		uid, created, ok := a.Node(name)
		of := metric.Object{Resource: nodeResource, Name: name, UID: uid}
		if !ok || q.MatchObject != nil && !q.MatchObject(of) {
			continue
		}
		r := a.Latest.Node(name, created, now)
		if r == nil {
			continue
		}
		if p, ok := asked.point([]Record{*r}, a.Latest.nodeSeconds(name, now)); ok {
			p.Object = of
			points = append(points, p)
		}
	}
	return points
}

// measure is what a query asks of a record.
type measure struct {
	memory  bool
	stat    metric.Stat
	window  Window
	matches func(metric.Labels) bool // the label container; nil: all
}

func measureOf(q *metric.Query) (m measure, err error) {
	e := q.Expression
	m = measure{memory: e.Name == memoryMetric, stat: e.Stat, window: Minute, matches: q.MatchLabels}
	switch e.Stat {
	case metric.NoStat, metric.Last:
		m.stat = metric.Last
	case metric.Mean, metric.Max, metric.P95:
	default:
		return m, metric.InvalidQueryf("stat %s of the usage %q is not kept; must be last, mean, max or p95", e.Stat, e.Name)
	}
	if m.stat == metric.Last {
		m.window = TenSeconds
		return m, nil
	}
	if e.Window != 0 {
		at := slices.Index(lengths[:], e.Window)
		if at < 0 {
			return m, metric.InvalidQueryf("window %s of the usage %q is not kept; the windows are 10s, 1m, 1h and 1d", metric.FormatWindow(e.Window), e.Name)
		}
		m.window = Window(at)
	}
	return m, nil
}

// point adds up the containers of a pod. Not ok: one of them is not known yet, or there is none.
func (m measure) point(records []Record, seconds *Seconds) (p metric.Point, ok bool) {
	var sum float64
	for i := range records {
		r := &records[i]
		if m.matches != nil && !m.matches(metric.NewLabels([]metric.Label{{Key: "container", Value: r.Container.Name}})) {
			continue
		}
		u := &r.CPU
		if m.memory {
			u = &r.Memory
		}
		value, end := m.value(&u.Windows[m.window]), u.End
		if second, known := m.second(seconds, i); known {
			value, end = second, seconds.At
		}
		if end.IsZero() {
			return p, false
		}
		sum += value
		if !ok || end.Before(p.Time) {
			p.Time = end
		}
		ok = true
	}
	p.Value = m.number(sum)
	if m.stat != metric.Last {
		p.Window = m.window.Length()
	}
	return p, ok
}

// second returns what the newest second of a container says. Not known: the newest point of the windows is newest.
func (m measure) second(of *Seconds, container int) (value float64, known bool) {
	if m.stat != metric.Last || of == nil {
		return 0, false
	}
	value = float64(of.Values[container].CPU)
	if m.memory {
		value = float64(of.Values[container].Memory)
	}
	return value, value >= 0
}

func (m measure) value(d *Derived) float64 {
	switch m.stat {
	case metric.Max:
		return d.Max
	case metric.P95:
		return d.NinetyFive
	}
	return d.Mean
}

// number is a sum in bytes or millionths of a core, which is what histories hold.
func (m measure) number(sum float64) metric.Number {
	if m.memory {
		return metric.Int(int64(math.Round(sum)))
	}
	micros := int64(math.Round(sum * 1e6))
	return metric.Decimal(micros/1e6, micros%1e6*1000)
}
