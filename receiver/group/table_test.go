package group

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// table is a map of series: the smallest thing that groups can feed.
type table struct {
	lifetime func() time.Duration
	mu       sync.Mutex
	series   map[series]value
	refuse   map[string]metric.Reason // by name
	most     int                      // series that may be; 0: any number
}

type series struct {
	object metric.Object
	name   string
	labels metric.Labels
}

type value struct {
	kind  metric.Kind
	op    metric.Op
	value float64
}

func newTable() *table {
	return &table{series: map[series]value{}, refuse: map[string]metric.Reason{}}
}

func (t *table) Quiesce() {}

func (t *table) Apply(s *metric.Sample) metric.Reason {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.TTL != metric.Forever || s.Object == nil {
		panic("a sample of a group that ends by itself, or is about nobody knows what")
	}
	if r := t.refuse[string(s.Name)]; r != metric.Applied {
		return r
	}
	if r := metric.CheckName(string(s.Name)); r != metric.Applied {
		return r
	}
	if s.Histogram != nil && s.Histogram.Check() != metric.Applied {
		return s.Histogram.Check()
	}
	key := series{*s.Object, strings.Clone(string(s.Name)), metric.NewLabels(slices.Clone(s.Fields))}
	for other, v := range t.series {
		if other.object == key.object && other.name == key.name && v.kind != s.Kind {
			return metric.KindConflict
		}
	}
	if _, there := t.series[key]; !there && t.most > 0 && len(t.series) >= t.most {
		return metric.OverLimit
	}
	v := value{s.Kind, s.Op, s.Float()}
	if s.Histogram != nil {
		v.value = s.Histogram.Count
	}
	t.series[key] = v
	return metric.Applied
}

func (t *table) Remove(o metric.Object, name string, sets []metric.Labels) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, set := range sets {
		delete(t.series, series{o, name, set})
	}
}

func (t *table) Hide(metric.Object, string, []metric.Labels) {}

func (t *table) Lifetime() time.Duration { return t.lifetime() }

// String is what is served, a line each.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for key, v := range maps.All(t.series) {
		about := ""
		if key.object != (metric.Object{}) {
			about = key.object.String() + ": "
		}
		lines = append(lines, fmt.Sprintf("%s%s%s %s %v", about, key.name, key.labels, v.kind, v.value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

type fixture struct {
	*testing.T
	*Groups
	table *table
	now   time.Time
}

func newFixture(t *testing.T) *fixture {
	tb := newTable()
	f := &fixture{t, New(DefaultConfig(), tb), tb, time.Unix(1_700_000_000, 0)}
	tb.lifetime = func() time.Duration { return time.Duration(f.now.UnixNano()) }
	return f
}

// keyOf makes a key of "a=b,c=d".
func keyOf(text string) Key {
	var labels []metric.Label
	k := Key{}
	for piece := range strings.SplitSeq(text, ",") {
		key, v, _ := strings.Cut(piece, "=")
		labels = append(labels, metric.Label{Key: key, Value: v})
		if key == NamespaceLabel {
			k.Namespace = v
		}
	}
	k.Labels = metric.NewLabels(labels)
	return k
}

func (f *fixture) try(method, key, body string) (Outcome, *Rejection) {
	f.Helper()
	families, fault := exposition.NewTextReader(exposition.DefaultOptions()).Read([]byte(body))
	if fault.Reason != metric.Applied {
		f.Fatal(fault.Error())
	}
	k := keyOf(key)
	f.now = f.now.Add(time.Second)
	return f.Push(&Push{
		Key: k, Object: metric.Object{Namespace: k.Namespace}, Families: families, Replace: method == "PUT",
		Now: f.now, Applier: f.table,
	})
}

func (f *fixture) push(method, key, body string) Outcome {
	f.Helper()
	o, r := f.try(method, key, body)
	if r != nil {
		f.Fatalf("%s %s: %s: %s", method, key, r.Reason, r.Message)
	}
	return o
}

func (f *fixture) refused(method, key, body string, reason metric.Reason, says string) {
	f.Helper()
	_, r := f.try(method, key, body)
	if r == nil {
		f.Fatalf("%s %s was taken, want %s", method, key, reason)
	}
	if r.Reason != reason || !strings.Contains(r.Message, says) {
		f.Errorf("%s %s: %s: %s, want %s: %s", method, key, r.Reason, r.Message, reason, says)
	}
}

func (f *fixture) serves(want string) {
	f.Helper()
	if got := f.table.String(); got != strings.TrimSpace(want) {
		f.Errorf("served:\n%s\nwant:\n%s", got, want)
	}
}

// exposes is the exposition without the groups' own families, HELP and TYPE.
func (f *fixture) exposes(want string) {
	f.Helper()
	var lines []string
	for line := range strings.Lines(string(exposition.Append(nil, exposition.Text, MergedFamilies(f.All(nil), exposition.AllowUTF8)...))) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, pushTime) && !strings.HasPrefix(line, failureTime) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if got := strings.Join(lines, "\n"); got != strings.TrimSpace(want) {
		f.Errorf("exposed:\n%s\nwant:\n%s", got, want)
	}
}

func (f *fixture) group(key string) *Group {
	f.Helper()
	k := keyOf(key)
	for _, g := range f.All(nil) {
		if g.Key == k {
			return &g
		}
	}
	f.Fatalf("there is no group %s", key)
	return nil
}

// balanced holds the sums against what is there.
func (f *fixture) balanced() {
	f.Helper()
	groups, bytes := 0, int64(0)
	for i := range f.shards {
		for _, g := range f.shards[i].groups {
			groups++
			if c := g.contents.Load(); c != nil {
				bytes += c.bytes
			}
		}
	}
	if groups != f.Count() || bytes != f.Bytes() {
		f.Errorf("%d groups of %d bytes are counted, there are %d of %d", f.Count(), f.Bytes(), groups, bytes)
	}
}

var nan = math.NaN()
