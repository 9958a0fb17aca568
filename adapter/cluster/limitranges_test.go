package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
)

const unsaid = metric.Unset

func said(podMetrics, podSeries, namespaceMetrics, namespaceSeries int) metric.Limits {
	return metric.Limits{
		Pod:       metric.Limit{Metrics: podMetrics, Series: podSeries},
		Namespace: metric.Limit{Metrics: namespaceMetrics, Series: namespaceSeries},
	}
}

func mustConvert(t *testing.T, from *corev1.LimitRange, version string) *limitRange {
	t.Helper()
	from.ResourceVersion = version
	short, ok := newLimitRange(from)
	if !ok {
		t.Fatal("no LimitRange")
	}
	return short
}

func TestLimitRange(t *testing.T) {
	for _, c := range []struct {
		name      string
		items     []corev1.LimitRangeItem
		want      metric.Limits
		faults    string // part of them
		misplaced string
	}{
		{"nothing", nil, metric.UnsetLimits(), "", ""},
		{"both types", []corev1.LimitRangeItem{podItem("20", "200"), namespaceItem("100", "5k")}, said(20, 200, 100, 5000), "", ""},
		{"metrics only", []corev1.LimitRangeItem{podItem("20", "")}, said(20, unsaid, unsaid, unsaid), "", ""},
		{"none may be", []corev1.LimitRangeItem{podItem("0", "")}, said(0, unsaid, unsaid, unsaid), "", ""},
		{"whole in other words", []corev1.LimitRangeItem{podItem("2000m", "1e2")}, said(2, 100, unsaid, unsaid), "", ""},
		{"the most", []corev1.LimitRangeItem{podItem("1G", "")}, said(1_000_000_000, unsaid, unsaid, unsaid), "", ""},
		{"negative", []corev1.LimitRangeItem{podItem("-1", "200")}, said(unsaid, 200, unsaid, unsaid), "sluice.dev/metrics under type sluice.dev/Pod is -1; must be a whole number", ""},
		{"fractional", []corev1.LimitRangeItem{namespaceItem("", "500m")}, metric.UnsetLimits(), "sluice.dev/series under type sluice.dev/Namespace is 500m", ""},
		{"absurd", []corev1.LimitRangeItem{podItem("1000000001", "1e30")}, metric.UnsetLimits(), "sluice.dev/series under type sluice.dev/Pod is 1e30", ""},
		{"larger than can be computed", []corev1.LimitRangeItem{podItem("1e2000000000", "0e2000000000")}, metric.UnsetLimits(), "sluice.dev/metrics under type sluice.dev/Pod is", ""},
		{"tiny", []corev1.LimitRangeItem{podItem("1n", "")}, metric.UnsetLimits(), "is 1n", ""},
		{"beyond int64", []corev1.LimitRangeItem{podItem("9223372036854775808", "")}, metric.UnsetLimits(), "9223372036854775808", ""},
		{"default and min mean nothing", []corev1.LimitRangeItem{{Type: podType, Default: quantities("3", ""), Min: quantities("1", "")}}, metric.UnsetLimits(), "", ""},
		{"a type that is none", []corev1.LimitRangeItem{{Type: "sluice.dev/Pods", Max: quantities("3", "")}}, metric.UnsetLimits(), "type sluice.dev/Pods is unknown; must be sluice.dev/Pod or", ""},
		{"resources that are none", []corev1.LimitRangeItem{
			{Type: podType, Max: corev1.ResourceList{metricsName: quantity.MustParse("3"), "sluice.dev/foo": {}}, Min: corev1.ResourceList{"cpu": {}}},
			{Type: namespaceType, Max: corev1.ResourceList{"sluice.dev/metric": {}}},
		}, said(3, unsaid, unsaid, unsaid), "cpu, sluice.dev/foo under type sluice.dev/Pod is unknown; must be sluice.dev/metrics or sluice.dev/series; " +
			"sluice.dev/metric under type sluice.dev/Namespace is unknown", ""},
		{"others' business", []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{"cpu": {}}}}, metric.UnsetLimits(), "", ""},
		{"max under Pod", []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: quantities("7", "")}}, metric.UnsetLimits(), "", "sluice.dev/metrics under type Pod"},
		{"min under Pod", []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Min: quantities("7", "")}}, metric.UnsetLimits(), "", "under type Pod"},
		{"default under Container", []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: quantities("7", "9")}}, metric.UnsetLimits(), "", "sluice.dev/metrics, sluice.dev/series under type Container"},
		{"defaultRequest under Container", []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: quantities("", "9")}}, metric.UnsetLimits(), "", "sluice.dev/series under type Container"},
		{"ratio under Container", []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, MaxLimitRequestRatio: quantities("", "9")}}, metric.UnsetLimits(), "", "must be under type sluice.dev/Pod or sluice.dev/Namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			short := mustConvert(t, aLimitRange("shop", "a", c.items...), "1")
			if short.limits != c.want {
				t.Errorf("says %+v, want %+v", short.limits, c.want)
			}
			if faults := strings.Join(short.faults, "; "); !strings.Contains(faults, c.faults) || c.faults == "" && faults != "" {
				t.Errorf("faults are %q, want %q", faults, c.faults)
			}
			if !strings.Contains(short.misplacedFault, c.misplaced) || c.misplaced == "" && short.misplacedFault != "" {
				t.Errorf("misplaced is %q, want %q", short.misplacedFault, c.misplaced)
			}
		})
	}
}

