package aggregate

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/metric"
)

// describeBySender is identity in small, in a cluster: a sample is about the pod that sent it.
func describeBySender(s *metric.Sample, d *metric.Description) metric.Reason {
	if s.Sender.Pod == nil {
		return metric.Pending
	}
	d.Object, d.ObjectLifetime = s.Sender.Pod.Object(), true
	d.Labels = metric.SortLabels(s.AppendLabels(d.Labels))
	return metric.Applied
}

var lastKey uint64

func senderOf(pod, uid string) *metric.Sender {
	lastKey++
	return &metric.Sender{Key: lastKey, Known: true, Pod: &metric.Pod{Namespace: "shop", Name: pod, UID: uid}}
}

func inCluster(t testing.TB) *fixture {
	f := newFixture(t)
	f.Table = New(DefaultConfig(), describeBySender, slog.New(slog.DiscardHandler))
	f.w = f.NewWriter()
	return f
}

func (f *fixture) send(from *metric.Sender, lines ...string) metric.Reason {
	f.t.Helper()
	f.w.Online()
	defer f.w.Offline()
	for _, line := range lines {
		s := sample(line)
		s.Sender = from
		if r := f.w.Apply(s); r != metric.Applied {
			return r
		}
	}
	return metric.Applied
}

// total asks each pod that lives for a counter's total.
func (f *fixture) total(name string, lives func(metric.Object) bool) string {
	return f.totalOf(name, metric.Query{MatchObject: lives})
}

func (f *fixture) totalOf(name string, q metric.Query) string {
	q.Resource, q.Namespace, q.Object, q.Expression = "pods", "shop", "*", metric.ParseExpression(name+":total")
	points, err := f.Objects(q)
	return textOf(points, err, func(p metric.Point) string {
		return fmt.Sprintf("%s/%s=%v", p.Object.Name, p.Object.UID, p.Value.Float64())
	})
}

func uid(want string) func(metric.Object) bool {
	return func(o metric.Object) bool { return o.UID == want }
}

// A forwarder's lines that differ in no byte but those of a container's ID, or came by a listener
// about something else, are described each for itself.
func TestSameLineOfTwoOrigins(t *testing.T) {
	asked := map[string]bool{}
	table := New(DefaultConfig(), func(s *metric.Sample, d *metric.Description) metric.Reason {
		asked[fmt.Sprintf("%q %q %v", s.Container, s.External, s.DefaultExternal)] = true
		return metric.Applied
	}, slog.New(slog.DiscardHandler))
	w := table.NewWriter()
	forwarder := senderOf("f", "1")
	for range 2 {
		for _, container := range []string{"", "ci-a", "ci-b"} {
			for _, external := range []string{"", "pu-a", "ci-a"} {
				for _, about := range []bool{false, true} {
					s := sample("x:1|c")
					s.Sender, s.Container, s.External, s.DefaultExternal = forwarder, []byte(container), []byte(external), about
					w.Apply(s)
				}
			}
		}
	}
	if len(asked) != 18 {
		t.Errorf("%d of 18 were described", len(asked))
	}
}

// The pods of a forwarder come and go, and what they speak of stays: the spellings of those that
// are gone must not take the places of those that are there.
func TestAliasesOfSendersThatAreGoneMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		described := 0
		f := newFixture(t)
		f.Table = New(DefaultConfig(), func(*metric.Sample, *metric.Description) metric.Reason {
			described++
			return metric.Applied
		}, slog.New(slog.DiscardHandler))
		f.w = f.NewWriter()
		f.running()
		for i := range 3 * maxAliases {
			f.send(senderOf("ingress", fmt.Sprint(i)), "hits:1|c")
		}
		last := senderOf("ingress", "last")
		for range 240 {
			time.Sleep(time.Second)
			f.send(last, "hits:1|c")
		}
		if described = 0; f.send(last, "hits:1|c") != metric.Applied || described != 0 {
			t.Error("the sender that is there is described with each sample")
		}
		if n, _ := f.aliases.Size(); n > maxAliases {
			t.Errorf("%d aliases of one series", n)
		}
	})
}

func TestPodOfTheSameNameInheritsNothing(t *testing.T) {
	f := inCluster(t)
	old, young := senderOf("web-0", "1"), senderOf("web-0", "2")
	f.send(old, "hits:5|c")
	if r := f.send(young, "hits:7|c"); r != metric.Applied {
		t.Fatal(r)
	}
	if got := f.total("hits", uid("2")); got != "web-0/2=7" {
		t.Errorf("the young one: %s", got)
	}
	if got := f.total("hits", uid("1")); got != "web-0/1=5" {
		t.Errorf("the old one: %s", got)
	}
	saved := newSaved()
	f.Roll()
	saved.flush(f.Table, each)
	back := saved.restore(t)
	if got := back.total("hits", uid("2")); got != "web-0/2=7" {
		t.Errorf("the young one after a restart: %s", got)
	}
	if n := f.End(old.Pod.Object(), "hits"); n != 1 {
		t.Errorf("%d series ended", n)
	}
	if got := f.total("hits", uid("2")); got != "web-0/2=7" {
		t.Errorf("the young one once the old is gone: %s", got)
	}
	if got := f.total("hits", uid("1")); got == "web-0/1=5" {
		t.Error("the old one is still there")
	}
}

