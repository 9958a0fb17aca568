package aggregate

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// readings are what each stat of each kind reads of the samples below: a stat that a kind is given
// has a line here.
var readings = map[metric.Kind]struct {
	name string
	want map[metric.Stat]string
}{
	metric.Counter: {"c", map[metric.Stat]string{metric.Rate: "a=4", metric.Count: "a=40", metric.Total: "a=40"}},
	metric.Gauge:   {"g", map[metric.Stat]string{metric.Last: "a=10", metric.Mean: "a=10", metric.Min: "a=10", metric.Max: "a=10"}},
	metric.Timer: {"t", map[metric.Stat]string{metric.Mean: "a=25", metric.Min: "a=10", metric.Max: "a=40", metric.Sum: "a=100",
		metric.Count: "a=4", metric.Rate: "a=0.4", metric.P50: "a=19.88667", metric.P75: "a=30.26717", metric.P90: "a=40",
		metric.P95: "a=40", metric.P99: "a=40", metric.P999: "a=40"}},
	metric.Set: {"s", map[metric.Stat]string{metric.Unique: "a=2"}},
}

// Every stat of every kind reads what it should.
func TestEveryStatOfEveryKind(t *testing.T) {
	start(t, func(f *fixture) {
		f.pushReadings()
		for _, kind := range metric.Kinds() {
			for _, stat := range kind.Stats() {
				want, ok := readings[kind].want[stat]
				if !ok {
					t.Errorf("no test says what %s of a %s reads", stat, kind)
				}
				f.want(readings[kind].name+":"+stat.String(), want)
			}
		}
	})
}

func (f *fixture) pushReadings() {
	f.push("c:40|c|#pod:a,ns:ns", "g:10|g|#pod:a,ns:ns", "s:x|s|#pod:a,ns:ns", "s:y|s|#pod:a,ns:ns")
	f.push("t:10|ms|#pod:a,ns:ns", "t:20|ms|#pod:a,ns:ns", "t:30|ms|#pod:a,ns:ns", "t:40|ms|#pod:a,ns:ns")
}

// A stat that a kind is said to have, and that nothing reads, is an error and no number.
func TestAStatThatNothingReadsIsNoNumber(t *testing.T) {
	start(t, func(f *fixture) {
		f.pushReadings()
		for kind, reads := range readings {
			for stat := metric.NoStat; stat < metric.Unique+3; stat++ {
				if kind.Has(stat) {
					continue
				}
				q := metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.Expression{Name: reads.name}}
				r, series, err := f.planOf(&q)
				must(t, err)
				r.Stat = stat
				r.begin()
				r.add(series)
				if p, ok := r.point(); ok || r.QueryError(&q) == nil {
					t.Errorf("%s of a %s reads %+v", stat, kind, p.Value)
				}
				r.end()
			}
		}
	})
}

// Objects of one list that have a metric in different kinds: most of them decide what the bare name
// means, a stat is read from those whose kind has it, and the log says who is absent.
func TestMixedKinds(t *testing.T) {
	start(t, func(f *fixture) {
		var logged strings.Builder
		f.mixed.log = slog.New(slog.NewTextHandler(&logged, nil))
		f.push("m:5|g|#pod:a,ns:ns") // sorts first
		f.push("m:10|c|#pod:b,ns:ns", "m:20|c|#pod:c,ns:ns", "m:7|ms|#pod:d,ns:ns")
		f.want("m", "b=1 c=2") // before: a=5
		f.want("m:total", "b=10 c=20")
		f.want("m:last", "a=5")
		f.want("m:count", "b=10 c=20 d=1") // each as its kind counts
		f.want("m:mean", "a=5 d=7")
		f.want("m:p50", "d=7")
		f.want("m:1m", "b=1 c=2")
		f.want("m:unique", `"m" is a counter: it has rate, count, total, but no unique`)
		if n := strings.Count(logged.String(), "level=WARN"); n != 1 || !strings.Contains(logged.String(),
			`metric=m resource=pods namespace=ns read="counter on 2" absent="gauge on 1, timer on 1"`) {
			t.Errorf("%d warnings: %s", n, logged.String())
		}
		time.Sleep(time.Second)
		f.push("m:5|g|#pod:e,ns:ns") // as many gauges, and the newer
		f.want("m", "a=5 e=5")
		time.Sleep(time.Second)
		f.push("m:1|c|#pod:f,ns:ns")
		if got := f.ask("m:total"); got != "b=10 c=20 f=1" || !strings.HasPrefix(f.ask("m"), "b=") {
			t.Errorf("%s, %s", got, f.ask("m"))
		}
		time.Sleep(2 * time.Hour) // all expire; what comes then is alone
		f.push("m:5|g|#pod:a,ns:ns")
		f.want("m", "a=5")
		f.push("only:1|g|#pod:a,ns:ns", "only:1|g|#pod:b,ns:ns")
		f.want("only", "a=1 b=1")
		if n := strings.Count(logged.String(), "metric=only"); n != 0 {
			t.Error(logged.String())
		}
	})
}

