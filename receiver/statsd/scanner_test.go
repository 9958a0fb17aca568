package statsd

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// found is what a scanner says of a packet, one string a sample or fault:
// "counter add a=1 @0.5 {k:v}" or "!malformed at 3".
func found(packet string, options Options) []string {
	var all []string
	s := NewScanner(options)
	for s.Reset([]byte(packet)); s.Next(); {
		all = append(all, describe(s))
	}
	return all
}

var opNames = map[metric.Op]string{
	metric.Add: "add", metric.Assign: "assign", metric.Shift: "shift", metric.Observe: "observe", metric.Insert: "insert",
}

func describe(s *Scanner) string {
	if s.Fault.Reason != metric.Applied {
		return fmt.Sprintf("!%v at %d", s.Fault.Reason, s.Fault.Offset)
	}
	sample := &s.Sample
	value := strconv.FormatInt(sample.Whole, 10)
	if sample.Fraction != 0 {
		value += fmt.Sprintf("%+g", sample.Fraction)
	}
	if sample.Kind == metric.Set {
		value = string(sample.Member)
	}
	text := fmt.Sprintf("%v %s %s=%s", sample.Kind, opNames[sample.Op], sample.Name, value)
	if sample.Rate != 0 {
		text += fmt.Sprintf(" @%v", sample.Rate)
	}
	if sample.Tags != nil {
		text += fmt.Sprintf(" {%s}", metric.NewLabels(sample.AppendLabels(nil)))
	}
	if sample.Container != nil {
		text += fmt.Sprintf(" c:%s", sample.Container)
	}
	if sample.External != nil {
		text += fmt.Sprintf(" e:%s", sample.External)
	}
	if sample.Dated != 0 {
		text += fmt.Sprintf(" T%d", sample.Date().Unix())
	}
	return text
}

type grammarCase struct {
	name   string
	packet string
	want   []string
}