// A series of the older object may end before that of the younger one, or after it.
func TestElderEntriesGoInAnyOrder(t *testing.T) {
	for _, order := range [][]string{{"1", "2", "3"}, {"3", "2", "1"}, {"2", "1", "3"}, {"2", "3", "1"}} {
		f := inCluster(t)
		for _, u := range []string{"1", "2", "3"} {
			f.send(senderOf("web-0", u), "hits:1|c")
		}
		left := 3
		for _, u := range order {
			f.End(metric.Object{Resource: "pods", Namespace: "shop", Name: "web-0", UID: u}, "hits")
			left--
			if got := len(f.seriesOfName("hits")); got != left {
				t.Errorf("order %v: %d entries left, want %d", order, got, left)
			}
		}
	}
}

func (f *fixture) seriesOfName(name string) []index.Found {
	return f.index.FindObject(index.Key{Resource: "pods", Namespace: "shop", Name: name}, "*", metric.ObjectFilter{Match: func(metric.Object) bool { return true }}, new(index.Buffer))
}

func TestBoundSeriesLivesAsLongAsItsObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inCluster(t).running()
		a := senderOf("a", "1")
		f.send(a, "hits:1|c")
		time.Sleep(5 * time.Hour)
		if got := f.total("hits", uid("1")); got != "a/1=1" {
			t.Errorf("after five hours: %s", got)
		}
		f.Prune(func(o metric.Object) bool { return o.UID != "1" })
		if got := f.total("hits", uid("1")); got != `no series of "hits" for pods in "shop"; last seen 5h ago, when its object was deleted or finished` {
			t.Error(got)
		}
		time.Sleep(time.Minute)
		if f.Series() != 0 {
			t.Errorf("%d series are still in memory", f.Series())
		}
	})
}

// ledger is an admission that counts.
type ledger struct {
	series map[string]int
	closed bool
}

func (l *ledger) Admit(o *metric.Object, name string, _ metric.Labels, _ uint32) metric.Reason {
	if l.closed {
		return metric.OverLimit
	}
	l.series[o.UID+name]++
	return metric.Applied
}
func (l *ledger) Enter(o *metric.Object, name string, _ metric.Labels, _ uint32) {
	l.series[o.UID+name]++
}
func (l *ledger) Leave(o *metric.Object, name string, _ metric.Labels) {
	if l.series[o.UID+name]--; l.series[o.UID+name] == 0 {
		delete(l.series, o.UID+name)
	}
}

func TestAdmissionHearsOfEverySeries(t *testing.T) {
	f := inCluster(t)
	l := &ledger{series: map[string]int{}}
	f.SetAdmission(l)
	a := senderOf("a", "1")
	f.send(a, "m:1|c", "m:1|c|#x:1", "m:1|c|#x:1", "n:1|g")
	if l.series["1m"] != 2 || l.series["1n"] != 1 {
		t.Errorf("%v", l.series)
	}
	if r := f.send(a, "n:1|c"); r != metric.KindConflict || l.series["1n"] != 1 {
		t.Errorf("a rejected kind was counted: %v, %v", r, l.series)
	}
	l.closed = true
	if r := f.send(a, "o:1|c"); r != metric.OverLimit {
		t.Errorf("%v, want a refusal", r)
	}
	if len(f.seriesOfName("o")) != 0 {
		t.Error("a rejected metric left an entry")
	}
	l.closed = false
	if r := f.send(a, "o:1|c"); r != metric.OverLimit {
		t.Errorf("%v: the refusal is not remembered", r)
	}
	f.RetryRejected()
	if r := f.send(a, "o:1|c"); r != metric.Applied {
		t.Errorf("%v, want it to be asked again", r)
	}
	f.Roll()
	saved := newSaved()
	saved.flush(f.Table, each)
	f.Shed(a.Pod.Object(), "m")
	f.End(a.Pod.Object(), "n")
	if len(l.series) != 1 {
		t.Errorf("left: %v, want o alone", l.series)
	}
	back, again := newFixture(t), &ledger{series: map[string]int{}}
	back.SetAdmission(again)
	back.w.Offline()
	must(t, saved.into(back.Table))
	if again.series["1m"] != 2 || again.series["1n"] != 1 || again.series["1o"] != 1 {
		t.Errorf("restored: %v", again.series)
	}
}

