package export

import (
	"hash/maphash"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// objectKeys are the labels that name an object, as kube-state-metrics spells them. "job" is a label
// of every scrape.
var objectKeys = map[string]string{
	"pods": "pod", "services": "service", "nodes": "node", "namespaces": "namespace", "persistentvolumeclaims": "persistentvolumeclaim",
	"deployments.apps": "deployment", "statefulsets.apps": "statefulset", "daemonsets.apps": "daemonset", "replicasets.apps": "replicaset",
	"jobs.batch": "job_name", "cronjobs.batch": "cronjob", "ingresses.networking.k8s.io": "ingress",
	"horizontalpodautoscalers.autoscaling": "horizontalpodautoscaler",
}

// appendObject appends the labels of a series' object.
func appendObject(dst []metric.Label, o *metric.Object) []metric.Label {
	if o.Namespace != "" {
		dst = append(dst, metric.Label{Key: "namespace", Value: o.Namespace})
	}
	if o.External() {
		return dst
	}
	if key, known := objectKeys[o.Resource]; known {
		return append(dst, metric.Label{Key: key, Value: o.Name})
	}
	return append(dst, metric.Label{Key: "resource", Value: o.Resource}, metric.Label{Key: "object", Value: o.Name})
}

// takenPrefix begins the label of a push whose key the object's label has, as in a scrape without
// honor_labels.
const takenPrefix = "exported_"

// appendPushed appends the pushed labels. Those without a value are left out: to Prometheus they are
// no labels.
func (o *Options) appendPushed(dst []metric.Label, pushed metric.Labels, k metric.Kind) []metric.Label {
	objects := len(dst)
	for key, value := range pushed.All() {
		if value == "" {
			continue
		}
		if o.Naming == StatsDExporter {
			key = statsdName(key)
		}
		key = exposition.EscapeKey(valid(key), o.Escaping)
		for key == "__name__" || key == "quantile" && k == metric.Timer || key == "le" && k == metric.Timer || hasKey(dst, key) {
			if hasKey(dst[objects:], key) {
				key = "" // two pushed keys are escaped alike: the first is kept
				break
			}
			key = takenPrefix + key
		}
		if key != "" {
			dst = append(dst, metric.Label{Key: key, Value: valid(value)})
		}
	}
	return dst
}

func hasKey(labels []metric.Label, key string) bool {
	return slices.ContainsFunc(labels, func(l metric.Label) bool { return l.Key == key })
}

// valid makes text UTF-8: Prometheus rejects a page with any other.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// seen holds the label sets of a family, by hash: different pushed sets may be exposed alike, and a
// page with a repeated series is invalid.
type seen struct {
	seed maphash.Seed
	sets map[uint64]struct{}
}

func newSeen() *seen { return &seen{maphash.MakeSeed(), map[uint64]struct{}{}} }

// add reports whether a label set is new.
func (s *seen) add(labels []metric.Label) bool {
	sum := uint64(0)
	for _, l := range labels { // in any order
		sum += (maphash.String(s.seed, l.Key) | 1) * maphash.String(s.seed, l.Value)
	}
	before := len(s.sets)
	s.sets[sum] = struct{}{}
	return len(s.sets) > before
}
