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

// Every type finds its way: what the table gets, and what is exposed.
func TestTypes(t *testing.T) {
	f := newFixture(t)
	o := f.push("PUT", "job=a", `# TYPE c counter
c 3
# TYPE g gauge
g -1.5
u 2
# TYPE h histogram
h_bucket{le="1"} 2
h_bucket{le="+Inf"} 5
h_sum 9
h_count 5
# TYPE s summary
s{quantile="0.5"} NaN
s_sum 0
s_count 0
`)
	f.serves("c{instance=,job=a} counter 3\ng{instance=,job=a} gauge -1.5\nh{instance=,job=a} timer 5\ns{instance=,job=a} timer 0\nu{instance=,job=a} gauge 2")
	if o.Applied != 5 || len(o.Unserved) != 0 {
		t.Errorf("%+v", o)
	}
	f.balanced()
}

// The grouping labels win over those of the body; "instance" is there always.
func TestLabels(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a,l=g", "x{job=\"b\",l=\"h\",m=\"1\"} 1\nx{instance=\"i\",m=\"1\"} 2\n")
	f.exposes("x{instance=\"\",job=\"a\",l=\"g\",m=\"1\"} 1\nx{instance=\"i\",job=\"a\",l=\"g\",m=\"1\"} 2")
	f.push("PUT", "job=a,instance=q,l=g", "y{instance=\"i\"} 1\n")
	if labels := f.group("job=a,instance=q,l=g").contents.families[0].Metrics[0].Labels; len(labels) != 3 {
		t.Errorf("%v, want three labels", labels)
	}
	f.serves("x{instance=,job=a,l=g,m=1} gauge 1\nx{instance=i,job=a,l=g,m=1} gauge 2\ny{instance=q,job=a,l=g} gauge 1")
	f.refused("POST", "job=a,l=g", "x{l=\"1\"} 1\nx{l=\"2\"} 2\n", metric.Malformed, "twice")
	f.refused("POST", "job=a,l=g", "x 1\nx{instance=\"\"} 2\n", metric.Malformed, "twice")
	f.refused("POST", "job=a,le=g", "# TYPE h histogram\nh_count 1\nh_sum 1\nh_bucket{le=\"+Inf\"} 1\n", metric.Malformed, "histogram")
	f.balanced()
}

// The kind that another group has never makes a push fail; what cannot be served beside its series
// is not served, until it goes.
func TestAnotherGroupsKind(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a", "# TYPE x counter\nx 1\n")
	o := f.push("PUT", "job=b", "# TYPE x gauge\nx 2\ny 3\nstatus 4\n")
	f.serves("x{instance=,job=a} counter 1\ny{instance=,job=b} gauge 3")
	f.exposes("status{instance=\"\",job=\"b\"} 4\nx{instance=\"\",job=\"a\"} 1\nx{instance=\"\",job=\"b\"} 2\ny{instance=\"\",job=\"b\"} 3")
	if !slices.Equal(o.Unserved, []Unserved{{"status", metric.BadName}, {"x", metric.KindConflict}}) || o.Applied != 1 {
		t.Errorf("%+v", o)
	}
	f.Delete(keyOf("job=b")) // takes nothing of the other's
	f.serves("x{instance=,job=a} counter 1")
	f.push("PUT", "job=b", "# TYPE x gauge\nx 2\n")
	f.push("PUT", "job=c,l=1", "# TYPE x counter\nx 3\n")
	f.refused("PUT", "job=c", "# TYPE x gauge\nx{l=\"1\"} 4\n", metric.Malformed, "already a series of the group {job=c,l=1}") // the very series, whatever its kind
	f.push("PUT", "job=c", "")
	f.serves("x{instance=,job=a} counter 1\nx{instance=,job=c,l=1} counter 3")
	f.Delete(keyOf("job=c,l=1"))
	f.Delete(keyOf("job=a"))
	f.push("PUT", "job=b", "# TYPE x gauge\nx 2\n")
	f.serves("x{instance=,job=b} gauge 2")
}

