package aggregate

import (
	"fmt"
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
