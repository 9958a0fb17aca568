package limit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

// labelled is a set of one label.
func labelled(value string) metric.Labels {
	return metric.NewLabels([]metric.Label{{Key: "k", Value: value}})
}

func (w *ward) pushLabelled(o metric.Object, name, value string) bool {
	return w.registry.Admit(&o, name, labelled(value), 1) == metric.Applied
}

// The Event and Explain are one sentence. It has the limit, its number, its use and its holders.
func TestARejectionNamesTheHolders(t *testing.T) {
	for name, c := range map[string]struct {
		push func(*ward)
		name string
		of   metric.Object
		want string
	}{
		"a metric of a pod": {
			func(w *ward) {
				w.asked["shop/pods/m1"] = true
				w.fill(pod("web-1"), 5)
			}, "sixth", pod("web-1"),
			`metric "sixth" is rejected: the limit of pod web-1 is 5 metrics, and 5 are in use: m0, m1 (named by an autoscaler), m2, m3, m4. ` +
				`Raise sluice.dev/metrics of type sluice.dev/Pod in a LimitRange of shop; a metric that a HorizontalPodAutoscaler names takes precedence`,
		},
		"a series of a pod": {
			func(w *ward) {
				w.asked["shop/pods/a"] = true
				w.push(pod("web-1"), "a")
				w.push(pod("web-1"), "b")
				for i := range 6 {
					w.pushLabelled(pod("web-1"), "b", fmt.Sprint(i))
				}
			}, "b", pod("web-1"),
			`a new series of "b" is rejected: the limit of pod web-1 is 8 series, and 8 are in use: b 7, a 1 (named by an autoscaler). ` +
				`Raise sluice.dev/series of type sluice.dev/Pod in a LimitRange of shop; a metric that a HorizontalPodAutoscaler names takes precedence`,
		},
		"the first series of a metric": {
			func(w *ward) {
				for i := range 4 {
					w.pushLabelled(metric.Object{Namespace: "shop"}, "jobs", fmt.Sprint(i))
				}
			}, "mails", metric.Object{Resource: "ingresses.networking.k8s.io", Namespace: "shop", Name: "main"},
			`metric "mails" is rejected: the limit of namespace shop (without its pods) is 4 series, and 4 are in use: jobs 4. ` +
				`Raise sluice.dev/series of type sluice.dev/Namespace in a LimitRange of shop; a metric that a HorizontalPodAutoscaler names takes precedence`,
		},
		"a name with a secret": {
			func(w *ward) { w.limits["shop"] = metric.Limits{Pod: metric.Limit{}, Namespace: metric.Limit{}} },
			"login?password=hunter2", pod("web-1"),
			`metric "login?password=***" is rejected: the limit of pod web-1 is 0 metrics, and none is in use. ` +
				`Raise sluice.dev/metrics of type sluice.dev/Pod in a LimitRange of shop; a metric that a HorizontalPodAutoscaler names takes precedence`,
		},
		"nothing is allowed": {
			func(w *ward) { w.limits["shop"] = metric.Limits{Pod: metric.Limit{}, Namespace: metric.Limit{}} },
			"a", pod("web-1"),
			`metric "a" is rejected: the limit of pod web-1 is 0 metrics, and none is in use. ` +
				`Raise sluice.dev/metrics of type sluice.dev/Pod in a LimitRange of shop; a metric that a HorizontalPodAutoscaler names takes precedence`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWard(small())
			c.push(w)
			w.registry.runJobs()
			w.events = nil
			if got := w.registry.Explain(c.of, c.name); got != c.want {
				t.Errorf("explained as\n%s, want\n%s", got, c.want)
			}
			if w.pushLabelled(c.of, c.name, "new") {
				t.Fatal("admitted")
			}
			w.registry.runJobs()
			on := c.of
			if len(w.events) != 1 || w.events[0] != "MetricRefused on "+on.String()+": "+c.want {
				t.Errorf("Events %q, want\n%s", w.events, c.want)
			}
		})
	}
}

// Clients choose names, and there may be thousands of metrics.
func TestTheWordsOfARejectionAreBounded(t *testing.T) {
	w := newWard(Config{NamespaceMetrics: 2000, NamespaceSeries: 9000})
	for i := range 2000 {
		w.push(metric.Object{Namespace: "shop"}, fmt.Sprint(strings.Repeat("x", 180), i))
	}
	why := w.registry.Explain(metric.Object{Namespace: "shop"}, strings.Repeat("y", 200))
	if len(why) > 600 || !strings.Contains(why, " and 199") {
		t.Errorf("%d bytes: %s", len(why), why)
	}
}

