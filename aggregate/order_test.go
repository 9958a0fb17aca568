package aggregate

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// A family's order is kept from one reading to the next, and what came and went meanwhile is seen.
func TestOrderIsKept(t *testing.T) {
	f := inCluster(t)
	random := rand.New(rand.NewPCG(3, 4))
	have := map[string]bool{} // name/UID
	add := func(name, uid string) {
		if r := f.send(senderOf(name, uid), "hits:1|c"); r != metric.Applied {
			t.Fatal(r)
		}
		have[name+"/"+uid] = true
	}
	end := func(one string) {
		name, uid, _ := strings.Cut(one, "/")
		if f.End(metric.Object{Resource: "pods", Namespace: "shop", Name: name, UID: uid}, "hits") != 1 {
			t.Fatalf("%s was not there", one)
		}
		delete(have, one)
	}
	read := func() {
		t.Helper()
		var got []string
		found := f.seriesOfName("hits")
		for i := range found {
			o := found[i].Entry.Object()
			got = append(got, o.Name+"/"+o.UID)
			if i > 0 && found[i-1].Entry.Name > o.Name {
				t.Fatalf("%s before %s", found[i-1].Entry.Name, o.Name)
			}
		}
		slices.Sort(got)
		if want := slices.Sorted(maps.Keys(have)); !slices.Equal(got, want) {
			t.Fatalf("%d are read, want %d", len(got), len(want))
		}
	}
	kept := func() *index.Order {
		key := index.Key{Resource: "pods", Namespace: "shop", Name: "hits"}
		shard, hash := f.index.ShardOfKey(key)
		return shard.Family(hash, key).Order
	}
	for i := range index.OrderedFrom + 1000 {
		add(fmt.Sprintf("web-%05d", i*7919%100_000), "1")
	}
	if kept() != nil {
		t.Fatal("an order is kept before anybody read")
	}
	read()
	first := kept()
	if first == nil {
		t.Fatal("no order is kept")
	}
	all := slices.Sorted(maps.Keys(have))
	for i := range 200 {
		add(fmt.Sprintf("web-%05d", random.IntN(100_000)), fmt.Sprint(2+i)) // some have a name that is there
		end(all[2*i])
		if i%20 == 0 {
			read()
		}
	}
	add("a", "1")
	add("z", "1")
	read()
	if kept() != first || len(first.Fresh) != 202 || first.Gone != 200 {
		t.Errorf("few changes were not put beside the order: %d came, %d went", len(first.Fresh), first.Gone)
	}
	for _, one := range all[1000 : 1000+len(first.Sorted)/8] {
		end(one)
	}
	if kept() != nil {
		t.Error("an eighth went, and the order is still kept")
	}
	read()
	if now := kept(); now == nil || now.Gone+len(now.Fresh) != 0 || len(now.Sorted) != len(have) {
		t.Error("no new order is kept")
	}
}

// An order that was outrun by changes is not kept, and only so many are.
func TestOrdersAreBounded(t *testing.T) {
	x := index.New()
	for i := range index.OrderedFamilies + 3 {
		form := index.Identity{Object: metric.Object{Resource: "pods", Namespace: "shop", Name: "a"}, Name: fmt.Sprint("m", i)}
		form.Hash(&x.Hash)
		e, shard := x.Enter(&form, metric.Counter)
		e.AddLocked(lookup.Ref{})
		shard.Mu.Unlock()
		changes := e.Family.Changes
		x.Keep(e.Family, changes-1, []index.Found{{Entry: e, Series: e.Series}})
		if e.Family.Order != nil {
			t.Fatal("the order of another time is kept")
		}
		for range 2 {
			x.Keep(e.Family, changes, []index.Found{{Entry: e, Series: e.Series}})
		}
	}
	n := 0
	for i := range x.Shards {
		for _, f := range x.Shards[i].Families {
			if f.Order != nil {
				n++
			}
		}
	}
	if n != index.OrderedFamilies {
		t.Errorf("%d orders are kept, want %d", n, index.OrderedFamilies)
	}
}

// town is who lives, as a cluster's view tells it, and how often somebody was asked about.
type town struct {
	mu    sync.Mutex
	lives map[metric.Object]bool
	went  []metric.Object
	lost  uint64 // of those that went, so many are not known any more
	asked int
}

func (c *town) takes(o metric.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.lives[o]
}

func (c *town) gone(since uint64) ([]metric.Object, uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := uint64(len(c.went))
	if since < c.lost {
		return nil, now, false
	}
	return slices.Clone(c.went[since:]), now, true
}

func (c *town) end(o metric.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lives, o)
	c.went = append(c.went, o)
}

