package scrape

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

func filtered(t *testing.T, page string, openMetrics bool, names ...string) (string, []string) {
	t.Helper()
	var f filter
	if err := f.read(wantedNames(names), openMetrics, bufio.NewReaderSize(strings.NewReader(page), 64)); err != nil {
		t.Fatal(err)
	}
	return string(f.out), f.missing(names)
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name, page  string
		openMetrics bool
		names, want string
		missing     string
	}{
		{name: "other families", page: "# HELP a Help.\n# TYPE a gauge\na 1\n# TYPE b gauge\nb 2\nab 3\n", names: "a", want: "# TYPE a gauge\na 1\n"},
		{name: "labels", page: "a{x=\"}\\\"\",y=\"1 2\"} 1\n", names: "a", want: "a{x=\"}\\\"\",y=\"1 2\"} 1\n"},
		{name: "timestamps", page: "a{x=\"1\"} 1 1700000000000\na  2   -5 \n", names: "a", want: "a{x=\"1\"} 1\na  2\n"},
		{name: "no end of line", page: "a 1", names: "a", want: "a 1\n"},
		{name: "carriage returns", page: "a 1\r\nb 2\r\n", names: "b", want: "b 2\n"},
		{name: "colons", page: "# TYPE vllm:x gauge\nvllm:x{m=\"q\"} 1.0\nvllm:xy 2\n", names: "vllm:x", want: "# TYPE vllm:x gauge\nvllm:x{m=\"q\"} 1.0\n"},
		{name: "a histogram", page: "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\nh_other 5\n", names: "h",
			want: "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n"},
		{name: "a summary that stands apart", page: "# TYPE s summary\ns{quantile=\"0.5\"} 1\n# TYPE a gauge\na 1\ns_sum 3\ns_count 2\n", names: "s",
			want: "# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 3\ns_count 2\n"},
		{name: "a gauge with such a name", page: "# TYPE a gauge\na 1\na_count 5\n", names: "a", want: "# TYPE a gauge\na 1\n"},
		{name: "a part of a histogram", page: "# TYPE h histogram\nh_count 2\nh_sum 3\n# TYPE c counter\nc_count 1\n", names: "h_count", want: "", missing: "h_count"},
		{name: "quoted names", page: "# TYPE \"a.b\" gauge\n{\"a.b\",x=\"1\"} 1 5\n{\"c.d\"} 2\n", names: "a.b", want: "# TYPE \"a.b\" gauge\n{\"a.b\",x=\"1\"} 1\n"},
		{name: "OpenMetrics", openMetrics: true, names: "c_total h", want: "# TYPE c_total counter\nc_total{x=\"1\"} 5\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_count 1\nh_sum 2\n",
			page: "# TYPE c counter\n# UNIT c s\nc_total{x=\"1\"} 5 1700000000.5 # {trace=\"}a\"} 1 1\nc_created{x=\"1\"} 1\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1 # {t=\"x\"} 2\nh_count 1\nh_sum 2\nh_created 1\n# EOF\n"},
		{name: "unknown types", openMetrics: true, page: "# TYPE a unknown\na 1\n# TYPE i info\ni_info 1\n# EOF\n", names: "a", want: "a 1\n"},
		{name: "missing", page: "a 1\n", names: "b a c", want: "a 1\n", missing: "b c"},
		{name: "a bad line is kept", page: "a 1 x\na\nb x\n", names: "a", want: "a 1 x\na\n"},
		{name: "long lines of others", page: "b{x=\"" + strings.Repeat("y", 200_000) + "\"} 1\na 1\nb{x=\"" + strings.Repeat("y", 200_000), names: "a", want: "a 1\n"},
		{name: "a long line", page: "a{x=\"" + strings.Repeat("y", 5000) + "\"} 1\n", names: "a", want: "a{x=\"" + strings.Repeat("y", 5000) + "\"} 1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, missing := filtered(t, c.page, c.openMetrics, strings.Fields(c.names)...)
			if got != c.want || strings.Join(missing, " ") != c.missing {
				t.Errorf("%q, without %q\nwant %q, without %q", got, missing, c.want, c.missing)
			}
		})
	}
}

