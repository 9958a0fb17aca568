package statsd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		line              string
		head, value, rest string
		numeric           bool
		whole             int64
		fraction          float64
	}{
		{line: "a:1|c", head: "a", value: "1", rest: "c", numeric: true, whole: 1},
		{line: "a:007|c|@0.5|#x:y,z", head: "a", value: "007", rest: "c|@0.5|#x:y,z", numeric: true, whole: 7},
		{line: "a:1.25|ms", head: "a", value: "1.25", rest: "ms", numeric: true, whole: 1, fraction: .25},
		{line: "a:.5|ms", head: "a", value: ".5", rest: "ms", numeric: true, fraction: .5},
		{line: "a:1e3|ms", head: "a", value: "1e3", rest: "ms", numeric: true, whole: 1000},
		{line: "a:+1|g", head: "a", value: "+1", rest: "g"},
		{line: "a:-1|c", head: "a", value: "-1", rest: "c"},
		{line: "a:1:2|ms", head: "a", value: "1:2", rest: "ms"},
		{line: "a:user:7|s", head: "a", value: "user:7", rest: "s"},
		{line: "a:1|c:2|c", head: "a", value: "1", rest: "c:2|c", numeric: true, whole: 1},
		{line: "a:999999999999999999|c", head: "a", value: "999999999999999999", rest: "c", numeric: true, whole: 999999999999999999},
		{line: "a:9223372036854775807|c", head: "a", value: "9223372036854775807", rest: "c", numeric: true, whole: 9223372036854775807},
		{line: "a:NaN|c", head: "a", value: "NaN", rest: "c"},
		{line: "a:1x|c", head: "a", value: "1x", rest: "c"},
	} {
		var l metric.Line
		if !NewScanner(DefaultOptions()).Cut([]byte(c.line), &l) {
			t.Errorf("%q: not cut", c.line)
			continue
		}
		if string(l.Head) != c.head || string(l.Value) != c.value || string(l.Rest) != c.rest || string(l.Text) != c.line {
			t.Errorf("%q: %q %q %q", c.line, l.Head, l.Value, l.Rest)
		}
		if l.Numeric != c.numeric || c.numeric && (l.Whole != c.whole || l.Fraction != c.fraction) {
			t.Errorf("%q: numeric %v, %d %v; want %v, %d %v", c.line, l.Numeric, l.Whole, l.Fraction, c.numeric, c.whole, c.fraction)
		}
	}
}

func TestNotCut(t *testing.T) {
	for _, line := range []string{"a", ":1|c", "a:1", "a:|c", "a:" + strings.Repeat("1", 8192) + "|c"} {
		if NewScanner(DefaultOptions()).Cut([]byte(line), &metric.Line{}) {
			t.Errorf("%.20q was cut", line)
		}
	}
}

// A line is cacheable only if nothing but its value varies.
func TestSingle(t *testing.T) {
	for line, want := range map[string]bool{
		"a:1|c": true, "a:1|c|@0.1|#x:y|c:ci-1": true, "a:1:2|ms": true, "a:x|s": true,
		"a:1|c:2|c": false, "a:1|c|@0.1:2|c": false, "a:1|g|T1700000000": false,
	} {
		s := NewScanner(DefaultOptions())
		s.Reset([]byte(line))
		if s.Next(); s.Fault.Reason != metric.Applied || s.IsCacheable() != want {
			t.Errorf("%q: single %v, fault %v", line, s.IsCacheable(), s.Fault)
		}
	}
}

// A line of the same Head and Rest as one that was single means the same, but for its value, as far
// as Cut understands that.
func FuzzCut(f *testing.F) {
	for _, rest := range []string{"c", "ms|@0.1|#a:b", "g|#a", "s|c:ci-1", "g|T1700000000", "c:2|c", "h|e:pu-1|x", "d|@0.5|@0.2"} {
		for d := range dialectNames {
			f.Add("na.me", "1", "27", rest, byte(d))
			f.Add("n,a=b", "x", ".5", rest, byte(d))
			f.Add("n[a=b]", "1", "1:2", rest, byte(d))
		}
	}
	f.Fuzz(func(t *testing.T, head, value, other, rest string, dialect byte) {
		o := DefaultOptions()
		o.Dialect = Dialect(int(dialect) % len(dialectNames))
		first, second := head+":"+value+"|"+rest, head+":"+other+"|"+rest
		if strings.Contains(first+second, "\n") {
			return
		}
		scanner, two := NewScanner(o), NewScanner(o)
		var a, b metric.Line
		if !scanner.Cut([]byte(first), &a) || !two.Cut([]byte(second), &b) || !bytes.Equal(a.Head, b.Head) || !bytes.Equal(a.Rest, b.Rest) {
			return
		}
		scanner.Reset([]byte(first))
		if !scanner.Next() || scanner.Fault.Reason != metric.Applied || !scanner.IsCacheable() {
			return
		}
		known := scanner.Sample
		if !b.Numeric && known.Kind != metric.Set {
			return
		}
		two.Reset([]byte(second))
		if !two.Next() || two.Fault.Reason != metric.Applied {
			t.Fatalf("%q was taken, %q was refused: %v", first, second, two.Fault)
		}
		got := two.Sample
		switch {
		case known.Kind == metric.Set:
			if !bytes.Equal(got.Member, b.Value) {
				t.Fatalf("%q: member %q, cut as %q", second, got.Member, b.Value)
			}
		case got.Whole != b.Whole || got.Fraction != b.Fraction:
			t.Fatalf("%q: %d and %v, cut as %d and %v", second, got.Whole, got.Fraction, b.Whole, b.Fraction)
		case known.Kind == metric.Gauge && got.Op != metric.Assign:
			t.Fatalf("%q shifts", second)
		}
		if got.Kind != known.Kind || got.Rate != known.Rate || got.Separator != known.Separator || got.Dated != 0 ||
			!bytes.Equal(got.Name, known.Name) || !bytes.Equal(got.Tags, known.Tags) ||
			!bytes.Equal(got.Container, known.Container) || !bytes.Equal(got.External, known.External) {
			t.Fatalf("%q is %+v, %q is %+v", first, known, second, got)
		}
		if two.Next() {
			t.Fatalf("%q says more than one thing", second)
		}
	})
}