func TestPendingIsNotRemembered(t *testing.T) {
	f := inCluster(t)
	from := &metric.Sender{Key: 99}
	if r := f.send(from, "hits:1|c"); r != metric.Pending {
		t.Fatal(r)
	}
	from = &metric.Sender{Key: 99, Pod: &metric.Pod{Namespace: "shop", Name: "a", UID: "1"}}
	if r := f.send(from, "hits:1|c"); r != metric.Applied {
		t.Error(r)
	}
}

// Samples that were pending count at the time of their arrival: the rate of a new pod neither
// spikes nor reads low.
func TestHeldSamplesCountWhenTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inCluster(t).running()
		time.Sleep(10 * time.Minute)
		a := senderOf("a", "1")
		began := time.Now()
		var held []*metric.Sample
		for range 8 { // ten requests a second from the first moment on, held for eight seconds
			time.Sleep(time.Second)
			for _, line := range []string{"hits:10|c", "took:5|ms", "depth:7|g", "users:a|s"} {
				s := sample(line)
				s.Sender, s.Arrived = a, time.Now().UnixNano()
				held = append(held, s)
			}
		}
		f.apply(held...)
		for range 22 {
			time.Sleep(time.Second)
			f.send(a, "hits:10|c")
			for _, window := range []string{"10s", "1m"} {
				q := metric.Query{Resource: "pods", Namespace: "shop", Object: "a", Expression: metric.ParseExpression("hits:rate:" + window)}
				points, err := f.Objects(q)
				must(t, err)
				if got := points[0].Value.Float64(); time.Since(began) > 10*time.Second && math.Abs(got-10) > 1.2 {
					t.Errorf("%v after the first sample the rate over %s is %.2f, want 10", time.Since(began), window, got)
				}
			}
		}
		for asked, want := range map[string]float64{"took:count:10s": 0, "took:count:1m": 8, "depth": 7, "users:unique:1m": 1, "hits:total": 300} {
			points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "a", Expression: metric.ParseExpression(asked)})
			if err != nil || points[0].Value.Float64() != want {
				t.Errorf("%s: %v, %v, want %v", asked, points, err, want)
			}
		}
		checkBalance(t, f)
	})
}

// A member of a set that was held counts when it came, whether or not a later one has told of its tick: in an
// exact set, and in one that is estimated.
func TestHeldMembersCountWhenTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inCluster(t).running()
		a := senderOf("a", "1")
		for n := range 4000 {
			f.send(a, fmt.Sprintf("crowd:former%d|s", n))
		}
		time.Sleep(10 * time.Minute)
		var held []*metric.Sample
		for second := range 30 { // a new member a second
			time.Sleep(time.Second)
			for _, name := range []string{"users", "crowd"} {
				s := sample(fmt.Sprintf("%s:%d|s", name, second))
				s.Sender, s.Arrived = a, time.Now().UnixNano()
				held = append(held, s)
			}
		}
		f.apply(held...)
		for asked, want := range map[string]float64{"users:unique:10s": 10, "users:unique:1m": 30, "crowd:unique:10s": 10, "crowd:unique:1m": 30} {
			points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "a", Expression: metric.ParseExpression(asked)})
			must(t, err)
			within := 1.0
			if strings.HasPrefix(asked, "crowd") {
				within = 4 // members may share a register: of 200 estimates of 30, one has two such pairs
			}
			if got := points[0].Value.Float64(); math.Abs(got-want) > within {
				t.Errorf("%s: %v, want %v", asked, got, want)
			}
		}
	})
}

// A sample that was held counts at its date if it is older than its arrival, as one does that was not held.
func TestHeldDatedSamplesCountAtTheirDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inCluster(t).running()
		time.Sleep(10 * time.Minute)
		a := senderOf("a", "1")
		f.send(a, "known.hits:1|c", "known.took:5|ms", "known.users:a|s")
		time.Sleep(2 * time.Minute)
		f.send(a, "known.hits:1|c", "known.took:5|ms", "known.users:a|s")
		arrived := time.Now()
		for _, name := range []string{"new.", "known."} {
			for _, line := range []string{"hits:100|c", "took:5|ms", "users:b|s"} {
				s := sample(name + line)
				s.Sender, s.Arrived, s.Dated = a, arrived.Add(-time.Second).UnixNano(), arrived.Add(-50*time.Second).UnixNano()
				f.apply(s)
			}
		}
		for asked, want := range map[string]float64{
			"new.hits:count:10s": 0, "new.took:count:10s": 0, "new.users:unique:10s": 0,
			"new.hits:count:1m": 100, "new.took:count:1m": 1, "new.users:unique:1m": 1,
			"known.hits:count:10s": 1, "known.took:count:10s": 1, "known.users:unique:10s": 1,
			"known.hits:count:1m": 101, "known.took:count:1m": 2, "known.users:unique:1m": 2,
		} {
			points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "a", Expression: metric.ParseExpression(asked)})
			if err != nil || len(points) != 1 || points[0].Value.Float64() != want {
				t.Errorf("%s: %v, %v, want %v", asked, points, err, want)
			}
		}
		checkBalance(t, f)
	})
}