// Within a group, a name keeps its type until PUT replaces the group.
func TestTypeWithinAGroup(t *testing.T) {
	f := newFixture(t)
	f.push("POST", "job=a", "# TYPE x counter\nx 1\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n")
	before := f.table.String()
	f.refused("POST", "job=a", "# TYPE x gauge\nx 1\ny 2\n", metric.KindConflict, `"x" is already a counter in this group and cannot become a gauge`)
	f.refused("POST", "job=a", "y 2\nh_count 3\n", metric.KindConflict, `"h_count" is the name of a sample of "h"`)
	f.serves(before)
	if g := f.group("job=a"); !g.Failed.Equal(f.now) || !g.Pushed.Before(g.Failed) {
		t.Errorf("a refused push: pushed %v, failed %v", g.Pushed, g.Failed)
	}
	f.push("PUT", "job=a", "# TYPE x gauge\nx 5\nh_count 3\n")
	f.serves("h_count{instance=,job=a} gauge 3\nx{instance=,job=a} gauge 5")
	f.balanced()
}

// A rejected push leaves no trace.
func TestOverLimit(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a", "x{l=\"1\"} 1\nx{l=\"2\"} 2\ny 3\n")
	before := f.table.String()
	f.table.most = 4
	f.refused("POST", "job=a", "x{l=\"2\"} 9\nx{l=\"3\"} 9\nx{l=\"4\"} 9\nx{l=\"5\"} 9\nz 9\n", metric.OverLimit, "")
	f.serves(before)
	f.refused("PUT", "job=a", "x{l=\"2\"} 9\nx{l=\"3\"} 9\nx{l=\"4\"} 9\nx{l=\"5\"} 9\nz 9\n", metric.OverLimit, "")
	f.serves(before)
	f.refused("PUT", "job=b", "v 1\nw 1", metric.OverLimit, "")
	f.serves(before)
	if f.Count() != 1 {
		t.Errorf("a group was made for a push over the limit: %d", f.Count())
	}
	// Removed series make room for new ones.
	f.push("PUT", "job=a", "x{l=\"6\"} 1\nx{l=\"7\"} 1\nx{l=\"8\"} 1\nx{l=\"9\"} 1\n")
	f.serves("x{instance=,job=a,l=6} gauge 1\nx{instance=,job=a,l=7} gauge 1\nx{instance=,job=a,l=8} gauge 1\nx{instance=,job=a,l=9} gauge 1")
	f.balanced()
}

// A series that the table has lost meanwhile (a limit was lowered) is rejected as if it were new.
func TestLostSeries(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a", "x 1\ny 2\n")
	clear(f.table.series)
	f.table.refuse["x"] = metric.OverLimit
	f.refused("POST", "job=a", "x 3\n", metric.OverLimit, "")
	f.exposes("x{instance=\"\",job=\"a\"} 1\ny{instance=\"\",job=\"a\"} 2")
	delete(f.table.refuse, "x")
	f.push("POST", "job=a", "x 3\n")
	f.serves("x{instance=,job=a} gauge 3")
}

func TestFailMakesAGroup(t *testing.T) {
	f := newFixture(t)
	f.RecordFailure(keyOf("job=a"), metric.Object{}, 0, f.now)
	if g := f.group("job=a"); !g.Pushed.IsZero() || !g.Failed.Equal(f.now) {
		t.Errorf("%+v", g)
	}
	f.table.refuse["x"] = metric.Identity
	f.refused("PUT", "job=b", "x 1\n", metric.Identity, "")
	if f.Count() != 1 {
		t.Error("who may not push made a group")
	}
	f.balanced()
}

