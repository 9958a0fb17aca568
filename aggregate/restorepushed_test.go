package aggregate

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/kind"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// pushes is a second's worth of running totals, histograms and summaries, of one client.
type pushes struct {
	r      *rand.Rand
	life   int64
	total  float64
	counts []float64
	sum    float64
}

func pushesOf(r *rand.Rand) *pushes { return &pushes{r: r, life: 1, counts: make([]float64, 4)} }

func newPushes(seed uint64) *pushes { return pushesOf(rand.New(rand.NewPCG(seed, 1))) }

func (p *pushes) next() []*metric.Sample {
	if p.r.IntN(20) == 0 {
		*p = pushes{r: p.r, life: p.life + 1, counts: make([]float64, 4)}
	}
	p.total += float64(p.r.IntN(100)) / 4
	for i := range p.counts {
		p.counts[i] += float64(p.r.IntN(5))
	}
	p.sum += float64(p.r.IntN(50))
	h := within(histogram([]float64{1, 10, 100}, p.counts, p.sum), 0.5, 400)
	q := summary(h.Count, p.sum, metric.Quantile{Q: 0.5, Value: p.sum}, metric.Quantile{Q: 0.9, Value: nan})
	samples := []*metric.Sample{total("rc", p.total), pushOf(metric.Accumulate, h), pushOf(metric.Merge, h), pushOf(metric.Accumulate, q), pushOf(metric.Merge, histogram([]float64{3, p.sum + 4}, []float64{0.5, 1, 0}, 3))}
	for i, name := range []string{"rc", "rh", "rm", "rq", "rb"} {
		samples[i].Name, samples[i].Started = []byte(name), p.life
	}
	return samples
}

var pushedAnswers = []string{"rc:total", "rc:count", "rc:rate:10s", "rh:count", "rh:sum:10s", "rh:p95", "rh:p50:10s", "rh:min", "rh:max",
	"rm:count", "rm:p50", "rq", "rq:count:10s", "rq:p50", "rq:p90", "rb:count", "rb:p50"}

func (f *fixture) answers() string {
	var out []string
	for _, asked := range pushedAnswers {
		out = append(out, asked+": "+f.ask(asked))
	}
	return strings.Join(out, "\n")
}

// A restored table answers the same, whatever the moment it was saved at. The next pushes of its
// clients count as if nothing had happened.
func TestRestorePushed(t *testing.T) {
	for seed := range uint64(size(30, 8, 3)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 8))
			p := pushesOf(r)
			f, disk := newFixture(t).running(), newSaved()
			time.Sleep(2*time.Minute + 123*time.Millisecond)
			for range 100 {
				f.apply(p.next()...)
				f.push("rc:0.5|c|#pod:a,ns:ns", "rh:4|ms|#pod:a,ns:ns")
				time.Sleep(400 * time.Millisecond)
				disk.flush(f.Table, func(int) bool { return r.IntN(30) == 0 })
			}
			time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
			disk.flush(f.Table, never)
			before := f.answers()
			again := disk.restore(t).running()
			if after := again.answers(); after != before {
				t.Fatalf("seed %d: before\n%s\nafter\n%s", seed, before, after)
			}
			checkBalance(t, again)
			for range 5 {
				next := p.next()
				f.apply(next...)
				again.apply(next...)
				time.Sleep(300 * time.Millisecond)
				if before, after := f.answers(), again.answers(); after != before {
					t.Fatalf("seed %d: goes on as\n%s\nafter a restart\n%s", seed, before, after)
				}
			}
		})
	}
}

// R2: a delta between an increase and the next roll holds both or neither: a crash loses no
// increase that the client counted.
func TestRestoreBetweenRolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t), newSaved() // nobody rolls
		h := histogram([]float64{1, 2}, []float64{5, 5, 5}, 20)
		f.apply(total("c", 10), total("c", 15), started(pushOf(metric.Accumulate, h), 7))
		disk.flush(f.Table, each)
		if got, want := disk.restore(t).BodyBytes.Load(), f.BodyBytes.Load(); got != want {
			t.Errorf("%d bytes are accounted for after a restart, were %d", got, want)
		}
		f.apply(total("c", 18))
		disk.state[0] = f.AppendState(nil, 0)
		again := disk.restore(t)
		again.apply(total("c", 20))
		again.want("c:count", "a=10")
		again.want("c:total", "a=20")
		h.Count++
		again.apply(started(pushOf(metric.Accumulate, h), 8)) // a fresh start, though nothing is lower
		again.want("t:count", "a=16")
	})
}

// The dates of totals keep their precision: an older total of the same second is late.
func TestRestoredDates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t), newSaved()
		h := histogram([]float64{1, 2}, []float64{5, 5, 5}, 20)
		lower := histogram([]float64{1, 2}, []float64{5, 5, 4}, 20)
		dated := func(s *metric.Sample) *metric.Sample { return at(s, -300*time.Millisecond) }
		f.apply(dated(total("c", 100)), dated(pushOf(metric.Accumulate, h)))
		disk.flush(f.Table, each)
		again := disk.restore(t)
		again.apply(earlier(dated(total("c", 90))), earlier(dated(pushOf(metric.Accumulate, lower))))
		again.want("c:count", "a=0")
		again.want("t:count", "a=0")
	})
}