// exactly is what readers are told, digit by digit.
func (f *fixture) exactly(asked string) string {
	return f.askAs(asked, func(n metric.Number) string { return string(n.Append(nil)) })
}

func (f *fixture) wantExactly(asked, want string) {
	f.t.Helper()
	if got := f.exactly(asked); got != want {
		f.t.Errorf("%s: %s, want %s", asked, got, want)
	}
}

// Sums of decimal fractions are exact to nine places, however they came and wherever they are added
// up.
func TestDecimalSumsAreExact(t *testing.T) {
	start(t, func(f *fixture) {
		for range 10 {
			f.push("c:0.1|c|#pod:a,ns:ns", "c:0.2|c|#pod:a,ns:ns,l:1", "n:-0.1|c|#pod:a,ns:ns", "d:+0.1|g|#pod:a,ns:ns", "t:0.1|ms|#pod:a,ns:ns",
				"big:1234567890.123456|c|#pod:a,ns:ns", "small:0.000000001|c|#pod:a,ns:ns")
		}
		f.push("g:0.1|g|#pod:a,ns:ns", "g:0.2|g|#pod:a,ns:ns,l:1", "g:0.000000001|g|#pod:a,ns:ns,l:2")
		f.wantExactly("c:total", "a=3")
		f.wantExactly("c:count", "a=3")
		f.wantExactly("c:rate:10s", "a=0.3")
		f.wantExactly("n:total", "a=-1")
		f.wantExactly("n:count", "a=-1")
		f.wantExactly("d", "a=1")
		f.wantExactly("t:sum", "a=1")
		f.wantExactly("t:mean", "a=0.1")
		f.wantExactly("g", "a=0.300000001")
		f.wantExactly("big:total", "a=12345678901.23456")
		f.wantExactly("small:total", "a=0.00000001")
		time.Sleep(time.Second)
		f.wantExactly("g:mean:10s", "a=0.300000001")
		f.wantExactly("g:max:10s", "a=0.300000001")
	})
}

// A gauge reads back as it came, over all of int64 and to nine decimal places, and finer where a
// float64 says it.
func TestGaugesReadBackAsTheyCame(t *testing.T) {
	for _, text := range []string{
		"0", "-1", "9007199254740993", "9223372036854775", "9223372036854775807", "-9223372036854775808", "9223372036854775806",
		"1234567890.123456", "-1234567890.123456", "123456789012345.123456789", "9223372036854775807.5", "8388608.000000001",
		"0.1", "0.123456789", "0.30000000000000004", "1e-12", "0.3333333333333333", "1152921504606847000", "8388607.999999999",
	} {
		t.Run(text, func(t *testing.T) {
			start(t, func(f *fixture) { readsBack(f, text) })
		})
	}
}

func readsBack(f *fixture, text string) {
	f.t.Helper()
	s := gaugeOf(text)
	disk := newSaved()
	for range 3 {
		f.apply(s)
		f.wantExactly("g", "a="+text)
		time.Sleep(time.Second)
		disk.flush(f.Table, never)
	}
	again := disk.restore(f.t)
	again.wantExactly("g", "a="+text)
	disk.flush(f.Table, each) // a checkpoint
	again = disk.restore(f.t)
	again.wantExactly("g", "a="+text)
	again.push("g:5|g|#pod:a,ns:ns") // another value after an exact one
	again.wantExactly("g", "a=5")
}

// gaugeOf is a gauge's sample with a number as parsers read it.
func gaugeOf(text string) *metric.Sample {
	s := sample("g:1|g|#pod:a,ns:ns")
	var ok bool
	if s.Whole, s.Fraction, ok = decimalParts(text); !ok {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(err)
		}
		s.SetFloat(v)
	}
	return s
}

// decimalParts reads a plain decimal number.
func decimalParts(text string) (whole int64, fraction float64, ok bool) {
	if strings.Contains(text, "e") {
		return 0, 0, false
	}
	before, after, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	return metric.SplitDecimal(strings.HasPrefix(text, "-"), []byte(before), []byte(after), 0)
}
