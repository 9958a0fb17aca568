package otlp

import (
	"slices"

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

// label sets the labels of a data point: its own attributes, and those of the resource that it
// lacks.
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
	return r.checkLabels()
}

func hasKey(labels []metric.Label, key string) bool {
	return slices.ContainsFunc(labels, func(l metric.Label) bool { return l.Key == key })
}
