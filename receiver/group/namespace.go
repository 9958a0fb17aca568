package group

import (
	"slices"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Where senders are checked, a group has a namespace, which its sender has or its path names. Readers
// see it as the label "namespace" of every metric, so groups of different namespaces never look
// alike, and no body can name another namespace: a label "namespace" of the body becomes
// "exported_namespace", as in a scrape without honor_labels.

// addedNamespace is the namespace that readers see and that the grouping labels lack; empty: none.
func (g *Group) addedNamespace() string {
	if named, _ := g.Key.Labels.Get(NamespaceLabel); named == g.Key.Namespace {
		return "" // the path's labels are in every metric
	}
	return g.Key.Namespace
}

// shown returns a family as readers see it.
func shown(f *exposition.Family, namespace string) *exposition.Family {
	if namespace == "" {
		return f
	}
	size := len(f.Metrics)
	for i := range f.Metrics {
		size += len(f.Metrics[i].Labels)
	}
	copied, labels := *f, make([]metric.Label, 0, size)
	copied.Metrics = slices.Clone(f.Metrics)
	for i := range copied.Metrics {
		m, start := &copied.Metrics[i], len(labels)
		labels = appendInNamespace(labels, m.Labels, namespace)
		m.Labels = labels[start:len(labels):len(labels)]
	}
	return &copied
}

// appendInNamespace appends a metric's labels and its namespace, sorted. An empty label is none to
// Prometheus, so one without a value gives way.
func appendInNamespace(dst, labels []metric.Label, namespace string) []metric.Label {
	start := len(dst)
	for _, l := range labels {
		if l.Key == NamespaceLabel {
			if l.Value == "" || l.Value == namespace {
				continue
			}
			l.Key = freeKey(labels, l.Key)
		}
		dst = append(dst, l)
	}
	dst = append(dst, metric.Label{Key: NamespaceLabel, Value: namespace})
	metric.SortLabels(dst[start:])
	return dst
}

// freeKey renames a label that is taken.
func freeKey(labels []metric.Label, key string) string {
	for has(labels, key) {
		key = exposition.TakenPrefix + key
	}
	return key
}

// newestFirst changes the order of groups that readers cannot tell apart, and reports whether there
// are any: those of one namespace that is in the path of one and not of the other. The one that was
// pushed last comes first.
func newestFirst(groups []Group) (ordered []Group, alike bool) {
	at := map[string]int{}
	var packed []byte
	for i := range groups {
		if groups[i].Key.Namespace == "" {
			continue
		}
		packed = metric.AppendLabels(packed[:0], groups[i].ownLabels())
		j, there := at[string(packed)]
		if !there {
			at[string(packed)] = i
			continue
		}
		if !alike {
			alike, groups = true, slices.Clone(groups)
		}
		if groups[i].Pushed.After(groups[j].Pushed) {
			groups[i], groups[j] = groups[j], groups[i]
		}
	}
	return groups, alike
}
