package metric

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestExpression(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Expression
	}{
		{"http_requests", Expression{Name: "http_requests"}},
		{"http_requests:count:10s", Expression{"http_requests", Count, 10 * time.Second}},
		{"latency:p95", Expression{Name: "latency", Stat: P95}},
		{"latency:p999:1m", Expression{"latency", P999, time.Minute}},
		{"latency:10s", Expression{Name: "latency", Window: 10 * time.Second}},
		{"queue:max", Expression{Name: "queue", Stat: Max}},
		{"a:b", Expression{Name: "a:b"}},
		{"a:b:rate", Expression{Name: "a:b", Stat: Rate}},
		{"a:p97", Expression{Name: "a:p97"}},         // not a stat
		{"a:10s:rate", Expression{"a:10s", Rate, 0}}, // the wrong order, so part of a name that cannot be pushed
		{"rate", Expression{Name: "rate"}},
		{":rate", Expression{Name: ":rate"}}, // without it there would be no name
		{"a:007s", Expression{Name: "a:007s"}},
		{"a:1m30s", Expression{Name: "a:1m30s"}},
		{"", Expression{}},
		{"vllm:num_requests_waiting", Expression{Name: "vllm:num_requests_waiting"}},
		{"vllm:num_requests_waiting:max:10s", Expression{"vllm:num_requests_waiting", Max, 10 * time.Second}},
		{"vllm:kv_cache_usage_perc:last", Expression{Name: "vllm:kv_cache_usage_perc", Stat: Last}},
		{"vllm:time_to_first_token_seconds:p95:1m", Expression{"vllm:time_to_first_token_seconds", P95, time.Minute}},
		{"vllm:request_success_total:rate:10s", Expression{"vllm:request_success_total", Rate, 10 * time.Second}},
		{"a:b:c:d:10s", Expression{Name: "a:b:c:d", Window: 10 * time.Second}},
	} {
		got := ParseExpression(c.in)
		if got != c.want {
			t.Errorf("%q: %+v, want %+v", c.in, got, c.want)
		}
		if got.String() != c.in {
			t.Errorf("%q prints as %q", c.in, got)
		}
	}
}

func TestWindow(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"1s": time.Second, "10s": 10 * time.Second, "1m": time.Minute, "2h": 2 * time.Hour, "1d": 24 * time.Hour,
		"": 0, "s": 0, "0s": 0, "-1s": 0, "1.5s": 0, "1ms": 0, "10": 0, "1w": 0, "99999999s": 0,
	} {
		got, ok := ParseWindow(in)
		if got != want || ok != (want != 0) {
			t.Errorf("%q: %s, %t", in, got, ok)
		}
	}
	if got := FormatWindow(60 * time.Second); got != "1m" {
		t.Error(got)
	}
	if got := FormatWindow(90 * time.Second); got != "90s" {
		t.Error(got)
	}
}

