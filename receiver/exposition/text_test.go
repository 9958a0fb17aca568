package exposition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// describe prints families so that equal ones print the same, NaN and -0 included.
func describe(families []Family) string {
	var b strings.Builder
	for _, f := range families {
		fmt.Fprintf(&b, "%s %s", f.Type, quoteOdd(f.Name))
		if f.Help != "" {
			fmt.Fprintf(&b, " (%q)", f.Help)
		}
		b.WriteByte(':')
		for i, m := range f.Metrics {
			if i > 0 {
				b.WriteByte(';')
			}
			describeMetric(&b, m)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func describeMetric(b *strings.Builder, m Metric) {
	for _, l := range m.Labels {
		fmt.Fprintf(b, " %s=%s", quoteOdd(l.Key), quoteOdd(l.Value))
	}
	switch {
	case m.Summary != nil:
		fmt.Fprintf(b, " sum %v count %v", m.Summary.Sum, m.Summary.Count)
		for _, q := range m.Summary.Quantiles {
			fmt.Fprintf(b, " q%v:%v", q.Quantile, q.Value)
		}
	case m.Histogram != nil:
		fmt.Fprintf(b, " sum %v count %v", m.Histogram.Sum, m.Histogram.Count)
		for _, bucket := range m.Histogram.Buckets {
			fmt.Fprintf(b, " le%v:%v", bucket.UpperBound, bucket.Count)
		}
		if n := m.Histogram.Native; n != nil {
			fmt.Fprintf(b, " native %+v", *n)
		}
	default:
		fmt.Fprintf(b, " %v", m.Value)
	}
}

func quoteOdd(s string) string {
	if isLegacy(s, letter|colon|digit) {
		return s
	}
	return fmt.Sprintf("%q", s)
}

// lines makes a body of lines.
func lines(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

var legal = []struct{ name, body, want string }{
	{"counter", lines("# HELP a what it is", "# TYPE a counter", "a 1"), `counter a ("what it is"): 1`},
	{"gauge", lines("# TYPE a gauge", `a{b="c"} -1.5`), "gauge a: b=c -1.5"},
	{"untyped", lines("# TYPE a untyped", "a 1"), "untyped a: 1"},
	{"no type", "a 1\n", "untyped a: 1"},
	{"type in any case", lines("# TYPE a GauGe", "a 1"), "gauge a: 1"},
	{"several families in order", lines("b 1", "a 2", "c:d_0 3"), "untyped b: 1\nuntyped a: 2\nuntyped c:d_0: 3"},
	{"a family's samples need not be together", lines("a{x=\"1\"} 1", "b 2", "a{x=\"2\"} 3"), "untyped a: x=1 1; x=2 3\nuntyped b: 2"},
	{"nothing", "", ""},
	{"empty lines and comments", "\n \t\n# \n#\n# anything {\" \n#TYPE a gauge\na 1\n# EOF\n", "gauge a: 1"},
	{"a family without samples is none", lines("# HELP a x", "# TYPE a counter", "# TYPE b gauge", "b 1"), "gauge b: 1"},
	{"missing final newline", "a 1", "untyped a: 1"},
	{"missing final newline of a comment", "a 1\n# HELP a x", `untyped a ("x"): 1`},
	{"missing final newline of a type", "a 1\n# TYPE b gauge", "untyped a: 1"},

	{"blanks and tabs between tokens", "\t # \tTYPE\ta \t gauge \n \ta \t{\tb \t= \t\"c\"\t , d=\"e\" }\t1\t \n", "gauge a: b=c d=e 1"},
	{"no blank where none is needed", "a{b=\"c\"}1\nd-1\n", "untyped a: b=c 1\nuntyped d: -1"},
	{"comma behind the last label", `a{b="c",} 1`, "untyped a: b=c 1"},
	{"empty braces", "a{} 1", "untyped a: 1"},
	{"order of labels is kept", `a{z="1",b="2"} 1`, "untyped a: z=1 b=2 1"},
	{"empty label value", `a{b=""} 1`, `untyped a: b="" 1`},
	{"a label and its absence differ", lines(`a{b=""} 1`, "a 2"), `untyped a: b="" 1; 2`},
	{"escapes in label values", `a{b="\\ \n \" }#"} 1`, `untyped a: b="\\ \n \" }#" 1`},
	{"NUL in a label value", "a{b=\"\x00\"} 1", `untyped a: b="\x00" 1`},
	{"UTF-8 in a label value", `a{b="ä€"} 1`, `untyped a: b="ä€" 1`},
	{"le and quantile are labels elsewhere", lines(`a{le="x",quantile="y"} 1`, "# TYPE h histogram", `h_count{quantile="z"} 1`),
		"untyped a: le=x quantile=y 1\nhistogram h: quantile=z sum 0 count 1 le+Inf:1"},

	{"values", lines("a 0", "b -0", "c +7", "d 1e3", "e .5", "f 5.", "g 123456789012345678", "h 0.1234567890123456789", "i 1E-400"),
		"untyped a: 0\nuntyped b: -0\nuntyped c: 7\nuntyped d: 1000\nuntyped e: 0.5\nuntyped f: 5\nuntyped g: 1.2345678901234568e+17\n" +
			"untyped h: 0.12345678901234568\nuntyped i: 0"},
	{"NaN and infinities", lines("a NaN", "b +Inf", "c -Inf", "d inf", "e nan", "f -Infinity"),
		"untyped a: NaN\nuntyped b: +Inf\nuntyped c: -Inf\nuntyped d: +Inf\nuntyped e: NaN\nuntyped f: -Inf"},
	{"counter negative or NaN", lines("# TYPE a counter", "a -1", "# TYPE b counter", "b NaN"), "counter a: -1\ncounter b: NaN"},

	{"help with escapes", `# HELP a x \\ \n \" "q" ` + "\na 1", `untyped a ("x \\ \n \" \"q\" "): 1`},
	{"help behind samples", lines("a 1", "# HELP a x"), `untyped a ("x"): 1`},
	{"help of any bytes", "# HELP a \x00\xff\x01é\r\na 1", `untyped a ("\x00�\x01é\r"): 1`},
	{"help of nothing is none", lines("# HELP a ", "# HELP a x", "# HELP a", "# TYPE a", "# TYPE a ", "a 1"), `untyped a ("x"): 1`},
	{"help of a summary's sample is the summary's", lines("# TYPE s summary", "# HELP s_sum x", "s_sum 1"), `summary s ("x"): sum 1 count 0`},

	{"quoted name", `{"my.name","a.b"="c"} 1`, `untyped "my.name": "a.b"=c 1`},
	{"quoted name alone", lines(`{"my.name"} 1`, `{"other",} 2`), "untyped \"my.name\": 1\nuntyped other: 2"},
	{"quoted name with type and help", lines(`# TYPE "my.name" gauge`, `# HELP "my.name" x`, `{"my.name"} 1`), `gauge "my.name" ("x"): 1`},
	{"quoted name with escapes", `{"a\\b\"c\nd"} 1`, `untyped "a\\b\"c\nd": 1`},
	{"quoted name before braces", lines(`"my.name"{a="b"} 1`, `"other" 2`), "untyped \"my.name\": a=b 1\nuntyped other: 2"},
	{"quoted name behind a label", `{a="b","my.name",c="d"} 1`, `untyped "my.name": a=b c=d 1`},
	{"quoted or not is the same name", lines(`{"a",b="c"} 1`, `a{"b"="d"} 2`), "untyped a: b=c 1; b=d 2"},
	{"quoted histogram", lines(`# TYPE "h.x" histogram`, `{"h.x_bucket",le="1"} 1`, `{"h.x_count"} 2`),
		`histogram "h.x": sum 0 count 2 le1:1 le+Inf:2`},

	{"histogram", lines("# TYPE h histogram", `h_bucket{a="b",le="0.5"} 1`, `h_bucket{a="b",le="+Inf"} 3`, `h_sum{a="b"} 4.5`, `h_count{a="b"} 3`),
		"histogram h: a=b sum 4.5 count 3 le0.5:1 le+Inf:3"},
	{"histogram's samples in any order", lines("# TYPE h histogram", "h_count 3", `h_bucket{le="+Inf"} 3`, `h_bucket{le="1"} 2`, `h_bucket{le="0.5"} 1`, "h_sum 4"),
		"histogram h: sum 4 count 3 le0.5:1 le1:2 le+Inf:3"},
	{"histograms that alternate", lines("# TYPE h histogram", `h_bucket{a="1",le="1"} 1`, `h_bucket{le="1",a="2"} 2`, `h_bucket{a="1",le="2"} 3`,
		`h_bucket{a="2",le="2"} 4`, `h_count{a="1"} 5`, `h_count{a="2"} 6`),
		"histogram h: a=1 sum 0 count 5 le1:1 le2:3 le+Inf:5; a=2 sum 0 count 6 le1:2 le2:4 le+Inf:6"},
	{"labels of a histogram in any order", lines("# TYPE h histogram", `h_bucket{a="1",b="2",le="+Inf"} 1`, `h_sum{b="2",a="1"} 2`),
		"histogram h: a=1 b=2 sum 2 count 1 le+Inf:1"},
	{"histogram without bucket +Inf", lines("# TYPE h histogram", `h_bucket{le="1"} 1`, "h_count 2"), "histogram h: sum 0 count 2 le1:1 le+Inf:2"},
	{"histogram without count", lines("# TYPE h histogram", `h_bucket{le="+Inf"} 2`), "histogram h: sum 0 count 2 le+Inf:2"},
	{"histogram with count and bucket +Inf apart", lines("# TYPE h histogram", `h_bucket{le="+Inf"} 2`, "h_count 3"), "histogram h: sum 0 count 3 le+Inf:2"},
	{"histogram of floats", lines("# TYPE h histogram", `h_bucket{le="1"} 0.5`, "h_count 2.5"), "histogram h: sum 0 count 2.5 le1:0.5 le+Inf:2.5"},
	{"gauge histogram", lines("# TYPE h gaugehistogram", "h_count 1", "# TYPE g gauge_histogram", "g_count 1"),
		"gaugehistogram h: sum 0 count 1 le+Inf:1\ngaugehistogram g: sum 0 count 1 le+Inf:1"},
	{"names of samples elsewhere", lines("a_count 1", "a_sum 2", "a_bucket 3", "a 4", "# TYPE s summary", "s_sum 5", "s_bucket 6"),
		"untyped a_count: 1\nuntyped a_sum: 2\nuntyped a_bucket: 3\nuntyped a: 4\nsummary s: sum 5 count 0\nuntyped s_bucket: 6"},

	{"count -0 is 0", lines("# TYPE s summary", "s_count -0"), "summary s: sum 0 count 0"},
	{"a name that would clash with what has no samples", lines("h_count 1", "# TYPE h histogram"), "untyped h_count: 1"},
	{"summary", lines("# TYPE s summary", `s{quantile="0.5"} 1`, `s{quantile="0.9"} 2`, "s_sum 3", "s_count 4"), "summary s: sum 3 count 4 q0.5:1 q0.9:2"},
	{"summary's quantiles in any order", lines("# TYPE s summary", `s{quantile="0.9"} 2`, `s{quantile="0.5"} 1`), "summary s: sum 0 count 0 q0.5:1 q0.9:2"},
	{"empty summary", lines("# TYPE s summary", `s{quantile="0.5"} NaN`, "s_sum 0", "s_count 0"), "summary s: sum 0 count 0 q0.5:NaN"},
	{"summaries by labels", lines("# TYPE s summary", `s_count{a="1"} 1`, `s_count{a="2"} 2`, `s{a="1",quantile="1"} 3`),
		"summary s: a=1 sum 0 count 1 q1:3; a=2 sum 0 count 2"},
}

func TestLegal(t *testing.T) {
	r := NewTextReader(DefaultOptions())
	for _, c := range legal {
		t.Run(c.name, func(t *testing.T) {
			families, fault := r.Read([]byte(c.body))
			if got := strings.TrimSuffix(describe(families), "\n"); got != c.want || fault != (Fault{}) {
				t.Errorf("%q\n got %s (%v)\nwant %s", c.body, got, fault, c.want)
			}
		})
	}
}

var illegal = []struct{ name, body, want string }{
	{"timestamp", "a 1 1700000000000", `1:5 unsupported: the sample has a timestamp; must have none, because a push is current`},
	{"timestamp 0 or negative", "a 1\nb 1 -0", `2:5 unsupported: the sample has a timestamp; must have none, because a push is current`},
	{"more than a value", "a 1 x", `1:5 malformed: "x" stands after the value; must be the end of the line`},
	{"exemplar", `a 1 # {b="c"} 1`, `1:5 malformed: "# {b=\"c\"} 1" stands after the value; must be the end of the line`},

	{"same series twice", lines(`a{b="c",d="e"} 1`, `a{d="e",b="c"} 1`), `2:1 malformed: the sample of "a" repeats the labels of an earlier one`},
	{"same series twice without labels", "a 1\nb 1\na 2", `3:1 malformed: the sample of "a" repeats the labels of an earlier one`},
	{"same bucket twice", lines("# TYPE h histogram", `h_bucket{le="1"} 1`, `h_bucket{le="1.0"} 1`), `3:13 malformed: the bucket or quantile is repeated`},
	{"same quantile twice", lines("# TYPE s summary", `s{quantile="1"} 1`, `s{quantile="2"} 1`, `s{quantile="1"} 1`), `4:12 malformed: the bucket or quantile is repeated`},
	{"same sum twice", lines("# TYPE s summary", "s_sum 1", "s_sum 1"), `3:1 malformed: the sample of "s_sum" repeats the labels of an earlier one`},
	{"same count twice", lines("# TYPE h histogram", "h_count 1", "h_count 1"), `3:1 malformed: the sample of "h_count" repeats the labels of an earlier one`},

	{"second TYPE", lines("# TYPE a gauge", "# TYPE a gauge"), `2:8 kind_conflict: the type of "a" is already set by an earlier TYPE line or sample`},
	{"TYPE behind samples", lines("a 1", "# TYPE a counter"), `2:8 kind_conflict: the type of "a" is already set by an earlier TYPE line or sample`},
	{"TYPE of a summary's sample", lines("# TYPE s summary", "# TYPE s_count counter"), `2:8 kind_conflict: the type of "s" is already set by an earlier TYPE line or sample`},
	{"second HELP", lines("# HELP a x", "# HELP a x"), `2:8 malformed: the HELP line of "a" is repeated`},
	{"unknown type", "# TYPE a info", `1:10 malformed: unknown type "info": must be counter, gauge, untyped, summary or histogram`},
	{"nearly a type", "# TYPE a gauge?histogram", `1:10 malformed: unknown type "gauge?histogram": must be counter, gauge, untyped, summary or histogram`},
	{"type with a carriage return", "# TYPE a gauge\r\n", `1:10 malformed: unknown type "gauge\r": must be counter, gauge, untyped, summary or histogram (lines end with \n alone)`},
	{"names that clash", lines("h_count 1", "# TYPE h histogram", `h_bucket{le="+Inf"} 1`),
		`1:1 kind_conflict: "h_count" is a metric, and also the name of a sample of a histogram or summary`},
	{"names that clash with a summary", lines("# HELP b x", "s_sum 1", "# TYPE s summary", "s_count 1"),
		`2:1 kind_conflict: "s_sum" is a metric, and also the name of a sample of a histogram or summary`},
	{"bad escape in help", `# HELP a x\ty`, `1:11 malformed: unknown escape "\\t"; must be \\, \" or \n`},
	{"help that ends in an escape", "# HELP a \\", `1:10 malformed: unknown escape "\\"; must be \\, \" or \n`},
	{"comment with a bad name", "# HELP 0a x", `1:8 name: a metric's name must be letters, digits, _ and :, or any UTF-8 in double quotes, and not empty`},
	{"comment with a name cut off", "# TYPE a{ x", `1:8 name: a metric's name must be letters, digits, _ and :, or any UTF-8 in double quotes, and not empty`},
	{"comment with an empty name", `# TYPE "" gauge`, `1:8 name: a metric's name must be letters, digits, _ and :, or any UTF-8 in double quotes, and not empty`},

	{"bad name", "0a 1", `1:1 name: a metric's name must be letters, digits, _ and :, or any UTF-8 in double quotes, and not empty`},
	{"bad name behind blanks", " \r\n", `1:2 name: a metric's name must be letters, digits, _ and :, or any UTF-8 in double quotes, and not empty`},
	{"name whose quotes do not end", `"a 1`, `1:1 malformed: the string that begins here does not end on its line; must end with ", and have \n for a line feed`},
	{"empty name before braces", `""{} 1`, `1:1 name: a metric's name must be letters, digits, _ and :, or any UTF-8 in double quotes, and not empty`},
	{"name with a dot", "my.name 1", `1:3 name: "." cannot follow a name: a name with other characters than letters, digits, _ and : is written {"name",...}`},
	{"name with an umlaut", "mä 1", `1:2 name: "ä" cannot follow a name: a name with other characters than letters, digits, _ and : is written {"name",...}`},
	{"empty name", `{""} 1`, `1:2 malformed: a label's name must be letters, digits and _, or any UTF-8 in double quotes, and not empty`},
	{"name that is not UTF-8", "{\"\xff\"} 1", `1:1 malformed: it is not valid UTF-8`},
	{"NUL in a name", "{\"a\x00\"} 1", `1:1 name: a name has a NUL byte`},
	{"NUL in a label's name", "a{\"b\x00\"=\"c\"} 1", `1:3 name: a name has a NUL byte`},
	{"NUL where a name is", "\x00 1", `1:1 name: a metric's name must be letters, digits, _ and :, or any UTF-8 in double quotes, and not empty`},
	{"no name", `{a="b"} 1`, `1:1 malformed: no metric name; must be name{...} or {"name",...}`},
	{"no name in empty braces", "{} 1", `1:1 malformed: no metric name; must be name{...} or {"name",...}`},
	{"two names", `{"a","b"} 1`, `1:6 malformed: there is a second metric name within the braces`},
	{"two names, one before", `a{"b"} 1`, `1:6 malformed: no "=" after label "b"; must be name="value"`},
	{"name in braces without quotes", `{a} 1`, `1:2 malformed: "a" stands where a metric's name would be in double quotes, or a label's before =`},

	{"label __name__", `a{__name__="b"} 1`, `1:3 name: label "__name__": names that begin with "__" are reserved`},
	{"reserved label", `a{"__x"="b"} 1`, `1:3 name: label "__x": names that begin with "__" are reserved`},
	{"same label twice", `a{b="1",c="2",b="1"} 1`, `1:15 malformed: label "b" is repeated`},
	{"same label twice: le", lines("# TYPE h histogram", `h_bucket{le="1",le="2"} 1`), `2:17 malformed: label "le" is repeated`},
	{"bad label name", `a{0="b"} 1`, `1:3 malformed: a label's name must be letters, digits and _, or any UTF-8 in double quotes, and not empty`},
	{"label name with a colon", `a{b:c="b"} 1`, `1:4 malformed: no "=" after label "b"; must be name="value"`},
	{"empty label name", `a{""="b"} 1`, `1:3 malformed: a label's name must be letters, digits and _, or any UTF-8 in double quotes, and not empty`},
	{"label name that is not UTF-8", "a{\"\xff\"=\"b\"} 1", `1:3 malformed: it is not valid UTF-8`},
	{"comma before the labels", `a{,b="c"} 1`, `1:3 malformed: a label's name must be letters, digits and _, or any UTF-8 in double quotes, and not empty`},
	{"two commas", `a{b="c",,} 1`, `1:9 malformed: a label's name must be letters, digits and _, or any UTF-8 in double quotes, and not empty`},
	{"no comma", `a{b="c" d="e"} 1`, `1:9 malformed: a label must be followed by , or }`},
	{"label without a value", `a{b} 1`, `1:4 malformed: no "=" after label "b"; must be name="value"`},
	{"label value without quotes", `a{b=c} 1`, `1:5 malformed: the value of label "b" does not begin with a double quote`},
	{"label value cut off", "a{b=\"c\nd\"} 1", `1:5 malformed: the string that begins here does not end on its line; must end with ", and have \n for a line feed`},
	{"label value that ends in an escape", `a{b="c\`, `1:5 malformed: the string that begins here does not end on its line; must end with ", and have \n for a line feed`},
	{"bad escape in a label value", `a{b="\n\t"} 1`, `1:8 malformed: unknown escape "\\t"; must be \\, \" or \n`},
	{"label value that is not UTF-8", "a{b=\"\xff\"} 1", `1:5 malformed: it is not valid UTF-8`},
	{"braces cut off", "a{", `1:3 malformed: the labels do not end with } on their line`},
	{"braces cut off behind a label", `a{b="c"`, `1:8 malformed: the labels do not end with } on their line`},
	{"braces cut off behind a comma", "a{b=\"c\", \nd 1", `1:10 malformed: the labels do not end with } on their line`},
	{"braces cut off behind a name", "a{b ", `1:5 malformed: the labels do not end with } on their line`},
	{"braces cut off behind =", "a{b=", `1:5 malformed: the value of label "b" does not begin with a double quote`},

	{"no value", "a", `1:2 malformed: no value after the name`},
	{"no value behind labels", "a{b=\"c\"} \n", `1:10 malformed: no value after the name`},
	{"bad value", "a 1,5", `1:3 value: "1,5" is not a value; must be a decimal number within float64, NaN, +Inf or -Inf`},
	{"hexadecimal value", "a 0x1p4", `1:3 value: "0x1p4" is not a value; must be a decimal number within float64, NaN, +Inf or -Inf`},
	{"value with underscores", "a 1_000", `1:3 value: "1_000" is not a value; must be a decimal number within float64, NaN, +Inf or -Inf`},
	{"value beyond float64", "a 1e999", `1:3 value: "1e999" is not a value; must be a decimal number within float64, NaN, +Inf or -Inf`},
	{"value with a carriage return", "a 1\r\n", `1:3 value: "1\r" is not a value; must be a decimal number within float64, NaN, +Inf or -Inf (lines end with \n alone)`},

	{"bucket without le", lines("# TYPE h histogram", "h_bucket 1"), `2:1 malformed: a bucket has no bound; must have the label "le"`},
	{"le that is no number", lines("# TYPE h histogram", `h_bucket{le="x"} 1`), `2:13 value: bucket bound is "x"; must be a number or +Inf`},
	{"le NaN", lines("# TYPE h histogram", `h_bucket{a="b",le="NaN"} 1`), `2:19 value: bucket bound is "NaN"; must be a number or +Inf`},
	{"le on a sum", lines("# TYPE h histogram", `h_sum{le="1"} 1`), `2:10 malformed: label "le" does not belong to a _sum or _count`},
	{"histogram's bare name", lines("# TYPE h histogram", `h{le="1"} 1`), `2:1 malformed: "h" is a histogram; its samples must have the suffix _bucket, _sum or _count`},
	{"buckets that fall", lines("# TYPE h histogram", `h_bucket{le="1"} 2`, `h_bucket{le="2"} 1`),
		`3:18 value: bucket counts are cumulative: this one is below that of a smaller bound, or above that of a larger one`},
	{"buckets that fall, in another order", lines("# TYPE h histogram", `h_bucket{le="2"} 1`, `h_bucket{le="1"} 2`),
		`3:18 value: bucket counts are cumulative: this one is below that of a smaller bound, or above that of a larger one`},
	{"bucket +Inf that would fall", lines("# TYPE h histogram", `h_bucket{le="1"} 2`, "h_count 1", "a 1"),
		`3:1 value: histogram "h" counts less than its last bucket, and has no bucket +Inf`},
	{"neither count nor bucket +Inf", lines("# TYPE h histogram", `h_bucket{le="1"} 2`), `2:1 malformed: histogram "h" has neither a count nor a bucket +Inf; must have one of them`},
	{"negative bucket", lines("# TYPE h histogram", `h_bucket{le="1"} -1`), `2:18 value: a count of observations must be finite and at least 0`},
	{"count NaN", lines("# TYPE h histogram", `h_count NaN`), `2:9 value: a count of observations must be finite and at least 0`},
	{"count of a summary infinite", lines("# TYPE s summary", `s_count +Inf`), `2:9 value: a count of observations must be finite and at least 0`},
	{"summary without quantile", lines("# TYPE s summary", "s 1"), `2:1 malformed: a summary's sample must have the label "quantile", or the suffix _sum or _count`},
	{"quantile that is no number", lines("# TYPE s summary", `s{quantile=""} 1`), `2:12 value: quantile is ""; must be a number`},
	{"quantile NaN", lines("# TYPE s summary", `s{quantile="NaN"} 1`), `2:12 value: quantile is "NaN"; must be a number`},
	{"quantile on a count", lines("# TYPE s summary", `s_count{quantile="1"} 1`), `2:18 malformed: label "quantile" does not belong to a _sum or _count`},
}

func TestIllegal(t *testing.T) {
	r := NewTextReader(DefaultOptions())
	for _, c := range illegal {
		t.Run(c.name, func(t *testing.T) {
			families, fault := r.Read([]byte(c.body))
			got := fmt.Sprintf("%d:%d %s: %s", fault.Line, fault.Column, fault.Reason, fault.Explain())
			if got != c.want || families != nil {
				t.Errorf("%q\n got %s\nwant %s", c.body, got, c.want)
			}
		})
	}
}

func TestFaultIsAnError(t *testing.T) {
	_, fault := NewTextReader(DefaultOptions()).Read([]byte("a 1\nb x\n"))
	var err error = fault
	if want := `line 2, column 3: "x" is not a value; must be a decimal number within float64, NaN, +Inf or -Inf`; err.Error() != want {
		t.Error(err)
	}
	if fault.Reason != metric.BadValue {
		t.Error(fault.Reason)
	}
}

func TestLimits(t *testing.T) {
	small := Options{MaxFamilies: 2, MaxMetrics: 3, MaxLabels: 2, MaxLabelBytes: 20, MaxBuckets: 2, MaxLine: 40, MaxMessage: 40}
	for _, c := range []struct{ name, body, want string }{
		{"families", lines("a 1", "b 1"), ""},
		{"families", lines("a 1", "# HELP b x", "c 1"), "3:1 limit: there are more than 2 families, which is the limit of a push"},
		{"metrics", lines(`a{b="1"} 1`, `a{b="2"} 1`, "a 1"), ""},
		{"metrics", lines(`a{b="1"} 1`, `a{b="2"} 1`, "a 1", "b 1"), "4:1 limit: there are more than 3 metrics, which is the limit of a push"},
		{"labels", `a{b="1",c="2"} 1`, ""},
		{"labels", `a{b="1",c="2",d="3"} 1`, "1:15 too_long: there are more than 2 labels, which is the limit of a metric"},
		{"label bytes", `a{b="` + strings.Repeat("x", 18) + `"} 1`, ""},
		{"label bytes", ` a{b="` + strings.Repeat("x", 19) + `"} 1`, "1:2 too_long: the name and labels have more than 20 bytes, which is the limit of a metric"},
		{"name", `{"` + strings.Repeat("x", 21) + `"} 1`, "1:1 too_long: the name and labels have more than 20 bytes, which is the limit of a metric"},
		{"buckets", lines("# TYPE h histogram", `h_bucket{le="1"} 1`, `h_bucket{le="2"} 1`, "h_count 1"), ""},
		{"buckets", lines("# TYPE h histogram", `h_bucket{le="1"} 1`, `h_bucket{le="2"} 1`, `h_bucket{le="3"} 1`),
			"4:13 too_long: there are more than 2 buckets or quantiles, which is the limit of a metric"},
		{"line", "# " + strings.Repeat("x", 38), ""},
		{"line", "# " + strings.Repeat("x", 39), "1:41 too_long: the line has more than 40 bytes, which is the limit of a line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, fault := NewTextReader(small).Read([]byte(c.body))
			got := ""
			if fault.Reason != metric.Applied {
				got = fmt.Sprintf("%d:%d %s: %s", fault.Line, fault.Column, fault.Reason, fault.Explain())
			}
			if got != c.want {
				t.Errorf("%q\n got %s\nwant %s", c.body, got, c.want)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	if err := DefaultOptions().Validate(); err != nil {
		t.Error(err)
	}
	err := Options{MaxFamilies: 1, MaxMetrics: 1, MaxLabels: 1, MaxLabelBytes: -1, MaxBuckets: 1, MaxLine: 1 << 29, MaxMessage: 1}.Validate()
	if want := "max_label_bytes -1: want 1 to 268435456\nmax_line 536870912: want 1 to 268435456"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
