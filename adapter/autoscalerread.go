package adapter

import (
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AutoscalerReader reads the metrics of autoscalers as the APIs answer the autoscaler's controller:
// with the same queries, without HTTP. Any goroutine may use it.
type AutoscalerReader struct {
	storage  customStorage
	policies Policies
}

// autoscalerController reads the metrics of autoscalers.
var autoscalerController = metric.Reader{User: inspect.ControllerUser, Groups: inspect.ControllerGroups()}

// NewAutoscalerReader needs Parts.Source, Cluster and Policies.
func NewAutoscalerReader(parts Parts) *AutoscalerReader {
	return &AutoscalerReader{customStorage{source: parts.Source, objects: objectsOf(parts.Cluster)}, parts.Policies}
}

// Targets finds the pods of scaled objects.
type Targets interface {
	// TargetPods yields the live pods that a workload of the namespace controls, directly or through
	// a ReplicaSet; and those of them that are ready, with their workload. n is the number of live
	// pods.
	TargetPods(namespace, kind, name string) (all iter.Seq[metric.Object],
		ready iter.Seq2[metric.Object, metric.Workload], n int)
	// PodStates returns the same pods, sorted by name.
	PodStates(namespace, kind, name string) []inspect.TargetPod
}

// Reading is what an autoscaler gets of one metric.
type Reading struct {
	Sum    metric.Number
	Values int // number of series or pods
	// Pods is the number of the target's pods (Pods metrics), with and without a value. 0: none is
	// known to be the target's, and Values are of all pods of the namespace. Of an Object metric that is
	// rolled up, Pods is the number of the object's pods, of which Values have a value.
	Pods int
}

// Of reads a metric of an autoscaler. The error is the API's, for its client to read.
func (r *AutoscalerReader) Of(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, targets Targets) (Reading, error) {
	return r.Each(a, m, targets, func(*metric.Point) {})
}

// Each is Of, and shows each value of the answer: of a pod or of a series. The points are borrowed.
func (r *AutoscalerReader) Each(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, targets Targets,
	each func(*metric.Point)) (Reading, error) {
	query, selector, err := queryOf(a, m)
	if err != nil {
		return Reading{}, err
	}
	if m.Source == "External" {
		if err := checkPolicies(r.policies, a.Namespace, unescape(m.Name), selector, autoscalerController); err != nil {
			return Reading{}, err
		}
		query.MayRead = operandPolicies(r.policies, a.Namespace, selector, autoscalerController)
	}
	var buffer []metric.Point
	query.Reserve = func(points int) ([]metric.Point, error) {
		buffer = takeBuffer(points)
		return buffer, nil
	}
	reading := Reading{}
	points, err := r.points(a, m, targets, query, &reading.Pods)
	if points != nil {
		buffer = points
	}
	for i := range points {
		reading.Sum = reading.Sum.Plus(points[i].Value)
		each(&points[i])
	}
	reading.Values = len(points)
	if len(points) == 1 && points[0].Pods.Of > 0 {
		reading.Values, reading.Pods = int(points[0].Pods.With), int(points[0].Pods.Of)
	}
	if buffer != nil {
		returnBuffer(buffer)
	}
	if err == nil {
		_, err = valuelist.Quantity(reading.Sum)
	}
	return reading, err
}

// queryOf is the query of an autoscaler's metric, without its object, and its selector.
func queryOf(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) (metric.Query, labels.Selector, error) {
	expression, err := metric.AskedExpression(unescape(m.Name))
	query := metric.Query{Namespace: a.Namespace, Expression: expression}
	if err != nil || m.Selector == "" {
		return query, labels.Everything(), err
	}
	selector, err := labelselector.Parse("selector", m.Selector)
	if err != nil {
		return query, nil, err
	}
	query.MatchLabels = labelselector.Matching(selector)
	return query, selector, nil
}

// Series is the query whose series a metric of an autoscaler reads, for aggregate.Watch. That of a Pods metric
// reads those of all pods of the namespace.
func (r *AutoscalerReader) Series(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) (metric.Query, error) {
	query, _, err := queryOf(a, m)
	switch {
	case err != nil || m.Source == "External":
		return query, err
	case m.Source == "Pods":
		query.Resource, query.Object = pods.resource.Resource, metric.AllObjects
		return query, nil
	}
	_, err = r.aim(m, &query)
	return query, err
}

func (r *AutoscalerReader) points(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, targets Targets,
	query metric.Query, pods *int) ([]metric.Point, error) {
	switch m.Source {
	case "External":
		return r.storage.source.External(query)
	case "Object":
		return r.object(m, query)
	}
	return r.targetPods(a, targets, query, pods)
}

// ResourceOf is the group-resource of the objects of a metric, as in its queries; empty: it is
// external, or its kind is unknown.
func (r *AutoscalerReader) ResourceOf(m *inspect.AutoscalerMetric) string {
	switch m.Source {
	case "External":
		return ""
	case "Object":
		kind, _ := r.kindOf(m)
		return kind.resource.String()
	}
	return pods.resource.Resource
}

// kindOf is the kind of the described object of an Object metric.
func (r *AutoscalerReader) kindOf(m *inspect.AutoscalerMetric) (objectKind, error) {
	group := schema.FromAPIVersionAndKind(m.ObjectAPIVersion, m.ObjectKind).GroupKind()
	return r.storage.objects.find(strings.ToLower(group.String()))
}

// object reads the metric of a described object, as customStorage.List does.
func (r *AutoscalerReader) object(m *inspect.AutoscalerMetric, query metric.Query) ([]metric.Point, error) {
	kind, err := r.aim(m, &query)
	if err != nil {
		return nil, err
	}
	pick, err := r.storage.objects.pick(kind, customRequest{object: m.ObjectName}, nil)
	if err != nil {
		return nil, err
	}
	usePick(&query, pick)
	return r.storage.source.Objects(query)
}

// aim sets the described object of a query in the autoscaler's namespace. The controller leaves it for no other one: it takes any Namespace
// for the autoscaler's own, and asks for all other objects in there.
func (r *AutoscalerReader) aim(m *inspect.AutoscalerMetric, query *metric.Query) (objectKind, error) {
	kind, err := r.kindOf(m)
	if err != nil {
		return kind, err
	}
	query.Resource, query.Object = kind.resource.String(), m.ObjectName
	if kind.resource == namespaces {
		query.Object, query.Namespace = query.Namespace, ""
		return kind, nil
	}
	return kind, kind.checkWithin(query.Namespace, query.Object)
}

// targetPods reads the metric of the target's pods; or, if none is known to be the target's, of all
// pods of the namespace. The controller of the target may own what owns the pods.
func (r *AutoscalerReader) targetPods(a *inspect.Autoscaler, targets Targets, query metric.Query,
	n *int) ([]metric.Point, error) {
	all, ready, live := targets.TargetPods(a.Namespace, a.TargetKind, a.TargetName)
	query.Resource, query.Object = pods.resource.Resource, metric.AllObjects
	query.MatchObject = r.storage.objects.alive
	if *n = live; live > 0 {
		query.ListObjects = func(int) (iter.Seq[metric.Object], int, bool) { return all, live, true }
		query.ReadyPods = func() (iter.Seq2[metric.Object, metric.Workload], int) { return ready, live }
	}
	return r.storage.source.Objects(query)
}

// Facts returns what explain can be told without the rights of a person: the pods of an autoscaler's target, and
// the answers to the metrics that Sluice is asked for.
func (r *AutoscalerReader) Facts(a *inspect.Autoscaler, targets Targets) *explain.Facts {
	f := &explain.Facts{Now: time.Now(), Autoscaler: *a, Pods: targets.PodStates(a.Namespace, a.TargetKind, a.TargetName),
		Readings: make([]explain.Reading, len(a.Metrics))}
	if n := int32(len(f.Pods)); a.CurrentReplicas == 0 && n > 0 { // the controller has not written the status yet
		f.Scale = &explain.Scale{SpecReplicas: n, StatusReplicas: n}
	}
	for i := range a.Metrics {
		if a.Metrics[i].Asked {
			f.Readings[i] = r.reading(a, &a.Metrics[i], targets)
		}
	}
	return f
}

func (r *AutoscalerReader) reading(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, targets Targets) explain.Reading {
	reading := explain.Reading{Asked: true}
	_, err := r.Each(a, m, targets, func(p *metric.Point) { reading.Values = append(reading.Values, factOf(p)) })
	if err != nil {
		return explain.Reading{Asked: true, Code: statusOf(err), Fault: err.Error()}
	}
	return reading
}

func factOf(p *metric.Point) explain.Value {
	v := explain.Value{Object: p.Object.Name, Text: Quantity(p.Value), Time: p.Time, Pods: p.Pods}
	if p.Object.External() {
		if v.Object = explain.NoLabels; p.Labels.Len() > 0 {
			v.Object = strings.TrimSuffix(strings.TrimPrefix(p.Labels.String(), "{"), "}")
		}
	}
	if q, err := resource.ParseQuantity(v.Text); err == nil {
		v.Milli = q.MilliValue()
	}
	return v
}

// statusOf is the HTTP status with which the metrics APIs answer an error.
func statusOf(err error) int {
	switch {
	case errors.Is(err, metric.ErrInvalidQuery):
		return http.StatusBadRequest
	case errors.Is(err, metric.ErrForbidden):
		return http.StatusForbidden
	case errors.Is(err, metric.ErrNotReady):
		return http.StatusServiceUnavailable
	}
	return http.StatusNotFound
}

// Quantity returns a number as Kubernetes writes it ("1500m").
func Quantity(n metric.Number) string {
	text, err := valuelist.Quantity(n)
	if err != nil {
		return string(n.Append(nil))
	}
	return text
}