var statsdCases = []grammarCase{
	{"counter", "a:1|c", []string{"counter add a=1"}},
	{"gauge", "a:1|g", []string{"gauge assign a=1"}},
	{"timer", "a:1|ms", []string{"timer observe a=1"}},
	{"histogram is a timer", "a:1|h", []string{"timer observe a=1"}},
	{"distribution is a timer", "a:1|d", []string{"timer observe a=1"}},
	{"set", "a:1|s", []string{"set insert a=1"}},
	{"unknown type", "a:1|x", []string{"!malformed at 4"}},
	{"type that begins like a known one", "a:1|m\na:1|msx\na:1|cc", []string{"!malformed at 4", "!malformed at 10", "!malformed at 18"}},

	{"several lines", "a:1|c\nb:2|c", []string{"counter add a=1", "counter add b=2"}},
	{"trailing newline", "a:1|c\n", []string{"counter add a=1"}},
	{"carriage returns", "a:1|c\r\nb:x|s\r\n", []string{"counter add a=1", "set insert b=x"}},
	{"empty lines are not counted", "\n\r\n\na:1|c\n\n", []string{"counter add a=1"}},
	{"empty packet", "", nil},
	{"malformed line leaves its neighbours", "a:1|c\nb\nc:1|c", []string{"counter add a=1", "!malformed at 7", "counter add c=1"}},

	{"optional fields in any order", "a:1|c|#k:v|@0.5\na:1|c|@0.5|#k:v", []string{"counter add a=1 @0.5 {{k=v}}", "counter add a=1 @0.5 {{k=v}}"}},
	{"unknown field is skipped", "a:1|c|zone9|@0.5|x:y:z", []string{"counter add a=1 @0.5"}},
	{"empty field is skipped", "a:1|c|\na:1|c||@0.5", []string{"counter add a=1", "counter add a=1 @0.5"}},

	{"name keeps its bytes", "smp,gge é/\x80 \"{[#=:1|c", []string{"counter add smp,gge é/\x80 \"{[#==1"}},
	{"names that begin like events", "_e:1|c\n_scx:1|c\n_:1|c", []string{"counter add _e=1", "counter add _scx=1", "counter add _=1"}},

	{"integers are exact", "a:9007199254740993:9223372036854775807|c", []string{"counter add a=9007199254740993", "counter add a=9223372036854775807"}},
	{"integers beyond int64", "a:9223372036854775808:99999999999999999999:1|c",
		[]string{"counter add a=0+9.223372036854776e+18", "counter add a=0+1e+20", "counter add a=1"}},
	{"value NaN or infinite", "a:NaN|g\na:-inf:1|ms", []string{"!value at 2", "!value at 10", "timer observe a=1"}},
	{"counter of a fraction", "a:0.4|c", []string{"counter add a=0+0.4"}},
	{"negative increment", "a:-3|c", []string{"counter add a=-3"}},
	{"positive sign", "a:+3|c", []string{"counter add a=3"}},

	{"rate 1", "a:1|c|@1", []string{"counter add a=1 @1"}},
	{"rate 0", "a:1|c|@0", []string{"!rate at 7"}},
	{"rate negative", "a:1|c|@-0.5", []string{"!rate at 7"}},
	{"rate above 1", "a:1|c|@1.1", []string{"!rate at 7"}},
	{"rate NaN", "a:1|c|@NaN", []string{"!rate at 7"}},
	{"rate that is no number", "a:1|c|@\na:1|c|@x", []string{"!rate at 7", "!rate at 15"}},
	{"rate whose weight is infinite", "a:1|c|@1e-320", []string{"!rate at 7"}},
	{"sampled timer is one observation", "a:320|ms|@0.000001", []string{"timer observe a=320 @1e-06"}},
	{"rate of one line does not reach the next", "a:1|c|@0.5\na:1|c", []string{"counter add a=1 @0.5", "counter add a=1"}},

	{"gauge shifts", "a:+4|g\na:-4|g\na:4|g\na:-0.5|g", []string{"gauge shift a=4", "gauge shift a=-4", "gauge assign a=4", "gauge shift a=0-0.5"}},
	{"packed gauges shift one by one", "a:+4:7:-1|g", []string{"gauge shift a=4", "gauge assign a=7", "gauge shift a=-1"}},

	{"set of a string", "users:al ice@x|s", []string{"set insert users=al ice@x"}},
	{"set member with colons is one", "users:http://a:1/:|s", []string{"set insert users=http://a:1/:"}},
	{"set member that is no number", "users:NaN|s", []string{"set insert users=NaN"}},

	{"empty value", "foo:|g", []string{"!malformed at 4"}},
	{"empty set member", "foo:|s", []string{"!malformed at 4"}},
	{"empty name", ":1|c", []string{"!malformed at 0"}},
	{"empty type", "a:1|", []string{"!malformed at 4"}},
	{"empty type before a field", "a:1||@0.1", []string{"!malformed at 4"}},
	{"no type", "a:1", []string{"!malformed at 3"}},
	{"no value", "a", []string{"!malformed at 1"}},
	{"nothing but separators", ":|\n|\n:\n::||", []string{"!malformed at 0", "!malformed at 3", "!malformed at 5", "!malformed at 7"}},
	{"type before the value", "a|c\na|c|#k:v\n|c:1|c", []string{"!malformed at 1", "!malformed at 5", "!malformed at 13"}},
	{"spaces only", "  ", []string{"!malformed at 2"}},
	{"empty tags are skipped", "a:1|c|#,k:v,,\na:1|c|#", []string{"counter add a=1 {{k=v}}", "counter add a=1 {{}}"}},

	{"classic multi-value", "a:1|c:2|c", []string{"counter add a=1", "counter add a=2"}},
	{"classic multi-value of several types", "a:1|c:2|g:3|ms", []string{"counter add a=1", "gauge assign a=2", "timer observe a=3"}},
	{"classic multi-value, a rate for each", "a:1|c|@0.5:2|c:3|c|@0.1", []string{"counter add a=1 @0.5", "counter add a=2", "counter add a=3 @0.1"}},
	{"classic multi-value, tags for all", "a:1|c:2|c|#k:v|c:id", []string{"counter add a=1 {{k=v}} c:id", "counter add a=2 {{k=v}} c:id"}},
	{"classic multi-value, one bad", "a:1|c:x|c:3|c", []string{"counter add a=1", "!malformed at 6", "counter add a=3"}},
	{"classic multi-value, one of no type", "a:1|c:2|:3|c", []string{"counter add a=1", "!malformed at 8", "counter add a=3"}},
	{"classic multi-value, bad rate", "a:1|c|@7:3|c", []string{"!rate at 7", "counter add a=3"}},
	{"classic multi-value, cut off", "a:1|c:", []string{"counter add a=1", "!malformed at 6"}},
	{"classic multi-value of sets", "a:x|s:y|s", []string{"set insert a=x", "set insert a=y"}},
	{"classic multi-value of packed ones", "a:1:2|c:3:4|g", []string{"counter add a=1", "counter add a=2", "gauge assign a=3", "gauge assign a=4"}},
}