func TestTimeToLive(t *testing.T) {
	f := newFixture(t)
	k := keyOf("job=a")
	push := func(ttl time.Duration) {
		t.Helper()
		families, _ := exposition.NewTextReader(exposition.DefaultOptions()).Read([]byte("x 1\n"))
		if _, r := f.Push(&Push{Key: k, Families: families, TTL: ttl, Now: f.now, Applier: f.table}); r != nil {
			t.Fatal(r.Message)
		}
	}
	sweep := func(after time.Duration, want int) {
		t.Helper()
		f.now = f.now.Add(after)
		if n := f.Sweep(f.table.Lifetime()); n != want {
			t.Errorf("%d groups ended, want %d", n, want)
		}
	}
	push(time.Hour)
	sweep(59*time.Minute, 0)
	push(time.Hour) // it lives on from here
	sweep(59*time.Minute, 0)
	if g := f.group("job=a"); !g.Expires.Equal(f.now.Add(time.Minute)) {
		t.Errorf("expires %v", g.Expires)
	}
	f.now = f.now.Add(time.Minute)
	if len(f.All(nil)) != 0 {
		t.Error("a group is shown whose time is over")
	}
	sweep(0, 1)
	f.serves("")
	for _, longest := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 2562047 * time.Hour} {
		push(longest)
		sweep(1000*time.Hour, 0)
		if all := f.All(nil); len(all) != 1 || !all[0].Expires.After(f.now.Add(200*365*24*time.Hour)) {
			t.Errorf("a group that ends after %v: %v", longest, all)
		}
	}
	push(time.Hour)
	push(0) // for ever
	sweep(1000*time.Hour, 0)
	f.serves("x{instance=,job=a} gauge 1")
	f.balanced()
}

func TestWipe(t *testing.T) {
	f := newFixture(t)
	for i := range 300 {
		f.push("PUT", fmt.Sprintf("job=a,i=%d,namespace=%c", i, 'a'+i%2), "x 1\n")
	}
	if n := f.Wipe(func(o metric.Object) bool { return o.Namespace == "a" }); n != 150 {
		t.Errorf("%d groups wiped, want 150", n)
	}
	if n := f.Wipe(nil); n != 150 || f.Count() != 0 {
		t.Errorf("%d groups wiped, %d left", n, f.Count())
	}
	f.serves("")
	f.balanced()
}

func TestBounds(t *testing.T) {
	f := newFixture(t)
	f.config = Config{MaxGroups: 2, MaxBytes: 3000}
	f.push("PUT", "job=a", "x 1\n")
	f.push("PUT", "job=b", "x 1\n")
	f.refused("PUT", "job=c", "x 1\n", metric.OverLimit, "group limit (2)")
	f.refused("POST", "job=b", "y{l=\""+strings.Repeat("z", 3000)+"\"} 1\n", metric.OverLimit, "3000 bytes")
	f.exposes("x{instance=\"\",job=\"a\"} 1\nx{instance=\"\",job=\"b\"} 1")
	f.balanced()
	f.Delete(keyOf("job=a"))
	f.push("PUT", "job=c", "x 1\n")
	f.config.MaxBytes = f.bytes.Load() // a push takes the room of what it replaces
	f.push("PUT", "job=c", "x 2\n")
	f.push("POST", "job=b", "x 2\n")
	if (Config{}).Validate() == nil || DefaultConfig().Validate() != nil {
		t.Error("a configuration is not judged right")
	}
}

// Contradictions between groups are resolved in the exposition.
func TestExposedOfGroupsThatDisagree(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a", "# TYPE x counter\nx 1\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n")
	f.push("PUT", "job=b", "# HELP x help\n# TYPE x gauge\nx 2\nh_sum 3\nh 4\n")
	f.push("PUT", "job=b,l=1,namespace=shop", "y 1\n")
	f.push("PUT", "job=b,l=1", "y{namespace=\"shop\"} 2\n") // about something else, but the same series to an exposition
	text := string(exposition.Append(nil, exposition.Text, MergedFamilies(f.All(nil), exposition.AllowUTF8)...))
	if _, fault := exposition.NewTextReader(exposition.DefaultOptions()).Read([]byte(text)); fault.Reason != metric.Applied {
		t.Errorf("%s:\n%s", fault.Error(), text)
	}
	f.push("PUT", "job=b", "# HELP x help\n# TYPE x gauge\nx 2\nh_sum 3\nh 4\n")
	text = string(exposition.Append(nil, exposition.Text, MergedFamilies(f.All(nil), exposition.AllowUTF8)...))
	if !strings.Contains(text, "# HELP x help\n# TYPE x untyped\nx{instance=\"\",job=\"a\"} 1\nx{instance=\"\",job=\"b\"} 2\n") {
		t.Error(text)
	}
	if strings.Contains(text, `h_sum{instance="",job="b"}`) || strings.Contains(text, `h{`) {
		t.Error(text)
	}
}

