package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// pushFrom pushes as a sender of a namespace whose path names none.
func (f *fixture) pushFrom(namespace, key, body string) {
	f.Helper()
	families, fault := exposition.NewTextReader(exposition.DefaultOptions()).Read([]byte(body))
	if fault.Reason != metric.Applied {
		f.Fatal(fault.Error())
	}
	k := keyOf(key)
	k.Namespace = namespace
	f.now = f.now.Add(time.Second)
	if _, r := f.Push(&Push{
		Key: k, Object: metric.Object{Namespace: namespace}, Families: families, Replace: true, Now: f.now, Applier: f.table,
	}); r != nil {
		f.Fatal(r.Message)
	}
}

// readPage returns the page of all groups, which a reader of a Pushgateway must be able to read.
func (f *fixture) readPage(escaping exposition.Escaping) string {
	f.Helper()
	page := string(exposition.Append(nil, exposition.Text, MergedFamilies(f.All(nil), escaping)...))
	if _, fault := exposition.NewTextReader(exposition.DefaultOptions()).Read([]byte(page)); fault.Reason != metric.Applied {
		f.Errorf("%s:\n%s", fault.Error(), page)
	}
	return page
}

// Groups of different namespaces that are alike otherwise are told apart by the label namespace.
func TestGroupsAreExposedInTheirNamespace(t *testing.T) {
	f := newFixture(t)
	f.pushFrom("", "job=a", "x 1\n")
	f.pushFrom("shop", "job=a", "x 2\n")
	f.exposes("x{instance=\"\",job=\"a\"} 1\nx{instance=\"\",job=\"a\",namespace=\"shop\"} 2")
	page := f.readPage(exposition.AllowUTF8)
	for _, name := range []string{pushTime, failureTime} {
		for _, labels := range []string{`{instance="",job="a"} `, `{instance="",job="a",namespace="shop"} `} {
			if strings.Count(page, name+labels) != 1 {
				t.Errorf("%s%s is not there once:\n%s", name, labels, page)
			}
		}
	}
}

// A label of a body names no other namespace than that of the group.
func TestABodyNamesNoOtherNamespace(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=backup,namespace=shop", "m 5\n")
	f.pushFrom("a", "job=backup", "m{namespace=\"shop\"} 999\nm{namespace=\"\",l=\"1\"} 1\nm{namespace=\"a\",l=\"2\"} 2\n"+
		"m{namespace=\"shop\",exported_namespace=\"b\"} 3\n")
	f.exposes(`m{exported_namespace="shop",instance="",job="backup",namespace="a"} 999
m{instance="",job="backup",l="1",namespace="a"} 1
m{instance="",job="backup",l="2",namespace="a"} 2
m{exported_exported_namespace="shop",exported_namespace="b",instance="",job="backup",namespace="a"} 3
m{instance="",job="backup",namespace="shop"} 5`)
	f.readPage(exposition.Underscores)
	for range f.group("job=backup,namespace=shop").Families() {
		return
	}
	t.Error("the group has no family")
}

// A namespace may be of the path or of the sender: groups that look alike on the page have each series once, of the push
// that came last.
func TestGroupsThatLookAlike(t *testing.T) {
	f := newFixture(t)
	newest := func(want string) {
		t.Helper()
		f.exposes(want)
		page := f.readPage(exposition.AllowUTF8)
		pushed := fmt.Sprintf("%s{instance=\"\",job=\"a\",namespace=\"shop\"} %g\n", pushTime, seconds(f.now))
		if !strings.Contains(page, pushed) {
			t.Errorf("want %sin:\n%s", pushed, page)
		}
	}
	f.pushFrom("shop", "job=a", "x 1\ny 1\n")
	f.push("PUT", "job=a,namespace=shop", "x 2\nz 2\n")
	newest(`x{instance="",job="a",namespace="shop"} 2
y{instance="",job="a",namespace="shop"} 1
z{instance="",job="a",namespace="shop"} 2`)
	f.pushFrom("shop", "job=a", "x 3\n")
	newest(`x{instance="",job="a",namespace="shop"} 3
z{instance="",job="a",namespace="shop"} 2`)
	f.pushFrom("shop", "job=a,namespace=", "x 4\n")
	newest(`x{instance="",job="a",namespace="shop"} 4
z{instance="",job="a",namespace="shop"} 2`)
	if before := f.All(nil); !slices.IsSortedFunc(before, func(a, b Group) int {
		return strings.Compare(a.Key.Labels.Packed(), b.Key.Labels.Packed())
	}) {
		t.Error("the list is not in its order")
	}
}

// Escaping may make names equal that were not.
func TestPageOfNamesThatAreEscapedAlike(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a", "{\"push.time.seconds\"} 1\nm{\"a.b\"=\"1\"} 1\nm{a_b=\"1\"} 2\n")
	page := f.readPage(exposition.Underscores)
	if strings.Count(page, "# TYPE "+pushTime) != 1 || strings.Count(page, `m{a_b="1",instance="",job="a"}`) != 1 {
		t.Error(page)
	}
	page = f.readPage(exposition.AllowUTF8)
	if strings.Count(page, "\nm{") != 2 || !strings.Contains(page, `"push.time.seconds"`) {
		t.Error(page)
	}
}

