package client

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
)

// pushed reads what Sluice has: rejections, and for metrics without a value, names and label sets.
func (g *gatherer) pushed() {
	g.facts.Sets = make([][]inspect.Series, len(g.facts.Autoscaler.Metrics))
	rejected, err := pages[inspect.Rejection](g, "rejections", g.namespace)
	if err != nil {
		g.unknown("what is pushed and what is rejected", err)
		if is(err, http.StatusForbidden) {
			resource, _ := inspect.ResourceNamed("rejections")
			last := &g.facts.Unknown[len(g.facts.Unknown)-1]
			*last += "; " + (&listOptions{namespace: g.namespace}).rightTo(resource, err.Error())
		}
		return
	}
	g.facts.Rejections = rejected
	// A Sluice of before it scraped has no such list.
	g.facts.Targets, _ = pages[inspect.Target](g, "targets", g.namespace)
	g.limits()
	var here []inspect.Metric
	for i := range g.facts.Autoscaler.Metrics {
		m := &g.facts.Autoscaler.Metrics[i]
		if !g.facts.Readings[i].Asked || len(g.facts.Readings[i].Values) > 0 {
			continue
		}
		if here == nil {
			if here, err = pages[inspect.Metric](g, "metrics", g.namespace); err != nil {
				g.unknown("which metrics there are", err)
				return
			}
			g.facts.Metrics = []inspect.Metric{}
		}
		g.facts.Metrics = append(g.facts.Metrics, g.named(metric.ParseExpression(unescaped(m.Name)).Name, here)...)
		if detail, err := g.detail(m.Name); err == nil && m.Selector != "" {
			g.facts.Sets[i] = detail.Series
		}
	}
}

// mostListed bounds the names that are looked at.
const mostListed = 20000

// named returns the metrics of a name in all namespaces, and all other metrics that the namespace may
// read: those that are listed here, and those that have no namespace. It notes who pushes the name.
func (g *gatherer) named(name string, here []inspect.Metric) []inspect.Metric {
	all := []inspect.Metric{}
	detail, err := fetch[inspect.MetricDetail](g.ctx, g.api, inspectPath("metrics", "")+"/"+escaped(name))
	switch {
	case err == nil:
		all = append(all, detail.Metrics...)
		g.facts.Senders = append(g.facts.Senders, detail.Senders...)
	case !isAbsent(err):
		if !slices.Contains(g.facts.Unknown, otherNamespaces) {
			g.facts.Unknown = append(g.facts.Unknown, otherNamespaces)
		}
		if detail, err := g.detail(name); err == nil {
			all = append(all, detail.Metrics...)
			g.facts.Senders = append(g.facts.Senders, detail.Senders...)
		}
	}
	// The list of all is ordered by namespace, so metrics without one come first.
	first, err := fetch[inspect.List[inspect.Metric]](g.ctx, g.api, inspectPath("metrics", "")+query("limit", "500"))
	if err != nil {
		first = &inspect.List[inspect.Metric]{}
	}
	for _, list := range [][]inspect.Metric{here, first.Items} {
		for i := range list {
			if m := &list[i]; m.Name != name && (m.Namespace == "" || m.Namespace == g.namespace) {
				all = append(all, *m)
			}
		}
	}
	return all
}

// metric gathers all that is known about a name.
func (g *gatherer) metric(name string) (*explain.MetricFacts, error) {
	f := &explain.MetricFacts{Namespace: g.namespace, Name: name}
	here, err := pages[inspect.Metric](g, "metrics", g.namespace)
	if err != nil {
		resource, _ := inspect.ResourceNamed("metrics")
		return nil, (&listOptions{namespace: g.namespace}).explain(resource, err)
	}
	f.Metrics = g.named(name, here)
	f.Senders = g.facts.Senders
	if detail, err := g.detail(name); err == nil {
		f.Series, f.Windows = detail.Series, detail.Windows
	}
	g.inNoNamespace(name, f)
	if len(f.Series) == 0 {
		f.Expired = g.expired(name)
	}
	rejected, err := pages[inspect.Rejection](g, "rejections", g.namespace)
	if err == nil {
		f.Rejections = append(f.Rejections, rejected...)
	} else {
		g.unknown("what was rejected", err)
	}
	all := g.rules()
	if f.Rule = ruleOf(name, all); f.Rule != nil {
		g.operandsAnywhere(f.Rule, all)
	}
	f.Unknown = g.facts.Unknown
	return f, nil
}