// The model is the plainest thing that could be right: a map of maps. Pushes of all kinds, in any
// order, leave the table with what the groups say.
func TestTableFollowsGroups(t *testing.T) {
	f := newFixture(t)
	r := rand.New(rand.NewPCG(3, 4))
	model := map[string]map[string]float64{} // group → series as text → value
	for step := range 3000 {
		job := fmt.Sprintf("job=%c", 'a'+r.IntN(4))
		method := []string{"PUT", "POST", "DELETE"}[r.IntN(5)%3]
		if method == "DELETE" {
			f.Delete(keyOf(job))
			delete(model, job)
			continue
		}
		if model[job] == nil {
			model[job] = map[string]float64{}
		}
		var body strings.Builder
		fresh := map[string]float64{}
		for _, name := range []string{"x", "y", "z"}[r.IntN(3):] {
			for _, l := range r.Perm(5)[:1+r.IntN(4)] {
				v := float64(r.IntN(100))
				text := fmt.Sprint(v)
				if r.IntN(10) == 0 {
					text, v = "NaN", nan
				}
				fmt.Fprintf(&body, "%s{l=\"%d\"} %s\n", name, l, text)
				fresh[fmt.Sprintf("%s{instance=,%s,l=%d} gauge", name, job, l)] = v
			}
		}
		f.push(method, job, body.String())
		for key := range model[job] {
			for other := range fresh {
				if method == "PUT" || key[0] == other[0] {
					delete(model[job], key)
				}
			}
		}
		maps.Copy(model[job], fresh)
		var want []string
		for _, group := range model {
			for key, v := range group {
				if v == v {
					want = append(want, fmt.Sprint(key, " ", v))
				}
			}
		}
		slices.Sort(want)
		if got := f.table.String(); got != strings.Join(want, "\n") {
			t.Fatalf("step %d, %s %s\n%s\nserved:\n%s\nwant:\n%s", step, method, job, &body, got, strings.Join(want, "\n"))
		}
	}
	f.balanced()
}

// Many push, delete, read and persist at once; in the end the table has what the groups have.
func TestConcurrentUse(t *testing.T) {
	f := newFixture(t)
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			reader := exposition.NewTextReader(exposition.DefaultOptions())
			for range 400 {
				k := keyOf(fmt.Sprintf("job=%d", r.IntN(10)))
				switch r.IntN(8) {
				case 0:
					f.Delete(k)
				case 1:
					for _, h := range f.Changed(false) {
						_, _ = f.AppendDocument(nil, h)
					}
				case 2:
					MergedFamilies(f.All(nil), exposition.AllowUTF8)
				case 3:
					f.Sweep(f.table.Lifetime())
				default:
					families, _ := reader.Read(fmt.Appendf(nil, "x{l=\"%d\"} 1\nx{l=\"%d\"} 2\n", r.IntN(3), 3+r.IntN(3)))
					_, _ = f.Push(&Push{Key: k, Families: families, Replace: r.IntN(2) == 0, TTL: time.Hour, Now: time.Now(), Applier: f.table})
				}
			}
		})
	}
	wait.Wait()
	served := 0
	for _, g := range f.All(nil) {
		for family := range g.Families() {
			served += len(family.Metrics)
		}
	}
	if served != len(f.table.series) {
		t.Errorf("%d series are served, the groups have %d", len(f.table.series), served)
	}
	f.balanced()
}

func TestGroupsAreListedInPages(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=b", "x 1\ny{l=\"1\"} 2\ny{l=\"2\"} 2\n")
	f.push("PUT", "job=a,instance=2", "x 1\n")
	f.push("PUT", "job=a,instance=1", "x 1\n")
	want := "a 1 1\na 1 1\nb 2 3\n"
	for limit := 1; limit < 5; limit++ {
		var got strings.Builder
		for p, pages := (Part{Most: limit}), 0; ; pages++ {
			page, more := f.Listed(p)
			if len(page) > limit || pages > 5 {
				t.Fatalf("page %d has %d groups", pages, len(page))
			}
			for _, g := range page {
				families, series := g.Size()
				fmt.Fprintln(&got, g.Key.job(), families, series)
				p.After = g.Key
			}
			if !more {
				break
			}
		}
		if got.String() != want {
			t.Errorf("pages of %d:\n%s, want\n%s", limit, got.String(), want)
		}
	}
	if page, _ := f.Listed(Part{Job: "b", Most: 9}); len(page) != 1 {
		t.Errorf("of one job: %d groups", len(page))
	}
	if page, _ := f.Listed(Part{Namespace: "nowhere", Most: 9}); len(page) != 0 {
		t.Errorf("of a namespace without groups: %d", len(page))
	}
}