var dogstatsdCases = []grammarCase{
	{"tags", "a:1|c|#k:v,k2:v2,flag", []string{"counter add a=1 {{flag=,k=v,k2=v2}}"}},
	{"a # before each tag", "a:1|c|#k:v,#k2:v2,#", []string{"counter add a=1 {{k=v,k2=v2}}"}},
	{"tag value with a colon", "a:1|c|#url:http://x:1", []string{"counter add a=1 {{url=http://x:1}}"}},
	{"order of tags does not matter", "a:1|c|#b:2,a:1\na:1|c|#a:1,b:2", []string{"counter add a=1 {{a=1,b=2}}", "counter add a=1 {{a=1,b=2}}"}},
	{"same key twice keeps the first", "a:1|c|#k:1,k:2", []string{"counter add a=1 {{k=1}}"}},
	{"same section twice keeps the last", "a:1|c|#k:1|@0.5|#k:2|@0.1", []string{"counter add a=1 @0.1 {{k=2}}"}},
	{"tags of one line do not reach the next", "a:1|c|#k:v|c:id|e:x|T9\na:1|c", []string{"counter add a=1 {{k=v}} c:id e:x T9", "counter add a=1"}},

	{"packed", "a:1:2:3|ms|@0.5|#t", []string{"timer observe a=1 @0.5 {{t=}}", "timer observe a=2 @0.5 {{t=}}", "timer observe a=3 @0.5 {{t=}}"}},
	{"packed counters", "a:1:-2:0.5|c", []string{"counter add a=1", "counter add a=-2", "counter add a=0+0.5"}},
	{"packed, empty values are skipped", "a:21::22|ms\na::1:|ms", []string{"timer observe a=21", "timer observe a=22", "timer observe a=1"}},
	{"packed, no value at all", "a::|ms\na:::|c", []string{"!malformed at 2", "!malformed at 9"}},
	{"packed with a bad rate is one fault", "a:1:2:3|ms|@2", []string{"!rate at 12"}},
	{"sets are never unpacked", "a:1:2:3|s", []string{"set insert a=1:2:3"}},

	{"container", "a:1|c|c:83c0a99c0a54", []string{"counter add a=1 c:83c0a99c0a54"}},
	{"container with prefixes", "a:1|c|#k:v|c:ci-83c0,in-4242\na:1|c|c:cid-83c0", []string{"counter add a=1 {{k=v}} c:ci-83c0,in-4242", "counter add a=1 c:cid-83c0"}},
	{"external data", "a:1|c|e:it-false,cn-nginx,pu-75a2", []string{"counter add a=1 e:it-false,cn-nginx,pu-75a2"}},
	{"cardinality", "a:1|c|card:low\na:1|c|card:none|#k:v", []string{"counter add a=1", "counter add a=1 {{k=v}}"}},
	{"all fields at once", "a:1|g|@1|#k:v|c:id|T1656581400|e:x|card:high", []string{"gauge assign a=1 @1 {{k=v}} c:id e:x T1656581400"}},
	{"fields without tags", "a:1|g|T1656581400|c:id", []string{"gauge assign a=1 c:id T1656581400"}},
	{"timestamp on c and g", "a:1|c|T1656581400\na:1|g|T1656581400", []string{"counter add a=1 T1656581400", "gauge assign a=1 T1656581400"}},
	{"timestamp on others is ignored", "a:1|ms|T1656581400\na:1|s|T1656581400", []string{"timer observe a=1", "set insert a=1"}},
	{"timestamp that is none", "a:1|g|T\na:1|g|T0\na:1|g|T-5\na:1|g|T1.5\na:1|g|Tx",
		[]string{"!malformed at 7", "!malformed at 15", "!malformed at 24", "!malformed at 34", "!malformed at 45"}},
	{"entity tag", "a:1|c|#dd.internal.entity_id:75a2b6d5", []string{"counter add a=1 {{dd.internal.entity_id=75a2b6d5}}"}},

	{"event", "_e{21,36}:An exception occurred|Cannot parse CSV file from 10.0.0.17|t:warning|#err_type:bad_file", []string{"!unsupported at 0"}},
	{"event whose length counts bytes", "_e{2,4}:é|a\\nb\na:1|c", []string{"!unsupported at 0", "counter add a=1"}},
	{"service check", "a:1|c\n_sc|Redis connection|2|#env:dev|m:Redis connection timed out", []string{"counter add a=1", "!unsupported at 6"}},
}