// Explain decides as Admit does, and changes nothing.
func TestExplainDecidesAsAdmit(t *testing.T) {
	w := newWard(small())
	w.asked["shop/pods/busy"] = true
	w.fill(pod("web-1"), 5)
	if why := w.registry.Explain(pod("web-1"), "busy"); why != "" {
		t.Errorf("a metric that takes precedence is explained as %q", why)
	}
	if w.registry.runJobs(); len(w.removed) > 0 {
		t.Fatalf("Explain removed %q", w.removed)
	}
	if !w.push(pod("web-1"), "busy") {
		t.Fatal("rejected")
	}
	// m4 lost its slot; its series are not removed yet.
	if why := w.registry.Explain(pod("web-1"), "m4"); !strings.Contains(why, `"m4" has just lost its slot`) || w.push(pod("web-1"), "m4") {
		t.Errorf("a metric that is being evicted is explained as %q", why)
	}
}

// A metric that takes precedence evicts nothing if that doesn't make room for it.
func TestNothingIsEvictedInVain(t *testing.T) {
	w := newWard(small())
	w.asked["shop/pods/busy"], w.asked["shop/pods/jobs"] = true, true
	w.push(pod("web-1"), "a")
	for i := range 7 {
		w.pushLabelled(pod("web-1"), "jobs", fmt.Sprint(i))
	}
	w.limits["shop"] = metric.Limits{Pod: metric.Limit{Metrics: 5, Series: 7}, Namespace: metric.Limit{Metrics: 3, Series: 4}}
	if w.pushLabelled(pod("web-1"), "busy", "1") {
		t.Fatal("admitted")
	}
	if w.registry.runJobs(); len(w.removed) > 0 {
		t.Errorf("removed %q", w.removed)
	}
}

// Uses says by which limit nothing would be rejected.
func TestWantedSlots(t *testing.T) {
	w := newWard(small())
	use := func() Use {
		page, _ := w.registry.Uses(Part{Namespace: "shop", Most: 1})
		return page[0]
	}
	w.push(pod("web-1"), "a")
	if u := use(); u.WantedMetrics != 0 || u.WantedSeries != 0 {
		t.Errorf("nothing was rejected: %+v", u)
	}
	for range 3 { // the table asks again and again
		for i := range 1000 {
			w.pushLabelled(pod("web-1"), "a", fmt.Sprint(i))
		}
		w.fill(pod("web-1"), 10)
	}
	one := use()
	const sixErrors = 180 // the hashes are new in each process
	if one.Metrics != 1 || one.WantedMetrics != 11 || one.WantedSeries < 1011-sixErrors || one.WantedSeries > 1011+sixErrors {
		t.Errorf("%+v, want 11 metrics and about 1011 series", one)
	}
	if len(one.Holders) != 1 || one.Holders[0] != (Holder{"a", 8, false}) {
		t.Errorf("holders %+v", one.Holders)
	}
	w.limits["shop"] = metric.Limits{Pod: metric.Limit{Metrics: 11, Series: 1011}, Namespace: metric.Limit{Metrics: 1, Series: 1}}
	w.registry.LimitsChanged("shop")
	w.registry.runJobs()
	if u := use(); u.WantedMetrics != 0 || u.WantedSeries != 0 {
		t.Errorf("after the limit was raised: %+v", u)
	}
}

// The holders with the most series are listed.
func TestHoldersAreBounded(t *testing.T) {
	w := newWard(Config{NamespaceMetrics: 100, NamespaceSeries: 9000})
	w.asked["shop//m07"] = true
	for i := range 50 {
		for k := range i + 1 {
			w.pushLabelled(metric.Object{Namespace: "shop"}, fmt.Sprintf("m%02d", i), fmt.Sprint(k))
		}
	}
	page, _ := w.registry.Uses(Part{Most: 1})
	holders := page[0].Holders
	if len(holders) != maxHolders || holders[0] != (Holder{"m49", 50, false}) || holders[maxHolders-1].Series != 51-maxHolders {
		t.Errorf("%+v", holders)
	}
}