// FuzzExpression: an expression parses back to itself, and a name that can be pushed parses as that
// name alone.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{"a", "a:rate", "a:rate:10s", ":", "::", "a::10s", "a:1d:p99"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a := ParseExpression(s)
		if again := ParseExpression(a.String()); again != a {
			t.Errorf("%q: %+v, then %+v", s, a, again)
		}
		if CheckName(s) == Applied && a != (Expression{Name: s}) {
			t.Errorf("%q can be pushed, but is read as %+v", s, a)
		}
	})
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]Reason{
		"http.requests": Applied, "a/b": Applied, "a:b": Applied, "ä b": Applied, "...": Applied, "a..b": Applied,
		"": Malformed, ".": BadName, "..": BadName, "status": BadName, "finalize": BadName,
		"a\xffb": BadName, "a%b": BadName, "a?b": BadName, "a\nb": BadName, "a\x7f": BadName,
		"a\u0080": BadName, "\u009b31m": BadName, "a\u009fb": BadName, "a\xc2": BadName, "a\xc2b": BadName, "\u00a0": Applied, "\u0100\u0420": Applied,
		"a:rate": BadName, "a:p95": BadName, "a:10s": BadName, "a:7m": BadName,
		strings.Repeat("x", MaxNameLength):   Applied,
		strings.Repeat("x", MaxNameLength+1): TooLong,
	} {
		if got := CheckName(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func TestCheckLabel(t *testing.T) {
	for text, want := range map[string]Reason{
		"": Applied, "a b": Applied, "a:b=c,d%?": Applied, "\u00a0": Applied, "\u0100\u0420": Applied, "ä": Applied,
		"a\xff": Malformed, "\xc2": Malformed,
		"\x00": BadName, "a\nb": BadName, "a\tb": BadName, "\x1b[2J": BadName, "a\x7f": BadName, "\u0080": BadName, "a\u009f": BadName,
	} {
		if got := CheckLabel(Label{Key: "a", Value: text}); got != want {
			t.Errorf("value %q: %s, want %s", text, got, want)
		}
		if got := CheckLabel(Label{Key: text, Value: "a"}); got != want {
			t.Errorf("key %q: %s, want %s", text, got, want)
		}
	}
}

// TestEveryKind holds each row of kindTable: a name that parses, and legal stats with the default
// first.
func TestEveryKind(t *testing.T) {
	for _, k := range Kinds() {
		if got, ok := ParseKind(k.String()); !ok || got != k {
			t.Errorf("kind %d: name %q does not parse", k, k)
		}
		if len(k.Stats()) == 0 || !k.Has(k.DefaultStat()) {
			t.Errorf("%s: no legal stat, or an illegal default", k)
		}
		seen := map[Stat]bool{}
		for _, s := range k.Stats() {
			if s == NoStat || s >= numStats || seen[s] {
				t.Errorf("%s: stat %d is unknown or listed twice", k, s)
			}
			seen[s] = true
		}
	}
	for _, name := range []string{"", "none", "invalid"} {
		if k, ok := ParseKind(name); ok {
			t.Errorf("%q parses as %s", name, k)
		}
	}
}

// TestEveryStat holds each row of statTable: a name that parses and is reserved, a kind for which
// the stat is legal, and properties that agree with each other.
func TestEveryStat(t *testing.T) {
	for _, s := range Stats() {
		if got, ok := ParseStat(s.String()); !ok || got != s || !HasReservedSuffix("a:"+s.String()) {
			t.Errorf("stat %d: name %q does not parse, or is not reserved", s, s)
		}
		if !slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.Has(s) }) {
			t.Errorf("%s is legal for no kind", s)
		}
		quantile := math.NaN()
		if digits, ok := strings.CutPrefix(s.String(), "p"); ok {
			quantile, _ = strconv.ParseFloat("0."+digits, 64)
		}
		if got := s.Quantile(); got != quantile && !(math.IsNaN(got) && math.IsNaN(quantile)) {
			t.Errorf("%s: quantile %v, want %v", s, got, quantile)
		}
		if s.Additive() != slices.Contains([]Stat{Rate, Count, Total, Last, Sum}, s) {
			t.Errorf("%s: additive %t", s, s.Additive())
		}
		if s.Windowed() != (s != Last && s != Total) {
			t.Errorf("%s: windowed %t", s, s.Windowed())
		}
	}
	if _, ok := ParseStat(""); ok || NoStat.Additive() || !math.IsNaN(NoStat.Quantile()) {
		t.Error("NoStat has properties of a stat")
	}
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Reasons() {
		if r.String() == "" || r.String() == "invalid" || seen[r.String()] {
			t.Errorf("reason %d: %q", r, r)
		}
		seen[r.String()] = true
	}
}

func TestLabels(t *testing.T) {
	l := NewLabels([]Label{{"b", "2"}, {"a", "1"}, {"b", "3"}, {"flag", ""}})
	if l.String() != "{a=1,b=2,flag=}" || l.Len() != 3 {
		t.Error(l)
	}
	if l != NewLabels([]Label{{"flag", ""}, {"b", "2"}, {"a", "1"}}) {
		t.Error("equal sets differ")
	}
	if v, ok := l.Get("b"); v != "2" || !ok {
		t.Error(v, ok)
	}
	if _, ok := l.Get("c"); ok {
		t.Error("c is there")
	}
	if got := l.Intersection(NewLabels([]Label{{"a", "1"}, {"b", "9"}})).String(); got != "{a=1}" {
		t.Error(got)
	}
	if got, ok := UnpackLabels(l.Packed()); !ok || got != l {
		t.Error("not unpacked")
	}
	for _, bad := range []string{"\x05a", "\x01a", "\x01b\x00\x01a\x00", "\x01a\x00\x01a\x00", "\xff\xff\xff\xff\xff\xff"} {
		if _, ok := UnpackLabels(bad); ok {
			t.Errorf("%q is no label set", bad)
		}
	}
	if m := (Labels{}).Map(); m == nil || len(m) != 0 {
		t.Error(m)
	}
}

func TestNumber(t *testing.T) {
	sum := Int(math.MaxInt64 - 1).Plus(Int(1))
	if v, ok := sum.Int64(); !ok || v != math.MaxInt64 {
		t.Error("not exact up to the end")
	}
	for _, over := range []Number{sum.Plus(Int(1)), Int(math.MinInt64).Plus(Int(-1))} {
		if _, ok := over.Int64(); ok || math.Abs(over.Float64()) != 1<<63 {
			t.Errorf("wrapped: %+v", over)
		}
	}
	if v, ok := Float(3).Int64(); !ok || v != 3 {
		t.Error("3.0 is an integer")
	}
	if _, ok := Float(math.NaN()).Int64(); ok {
		t.Error("NaN is none")
	}
	if v := Int(1).Plus(Float(0.5)).Float64(); v != 1.5 {
		t.Error(v)
	}
}

