package statsd

import (
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func TestExplain(t *testing.T) {
	options := DefaultOptions()
	options.MaxLine, options.MaxTags = 600, 2
	for _, c := range []struct {
		line    string
		dialect Dialect
		at      int
		want    string
	}{
		{"a:1|x", StatsD, 4, `unknown type "x"; must be c, g, ms, h, d or s`},
		{"a:1|C|@0.1", StatsD, 4, `unknown type "C"; must be c, g, ms, h, d or s`},
		{"a:1|", StatsD, 4, "the type is empty; must be c, g, ms, h, d or s"},
		{"a:1||#b", StatsD, 4, "the type is empty; must be c, g, ms, h, d or s"},
		{"a:abc|g", StatsD, 2, `"abc" is no number`},
		{"a:1,5|c", StatsD, 2, `"1,5" is no number`},
		{"a:1:x:3|ms", StatsD, 4, `"x" is no number`},
		{"a:1|c:y|c", StatsD, 6, `"y" is no number`},
		{"a:0x10|c", StatsD, 2, `"0x10" is no number`},
		{"a:\x00\xff|c", StatsD, 2, `"\x00\xff" is no number`},
		{"a:" + strings.Repeat("x", 65) + "|c", StatsD, 2, `"` + strings.Repeat("x", 64) + `... (65 bytes)" is no number`},
		{"a:NaN|g", StatsD, 2, `value is "NaN"; must be a finite number`},
		{"a:-inf|g", StatsD, 2, `value is "-inf"; must be a finite number`},
		{"a:1e999|g", StatsD, 2, `"1e999" is beyond what can be held`},
		{"a:|g", StatsD, 2, "the value is empty; must be name:value|type"},
		{"a:|s", StatsD, 2, "the value is empty; must be name:value|type"},
		{"a::|c", StatsD, 2, "the value is empty; must be name:value|type"},
		{":1|c", StatsD, 0, "the name is empty; must be name:value|type"},
		{"#k=v:1|c", Librato, 0, "the name is empty; must be name:value|type"},
		{"hello", StatsD, 5, `no ":" after the name; must be name:value|type`},
		{"a|c", StatsD, 1, `no ":" after the name; must be name:value|type`},
		{"a:1", StatsD, 3, `no "|type" after the value; must be name:value|type`},
		{"a:1|c:2", StatsD, 7, `no "|type" after the value; must be name:value|type`},
		{"a:1|c|@2", StatsD, 7, `rate is "2"; must be above 0 and at most 1`},
		{"a:1|c|@x|#b", StatsD, 7, `rate is "x"; must be above 0 and at most 1`},
		{"a:1|c|@", StatsD, 7, `rate is ""; must be above 0 and at most 1`},
		{"a:1|c|@1e-320", StatsD, 7, `rate "1e-320" is too small: its inverse is out of range`},
		{"a:1|c|Tnow", StatsD, 7, `timestamp is "now"; must be whole Unix seconds above 0`},
		{"a:1|c|T-5|#b", StatsD, 7, `timestamp is "-5"; must be whole Unix seconds above 0`},
		{"a,k=v:1|c|#b:c", Influx, 10, `there are tags in the name and after "#"; use one of the two`},
		{"a[k=v:1|c", SignalFx, 1, `the name has unbalanced brackets; must have at most one "[", followed by one "]"`},
		{"a:1|c|#a,b,c", StatsD, 12, "the line has more tags than it may have"},
		{strings.Repeat("n", 513) + ":1|c", StatsD, 512, "the name has more than 512 bytes"},
		{strings.Repeat("n", 601), StatsD, 600, "the line has 601 bytes; must have at most 600"},
		{"_e{1,1}:a|b", StatsD, 0, "events are not metrics"},
		{"_sc|n|0", StatsD, 0, "service checks are not metrics"},
	} {
		options.Dialect = c.dialect
		s := NewScanner(options)
		const before = "good:1|c\n"
		s.Reset([]byte(before + c.line + "\n"))
		for s.Next() && s.Fault.Reason == metric.Applied {
		}
		if got := s.Fault.Explain(s.Line()); got != c.want || s.Fault.Offset != len(before)+c.at {
			t.Errorf("%q: %s, at %d\nwant %s, at %d", c.line, got, s.Fault.Offset-len(before), c.want, c.at)
		}
	}
}

// Faults made outside of the scanner have only a reason, and each reason has a text.
func TestExplainReasons(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range metric.Reasons() {
		text := Fault{Reason: r}.Explain([]byte("a:1|c"))
		if text == "" || seen[text] || strings.Contains(text, "it was refused") {
			t.Errorf("%v: %q", r, text)
		}
		seen[text] = true
	}
}
