package aggregate

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// cutLine takes a line apart as the grammar's Cut does.
func cutLine(text string, sender *metric.Sender) metric.Line {
	head, rest, _ := strings.Cut(text, ":")
	value, rest, _ := strings.Cut(rest, "|")
	l := metric.Line{Text: []byte(text), Head: []byte(head), Value: []byte(value), Rest: []byte(rest), Sender: sender}
	if n, err := strconv.ParseFloat(value, 64); err == nil && value[0] != '+' && value[0] != '-' {
		var s metric.Sample
		s.SetFloat(n)
		l.Numeric, l.Whole, l.Fraction = true, s.Whole, s.Fraction
	}
	return l
}

// take applies lines as a receiver does: those that are known without parsing, new ones some at a
// time. It returns what became of each, and how many had to be parsed.
func (f *fixture) take(w *Writer, sender *metric.Sender, texts ...string) (outcomes []metric.Reason, parsed int) {
	lines := make([]metric.Line, len(texts))
	for i, text := range texts {
		lines[i] = cutLine(text, sender)
	}
	w.LookupLines(lines)
	for at := 0; at < len(lines); {
		n := w.ApplyKnown(at)
		outcomes = append(outcomes, make([]metric.Reason, n)...)
		if at += n; at == len(lines) {
			break
		}
		next := make([]metric.Sample, max(1, w.UnknownLines(at, mostNewSeries+2)))
		for i := range next {
			next[i] = *sample(texts[at+i])
			next[i].Sender = sender
			if next[i].Dated == 0 {
				next[i].Line = &lines[at+i]
			}
		}
		w.PrefetchNew(at, next)
		for i := range next {
			outcomes = append(outcomes, w.Apply(&next[i]))
		}
		at += len(next)
		parsed += len(next)
	}
	w.Quiesce()
	return outcomes, parsed
}

// randomLine is of one of a few hundred series of every kind, or one that is rejected.
func randomLine(r *rand.Rand) string {
	n, tags := r.IntN(40), fmt.Sprintf("#pod:p%d,ns:ns,code:%d", r.IntN(3), r.IntN(3))
	switch r.IntN(11) {
	case 0:
		return fmt.Sprintf("c%d:%d|c|%s", n, r.IntN(100), tags)
	case 1:
		return fmt.Sprintf("c%d:%d.5|c|%s", n, r.IntN(100), tags)
	case 2:
		return fmt.Sprintf("c%d:%d|c|@0.25|%s", n, r.IntN(100), tags)
	case 3:
		return fmt.Sprintf("c%d:-%d|c|%s", n, r.IntN(100), tags)
	case 4:
		return fmt.Sprintf("g%d:%d.25|g|%s", n, r.IntN(100), tags)
	case 5:
		return fmt.Sprintf("g%d:+%d|g|%s", n, r.IntN(100), tags)
	case 6:
		return fmt.Sprintf("t%d:%d|ms|%s", n, r.IntN(100), tags)
	case 7:
		return fmt.Sprintf("t%d:%d|ms|@0.5|%s", n, r.IntN(100), tags)
	case 8:
		return fmt.Sprintf("s%d:user-%d|s|%s", n, r.IntN(100), tags)
	case 9:
		return fmt.Sprintf("r%d:1|c|#refuse:me,pod:p1,ns:ns", n)
	}
	return fmt.Sprintf("c%d:%d|g|%s", n, r.IntN(100), tags) // of the wrong kind
}

// Known lines do what parsed ones do, in any order and any batch.
func TestKnownLinesDoWhatParsedOnesDo(t *testing.T) {
	t.Run("near", func(t *testing.T) { testKnownLines(t, lookup.FarBytes) })
	t.Run("far", func(t *testing.T) { testKnownLines(t, 0) })
}

func testKnownLines(t *testing.T, far int64) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 7))
		plain, known := newFixture(t), newFixture(t)
		known.farBytes = far
		parsed, total := 0, 0
		for range 400 {
			texts := make([]string, 1+r.IntN(100))
			for i := range texts {
				texts[i] = randomLine(r)
			}
			var want []metric.Reason
			for _, text := range texts {
				want = append(want, plain.w.Apply(sample(text)))
			}
			got, n := known.take(known.w, nil, texts...)
			if !slices.Equal(got, want) {
				t.Fatalf("%q\n became %v,\nparsed %v", texts, got, want)
			}
			parsed, total = parsed+n, total+len(texts)
		}
		if parsed > total*6/10 { // rejections, signs, and what was new
			t.Errorf("%d of %d lines were parsed", parsed, total)
		}
		plain.w.Offline()
		known.w.Offline()
		for n := range 40 {
			for _, asked := range []string{"c%d:total", "g%d", "t%d:sum", "t%d:count", "t%d:p90", "s%d"} {
				name := fmt.Sprintf(asked, n)
				if got, want := known.ask(name), plain.ask(name); got != want {
					t.Errorf("%s is %s, parsed %s", name, got, want)
				}
			}
		}
		applied, held := known.Balance()
		if applied != held {
			t.Errorf("applied %v, held %v", applied, held)
		}
	})
}

