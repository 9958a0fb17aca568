package aggregate

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/metric"
)

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