// One namespace takes its share and no more, without effect on others. An expired group returns
// its share.
func TestNamespaceShare(t *testing.T) {
	f := newFixture(t)
	f.config = Config{MaxGroups: 20, MaxBytes: 40_000, NamespaceShare: 0.1}
	f.push("PUT", "job=a,namespace=shop", "x 1\n")
	f.push("PUT", "job=b,namespace=shop", "x 1\n")
	f.refused("PUT", "job=c,namespace=shop", "x 1\n", metric.OverLimit, "group limit (2) of namespace shop")
	f.push("PUT", "job=b,namespace=shop", "x 2\n") // it has its place
	f.push("PUT", "job=c,namespace=mail", "x 1\n")
	for _, job := range []string{"job=d", "job=e", "job=f"} { // who may speak for all has no share
		f.push("PUT", job, "x 1\n")
	}

	big := "y{l=\"" + strings.Repeat("z", 4000) + "\"} 1\n"
	f.refused("POST", "job=a,namespace=shop", big, metric.OverLimit, "memory limit of the groups of namespace shop (4000 bytes)")
	f.RecordFailure(keyOf("job=g,namespace=shop"), metric.Object{Namespace: "shop"}, 0, f.now)
	if f.Count() != 6 {
		t.Errorf("%d groups, want 6: a failed push makes none where there is no room", f.Count())
	}

	f.Delete(keyOf("job=a,namespace=shop"))
	f.push("PUT", "job=c,namespace=shop", "x 1\n")
	f.refused("PUT", "job=a,namespace=shop", "x 1\n", metric.OverLimit, "group limit (2)")
	f.Wipe(nil)
	if len(f.usage.byNamespace) != 0 || f.Bytes() != 0 {
		t.Errorf("without groups, %d namespaces take something, %d bytes", len(f.usage.byNamespace), f.Bytes())
	}
	f.balanced()
}

// The namespace that pays is that of what a group is about: naming another one's in a label does
// not take its room.
func TestHolder(t *testing.T) {
	for _, c := range []struct {
		about metric.Object
		want  string
	}{
		{metric.Object{}, ""},
		{metric.Object{Namespace: "shop"}, "shop"},
		{metric.Object{Resource: "pods", Namespace: "shop", Name: "web-1"}, "shop"},
		{metric.Object{Resource: "namespaces", Name: "shop"}, "shop"},
		{metric.Object{Resource: "nodes", Name: "shop"}, ""},
	} {
		if got := c.about.InNamespace(); got != c.want {
			t.Errorf("%v: %q, want %q", c.about, got, c.want)
		}
	}
}

// Restored groups take room as pushed ones do, and are kept even where less may be now.
func TestRestoredGroupsCount(t *testing.T) {
	f, again := newFixture(t), newFixture(t)
	again.config = Config{MaxGroups: 20, MaxBytes: 1 << 20, NamespaceShare: 0.05}
	for _, key := range []string{"job=a,namespace=shop", "job=b,namespace=shop"} {
		f.push("PUT", key, "x 1\n")
		text, _ := f.AppendDocument(nil, keyOf(key).Hash())
		must(t, again.RestoreDocument(keyOf(key).Hash(), text))
	}
	again.refused("PUT", "job=c,namespace=shop", "x 1\n", metric.OverLimit, "group limit (1) of namespace shop")
	if u := again.usage.byNamespace["shop"]; u.groups != 2 || u.bytes.Load() != again.Bytes() {
		t.Errorf("%d groups and %d bytes, want 2 and %d", u.groups, u.bytes.Load(), again.Bytes())
	}
}