// A gauge's value that was held does not replace one that came later and was not.
func TestHeldGaugeIsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inCluster(t).running()
		a := senderOf("a", "1")
		s := sample("depth:1|g")
		s.Sender, s.Arrived = a, time.Now().UnixNano()
		time.Sleep(3 * time.Second)
		f.send(a, "depth:2|g")
		for range 2 { // before it is rolled, and after
			f.w.Online()
			if r := f.w.Apply(s); r != metric.Applied {
				t.Fatal(r)
			}
			f.w.Offline()
			points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "a", Expression: metric.ParseExpression("depth")})
			if err != nil || points[0].Value.Float64() != 2 {
				t.Errorf("%v, %v", points, err)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

// Remove takes exactly the label sets that it is given, of whatever kind, and leaves the rest.
func TestRemoveTakesExactlyWhatIsNamed(t *testing.T) {
	f := newFixture(t)
	f.push("x:1|c", "x:1|c|#a:1", "x:1|c|#a:1,b:2", "x:1|c|#a:1,ns:shop", "y:1|g|#a:1")
	sets := []metric.Labels{metric.NewLabels([]metric.Label{{Key: "a", Value: "1"}}), metric.NewLabels([]metric.Label{{Key: "none", Value: "1"}})}
	if n := f.Remove(metric.Object{}, "x", sets); n != 1 {
		t.Errorf("%d removed, want 1", n)
	}
	if n := f.Remove(metric.Object{}, "y", sets); n != 1 {
		t.Errorf("%d gauges removed, want 1", n)
	}
	if got := f.Series(); got != 3 {
		t.Errorf("%d series left, want 3", got)
	}
	f.push("x:1|c|#a:1")
	if got := f.Series(); got != 4 {
		t.Errorf("%d series once it came again, want 4", got)
	}
}

// witnessed is an Observer that counts calls.
type witnessed []string

func (w *witnessed) SeriesCreated(o *metric.Object, name string, kind metric.Kind, labels metric.Labels) {
	*w = append(*w, fmt.Sprintf("%s %s %s %s", o.Name, name, kind, labels))
}

func TestObserverHearsOfEachNewSeriesOnce(t *testing.T) {
	f := inCluster(t)
	var told witnessed
	f.SetObserver(&told)
	a := senderOf("a", "1")
	f.send(a, "m:1|c", "m:1|c|#x:1", "m:1|c|#x:1", "n:1|g", "n:1|c")
	want := witnessed{"a m counter {}", "a m counter {x=1}", "a n gauge {}"}
	if !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}

	// ReplaySeries reports restored series, without removed ones.
	f.Roll()
	saved := newSaved()
	saved.flush(f.Table, each)
	back := newFixture(t)
	var again witnessed
	back.SetObserver(&again)
	back.w.Offline()
	must(t, saved.into(back.Table))
	back.Shed(a.Pod.Object(), "n")
	if back.ReplaySeries("nodes"); len(again) != 0 {
		t.Errorf("of nodes it is told %q", again)
	}
	back.ReplaySeries("pods")
	slices.Sort(again)
	slices.Sort(want[:2])
	if !slices.Equal(again, want[:2]) {
		t.Errorf("%q, want %q", again, want[:2])
	}
}

func TestZeroHasTheTimeAndWindowOfItsOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inCluster(t)
		f.send(senderOf("a", "1"), "m:0|c")
		for _, asked := range []string{"m", "m:rate:10s", "m:count"} {
			points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "*", Expression: metric.ParseExpression(asked)})
			if err != nil || len(points) != 1 {
				t.Fatal(asked, points, err)
			}
			zero := NewMerged(f.Table).Begin().Zero(metric.ParseExpression(asked))
			if !zero.Time.Equal(points[0].Time) || zero.Window != points[0].Window || zero.Value != points[0].Value {
				t.Errorf("%s: %+v, want %+v", asked, zero, points[0])
			}
		}
	})
}

func TestQueryIsToldTheKindThatAnswers(t *testing.T) {
	f := inCluster(t)
	f.send(senderOf("a", "1"), "m:1|c", "l:1|ms")
	for asked, want := range map[string]metric.Kind{"m": metric.Counter, "l": metric.Timer, "none": metric.NoKind} {
		got := metric.NoKind
		_, _ = f.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "*", Expression: metric.ParseExpression(asked), Kind: &got})
		if got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
}
