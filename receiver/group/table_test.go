package group

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
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
func (t *table) Offline() {}
func (t *table) Online()  {}

func (t *table) Apply(s *metric.Sample) metric.Reason {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.TTL != metric.WithGroup || s.Object == nil {
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

func (t *table) EndUngrouped(each func(has func(o metric.Object, name string, sets []metric.Labels))) (gone int) {
	grouped := map[series]bool{}
	each(func(o metric.Object, name string, sets []metric.Labels) {
		for _, set := range sets {
			grouped[series{o, name, set}] = true
		}
	})
	for key := range t.series {
		if !grouped[key] {
			delete(t.series, key)
			gone++
		}
	}
	return gone
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

// Delete deletes a group as who may write the namespace that its key names.
func (f *fixture) Delete(k Key) bool {
	return f.Groups.Delete(k, metric.Object{Namespace: k.Namespace})
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

func TestRivals(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a,x=1", "m{y=\"2\"} 1\nm 5\n")
	f.push("PUT", "job=a,y=2", "m{x=\"2\"} 1\nn{x=\"1\"} 1\n") // other labels, another name
	f.refused("POST", "job=a,y=2", "m{x=\"1\"} 2\n", metric.Malformed, `"m" with the labels {instance=,job=a,x=1,y=2} is already a series of the group {job=a,x=1}`)
	f.refused("PUT", "job=a", "m{x=\"1\",y=\"2\"} 2\n", metric.Malformed, "group {job=a,x=1}")
	f.refused("PUT", "job=a,instance=,x=1", "m 2\n", metric.Malformed, "group {job=a,x=1}") // what every series has stands in the path
	f.push("PUT", "job=a,x=1", "m{y=\"2\"} 3\nm 6\n")                                       // whose it is may go on
	f.serves("m{instance=,job=a,x=1,y=2} gauge 3\nm{instance=,job=a,x=1} gauge 6\nm{instance=,job=a,x=2,y=2} gauge 1\nn{instance=,job=a,x=1,y=2} gauge 1")
	if g := f.group("job=a,y=2"); !g.Failed.Equal(f.now.Add(-3 * time.Second)) {
		t.Errorf("the refused push is not told: %v", g.Failed)
	}

	f.push("PUT", "job=a,x=1,namespace=shop", "m 1\n") // about something else
	f.push("PUT", "job=b,x=1", "m{y=\"2\"} 1\n")
	f.Delete(keyOf("job=a,x=1"))
	f.push("POST", "job=a,y=2", "m{x=\"1\"} 2\n")
	f.Wipe(nil)
	f.balanced()
}

// The model goes over all groups. A push is refused exactly if another group has one of its series;
// and the table always holds what the groups say.
func TestRivalsAreFound(t *testing.T) {
	f := newFixture(t)
	r := rand.New(rand.NewPCG(5, 6))
	all := map[string]map[string]bool{} // series by group
	refused := 0
	for range 5000 {
		var grouping, body []string
		for _, l := range []string{"instance", "x", "y"} {
			pair := []any{l, r.IntN(2)}
			switch r.IntN(3) {
			case 0:
				grouping = append(grouping, fmt.Sprintf("%s=%d", pair...))
			case 1:
				body = append(body, fmt.Sprintf("%s=\"%d\"", pair...))
			}
		}
		key, line := strings.Join(append([]string{"job=a"}, grouping...), ","), "m{"+strings.Join(body, ",")+"} 1\n"
		if r.IntN(4) == 0 {
			f.Delete(keyOf(key))
			delete(all, key)
			continue
		}
		labels := map[string]string{"instance": ""}
		for _, piece := range append(strings.Split(key, ","), body...) {
			k, v, _ := strings.Cut(piece, "=")
			labels[k] = strings.Trim(v, `"`)
		}
		series := fmt.Sprint(labels)
		rival := ""
		for other, has := range all {
			if other != key && has[series] {
				rival = other
			}
		}
		_, refusal := f.try("POST", key, line)
		if (refusal != nil) != (rival != "") {
			t.Fatalf("%s %s: %v, and the series is of %q", key, line, refusal, rival)
		}
		if refusal != nil {
			refused++
			if want := "{" + strings.Join(keyNames(rival), ",") + "}"; !strings.Contains(refusal.Message, "group "+want) {
				t.Fatalf("%s: want %s", refusal.Message, want)
			}
			if all[key] == nil {
				all[key] = map[string]bool{}
			}
			continue
		}
		all[key] = map[string]bool{series: true} // POST replaces the family
	}
	if refused < 100 {
		t.Errorf("%d pushes were refused: the test shows too little", refused)
	}
	f.balanced()
	f.Wipe(nil)
	f.serves("")
}

// keyNames are the labels of a key, sorted.
func keyNames(text string) (all []string) {
	for k, v := range keyOf(text).Labels.All() {
		all = append(all, k+"="+v)
	}
	return all
}

// Names that are made up by intent cost a push nothing, and the memory of groups only.
func TestRivalsOfTooManyShapes(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a,x=1", "m 1\n")
	f.refused("PUT", "job=a", "m{x=\"1\"} 2\n", metric.Malformed, "{job=a,x=1}")
	for i := range maxShapes {
		f.push("PUT", fmt.Sprintf("job=b,l%d=1", i), "m 1\n")
	}
	if all := f.usage.shapes(f.usage.byNamespace[""]); all != nil {
		t.Errorf("%d shapes are looked at", len(all))
	}
	f.push("PUT", "job=a", "n 1\n")
	for i := range maxShapes {
		f.Delete(keyOf(fmt.Sprintf("job=b,l%d=1", i)))
	}
	f.refused("PUT", "job=a", "m{x=\"1\"} 2\n", metric.Malformed, "{job=a,x=1}")
	f.balanced()
}