// Once seen, a line needs no parsing, whatever its kind, as long as its value has no sign.
func TestKnownLinesAreNotParsed(t *testing.T) {
	f := newFixture(t)
	for _, text := range []string{"c:1|c|#pod:a,ns:ns", "c:1.5|c|@0.5|#pod:a,ns:ns", "g:2|g|#pod:a,ns:ns", "t:3|ms|#pod:a,ns:ns", "s:x:y|s|#pod:a,ns:ns"} {
		if _, parsed := f.take(f.w, nil, text); parsed != 1 {
			t.Errorf("%s: known before it came", text)
		}
		if _, parsed := f.take(f.w, nil, text); parsed != 0 {
			t.Errorf("%s: not known", text)
		}
		lines := []metric.Line{cutLine(text, nil)}
		if n := testing.AllocsPerRun(100, func() { f.w.LookupLines(lines); f.w.ApplyKnown(0) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

// Two senders of the same line are two, and so are two dialects and two listeners.
func TestKnownLinesAreTheirSenders(t *testing.T) {
	f := newFixture(t)
	a, b := &metric.Sender{Key: 1}, &metric.Sender{Key: 2}
	const text = "c:1|c|#pod:a,ns:ns"
	f.take(f.w, a, text)
	if _, parsed := f.take(f.w, b, text); parsed != 1 {
		t.Error("another sender's line passed for known")
	}
	if _, parsed := f.take(f.w, a, text); parsed != 0 {
		t.Error("the sender's line is not known any more")
	}
	for _, other := range []func(*metric.Line){
		func(l *metric.Line) { l.Dialect = 1 },
		func(l *metric.Line) { l.DefaultExternal = true },
		func(l *metric.Line) { l.Sender = nil },
		func(l *metric.Line) { l.Head = []byte("cc") },
		func(l *metric.Line) { l.Rest = []byte("c|#pod:b,ns:ns") },
	} {
		l := cutLine(text, a)
		other(&l)
		if f.w.LookupLines([]metric.Line{l}); f.w.ApplyKnown(0) != 0 {
			t.Errorf("%+v passed for known", l)
		}
	}
}

// The series of a known line may be removed: the next such line creates a new series.
func TestKnownLinesOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		const text = "c:2|c|#pod:a,ns:ns"
		f.take(f.w, nil, text, text)
		f.want("c:total", "a=4")
		f.w.Offline()
		if n := f.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.Expression{Name: "c"}}); n != 1 {
			t.Fatalf("%d deleted", n)
		}
		time.Sleep(time.Second)
		f.w.Online()
		if _, parsed := f.take(f.w, nil, text, text); parsed == 0 {
			t.Error("a line led to a series that is gone")
		}
		f.w.Offline()
		f.want("c:total", "a=4")
	})
}

// Other work replaces the series' memory in the processor's caches while a writer waits, so the
// lines after a wait are prefetched, however few series there are.
func TestLinesAfterAWaitArePrefetched(t *testing.T) {
	f := newFixture(t)
	lines := make([]metric.Line, 64)
	for i := range lines {
		lines[i] = cutLine("c:1|c", nil)
	}
	for wait := range 3 {
		for applied := 0; applied < 2*warmLines; applied += len(lines) {
			if got, want := f.w.isCold(), applied < warmLines; got != want {
				t.Fatalf("wait %d, after %d lines: cold %t, want %t", wait, applied, got, want)
			}
			f.w.LookupLines(lines)
		}
		f.w.Offline()
		f.w.Online()
	}
}

// A1, A2 with -race: writers that recall, a roller, a reader, and series that go meanwhile.
func TestA2WhileLinesAreRecalled(t *testing.T) {
	t.Run("near", func(t *testing.T) { testRecallers(t, lookup.FarBytes) })
	t.Run("far", func(t *testing.T) { testRecallers(t, 0) })
}