func TestStatsD(t *testing.T) {
	for _, c := range statsdCases {
		t.Run(c.name, func(t *testing.T) { check(t, c.packet, DefaultOptions(), c.want) })
	}
}

func TestDogStatsD(t *testing.T) {
	options := DefaultOptions()
	options.Dialect = DogStatsD
	for _, c := range append(dogstatsdCases,
		grammarCase{"gauge signs are absolute", "a:+4|g\na:-4|g\na:+1:-2|g",
			[]string{"gauge assign a=4", "gauge assign a=-4", "gauge assign a=1", "gauge assign a=-2"}},
		grammarCase{"packed, one bad: none is applied", "a:1:x:3|ms|#k:v\na:1:2:x|d\nb:1|c", []string{"!malformed at 4", "!malformed at 22", "counter add b=1"}},
		grammarCase{"a line of syslog", "<13>Nov 24 02:13:05 host app: x:1|c", []string{"!malformed at 17"}},
	) {
		t.Run(c.name, func(t *testing.T) { check(t, c.packet, options, c.want) })
	}
}

// All fields of DogStatsD are understood in the default dialect too: only signed gauges and bad packed values
// differ.
func TestDogStatsDFieldsInStatsD(t *testing.T) {
	for _, c := range append(dogstatsdCases,
		grammarCase{"packed, one bad", "a:1:x:3|ms", []string{"timer observe a=1", "!malformed at 4", "timer observe a=3"}},
	) {
		t.Run(c.name, func(t *testing.T) { check(t, c.packet, DefaultOptions(), c.want) })
	}
}

var nameTagCases = []struct {
	dialect Dialect
	grammarCase
}{
	{Influx, grammarCase{"tags", "name,k=v,k2=v2:1|c", []string{"counter add name=1 {{k=v,k2=v2}}"}}},
	{Influx, grammarCase{"no tags", "name:1|c", []string{"counter add name=1"}}},
	{Influx, grammarCase{"no name", ",k=v:1|c", []string{"!malformed at 0"}}},
	{Influx, grammarCase{"other styles", "a#k=v:1|c\na[k=v]:1|c", []string{"counter add a#k=v=1", "counter add a[k=v]=1"}}},
	{Influx, grammarCase{"tags behind the type", "name:1|c|#k:v", []string{"counter add name=1 {{k=v}}"}}},
	{Influx, grammarCase{"both styles at once", "name,k=v:1|c|#k:v", []string{"!malformed at 13"}}},
	{Influx, grammarCase{"gauge shifts", "name,k=v:+1|g", []string{"gauge shift name=1 {{k=v}}"}}},
	{Influx, grammarCase{"value with another separator", "name,k=v=w:1|c", []string{"counter add name=1 {{k=v=w}}"}}},
	{Librato, grammarCase{"tags", "name#k=v,k2=v2:1|c", []string{"counter add name=1 {{k=v,k2=v2}}"}}},
	{Librato, grammarCase{"no name", "#k=v:1|c", []string{"!malformed at 0"}}},
	{SignalFx, grammarCase{"tags", "name[k=v,k2=v2]:1|c", []string{"counter add name=1 {{k=v,k2=v2}}"}}},
	{SignalFx, grammarCase{"empty brackets", "name[]:1|c", []string{"counter add name=1 {{}}"}}},
	{SignalFx, grammarCase{"not closed", "name[k=v:1|c\nname[:1|c", []string{"!malformed at 4", "!malformed at 17"}}},
	{SignalFx, grammarCase{"tags within the name", "na[k=v,k2=v2]me:1|c\nx:2|c", []string{"counter add name=1 {{k=v,k2=v2}}", "counter add x=2"}}},
	{SignalFx, grammarCase{"tags before the name", "[k=v]name:1|c", []string{"counter add name=1 {{k=v}}"}}},
	{SignalFx, grammarCase{"two pairs of brackets", "a[k=v]b[l=w]:1|c", []string{"!malformed at 1"}}},
	{SignalFx, grammarCase{"brackets the wrong way round", "a]k=v[:1|c\na]:1|c", []string{"!malformed at 5", "counter add a]=1"}}},
	{SignalFx, grammarCase{"no name", "[k=v]:1|c", []string{"!malformed at 0"}}},
	{StatsD, grammarCase{"off by default", "a,k=v:1|c\na#k=v:1|c\na[k=v]:1|c", []string{"counter add a,k=v=1", "counter add a#k=v=1", "counter add a[k=v]=1"}}},
}

