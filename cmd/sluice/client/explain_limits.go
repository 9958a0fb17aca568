package client

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
)

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
	ranges, err := fetch[corev1.LimitRangeList](g.ctx, g.api, "/api/v1/namespaces/"+url.PathEscape(g.namespace)+"/limitranges")
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