func TestSampleNumber(t *testing.T) {
	for _, v := range []float64{0, 1, -1, 0.5, -2.75, 1e15, 1e300, -1e300} {
		var s Sample
		if s.SetFloat(v); s.Float() != v {
			t.Errorf("%v became %v", v, s.Float())
		}
	}
	if w := (&Sample{Rate: 0.1}).Weight(); w != 10 {
		t.Error(w)
	}
	if w := (&Sample{}).Weight(); w != 1 {
		t.Error(w)
	}
}

func TestSampleLabels(t *testing.T) {
	s := Sample{Tags: []byte("a:b:c,,flag,:x,k:"), Separator: ':'}
	if got := NewLabels(s.AppendLabels(nil)).String(); got != "{a=b:c,flag=,k=}" {
		t.Error(got)
	}
	s = Sample{Tags: []byte("a=b,c=d"), Separator: '='}
	if got := NewLabels(s.AppendLabels(nil)).String(); got != "{a=b,c=d}" {
		t.Error(got)
	}
}

// A pod reads as its service account, by a token as by its address.
func TestReaderOfAPod(t *testing.T) {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"} // as TokenReviews have them
	user := "system:serviceaccount:shop:till"
	for name, sender := range map[string]*Sender{
		"token":   {Principal: &Principal{User: user, Groups: groups}},
		"address": {Pod: &Pod{Namespace: "shop", Name: "till-1", ServiceAccount: "till"}},
	} {
		if got := sender.Reader(); got.User != user || !slices.Equal(got.Groups, groups) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := (*Sender)(nil).Reader(); got.User != "" || got.Groups != nil {
		t.Errorf("nobody: %+v", got)
	}
}

func TestCut(t *testing.T) {
	long := strings.Repeat("x", 900_000)
	for _, c := range []struct {
		text, want string
		most       int
	}{
		{"", "", 0}, {"abc", "abc", 3}, {"abcd", "abc... (4 bytes)", 3}, {"aäb", "a... (4 bytes)", 2},
		{"\x80\x80\x80\x80\x80\x80", "\x80... (6 bytes)", 5}, {long, strings.Repeat("x", 10) + "... (900000 bytes)", 10},
	} {
		if got := Truncate(c.text, c.most); got != c.want {
			t.Errorf("Cut(%.10q, %d): %.100q, want %q", c.text, c.most, got, c.want)
		}
	}
	said := fmt.Sprintf("%q %s %v %d %s", TruncateArgs([]any{long, []byte(long), errors.New(long), 7, "short"})...)
	if len(said) > 4*MaxQuoted || strings.Count(said, "... (900000 bytes)") != 3 || !strings.HasSuffix(said, " 7 short") {
		t.Errorf("%d bytes: %.100s", len(said), said)
	}
	if err := NotFoundf("no series of %q", long); len(err.Error()) > 2*MaxQuoted || !errors.Is(err, ErrNotFound) {
		t.Errorf("%d bytes: %.100s", len(err.Error()), err)
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"http_requests":             "http_requests",
		"größe/日本":                  "größe/日本",
		"":                          "",
		"a\nb\tc":                   `a\nb\tc`,
		"\x1b[31mred\x07":           `\x1b[31mred\a`,
		"\u009b2J\x7f":              `\u009b2J\x7f`,
		"a\xffb":                    `a\xffb`,
		"invoice\u202egnp.exe":      `invoice\u202egnp.exe`,
		"zero\u200bwidth\ufeff":     `zero\u200bwidth\ufeff`,
		"line\u2028paragraph\u2029": `line\u2028paragraph\u2029`,
		"\U000e0041":                `\U000e0041`,
		"\ufffd":                    "\ufffd", // valid UTF-8: somebody else has replaced a byte
		"queue=mail,ä=\u00a0😀":      "queue=mail,ä=\u00a0😀",
		"d\x00e":                    `d\x00e`, "\u0080\u009f": `\u0080\u009f`, "a\xc2": `a\xc2`, "\x9b31m": `\x9b31m`,
		`it's 'quoted'`: `it's 'quoted'`,
		`a back\slash`:  `a back\slash`,
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { Visible("http_requests") }); n != 0 {
		t.Errorf("%v allocations for a harmless text", n)
	}
}