func TestLowestOfSeveralLimitRanges(t *testing.T) {
	heard := &told{}
	o := heard.observer()
	l := newLimitRanges(&o, newEvents(nil, newResources(), quiet), quiet)
	check := func(what string, want metric.Limits, changes int) {
		t.Helper()
		if got := l.limits("shop"); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
		if _, _, told, _ := heard.count(); told != changes {
			t.Errorf("%s: told of %d changes, want %d", what, told, changes)
		}
	}
	check("nothing said", metric.UnsetLimits(), 0)
	l.put(mustConvert(t, aLimitRange("shop", "a", podItem("20", "200")), "1"))
	check("one", said(20, 200, unsaid, unsaid), 1)
	l.put(mustConvert(t, aLimitRange("shop", "b", podItem("10", "300"), namespaceItem("5", "")), "2"))
	check("two", said(10, 200, 5, unsaid), 2)
	l.put(mustConvert(t, aLimitRange("shop", "c", podItem("50", "")), "3"))
	check("one that changes nothing", said(10, 200, 5, unsaid), 2)
	l.put(mustConvert(t, aLimitRange("shop", "c", podItem("0", "")), "4"))
	check("zero", said(0, 200, 5, unsaid), 3)
	l.drop("shop", "c")
	check("without it", said(10, 200, 5, unsaid), 4)
	l.replace([]*limitRange{mustConvert(t, aLimitRange("shop", "a", podItem("20", "200")), "1")})
	check("a list read anew", said(20, 200, unsaid, unsaid), 5)
	l.replace(nil)
	check("an empty list", metric.UnsetLimits(), 6)
	if len(l.lowest)+len(l.byNamespace) != 0 {
		t.Error("something of the namespace stays")
	}
}

func TestBadValueKeepsTheOneBefore(t *testing.T) {
	events := newEvents(nil, newResources(), quiet)
	l := newLimitRanges(&Observer{}, events, quiet)
	l.put(mustConvert(t, aLimitRange("shop", "a", podItem("20", "200")), "1"))
	l.put(mustConvert(t, aLimitRange("shop", "a", podItem("-5", "300")), "2"))
	if got := l.limits("shop"); got != said(20, 300, unsaid, unsaid) {
		t.Errorf("%+v, want the 20 of before and the new 300", got)
	}
	l.put(mustConvert(t, aLimitRange("shop", "a", podItem("-5", "300")), "2"))
	l.replace([]*limitRange{mustConvert(t, aLimitRange("shop", "a", podItem("-5", "300")), "2")})
	if n := len(events.queue); n != 1 {
		t.Errorf("%d Events, want one for each version", n)
	}
	l.put(mustConvert(t, aLimitRange("shop", "a", podItem("-5", "")), "3"))
	if got := l.limits("shop"); got != said(20, unsaid, unsaid, unsaid) {
		t.Errorf("%+v, want the 20 still", got)
	}
	other := aLimitRange("shop", "a", podItem("-5", ""))
	other.UID = "another"
	l.put(mustConvert(t, other, "4"))
	if got := l.limits("shop"); got != metric.UnsetLimits() {
		t.Errorf("%+v of another object of that name", got)
	}
	l.put(mustConvert(t, aLimitRange("shop", "b", corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: quantities("7", "")}), "5"))
	for len(events.queue) > 1 {
		<-events.queue
	}
	if event := <-events.queue; event.Reason != ReasonMisplacedLimit || event.InvolvedObject.Name != "b" {
		t.Errorf("the last Event is %+v", event)
	}
}

// Of a LimitRange as large as the API server takes, a few faults are kept.
func TestFaultsOfALargeLimitRange(t *testing.T) {
	long := corev1.ResourceList{}
	for i := range 10_000 {
		long[corev1.ResourceName(fmt.Sprint("sluice.dev/r", i))] = quantity.MustParse("1")
	}
	items := []corev1.LimitRangeItem{{Type: podType, Max: long}, {Type: corev1.LimitTypePod, Max: long}}
	for i := range 50_000 {
		items = append(items, corev1.LimitRangeItem{Type: corev1.LimitType(fmt.Sprint("sluice.dev/", i))})
	}
	r := mustConvert(t, aLimitRange("shop", "large", items...), "1")
	if kept := len(strings.Join(r.faults, "")) + len(r.misplacedFault); len(r.faults) != maxLimitFaults || kept > 4096 {
		t.Errorf("%d faults, %d bytes", len(r.faults), kept)
	}
}