func testRecallers(t *testing.T, far int64) {
	f := newFixture(t)
	f.farBytes = far
	f.running()
	f.w.Offline()
	var writers sync.WaitGroup
	var batches atomic.Int64
	stop := make(chan struct{})
	for i := range 3 {
		writers.Go(func() {
			w, r := f.NewWriter(), rand.New(rand.NewPCG(uint64(i), 1))
			defer w.Close()
			for {
				select {
				case <-stop:
					return
				default:
				}
				texts := make([]string, 30)
				for i := range texts {
					texts[i] = randomLine(r)
				}
				f.take(w, nil, texts...)
				batches.Add(1)
			}
		})
	}
	for i := range size(40, 40, 20) {
		for until := batches.Load() + 10; batches.Load() < until; {
			time.Sleep(time.Millisecond)
		}
		f.Delete(metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.Expression{Name: fmt.Sprintf("c%d", i)}})
	}
	close(stop)
	writers.Wait()
	checkBalance(t, f)
}

// The hash tells apart what differs by a bit, at every length and at either end.
func TestLineHash(t *testing.T) {
	h, seen := lookup.NewHash(), map[uint64]string{}
	note := func(head, rest string) {
		sum := h.Of([]byte(head), []byte(rest))
		if was, twice := seen[sum]; twice {
			t.Fatalf("%q, %q and %s have one hash", head, rest, was)
		}
		seen[sum] = fmt.Sprintf("%q, %q", head, rest)
	}
	for n := range 70 {
		text := strings.Repeat("a", n)
		note("x", text)
		for i := range n {
			for bit := range 8 {
				changed := []byte(text)
				changed[i] ^= 1 << bit
				note("x", string(changed))
				note(string(changed), "y")
			}
		}
	}
}

// recallNew recalls lines that nobody knows.
func recallNew(t *testing.T, w *Writer, texts ...string) []metric.Sample {
	t.Helper()
	lines, next := make([]metric.Line, len(texts)), make([]metric.Sample, len(texts))
	for i, text := range texts {
		lines[i], next[i] = cutLine(text, nil), *sample(text)
		next[i].Line = &lines[i]
	}
	w.LookupLines(lines)
	if n := w.UnknownLines(0, len(lines)); n != len(lines) {
		t.Fatalf("%d of %d new lines are unknown", n, len(lines))
	}
	return next
}

// The object of an announced sample is decided once: when it is announced.
func TestForetoldSamplesAreDecidedAboutOnce(t *testing.T) {
	decided := 0
	table := New(DefaultConfig(), func(s *metric.Sample, d *metric.Description) metric.Reason {
		decided++
		return describeByPod(s, d)
	}, slog.New(slog.DiscardHandler))
	w := table.NewWriter()
	defer w.Close()
	var texts []string
	for i := range mostNewSeries {
		texts = append(texts, fmt.Sprintf("m%d:1|c|#pod:p,ns:ns", i))
	}
	next := recallNew(t, w, texts...)
	w.PrefetchNew(0, next)
	for i := range next {
		if got := w.Apply(&next[i]); got != metric.Applied {
			t.Errorf("%s: %v", texts[i], got)
		}
	}
	if decided != len(next) || table.Series() != len(next) {
		t.Errorf("decided %d times, %d series; want %d of both", decided, table.Series(), len(next))
	}
}

// A sample is known by its address. What was foretold of one is forgotten before another can be
// there.
func TestForetoldIsForgotten(t *testing.T) {
	for name, forget := range map[string]func(*Writer, []metric.Sample){
		"Quiesce":     func(w *Writer, _ []metric.Sample) { w.Quiesce() },
		"Offline":     func(w *Writer, _ []metric.Sample) { w.Offline(); w.Online() },
		"PrefetchNew": func(w *Writer, next []metric.Sample) { w.PrefetchNew(1, next[1:3]) },
		"one":         func(w *Writer, next []metric.Sample) { w.PrefetchNew(0, next[:1]) },
		"none":        func(w *Writer, next []metric.Sample) { w.PrefetchNew(0, nil) },
	} {
		f := newFixture(t)
		next := recallNew(t, f.w, "one:1|c|#pod:p,ns:ns", "two:1|c|#pod:p,ns:ns", "four:1|c|#pod:p,ns:ns")
		f.w.PrefetchNew(0, next)
		forget(f.w, next)
		next[0] = *sample("three:3|c|#pod:p,ns:ns")
		f.w.Apply(&next[0])
		f.w.Offline()
		if got := f.ask("three:total"); got != "p=3" {
			t.Errorf("after %s another sample at the same place: three is %s", name, got)
		}
		f.w.Online()
		f.w.Close()
	}
}

