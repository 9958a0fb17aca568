package aggregate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/metric"
)

func identitiesOf(t *testing.T, names []byte) (all []birth) {
	t.Helper()
	for d, next := readNames(names); d.More(); {
		if all = append(all, next()); d.Err != nil {
			t.Fatal(d.Err)
		}
	}
	return all
}

// Strings that many series have, few, none, and those of one hash come out as they went in.
func TestBirthsComeOutAsTheyWentIn(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	words := []string{"", "a", "b", "ab", "pods", "shop", strings.Repeat("x", 300), strings.Repeat("y", 300)}
	for i := range 300 {
		words = append(words, fmt.Sprint("word-", i), fmt.Sprint(i, "-the same end"))
	}
	word := func() string { return words[r.IntN(len(words))] }
	b := &block{page: new(page), series: new([kind.BlockSeries]series)}
	var want []birth
	for place := range uint32(kind.BlockSeries) {
		i := birth{
			place: place, state: r.Uint32()&kind.StateBits | kind.Live, born: r.Uint32(), kind: metric.Gauge,
			object: metric.Object{Resource: word(), Namespace: word(), Name: word(), UID: word()}, name: word(), labels: word(),
		}
		want = append(want, i)
		f := &index.Family{Key: index.Key{Resource: i.object.Resource, Namespace: i.object.Namespace, Name: i.name}}
		s := &b.series[place]
		s.entry, s.born = &index.Entry{Family: f, Name: i.object.Name, UID: i.object.UID, Kind: i.kind}, i.born
		s.setLabels(i.labels)
		b.page.cells[place].State.Store(i.state)
	}
	b.series[7].entry.Family.Key.Name = "not empty"
	want[7].name = "not empty"
	table := new(Table)
	table.blocks.at[0].Store(b)
	blob := table.AppendNames(nil, 0)
	if got := identitiesOf(t, blob); !slices.Equal(got, want) {
		t.Error("they are others")
	}
}

// A new series of a pod, named as the load test names them, takes fewer bytes in a delta, its value
// included, than two thirds of its strings.
func TestBirthsAreShort(t *testing.T) {
	f := newFixture(t)
	for _, i := range rand.New(rand.NewPCG(5, 6)).Perm(750_000)[:kind.BlockSeries] {
		f.push(fmt.Sprintf("http.requests.m%d:1|c|#ns:ns%d,pod:web-%d,code:%d", i%20, i/20%5, i/100%1500, 200+i/150_000))
	}
	strings := 0
	for place := range kind.BlockSeries {
		s := &f.blocks.at[0].Load().series[place]
		e := s.entry
		for _, one := range []string{e.Family.Key.Resource, e.Family.Key.Namespace, e.Family.Key.Name, e.Name, e.UID, s.packed()} {
			strings += len(blob.AppendString(nil, one))
		}
	}
	births := len(f.AppendDelta(nil, 0))
	t.Logf("%.1f bytes a birth, %.1f of strings spelled out", float64(births)/kind.BlockSeries, float64(strings)/kind.BlockSeries)
	if births > strings*2/3 {
		t.Error("that is too much")
	}
}

// A number that nothing was spelled out for is damage.
func TestBirthOfAnUnknownString(t *testing.T) {
	for _, n := range []byte{1, 3, 255} {
		var before nameReader
		d := &blob.Decoder{Rest: []byte{0, 3, 0, 0, 0, n, 1}}
		if before.next(d); d.Err == nil {
			t.Errorf("%d is taken for a string", n)
		}
	}
}

// Strings that differ in their last bytes, as those of numbered things do, are spelled out once
// each, whatever their length.
func TestNumberedStringsAreSpelledOutOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, form := range []string{"http.requests.m%d", "code:%03d", "%d", "web-%05d"} {
		const distinct = 40
		var before stringTable
		out := 0
		for range 1000 {
			if text := fmt.Sprintf(form, r.IntN(distinct)); before.append(nil, text)[0]&1 == 0 {
				out++
			}
		}
		if out > distinct {
			t.Errorf("%s: %d strings are spelled out %d times", form, distinct, out)
		}
	}
}

// Most bytes written to disk are deltas of changed counters. A delta takes few bytes a counter, and
// the parts that it leaves out are restored.
func TestADeltaOfCountersIsSmall(t *testing.T) {
	const counters, most = 500, 7
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t).running(), newSaved()
		push := func() {
			for i := range counters {
				f.push(fmt.Sprintf("c:%d|c|#pod:p,ns:ns,k:%d", i, i))
			}
			time.Sleep(400 * time.Millisecond)
		}
		for range 40 { // the logs are full of what comes again and again
			push()
			disk.flush(f.Table, each)
		}
		push()
		disk.flush(f.Table, never)
		if bytes := len(disk.deltas[0][0]); bytes > most*counters {
			t.Errorf("a delta of %d counters has %d bytes", counters, bytes)
		}
		before := f.all()
		if after := disk.restore(t).all(); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
	})
}