func TestFilterRefusesWhatIsTooLong(t *testing.T) {
	for _, page := range []string{
		"a{x=\"" + strings.Repeat("y", maxLine) + "\"} 1\n",
		strings.Repeat("a{x=\"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\"} 1\n", 20_000),
	} {
		var f filter
		err := f.read(wantedNames([]string{"a"}), false, bufio.NewReader(strings.NewReader(page)))
		if large := (errTooLarge{}); !errors.As(err, &large) && !errors.Is(err, errLongLine) {
			t.Errorf("a page of %d bytes: %v", len(page), err)
		}
	}
}

// vllmPage has the families of a vLLM server.
func vllmPage(t testing.TB) []byte {
	t.Helper()
	page, err := os.ReadFile("testdata/vllm.txt")
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// A page of 200 kB takes no memory in proportion.
func TestFilterAllocatesNothing(t *testing.T) {
	page := vllmPage(t)
	for i := 0; len(page) < 200_000; i++ {
		page = fmt.Appendf(page, "# TYPE other_%d histogram\nother_%d_bucket{le=\"1\",model=\"some-model-or-other\"} %d\nother_%d_sum 5\n", i, i, i, i)
	}
	wanted := wantedNames([]string{"vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"})
	from, buffer := bytes.NewReader(nil), bufio.NewReaderSize(nil, 16<<10)
	var f filter
	if n := testing.AllocsPerRun(20, func() {
		from.Reset(page)
		buffer.Reset(from)
		if err := f.read(wanted, false, buffer); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for a page of %d bytes", n, len(page))
	}
	if len(f.out) == 0 || len(f.out) > 1000 {
		t.Errorf("%d bytes are kept:\n%s", len(f.out), f.out)
	}
}

// FuzzFilter: of a body that the reader of pushes takes, the filter keeps the named families and no other.
func FuzzFilter(f *testing.F) {
	f.Add([]byte("# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\n# TYPE b counter\nb{x=\"y\"} 5\nc 1\n"), "a")
	f.Add([]byte("# TYPE a summary\na{quantile=\"0.5\"} 1\na_count 1\n{\"b\"} 5\n"), "b")
	f.Fuzz(func(t *testing.T, body []byte, name string) {
		if metric.CheckName(name) != metric.Applied || strings.ContainsAny(name, "\"\\{}") {
			return
		}
		var few filter
		if few.read(wantedNames([]string{name}), false, bufio.NewReaderSize(bytes.NewReader(body), 32)) != nil {
			return
		}
		all, bad := exposition.NewTextReader(exposition.DefaultOptions()).Read(body)
		if bad.Reason != metric.Applied || bytes.Contains(body, []byte("\\")) || bytes.Contains(body, []byte("\r")) ||
			bytes.Contains(body, []byte("# TYPE  ")) || !typesFirst(body) {
			return
		}
		kept, bad := exposition.NewTextReader(exposition.DefaultOptions()).Read(few.out)
		if bad.Reason != metric.Applied {
			t.Fatalf("%s\nkept of\n%s\nfor %q: %s", few.out, body, name, bad.Error())
		}
		i := slices.IndexFunc(all, func(f exposition.Family) bool { return f.Name == name })
		switch {
		case i < 0 && len(kept) == 0:
		case i < 0 || len(kept) != 1 || kept[0].Name != name || kept[0].Type != all[i].Type || !reflect.DeepEqual(plain(kept[0].Metrics), plain(all[i].Metrics)):
			t.Fatalf("%s\nkept of\n%s\nfor %q", few.out, body, name)
		}
	})
}

// plain makes no difference between no labels and an empty list of them.
func plain(all []exposition.Metric) []exposition.Metric {
	for i := range all {
		if len(all[i].Labels) == 0 {
			all[i].Labels = nil
		}
	}
	return all
}

// typesFirst reports whether a body is as clients write it: TYPE lines in their spelling.
func typesFirst(body []byte) bool {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimLeft(line, " \t"); len(line) > 0 && line[0] == '#' && !bytes.HasPrefix(line, []byte("# TYPE ")) {
			return false
		}
		if word, rest := cutWord(bytes.TrimPrefix(line, []byte("# TYPE "))); bytes.HasPrefix(line, []byte("# TYPE ")) {
			kind := strings.TrimSpace(string(rest))
			if len(word) == 0 || !slices.Contains([]string{"counter", "gauge", "histogram", "summary", "untyped"}, kind) {
				return false
			}
		}
	}
	return true
}