func TestTagsInNames(t *testing.T) {
	for _, c := range nameTagCases {
		t.Run(c.dialect.String()+" "+c.name, func(t *testing.T) {
			options := DefaultOptions()
			options.Dialect = c.dialect
			check(t, c.packet, options, c.want)
		})
	}
}

func TestTooLong(t *testing.T) {
	options := Options{MaxLine: 600, MaxTags: 3}
	name := strings.Repeat("n", metric.MaxNameLength)
	for _, c := range []grammarCase{
		{"longest name", name + ":1|c", []string{"counter add " + name + "=1"}},
		{"longer name", "n" + name + ":1|c", []string{"!too_long at 512"}},
		{"longest line", strings.Repeat("x", 595) + ":1|c", []string{"!too_long at 512"}},
		{"longer line", "a:1|c\nb:1|c|#" + strings.Repeat("x", 600) + "\nc:1|c", []string{"counter add a=1", "!too_long at 606", "counter add c=1"}},
		{"most tags", "a:1|c|#a,b,c", []string{"counter add a=1 {{a=,b=,c=}}"}},
		{"more tags", "a:1:2|c:3|c|#a,b,c,d\nb:1|c", []string{"!too_long at 20", "counter add b=1"}},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, c.packet, options, c.want) })
	}
}

func TestLineOfAFault(t *testing.T) {
	s := NewScanner(DefaultOptions())
	s.Reset([]byte("a:1|c\r\nbad\r\n"))
	s.Next()
	if !s.Next() || string(s.Line()) != "bad" || s.LineOffset() != 7 {
		t.Errorf("line %q at %d, want \"bad\" at 7", s.Line(), s.LineOffset())
	}
	if s.Next() {
		t.Error("a sample behind the last line")
	}
}