// crowded is a table of a crowd's counter "hits", and the town in which it lives.
func crowded(t testing.TB, n int) (*fixture, *town, []metric.Object) {
	f, c := inCluster(t), &town{lives: map[metric.Object]bool{}}
	var all []metric.Object
	for i := range n {
		s := senderOf(fmt.Sprintf("web-%06d", i*7919%n), fmt.Sprint(i))
		f.send(s, "hits:1|c")
		c.lives[s.Pod.Object()] = true
		all = append(all, s.Pod.Object())
	}
	return f, c, all
}

// read returns who is in an answer.
func (c *town) read(t testing.TB, f *fixture) map[metric.Object]bool {
	points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "*", Expression: metric.ParseExpression("hits:total"),
		MatchObject: c.takes, RemovedObjects: c.gone})
	if err != nil {
		t.Error(err)
	}
	all := map[metric.Object]bool{}
	for i := range points {
		all[points[i].Object] = true
	}
	if len(all) != len(points) {
		t.Errorf("%d points of %d objects", len(points), len(all))
	}
	return all
}

// An object that was accepted once is not checked again until it is gone. A rejected object is
// checked each time: it may exist later.
func TestWhoWasTakenIsNotAskedAbout(t *testing.T) {
	const n = index.OrderedFrom + 500
	f, c, all := crowded(t, n)
	late := all[17]
	delete(c.lives, late) // is not known yet
	reads := func(what string, want, limit int) {
		t.Helper()
		c.asked = 0
		if got := c.read(t, f); len(got) != want || !maps.Equal(got, c.lives) {
			t.Errorf("%s: %d are read, want %d", what, len(got), want)
		}
		if c.asked > limit {
			t.Errorf("%s: asked about %d, want %d", what, c.asked, limit)
		}
	}
	reads("the first", n-1, n)
	reads("the second", n-1, n)
	reads("the third", n-1, 1)
	c.end(all[3])
	c.end(metric.Object{Resource: "pods", Namespace: "other", Name: all[4].Name, UID: all[4].UID})
	reads("one went", n-2, 2)
	c.lives[late] = true
	reads("one came to be", n-1, 2)
	reads("and is known", n-1, 1)
	again := senderOf(all[5].Name, "again")
	c.end(all[5])
	f.send(again, "hits:1|c")
	c.lives[again.Pod.Object()] = true
	reads("another of the same name", n-1, 3)
	c.end(all[6])
	c.lost = uint64(len(c.went))
	reads("nobody knows who went", n-2, n+1)
	reads("then all was asked", n-2, 4)
}

// However many read while others go, nobody is in an answer who went before it was asked for. Run
// with -race.
func TestNobodyIsReadWhoWent(t *testing.T) {
	const n = index.OrderedFrom + 100
	f, c, all := crowded(t, n)
	var readers sync.WaitGroup
	var stop atomic.Bool
	reads := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for !stop.Load() {
				c.mu.Lock()
				went := len(c.went)
				c.mu.Unlock()
				got := c.read(t, f)
				c.mu.Lock()
				for _, o := range c.went[:went] {
					if got[o] {
						t.Errorf("%v was read, and went before", o)
					}
				}
				for o := range c.lives {
					if !got[o] {
						t.Errorf("%v was not read, and lives", o)
					}
				}
				c.mu.Unlock()
				select {
				case reads <- struct{}{}:
				default:
				}
			}
		})
	}
	for _, o := range all[:size(200, 100, 50)] {
		c.end(o)
		<-reads
	}
	stop.Store(true)
	readers.Wait()
}

// An object that is gone while it is checked, as another reader noticed meanwhile, is not
// remembered as accepted.
func TestWhoWentWhileAskedIsNotNoted(t *testing.T) {
	f, c, all := crowded(t, index.OrderedFrom+100)
	c.read(t, f) // makes the order
	victim, went := all[9], false
	q := metric.Query{Resource: "pods", Namespace: "shop", Object: "*", Expression: metric.ParseExpression("hits:total"), RemovedObjects: c.gone}
	q.MatchObject = func(o metric.Object) bool {
		lives := c.takes(o)
		if o == victim && !went {
			went = true
			c.end(victim)
			c.read(t, f)
		}
		return lives
	}
	if _, err := f.Objects(q); err != nil || !went {
		t.Fatal(went, err)
	}
	if c.read(t, f)[victim] {
		t.Error("who went is read")
	}
}

func named(names ...string) (all []metric.Object) {
	for _, name := range names {
		pod, uid, _ := strings.Cut(name, "/")
		all = append(all, metric.Object{Resource: "pods", Namespace: "shop", Name: pod, UID: uid})
	}
	return all
}

