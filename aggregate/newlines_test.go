package aggregate

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

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