// A scrape with honor_labels makes a group's metrics look like Sluice's: those of its alerts are
// not on the page.
func TestAGroupHasNoneOfSluicesMetrics(t *testing.T) {
	f := newFixture(t)
	f.push("PUT", "job=a", "sluice_cluster_synced 0\n{\"sluice.cluster.synced\"} 0\nsluices 1\n")
	if page := f.readPage(exposition.Underscores); strings.Contains(page, "sluice_") || !strings.Contains(page, "sluices{") {
		t.Error(page)
	}
}

// No namespace hides series of another one by a type: histograms and summaries that cannot stand beside them are exposed
// as the numbers that they consist of.
func TestTypesOfOtherNamespacesHideNothing(t *testing.T) {
	const histogram = "# TYPE m histogram\nm_bucket{le=\"0.5\"} 1\nm_bucket{le=\"+Inf\"} 2\nm_sum 3\nm_count 2\n"
	const asNumbers = `m_bucket{instance="",job="a",le="0.5",namespace="bank"} 1
m_bucket{instance="",job="a",le="+Inf",namespace="bank"} 2
m_count{instance="",job="a",namespace="bank"} 2
`
	for body, want := range map[string]string{
		"m 5\n": `m{instance="",job="a",namespace="shop"} 5
` + asNumbers + `m_sum{instance="",job="a",namespace="bank"} 3`,
		"m_sum 5\n": asNumbers + `m_sum{instance="",job="a",namespace="bank"} 3
m_sum{instance="",job="a",namespace="shop"} 5`,
		"# TYPE m summary\nm{quantile=\"1\"} 5\nm_sum 6\nm_count 7\n": `m{instance="",job="a",namespace="shop",quantile="1.0"} 5
` + asNumbers + `m_count{instance="",job="a",namespace="shop"} 7
m_sum{instance="",job="a",namespace="bank"} 3
m_sum{instance="",job="a",namespace="shop"} 6`,
		"# TYPE m_count summary\nm_count_sum 6\nm_count_count 7\n": asNumbers +
			`m_count_count{instance="",job="a",namespace="shop"} 7
m_count_sum{instance="",job="a",namespace="shop"} 6
m_sum{instance="",job="a",namespace="bank"} 3`,
	} {
		for _, order := range [][2]string{{"bank", "shop"}, {"shop", "bank"}} {
			f := newFixture(t)
			f.pushFrom(order[0], "job=a", histogram)
			f.pushFrom(order[1], "job=a", body)
			lines := slices.Collect(strings.Lines(strings.NewReplacer("shop", order[1], "bank", order[0]).Replace(want) + "\n"))
			for line := range strings.Lines(f.readPage(exposition.Underscores)) {
				if strings.HasPrefix(line, "m") && !slices.Contains(lines, line) {
					t.Errorf("%s%s is exposed", body, line)
				}
				lines = slices.DeleteFunc(lines, func(l string) bool { return l == line })
			}
			if len(lines) > 0 {
				t.Errorf("%s%q are not exposed", body, lines)
			}
		}
	}
	f := newFixture(t) // of one type, they are histograms
	f.pushFrom("bank", "job=a", histogram)
	f.pushFrom("shop", "job=a", histogram)
	page := f.readPage(exposition.Underscores)
	if strings.Count(page, "# TYPE m histogram") != 1 || strings.Count(page, "m_sum{") != 2 {
		t.Error(page)
	}
}

// The memory that one namespace can make the numbers of others take on a page is bounded: histograms are left out, and
// plain numbers never.
func TestSplitFamiliesAreBounded(t *testing.T) {
	f := newFixture(t)
	const each, buckets = 500, 30
	var body strings.Builder
	body.WriteString("# TYPE m histogram\n")
	for i := range each {
		for b := range buckets {
			fmt.Fprintf(&body, "m_bucket{l=\"%d\",le=\"%d\"} 1\n", i, b)
		}
		fmt.Fprintf(&body, "m_bucket{l=\"%d\",le=\"+Inf\"} 1\nm_sum{l=\"%d\"} 1\nm_count{l=\"%d\"} 1\n", i, i, i)
	}
	f.pushFrom("a", "job=a", "m 1\n")
	const groups = maxSplit*3/4/(each*(buckets+3)) + 1 // a quarter is left to others
	for i := range groups {
		f.pushFrom("b", fmt.Sprintf("job=b,i=%d", i), body.String())
	}
	f.pushFrom("c", "job=c", "m 1\n# TYPE other histogram\nother_bucket{le=\"+Inf\"} 2\nother_sum 3\nother_count 2\n")
	f.pushFrom("d", "job=d", "other 1\n")
	metrics := map[string]int{}
	for _, family := range MergedFamilies(f.All(nil), exposition.Underscores) {
		metrics[family.Name] = len(family.Metrics)
	}
	if metrics["m_count"] != (groups-1)*each || metrics["m_bucket"] != (groups-1)*each*(buckets+1) || metrics["m"] != 2 ||
		metrics["other_count"] != 1 || metrics["other"] != 1 {
		t.Errorf("%v are exposed, want the histograms of %d groups of %d, 2 numbers, and the histogram of c", metrics, groups-1, each)
	}
}
