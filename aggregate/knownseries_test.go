package aggregate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

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