func TestResetForgets(t *testing.T) {
	s := NewScanner(DefaultOptions())
	s.Reset([]byte("a:1:2:3|c:4|c|#k:v\nb:1|c"))
	s.Next()
	s.Reset([]byte("z:9|g"))
	if !s.Next() || describe(s) != "gauge assign z=9" || s.Next() {
		t.Errorf("after Reset: %s", describe(s))
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	var packets [][]byte
	for _, cases := range [][]grammarCase{statsdCases, dogstatsdCases, {{packet: "a:1e3:0.12345678901234567:-1.5:99999999999999999999|ms|@0.1"}}} {
		for _, c := range cases {
			packets = append(packets, []byte(c.packet))
		}
	}
	s := NewScanner(DefaultOptions())
	allocs := testing.AllocsPerRun(100, func() {
		for _, packet := range packets {
			for s.Reset(packet); s.Next(); {
			}
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a run, want 0", allocs)
	}
}

func check(t *testing.T, packet string, options Options, want []string) {
	t.Helper()
	got := found(packet, options)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q\n got %q\nwant %q", packet, got, want)
	}
}

func BenchmarkScanner(b *testing.B) {
	for _, c := range []struct{ name, line string }{
		{"tagged", "http.requests.m7:1|c|#namespace:ns3,pod:web-12,code:201"},
		{"plain", "http.requests.m7.h3:1|c"},
		{"packed", "latency.m7:12.5:3:14:15:9.25:6:5:35|ms|@0.5|#namespace:ns3,pod:web-12"},
	} {
		b.Run(c.name, func(b *testing.B) {
			packet := bytes.Repeat([]byte(c.line+"\n"), 1432/(len(c.line)+1))
			want := len(found(string(packet), DefaultOptions()))
			s := NewScanner(DefaultOptions())
			b.SetBytes(int64(len(packet)))
			b.ReportAllocs()
			rounds := 0
			samples := 0
			for b.Loop() {
				rounds++
				for s.Reset(packet); s.Next(); {
					if s.Fault.Reason == metric.Applied {
						samples++
					}
				}
			}
			if samples != rounds*want {
				b.Fatalf("%d samples in %d rounds of %d", samples, rounds, want)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
		})
	}
}

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

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		text     string
		whole    int64
		fraction float64
		reason   metric.Reason
	}{
		{"0", 0, 0, 0},
		{"-0", 0, 0, 0},
		{"007", 7, 0, 0},
		{"+5", 5, 0, 0},
		{"9007199254740993", 1<<53 + 1, 0, 0}, // no float64
		{"-9007199254740993", -(1<<53 + 1), 0, 0},
		{"999999999999999999", 999999999999999999, 0, 0},
		{"9223372036854775807", math.MaxInt64, 0, 0},
		{"-9223372036854775808", math.MinInt64, 0, 0},
		{"0000000000000000000000000009223372036854775807", math.MaxInt64, 0, 0},
		{"9223372036854775808", 0, 1 << 63, 0},
		{"-9223372036854775809", 0, -(1 << 63), 0},
		{"99999999999999999999999", 0, 1e23, 0},
		{"18446744073709551616", 0, 1 << 64, 0},
		{"0.4", 0, 0.4, 0},
		{".5", 0, 0.5, 0},
		{"5.", 5, 0, 0},
		{"-.5", 0, -0.5, 0},
		{"-1.25", -1, -0.25, 0},
		{"9007199254740993.25", 1<<53 + 1, 0.25, 0},
		{"3.141592653589793238462643", 3, 0.141592653589793238462643, 0},
		{"0.99999999999999999999", 1, 0, 0},
		{"-7.99999999999999999999", -8, 0, 0},
		{"9223372036854775807.99999999999999999999", 0, 1 << 63, 0},
		{"1e3", 1000, 0, 0},
		{"1E+3", 1000, 0, 0},
		{"25e-1", 2, 0.5, 0},
		{"9.223372036854775807e18", math.MaxInt64, 0, 0},
		{"-9223372036854775808000e-3", math.MinInt64, 0, 0},
		{"1.2345678901123456e10", 12345678901, 0.123456, 0},
		{"12345678901123456789e-9", 12345678901, 0.123456789, 0},
		{".5e1", 5, 0, 0},
		{"5.e1", 50, 0, 0},
		{"1e-9", 0, 1e-9, 0},
		{"1e300", 0, 1e300, 0},
		{"1e-400", 0, 0, 0},
		{"0e999999999999999999999", 0, 0, 0},
		{"1e309", 0, 0, metric.BadValue},
		{"1e9999999999999999999999", 0, 0, metric.BadValue},
		{"NaN", 0, 0, metric.BadValue},
		{"-nan", 0, 0, metric.BadValue},
		{"inf", 0, 0, metric.BadValue},
		{"+Inf", 0, 0, metric.BadValue},
		{"-Infinity", 0, 0, metric.BadValue},
		{"", 0, 0, metric.Malformed},
		{"+", 0, 0, metric.Malformed},
		{".", 0, 0, metric.Malformed},
		{"-.", 0, 0, metric.Malformed},
		{"--1", 0, 0, metric.Malformed},
		{"1e", 0, 0, metric.Malformed},
		{"1e+", 0, 0, metric.Malformed},
		{"e5", 0, 0, metric.Malformed},
		{"1.2.3", 0, 0, metric.Malformed},
		{"1,5", 0, 0, metric.Malformed},
		{"1 ", 0, 0, metric.Malformed},
		{" 1", 0, 0, metric.Malformed},
		{"0x1p4", 0, 0, metric.Malformed},
		{"0x10", 0, 0, metric.Malformed},
		{"1_000", 0, 0, metric.Malformed},
		{"abc", 0, 0, metric.Malformed},
		{"infinit", 0, 0, metric.Malformed},
	} {
		whole, fraction, reason := parseNumber([]byte(c.text))
		if whole != c.whole || fraction != c.fraction || reason != c.reason {
			t.Errorf("%q: %d, %v, %v; want %d, %v, %v", c.text, whole, fraction, reason, c.whole, c.fraction, c.reason)
		}
	}
}
