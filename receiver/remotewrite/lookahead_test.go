package remotewrite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// learner is a Cache that knows the series of all samples that it was shown.
type learner struct {
	known map[string]learnt // by line
	lines []metric.Line
	asked int
}

type learnt struct {
	kind         metric.Kind
	name, labels string
}

func lineKey(l *metric.Line) string {
	return fmt.Sprintf("%d %v %s", l.Dialect, l.DefaultExternal, l.Head)
}

func (c *learner) LookupLines(lines []metric.Line) { c.lines = lines }

func (c *learner) KnownKind(i int) (metric.Kind, bool) {
	c.asked++
	l, ok := c.known[lineKey(&c.lines[i])]
	return l.kind, ok
}

// converted is all that a request becomes, a line each, and how many samples were of known series.
// Of those, it reads every third one after all.
func (c *learner) converted(f *Converter, body []byte, v Version) (all []string, known int) {
	if fault := f.Reset(body, v, now); fault.Reason != metric.Applied {
		return []string{fault.Error()}, 0
	}
	if c != nil {
		f.UseCache(c, nil)
	}
	for f.Next() {
		s := &f.Sample
		if f.Known >= 0 {
			known++
			l := c.known[lineKey(&c.lines[f.Known])]
			if known%3 == 0 {
				f.ReadKnown()
				if !f.Next() || f.Known >= 0 {
					return append(all, "a known series could not be read"), known
				}
			} else {
				all = append(all, event(f, l.name, l.labels))
				continue
			}
		}
		if f.Fault.Reason != metric.Applied {
			all = append(all, fmt.Sprint(f.Of, f.Entries, f.Fault.Error()))
			continue
		}
		if c != nil && s.Line != nil && s.Op != metric.MarkStale {
			c.known[lineKey(s.Line)] = learnt{s.Kind, string(s.Name), fmt.Sprint(s.Fields)}
		}
		all = append(all, event(f, string(s.Name), fmt.Sprint(s.Fields)))
	}
	return append(all, fmt.Sprint(f.Superseded, f.Held, f.Lost)), known
}

func event(f *Converter, name, labels string) string {
	s := &f.Sample
	text := fmt.Sprint(f.Of, f.Entries, name, labels, s.Kind, s.Op, s.Whole, s.Fraction, s.Dated, s.Late)
	if s.Op == metric.Accumulate { // only totals have a start
		text += fmt.Sprint(s.Started)
	}
	if s.Histogram != nil {
		text += fmt.Sprint(*s.Histogram)
	}
	return text
}

// A request is the same samples whether its series are known or not.
func sameWhenKnown(t *testing.T, c *learner, body []byte, v Version) (known int) {
	t.Helper()
	want, _ := (*learner)(nil).converted(NewConverter(DefaultOptions()), body, v)
	for range 2 {
		var got []string
		got, known = c.converted(NewConverter(DefaultOptions()), body, v)
		if slices.Sort(got); !slices.Equal(got, sorted(want)) { // histograms come in any order
			t.Errorf("version %d, %d known:\n%q, want\n%q", v, known, got, want)
		}
	}
	return known
}

func sorted(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return all
}

func TestKnownSeries(t *testing.T) {
	x := []string{"x", "a", "b"}
	for name, c := range map[string]struct {
		of             one
		known1, known2 int // of two samples in a request
	}{
		"a gauge":                   {one{labels: x, kind: GaugeType, samples: at(1.5)}, 1, 1},
		"a counter":                 {one{labels: []string{"x_total", "a", "b"}, samples: at(3), exemplars: 2}, 1, 1},
		"a counter by its type":     {one{labels: x, kind: CounterType, samples: at(3)}, 1, 1},
		"with a start":              {one{labels: x, kind: CounterType, samples: []Sample{{3, nowMillis, nowMillis - 5000}}}, 1, 1},
		"late":                      {one{labels: x, kind: CounterType, samples: ago(3, 2*lateAfter)}, 1, 1},
		"a type in the labels":      {one{labels: []string{"x_total", "__type__", "counter"}, samples: at(3)}, 1, 1},
		"a type only in the labels": {one{labels: []string{"x", "__type__", "counter"}, samples: at(3)}, 0, 0},
		"reserved labels":           {one{labels: []string{"x", "__a__", "c", "a", ""}, samples: at(3)}, 1, 1},
		"two samples":               {one{labels: x, samples: at(1, 2)}, 0, 0},
		"stale":                     {one{labels: x, samples: at(stale)}, 0, 0},
		"outdated":                  {one{labels: x, kind: GaugeType, samples: ago(3, 2*maxGaugeAge)}, 0, 0},
		"ahead":                     {one{labels: x, samples: ago(3, -2*maxAhead)}, 0, 0},
		"without a time":            {one{labels: x, samples: []Sample{{Value: 1}}}, 0, 0},
		"a part of a histogram":     {one{labels: []string{"x_bucket", "le", "1"}, samples: at(3)}, 0, 0},
		"a native histogram":        {one{labels: x, histograms: []message{native()}}, 0, 0},
		"two labels of one name":    {one{labels: []string{"x", "a", "b", "a", "b"}, samples: at(3)}, 0, 0},
		"only exemplars":            {one{labels: x, exemplars: 1}, 0, 0},
		"long labels":               {one{labels: []string{"x", "a", strings.Repeat("c", 1024), "b", strings.Repeat("d", 1024)}, samples: at(3)}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			types := map[string]Type{}
			if c.of.kind != NoType {
				types[c.of.labels[0]] = c.of.kind
			}
			cache := &learner{known: map[string]learnt{}}
			if known := sameWhenKnown(t, cache, request1(types, c.of), V1); known != c.known1 {
				t.Errorf("1.0: %d known, want %d", known, c.known1)
			}
			if known := sameWhenKnown(t, cache, request2(c.of), V2); known != c.known2 {
				t.Errorf("2.0: %d known, want %d", known, c.known2)
			}
		})
	}
}

// The same labels are another series if their type is another, and so are those of the other
// version.
func TestLinesTellTypesApart(t *testing.T) {
	c := &learner{known: map[string]learnt{}}
	labels := []string{"x", "a", "b"}
	for i, of := range []Type{NoType, CounterType, GaugeType, InfoType} {
		o := one{labels: labels, kind: of, samples: at(1)}
		types := map[string]Type{"x": of}
		if of == NoType {
			types = nil
		}
		c.converted(NewConverter(DefaultOptions()), request1(types, o), V1)
		c.converted(NewConverter(DefaultOptions()), request2(o), V2)
		if len(c.known) != 2*(i+1) {
			t.Fatalf("%d lines after %d types in two versions", len(c.known), i+1)
		}
	}
}

// Series beyond one look-up are looked up, too, and those after a series that has to be read.
func TestManyKnownSeries(t *testing.T) {
	var all []one
	for i := range 3*mostAhead + 1 {
		all = append(all, one{labels: []string{"x", "a", fmt.Sprint(i)}, samples: at(float64(i))})
		if i%5 == 0 {
			all = append(all, one{labels: []string{"y", "a", fmt.Sprint(i)}, samples: at(1, 2)})
		}
	}
	c := &learner{known: map[string]learnt{}}
	if known := sameWhenKnown(t, c, request1(nil, all...), V1); known != 3*mostAhead+1 {
		t.Errorf("%d known", known)
	}
}
