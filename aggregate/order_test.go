package aggregate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

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
			o := found[i].entry.object()
			got = append(got, o.Name+"/"+o.UID)
			if i > 0 && found[i-1].entry.name > o.Name {
				t.Fatalf("%s before %s", found[i-1].entry.name, o.Name)
			}
		}
		slices.Sort(got)
		if want := slices.Sorted(maps.Keys(have)); !slices.Equal(got, want) {
			t.Fatalf("%d are read, want %d", len(got), len(want))
		}
	}
	kept := func() *order {
		key := familyKey{"pods", "shop", "hits"}
		shard, hash := f.index.shard(key)
		return shard.family(hash, key).order
	}
	for i := range orderedFrom + 1000 {
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
	if kept() != first || len(first.fresh) != 202 || first.gone != 200 {
		t.Errorf("few changes were not put beside the order: %d came, %d went", len(first.fresh), first.gone)
	}
	for _, one := range all[1000 : 1000+len(first.sorted)/8] {
		end(one)
	}
	if kept() != nil {
		t.Error("an eighth went, and the order is still kept")
	}
	read()
	if now := kept(); now == nil || now.gone+len(now.fresh) != 0 || len(now.sorted) != len(have) {
		t.Error("no new order is kept")
	}
}

// An order that was outrun by changes is not kept, and only so many are.
func TestOrdersAreBounded(t *testing.T) {
	x := newIndex()
	for i := range orderedFamilies + 3 {
		form := canonicalForm{object: metric.Object{Resource: "pods", Namespace: "shop", Name: "a"}, name: fmt.Sprint("m", i)}
		form.sum(&x.hash)
		e, shard := x.enter(&form, metric.Counter)
		e.addLocked(ref{})
		shard.mu.Unlock()
		changes := e.family.changes
		x.keep(e.family, changes-1, []found{{e, e.series}})
		if e.family.order != nil {
			t.Fatal("the order of another time is kept")
		}
		for range 2 {
			x.keep(e.family, changes, []found{{e, e.series}})
		}
	}
	n := 0
	for i := range x.shards {
		for _, f := range x.shards[i].families {
			if f.order != nil {
				n++
			}
		}
	}
	if n != orderedFamilies {
		t.Errorf("%d orders are kept, want %d", n, orderedFamilies)
	}
}