// Objects that were listed are looked up by name and UID, and nobody is asked about any other.
func TestListedObjectsAreLookedUp(t *testing.T) {
	f := inCluster(t)
	for i := range 20 {
		f.send(senderOf(fmt.Sprintf("p%02d", i), "1"), "hits:1|c")
	}
	f.send(senderOf("p03", "2"), "hits:5|c")
	const absent = `no series of "hits" for pods in "shop": others have it, but none that still lives and that the selector picks`
	for _, c := range []struct {
		listed []string
		want   string
	}{
		{[]string{"p11/1", "p03/2", "p07/1"}, "p03/2=5 p07/1=1 p11/1=1"},
		{[]string{"p03/1"}, "p03/1=1"},
		{[]string{"p03/3", "p99/1", "p05"}, absent},
		{nil, absent},
	} {
		limit := 0
		got := f.totalOf("hits", metric.Query{
			MatchObject: func(o metric.Object) bool { t.Errorf("asked about %s", o.Name); return false },
			ListObjects: func(n int) (iter.Seq[metric.Object], int, bool) { limit = n; return listed(named(c.listed...)) },
		})
		if !strings.Contains(got, c.want) || limit != 20 {
			t.Errorf("%q: %q, listed at most %d", c.listed, got, limit)
		}
	}
	for pod, want := range map[string]string{"p04": "p04/1=1", "none": absent} {
		got := f.totalOf("hits", metric.Query{
			MatchObject: func(o metric.Object) bool { return o.Name == pod },
			ListObjects: func(int) (iter.Seq[metric.Object], int, bool) { return nil, 0, false },
		})
		if !strings.Contains(got, want) {
			t.Errorf("where nobody lists them: %q, want %q", got, want)
		}
	}
}

func listed(all []metric.Object) (iter.Seq[metric.Object], int, bool) {
	return slices.Values(all), len(all), true
}

// A whole family is read in pieces while its objects come and go: what stays is in every answer,
// once.
func TestFamilyIsReadWhileItChanges(t *testing.T) {
	f := inCluster(t)
	const steady = 3 * index.EntriesPerHold
	for i := range steady {
		f.send(senderOf(fmt.Sprintf("steady%05d", i), "1"), "hits:1|c")
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			o := metric.Object{Resource: "pods", Namespace: "shop", Name: fmt.Sprint("coming", i%1000), UID: "1"}
			if i%2 == 0 {
				form := index.Identity{Object: o, Name: "hits"}
				form.Hash(&f.index.Hash)
				e, shard := f.index.Enter(&form, metric.Counter)
				_ = e
				shard.Mu.Unlock()
			} else if e := f.index.Any(index.Key{Resource: "pods", Namespace: "shop", Name: "hits"}, o.Name); e != nil {
				e.Family.Shard.Mu.Lock()
				e.TidyLocked()
				e.Family.Shard.Mu.Unlock()
			}
		}
	}()
	for range size(200, 100, 20) {
		points, err := f.Objects(metric.Query{Resource: "pods", Namespace: "shop", Object: "*", Expression: metric.ParseExpression("hits:total")})
		if err != nil || len(points) != steady {
			t.Fatalf("%d points, %v", len(points), err)
		}
	}
	close(stop)
	<-done
}

// BenchmarkObjectsOfACrowd reads one metric of all of 150,000 pods, and of 1,000 of them that were
// listed.
func BenchmarkObjectsOfACrowd(b *testing.B) {
	const pods, picked = 150_000, 1_000
	f := inCluster(b)
	var few []metric.Object
	for i := range pods {
		s := senderOf(fmt.Sprintf("service-%d-7d9c5b-%05x", i/1000, i*7919%pods), fmt.Sprint(i))
		f.send(s, "hits:1|c")
		if i%(pods/picked) == 0 {
			few = append(few, s.Pod.Object())
		}
	}
	for _, c := range []struct {
		name string
		want int
		q    metric.Query
	}{
		{"all", pods, metric.Query{MatchObject: func(metric.Object) bool { return true }}},
		{"few", picked, metric.Query{ListObjects: func(int) (iter.Seq[metric.Object], int, bool) { return listed(few) }}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.Resource, c.q.Namespace, c.q.Object, c.q.Expression = "pods", "shop", "*", metric.ParseExpression("hits")
			b.ReportAllocs()
			for b.Loop() {
				points, err := f.Objects(c.q)
				if err != nil || len(points) != c.want {
					b.Fatal(len(points), err)
				}
				c.q.Reserve = func(int) ([]metric.Point, error) { return points, nil }
			}
		})
	}
}