// expired says when a name was last seen, as an external metric or on pods: the answers to readers know it.
func (g *gatherer) expired(name string) string {
	for _, path := range []string{ExternalAPI + g.inNamespace(), CustomAPI + g.inNamespace() + "pods/*/"} {
		_, err := g.api.get(g.ctx, path+escaped(name))
		if isAbsent(err) {
			if _, seen, found := strings.Cut(err.Error(), "; last seen "); found {
				return "last seen " + seen
			}
		}
	}
	return ""
}

// inNoNamespace adds the series and rejections of a name that are in no namespace: those of metrics that
// all namespaces may read, and of senders that are in none, as standalone. Without the right to list all
// namespaces it adds none, which named has noted.
func (g *gatherer) inNoNamespace(name string, f *explain.MetricFacts) {
	isHere := func(m inspect.Metric) bool { return m.Name == name && m.Namespace == "" }
	if slices.ContainsFunc(f.Metrics, isHere) {
		detail, err := fetch[inspect.MetricDetail](g.ctx, g.api, inspectPath("metrics", "")+"/"+escaped(name))
		if err == nil {
			f.Windows = detail.Windows
			for _, sery := range detail.Series {
				if sery.Object.Namespace == "" {
					f.Series = append(f.Series, sery)
				}
			}
		}
	}
	// Rejections are sorted by namespace, so those without one come first.
	first, err := fetch[inspect.List[inspect.Rejection]](g.ctx, g.api, inspectPath("rejections", "")+query("limit", "500"))
	if err != nil {
		return
	}
	for _, rejection := range first.Items {
		if rejection.Namespace == "" {
			f.Rejections = append(f.Rejections, rejection)
		}
	}
}

const otherNamespaces = "metrics of other namespaces: you lack the right to list metrics." + inspect.Group +
	" in all namespaces"

// detail reads a metric, given as an autoscaler spells it.
func (g *gatherer) detail(name string) (*inspect.MetricDetail, error) {
	bare := metric.ParseExpression(unescaped(name)).Name
	return fetch[inspect.MetricDetail](g.ctx, g.api, inspectPath("metrics", g.namespace)+"/"+escaped(bare))
}

// In paths and in the specs of autoscalers, "\|" stands for the "/" of a name.
func unescaped(name string) string { return strings.ReplaceAll(name, `\|`, "/") }

func inPath(name string) string { return strings.ReplaceAll(name, "/", `\|`) }

func escaped(name string) string { return url.PathEscape(inPath(name)) }

func inspectPath(resource, namespace string) string {
	path := "/apis/" + inspect.GroupVersion + "/"
	if namespace != "" {
		path += "namespaces/" + url.PathEscape(namespace) + "/"
	}
	return path + resource
}

// limits reads the limits of the namespace, if one of them rejected a metric of the autoscaler.
func (g *gatherer) limits() {
	names := map[string]bool{}
	for _, m := range g.facts.Autoscaler.Metrics {
		names[metric.BareName(m.Name)] = true
	}
	overLimit := func(r inspect.Rejection) bool { return r.Reason == "limit" && names[r.Metric] }
	if !slices.ContainsFunc(g.facts.Rejections, overLimit) {
		return
	}
	uses, err := pages[inspect.Limit](g, "limituses", g.namespace)
	if err != nil {
		g.unknown("how far the limits are used", err)
		return
	}
	g.facts.Limits = uses
	ranges, err := fetch[corev1.LimitRangeList](g.ctx, g.api,
		"/api/v1/namespaces/"+url.PathEscape(g.namespace)+"/limitranges")
	if err != nil {
		g.unknown("the LimitRanges", err)
		return
	}
	g.facts.LimitRanges = []explain.LimitRange{}
	for i := range ranges.Items {
		g.facts.LimitRanges = append(g.facts.LimitRanges, limitRangeFact(&ranges.Items[i]))
	}
}

func limitRangeFact(from *corev1.LimitRange) explain.LimitRange {
	fact := explain.LimitRange{Name: from.Name}
	for _, item := range from.Spec.Limits {
		entry := explain.LimitEntry{Type: string(item.Type), Max: map[string]string{}}
		for name, value := range item.Max {
			entry.Max[string(name)] = value.String()
		}
		fact.Entries = append(fact.Entries, entry)
	}
	return fact
}

// pages reads a list of a namespace page by page, up to mostListed items.
func pages[T any](g *gatherer, resource, namespace string) ([]T, error) {
	all := []T{}
	for next := ""; ; {
		path := inspectPath(resource, namespace) + query("limit", fmt.Sprint(inspect.MaxMost), "continue", next)
		page, err := fetch[inspect.List[T]](g.ctx, g.api, path)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if next = page.Metadata.Continue; next == "" || len(all) >= mostListed {
			return all, nil
		}
	}
}
