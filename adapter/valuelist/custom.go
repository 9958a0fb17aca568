package valuelist

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cmv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
)

// Custom holds the parts of a custom metrics list that all items share. Kind and Resource may be
// empty.
type Custom struct {
	Metric, Object string // as in the request
	Resource       schema.GroupResource
	Kind           schema.GroupVersionKind
	Selector       *metav1.LabelSelector
}

func (c Custom) all() bool { return c.Object == custom_metrics.AllObjects }

func (c Custom) typed(l *List) runtime.Object {
	list := &custom_metrics.MetricValueList{Items: make([]custom_metrics.MetricValue, len(l.Points))}
	list.ResourceVersion = l.version
	identifier := custom_metrics.MetricIdentifier{Name: c.Metric, Selector: c.Selector}
	apiVersion, kind := c.Kind.ToAPIVersionAndKind()
	for i := range l.Points {
		p := &l.Points[i]
		value, _ := quantityOf(p.Value) // NewCustom checked it
		list.Items[i] = custom_metrics.MetricValue{
			DescribedObject: custom_metrics.ObjectReference{
				Kind: kind, APIVersion: apiVersion,
				Namespace: p.Object.Namespace, Name: p.Object.Name, UID: types.UID(p.Object.UID),
			},
			Metric:        identifier,
			Timestamp:     metav1.NewTime(p.Time),
			WindowSeconds: windowSeconds(p.Window),
			Value:         value,
		}
	}
	return list
}

// The layout of an item is in k8s.io/metrics pkg/apis/custom_metrics (types.go and generated.proto
// of both versions), that of the object in k8s.io/api core/v1. The shared parts of all items are
// encoded once.

func (c Custom) jsonItem(version schema.GroupVersion) func(dst []byte, p *metric.Point) []byte {
	apiVersion, kind := c.Kind.ToAPIVersionAndKind()
	kindMember, versionMember := appendMember(nil, `"kind":`, kind), appendMember(nil, `"apiVersion":`, apiVersion)
	selector, _ := json.Marshal(c.Selector) // strings cannot fail
	name := appendString(nil, c.Metric)
	about, window, end := `,"metric":{"name":`+string(name)+`,"selector":`+string(selector)+
		`},"timestamp":`, `,"windowSeconds":`, `}`
	if version.Version == cmv1beta1.SchemeGroupVersion.Version {
		about, window, end = `,"metricName":`+string(name)+`,"timestamp":`, `,"window":`, `,"selector":`+string(selector)+`}`
	}
	var times timestampCache
	return func(dst []byte, p *metric.Point) []byte {
		dst = append(dst, `{"describedObject":{`...)
		dst = append(dst, kindMember...)
		dst = appendMember(dst, `"namespace":`, p.Object.Namespace)
		dst = appendMember(dst, `"name":`, p.Object.Name)
		dst = appendMember(dst, `"uid":`, p.Object.UID)
		dst = closeObject(append(dst, versionMember...))
		dst = append(dst, about...)
		dst = append(dst, times.of(p.Time, appendTimeJSON)...)
		if p.Window != 0 {
			dst = strconv.AppendInt(append(dst, window...), wholeSeconds(p.Window), 10)
		}
		dst = append(dst, `,"value":`...)
		dst = appendValueJSON(dst, p.Value)
		return append(dst, end...)
	}
}

func (c Custom) protobufItem(version schema.GroupVersion) protobufItem {
	apiVersion, kind := c.Kind.ToAPIVersionAndKind()
	f := &customFields{
		before: appendField(nil, field1, kind),
		// The last two are resourceVersion and fieldPath.
		behind: appendField(appendField(appendField(nil, field5, apiVersion), field6, ""), field7, ""),
	}
	var selector []byte
	if c.Selector != nil {
		selector, _ = c.Selector.Marshal() // strings cannot fail
	}
	if version.Version == cmv1beta1.SchemeGroupVersion.Version {
		f.about = appendField(nil, field2, c.Metric)
		if c.Selector != nil {
			f.end = appendField(nil, field6, selector)
		}
		return f
	}
	identifier := appendField(nil, field1, c.Metric)
	if c.Selector != nil {
		identifier = appendField(identifier, field2, selector)
	}
	f.about = appendField(nil, field2, identifier)
	return f
}

// customFields encodes an item.
type customFields struct {
	commonFields
	before, behind []byte // in the object, around namespace, name and UID
	about, end     []byte // after the object, and at the end
	object         int    // length of the object
}

func (f *customFields) measure(p *metric.Point) int {
	f.object = len(f.before) + fieldSize(len(p.Object.Namespace)) + fieldSize(len(p.Object.Name)) +
		fieldSize(len(p.Object.UID)) + len(f.behind)
	return fieldSize(f.object) + len(f.about) + f.measureCommon(p) + len(f.end)
}

func (f *customFields) append(dst []byte, p *metric.Point) []byte {
	dst = binary.AppendUvarint(append(dst, field1), uint64(f.object))
	dst = append(dst, f.before...)
	dst = appendField(dst, field2, p.Object.Namespace)
	dst = appendField(dst, field3, p.Object.Name)
	dst = appendField(dst, field4, p.Object.UID)
	dst = append(dst, f.behind...)
	dst = append(dst, f.about...)
	return append(f.appendCommon(dst), f.end...)
}

// NewCustom makes the list of one object's metric, or of all objects' (Custom.Object "*"). It keeps
// the points. A value that is not a number is left out of a list of all objects, and an error for a
// single object.
func NewCustom(custom Custom, points []metric.Point) (*List, error) {
	l := &List{kind: "MetricValueList", items: custom, Points: points[:0]}
	var sum milliSum
	var newest time.Time
	for i := range points {
		p := &points[i]
		value, err := quantityOf(p.Value)
		if err != nil && (!custom.all() || !errors.Is(err, ErrNotANumber)) {
			return nil, fmt.Errorf("%q of %s: %w", custom.Metric, p.Object, err)
		}
		if err != nil {
			continue // the other values are still true
		}
		if err := sum.add(value); err != nil {
			return nil, fmt.Errorf("%q of %s: %w", custom.Metric, custom.Resource, err)
		}
		newest = later(newest, p.Time)
		if kept := len(l.Points); kept == i {
			l.Points = points[:kept+1] // already in place
		} else {
			l.Points = append(l.Points, *p)
		}
	}
	if len(l.Points) == 0 {
		return nil, metric.NotFoundf("no value of %q for %s %s", custom.Metric, custom.Resource, custom.Object)
	}
	l.version = resourceVersion(newest)
	return l, nil
}
