package otlp

import (
	"slices"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// The resource attributes that name the object and the instance.
//
// Source: https://opentelemetry.io/docs/specs/semconv/resource/
const (
	objectKey    = "sluice_object" // Sluice's own, as in a label
	podKey       = "k8s.pod.name"
	namespaceKey = "k8s.namespace.name"
	uidKey       = "k8s.pod.uid"
	containerKey = "container.id"
	instanceKey  = "service.instance.id"
)

// resourceLabels are the labels that all points of a resource share.
type resourceLabels struct {
	labels    []metric.Label
	container []byte
}

// setResource reads a resource. It keeps the first attributes that identify the object, the
// configured attributes and, if nothing else distinguishes the series of two instances, the
// instance.
func (r *Reader) setResource(in pcommon.Resource) {
	res := &r.resource
	res.labels, res.container = res.labels[:0], nil
	attributes := in.Attributes()
	keep := func(key string) bool {
		v, ok := attributes.Get(key)
		if ok && !hasKey(res.labels, key) {
			res.labels = append(res.labels, metric.Label{Key: key, Value: v.AsString()})
		}
		return ok
	}
	isObject := keep(objectKey)
	_, isNamed := attributes.Get(podKey)
	_, isSpaced := attributes.Get(namespaceKey)
	container, isContainer := attributes.Get(containerKey)
	isPod := true
	switch {
	case isNamed && isSpaced:
		keep(podKey)
		keep(namespaceKey)
	case keep(uidKey):
	case isContainer:
		res.container = []byte(container.AsString())
	default:
		isPod = false
	}
	if isObject {
		keep(namespaceKey)
	}
	if !isPod && (isObject || r.instances) {
		keep(instanceKey)
	}
	for _, key := range r.options.Attributes {
		keep(key)
	}
}

// label sets the labels of a data point: its own attributes, and those of the resource and the
// scope that it lacks.
func (r *Reader) label(attributes pcommon.Map) bool {
	r.labels = r.labels[:0]
	if n := attributes.Len(); n > r.options.MaxLabels {
		return r.tooMany(n)
	}
	for key, v := range attributes.All() {
		r.labels = append(r.labels, metric.Label{Key: key, Value: v.AsString()})
	}
	own := r.labels
	for _, l := range r.resource.labels {
		if !hasKey(own, l.Key) {
			r.labels = append(r.labels, l)
		}
	}
	if r.scope != "" && !hasKey(own, scopeKey) {
		r.labels = append(r.labels, metric.Label{Key: scopeKey, Value: r.scope})
	}
	return r.checkLabels()
}

func hasKey(labels []metric.Label, key string) bool {
	return slices.ContainsFunc(labels, func(l metric.Label) bool { return l.Key == key })
}

// checkLabels checks the labels against the limits.
func (r *Reader) checkLabels() bool {
	if n := len(r.labels); n > r.options.MaxLabels {
		return r.tooMany(n)
	}
	for _, l := range r.labels {
		switch {
		case l.Key == "":
			return r.fail(metric.Malformed, "an attribute has no key")
		case len(l.Key) > r.options.MaxLabelBytes:
			return r.fail(metric.TooLong, "an attribute's key has %d bytes; must have at most %d", len(l.Key),
				r.options.MaxLabelBytes)
		case len(l.Value) > r.options.MaxLabelBytes:
			return r.fail(metric.TooLong, "attribute %q has %d bytes; must have at most %d", truncate(l.Key), len(l.Value),
				r.options.MaxLabelBytes)
		case !utf8.ValidString(l.Key) || !utf8.ValidString(l.Value):
			return r.fail(metric.Malformed, "attribute %q is not UTF-8", truncate(l.Key))
		case metric.CheckLabel(l) != metric.Applied:
			return r.fail(metric.BadName, "attribute %q=%q has a control character; names, label keys and label values must not",
				truncate(l.Key), truncate(l.Value))
		}
	}
	return true
}

func (r *Reader) tooMany(n int) bool {
	return r.fail(metric.TooLong, "%d attributes; must be at most %d", n, r.options.MaxLabels)
}