// With other windows than before, what a client's next total is compared with stays, and so does
// what was counted. Bins of timers do not: they lie in units of the windows.
func TestRestorePushedWithOtherWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disk := newFixture(t).running(), newSaved()
		h := histogram([]float64{1, 2}, []float64{5, 5, 5}, 20)
		f.apply(total("c", 10), total("c", 15), pushOf(metric.Accumulate, h))
		time.Sleep(2 * time.Second)
		disk.flush(f.Table, each)
		c := DefaultConfig()
		c.Windows = []time.Duration{20 * time.Second, 5 * time.Minute}
		table := New(c, describeByPod, slog.New(slog.DiscardHandler))
		must(t, disk.into(table))
		again := &fixture{Table: table, t: t, w: table.NewWriter()}
		again.apply(total("c", 18), pushOf(metric.Accumulate, histogram([]float64{1, 2}, []float64{5, 7, 5}, 23)))
		again.want("c:count", "a=8")
		again.want("c:total", "a=18")
		again.want("t:count", "a=2")
		again.want("t:sum", "a=3")
	})
}

// The first saved format, of before pushed totals, is read with its meaning then: testdata/format1
// is of that code.
func TestRestoreOfTheFirstFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := restoreFormat(t, "testdata/format1/")
		s := total("c", 1000)
		s.Tags = []byte("pod:p0,ns:ns")
		f.apply(s)
		f.want("c:total", "p0=1380 p1=400") // the client's, and what was counted before
		s.Whole = 1001
		f.apply(s)
		f.want("c:total", "p0=1381 p1=400")
	})
}

// The second saved format is read with its meaning then: a record for each number that changed.
func TestRestoreOfTheSecondFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { restoreFormat(t, "testdata/format2/") })
}

// The third saved format is read with its meaning then: births and a death in a delta, all strings
// spelled out.
func TestRestoreOfTheThirdFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := restoreAnswers(t, "testdata/format3/")
		if got := identitiesOf(t, f.AppendNames(nil, 0)); len(got) != 9 {
			t.Errorf("%d series, want the 6 that were saved, the 4 in the delta, and one of them gone: %v", len(got), got)
		}
	})
}

// The fourth saved format is read with its meaning then: fractions of counters, and of running
// totals, in units of 2^-32.
func TestRestoreOfTheFourthFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := restoreFormat(t, "testdata/format4/")
		// 15 times 0.1, 0.7 and -0.1 as they were held then, to the nearest billionth.
		f.wantExactly("f:total", "a=1.500000001 b=10.499999999 d=-1.500000001")
		f.wantExactly("f:count", "a=1.500000001 b=10.499999999 d=-1.500000001")
		f.wantExactly("c:total", "a=12.9")
		f.wantExactly("c:count", "a=12.8")
		f.apply(total("c", 12.9))
		f.wantExactly("c:total", "a=12.9") // the same total as before has not grown
		f.push("f:0.1|c|#pod:a,ns:ns", "f:0.3|c|#pod:b,ns:ns")
		f.wantExactly("f:total", "a=1.600000001 b=10.799999999 d=-1.500000001")
		time.Sleep(2 * time.Minute)
		f.wantExactly("f:count", "a=0 b=0 d=0")
		checkBalance(t, f)
	})
}

// restoreFormat restores what an earlier version saved two minutes and a half after the bubble's
// clock began.
func restoreFormat(t *testing.T, from string) *fixture {
	t.Helper()
	f := restoreAnswers(t, from)
	// The names that it writes are those that were written then.
	names, err := os.ReadFile(from + "names")
	must(t, err)
	got, want := identitiesOf(t, f.AppendNames(nil, 0)), identitiesOf(t, names)
	for i := range want { // births had no dates then
		if want[i].created = got[min(i, len(got)-1)].created; want[i].created == 0 {
			t.Error("a birth has no date")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("names changed:\n%v\n%v", got, want)
	}
	return f
}

// restoreAnswers restores it, and holds the answers against those that this version reads off it:
// up to the third format a window began with one of its ten units, now it begins where it begins.
func restoreAnswers(t *testing.T, from string) *fixture {
	t.Helper()
	read := func(name string) []byte {
		blob, err := os.ReadFile(from + name)
		must(t, err)
		return blob
	}
	time.Sleep(3 * time.Minute)
	disk := &saved{clock: read("clock"), names: map[int][]byte{0: read("names")}, state: map[int][]byte{0: read("state")},
		deltas: map[int][][]byte{0: {read("delta")}}}
	f := disk.restore(t).running()
	if got, want := f.all()+"\n", string(read("answers")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	return f
}

// The values of a table that never got anything pushed have nothing of pushes behind their past.
func TestNothingPushedAddsNothing(t *testing.T) {
	f := newFixture(t)
	f.push("c:1|c|#pod:a,ns:ns", "f:0.5|c|#pod:a,ns:ns", "t:1|ms|#pod:a,ns:ns")
	f.Roll()
	b := f.blocks.at[0].Load()
	for place := range uint32(3) {
		body, past := b.body(place), &b.page.cells[place].History
		var ends []byte
		switch {
		case body == nil:
			ends = append(past.Append(nil, f.Logs, window.WholeCoding, 0), 0)
		case body.Timer != nil:
			ends = body.Timer.AppendLocked(past.Append([]byte{kind.TimerCounted}, f.Logs, window.WeightCoding, 0), f.Spans, 0)
		default:
			ends = binary.AppendUvarint(append(past.Append(nil, f.Logs, window.WholeCoding, 0), kind.HasFraction|kind.InNanos), uint64(body.Fraction.History.Stamp))
			ends = body.Fraction.History.Append(ends, f.Logs, window.WholeCoding, 0)
		}
		if got := f.appendValueLocked(nil, b, place, 0, 0); !strings.HasSuffix(string(got), string(ends)) {
			t.Errorf("%d: %x, want it to end with %x", place, got, ends)
		}
	}
}

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
