package valuelist

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/external_metrics"
)

// external holds the part of an external metrics list that all items share.
type external struct{ metric string }

func (c external) typed(l *List) runtime.Object {
	list := &external_metrics.ExternalMetricValueList{Items: make([]external_metrics.ExternalMetricValue,
		len(l.Points))}
	list.ResourceVersion = l.version
	for i := range l.Points {
		p := &l.Points[i]
		value, _ := quantityOf(p.Value) // NewExternal checked it
		list.Items[i] = external_metrics.ExternalMetricValue{
			MetricName:    c.metric,
			MetricLabels:  p.Labels.Map(),
			Timestamp:     metav1.NewTime(p.Time),
			WindowSeconds: windowSeconds(p.Window),
			Value:         value,
		}
	}
	return list
}

// The layout of an item is in k8s.io/metrics pkg/apis/external_metrics/v1beta1 (types.go,
// generated.proto).

func (c external) jsonItem(schema.GroupVersion) func(dst []byte, p *metric.Point) []byte {
	head := string(appendString([]byte(`{"metricName":`), c.metric)) + `,"metricLabels":{`
	var times timestampCache
	return func(dst []byte, p *metric.Point) []byte {
		dst = append(dst, head...)
		first := true
		for key, value := range p.Labels.All() { // in encoding/json's order of maps
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(appendString(dst, key), ':')
			dst = appendString(dst, value)
		}
		dst = append(dst, `},"timestamp":`...)
		dst = append(dst, times.of(p.Time, appendTimeJSON)...)
		if p.Window != 0 {
			dst = strconv.AppendInt(append(dst, `,"window":`...), wholeSeconds(p.Window), 10)
		}
		dst = append(dst, `,"value":`...)
		return append(appendValueJSON(dst, p.Value), '}')
	}
}

func (c external) protobufItem(schema.GroupVersion) protobufItem {
	return &externalFields{name: appendField(nil, field1, c.metric)}
}

// externalFields encodes an item.
type externalFields struct {
	commonFields
	name []byte
}

func (f *externalFields) measure(p *metric.Point) int {
	size := len(f.name)
	for key, value := range p.Labels.All() {
		size += fieldSize(fieldSize(len(key)) + fieldSize(len(value)))
	}
	return size + f.measureCommon(p)
}

func (f *externalFields) append(dst []byte, p *metric.Point) []byte {
	dst = append(dst, f.name...)
	for key, value := range p.Labels.All() { // in the library's order of maps
		dst = binary.AppendUvarint(append(dst, field2), uint64(fieldSize(len(key))+fieldSize(len(value))))
		dst = appendField(dst, field1, key)
		dst = appendField(dst, field2, value)
	}
	return f.appendCommon(dst)
}

// NewExternal makes a complete list or returns an error: the autoscaler adds the items up, and
// cannot make up for a missing one. It keeps the points.
func NewExternal(namespace, name string, points []metric.Point) (*List, error) {
	if len(points) == 0 {
		return nil, metric.NotFoundf("no value of %q in %q", name, namespace)
	}
	var sum milliSum
	var newest time.Time
	for i := range points {
		p := &points[i]
		value, err := quantityOf(p.Value)
		if err == nil {
			err = sum.add(value)
		}
		if err != nil {
			return nil, fmt.Errorf("%q in %q, labels %s: %w", name, namespace, p.Labels, err)
		}
		newest = later(newest, p.Time)
	}
	return &List{kind: "ExternalMetricValueList", items: external{name}, Points: points,
		version: resourceVersion(newest)}, nil
}