// A sample that is rejected unannounced is rejected for the same reason when it is announced, and
// makes no series.
func TestForetoldRefusals(t *testing.T) {
	f := newFixture(t)
	defer f.w.Close()
	next := recallNew(t, f.w, "fine:1|c|#pod:p,ns:ns", "a%name:1|c", "rejected:1|c|#refuse:me,pod:p,ns:ns", "fine:2|c|#pod:p,ns:ns", "fine:1|g|#pod:p,ns:ns")
	next[4].SetFloat(1e300)
	f.w.PrefetchNew(0, next)
	var got []metric.Reason
	for i := range next {
		got = append(got, f.w.Apply(&next[i]))
	}
	want := []metric.Reason{metric.Applied, metric.BadName, metric.Identity, metric.Applied, metric.KindConflict}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if f.Series() != 1 {
		t.Errorf("%d series, want 1", f.Series())
	}
}

// labelled makes a sample with labels as fields, and its line.
func labelled(name string, op metric.Op, v float64) *metric.Sample {
	s := &metric.Sample{Name: []byte(name), Kind: metric.Gauge, Op: op}
	s.Fields = []metric.Label{{Key: "ns", Value: "ns"}, {Key: "pod", Value: "a"}}
	s.Line = &metric.Line{Head: []byte("labels of " + name), Dialect: 0x80}
	if op == metric.Accumulate {
		s.Kind = metric.Counter
	}
	s.SetFloat(v)
	return s
}

// applyLabelled applies samples as remote write does, and returns how many were of known series.
func (f *fixture) applyLabelled(samples ...*metric.Sample) (known int) {
	f.t.Helper()
	lines := make([]metric.Line, len(samples))
	for i, s := range samples {
		lines[i] = *s.Line
	}
	f.w.LookupLines(lines)
	for i, s := range samples {
		if kind, ok := f.w.KnownKind(i); ok && kind == s.Kind {
			bare := *s
			bare.Name, bare.Fields, bare.Line = nil, nil, nil
			if f.w.ApplyKnownSample(i, &bare) {
				known++
				continue
			}
		}
		if r := f.w.Apply(s); r != metric.Applied {
			f.t.Fatalf("%s: rejected: %s", s.Name, r)
		}
	}
	return known
}

func TestKnownSamples(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		total, depth := labelled("total", metric.Accumulate, float64(10+5*i)), labelled("depth", metric.Assign, float64(i))
		known := f.applyLabelled(total, depth)
		if want := min(i, 1) * 2; known != want {
			t.Errorf("%d of 2 series were known at push %d: want %d", known, i, want)
		}
	}
	f.w.Offline()
	f.want("total:count", "a=10")
	f.want("total:total", "a=20")
	f.want("depth", "a=2")
	if n, _ := f.aliases.Size(); n != 2 {
		t.Errorf("%d aliases", n)
	}
}

// A series may end between the look-up and the sample: the sample then begins a new one.
func TestKnownSampleOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t).running()
		samples := []*metric.Sample{labelled("total", metric.Accumulate, 10), labelled("depth", metric.Assign, 1)}
		f.applyLabelled(samples...)
		f.w.LookupLines([]metric.Line{*samples[0].Line, *samples[1].Line})
		for _, name := range []string{"total", "depth"} {
			f.w.Offline()
			q := metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.Expression{Name: name}}
			if n := f.Delete(q); n != 1 {
				t.Fatalf("%d deleted", n)
			}
			time.Sleep(3 * time.Second)
			f.w.Online()
		}
		for i, s := range samples {
			if _, known := f.w.KnownKind(i); !known || f.w.ApplyKnownSample(i, s) {
				t.Errorf("%s was applied to a series that is gone", s.Name)
			}
		}
		if known := f.applyLabelled(samples...); known != 0 {
			t.Errorf("%d were known", known)
		}
		if known := f.applyLabelled(samples...); known != 2 {
			t.Errorf("%d of the new series are known", known)
		}
		f.w.Offline()
	})
}

// A rejected sample leaves no alias: its labels are read each time.
func TestRejectedLabelsAreNotRemembered(t *testing.T) {
	f := newFixture(t)
	s := labelled("jobs:sum", metric.Assign, 1)
	for range 2 {
		if r := f.w.Apply(s); r != metric.BadName {
			t.Error(r)
		}
	}
	if n, _ := f.aliases.Size(); n != 0 {
		t.Errorf("%d aliases", n)
	}
}

// A3: a sample of a known series allocates nothing.
func TestA3KnownSamples(t *testing.T) {
	f := newFixture(t)
	total, gauge := labelled("total", metric.Accumulate, 1), labelled("depth", metric.Assign, 1)
	f.applyLabelled(total, gauge)
	lines := []metric.Line{*total.Line, *gauge.Line}
	if n := testing.AllocsPerRun(100, func() {
		f.w.LookupLines(lines)
		total.Whole++
		if !f.w.ApplyKnownSample(0, total) || !f.w.ApplyKnownSample(1, gauge) {
			t.Error("not known")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
