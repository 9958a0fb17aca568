package limit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
)

func TestUsesAreListedInPages(t *testing.T) {
	w := newWard(Config{PodMetrics: 2, PodSeries: 3, NamespaceMetrics: 4, NamespaceSeries: 5})
	w.limits["shop"] = metric.Limits{Pod: metric.Limit{Metrics: 1, Series: metric.Unset}, Namespace: metric.Limit{Metrics: metric.Unset, Series: 9}}
	admit := func(o metric.Object, name string) {
		w.registry.Admit(&o, name, metric.Labels{}, 1)
	}
	pod := func(namespace, name string) metric.Object {
		return metric.Object{Resource: "pods", Namespace: namespace, Name: name, UID: "u-" + name}
	}
	admit(pod("shop", "web-2"), "a")
	admit(pod("shop", "web-1"), "a")
	admit(pod("shop", "web-1"), "b")
	admit(pod("shop", "web-1"), "c")
	admit(metric.Object{Namespace: "shop"}, "q")
	admit(metric.Object{Resource: "deployments.apps", Namespace: "shop", Name: "web"}, "d")
	admit(pod("bank", "p"), "a")
	admit(metric.Object{}, "outside of namespaces")
	want := `pods/p in bank 1/2 1/3
namespaces/shop 2/4 2/9
pods/web-1 in shop 1/1 1/3 rejected 2
pods/web-2 in shop 1/1 1/3
`
	for limit := 1; limit < 6; limit++ {
		if got := w.uses(t, Part{Most: limit}); got != want {
			t.Errorf("pages of %d:\n%s, want\n%s", limit, got, want)
		}
	}
	if got := w.uses(t, Part{Namespace: "shop", Name: "web-2", Most: 3}); got != "pods/web-2 in shop 1/1 1/3\n" {
		t.Errorf("one pod: %s", got)
	}
	if got := w.uses(t, Part{Namespace: "nowhere", Most: 3}); got != "" {
		t.Errorf("nowhere: %s", got)
	}
}

// The page of limits begins with those that are nearest to theirs.
func TestFullestUsesAreListedFirst(t *testing.T) {
	w := newWard(Config{PodMetrics: 2, PodSeries: 10, NamespaceMetrics: 4, NamespaceSeries: 10})
	w.limits["bank"] = metric.Limits{Pod: metric.Limit{Metrics: 20, Series: metric.Unset}, Namespace: metric.Limit{Metrics: metric.Unset, Series: metric.Unset}}
	for _, of := range []string{"shop/half a", "shop/full a b", "shop/over a b c d", "bank/little a b"} {
		words := strings.Fields(of)
		namespace, name, _ := strings.Cut(words[0], "/")
		for _, word := range words[1:] {
			w.registry.Admit(&metric.Object{Resource: "pods", Namespace: namespace, Name: name, UID: name}, word, metric.Labels{}, 1)
		}
	}
	w.registry.Admit(&metric.Object{Namespace: "shop"}, "q", metric.Labels{}, 1)
	want := "over full half shop little"
	for limit := 1; limit <= 5; limit++ {
		uses, more := w.registry.Uses(Part{Fullest: true, Most: limit})
		var names []string
		for _, use := range uses {
			names = append(names, use.Object.Name)
		}
		if got := strings.Join(names, " "); !strings.HasPrefix(want+" ", got+" ") || len(uses) != limit || more != (limit < 5) {
			t.Errorf("%d of %q: %q, more: %v", limit, want, got, more)
		}
	}
}

// uses lists page by page.
func (w *ward) uses(t *testing.T, p Part) string {
	t.Helper()
	var b strings.Builder
	for range 100 {
		page, more := w.registry.Uses(p)
		if len(page) > p.Most {
			t.Fatalf("a page of %d", len(page))
		}
		for _, use := range page {
			fmt.Fprintf(&b, "%s %d/%d %d/%d", use.Object, use.Metrics, use.Limit.Metrics, use.Series, use.Limit.Series)
			if use.Rejected > 0 {
				fmt.Fprintf(&b, " rejected %d", use.Rejected)
			}
			b.WriteByte('\n')
			p.After = use.Object
		}
		if !more {
			return b.String()
		}
	}
	t.Fatal("the pages do not end")
	return ""
}
