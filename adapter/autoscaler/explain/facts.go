package explain

import (
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// Facts are all that is known about an autoscaler. Each part may be missing, because the person who
// asks may not read it; Unknown says so.
type Facts struct {
	Now        time.Time
	Autoscaler inspect.Autoscaler
	Scale      *Scale // nil: unknown
	// Pods are those that the target's selector selects; nil: unknown.
	Pods []inspect.TargetPod
	// Readings are the answers to Autoscaler.Metrics, in their order. A metric that is not of the
	// custom or external metrics API has none.
	Readings []Reading
	// Rules are those behind Autoscaler.Metrics, in their order; nil: none is known.
	Rules []*Rule
	// APIs are the registrations of the metrics APIs, by group; nil: unknown.
	APIs map[string]API
	// Metrics are all that may be listed, of all namespaces that may be read; nil: unknown.
	Metrics []inspect.Metric
	// Senders are some of those that push Metrics without a value.
	Senders []inspect.MetricSender
	// Sets are the series of Autoscaler.Metrics, in their order, whatever their labels.
	Sets [][]inspect.Series
	// Rejections are those of the namespace.
	Rejections []inspect.Rejection
	// Targets are the endpoints that the pods of the namespace announce.
	Targets []inspect.Target
	// Limits are the uses of the limits of the namespace and its pods; nil: unknown, or not needed.
	Limits []inspect.Limit
	// LimitRanges are those of the namespace; nil: unknown, or not needed.
	LimitRanges []LimitRange
	// Neighbours are the other autoscalers of the namespace.
	Neighbours []Neighbour
	// ControllerDenied are the rights that the HPA controller lacks.
	ControllerDenied []Right
	// ReaderRole is the ClusterRole of Sluice's chart that allows to read the metrics APIs; empty:
	// there is none.
	ReaderRole string
	// Asked says when the controller last asked this process for each of Autoscaler.Metrics; zero: never
	// since the start. Nil: unknown.
	Asked []time.Time
	// AgentOf returns the agent of a node, if it has one. Nil: no agents are in use, or they are unknown.
	AgentOf func(node string) (inspect.Agent, bool)
	// Triggers are those of the ScaledObject that KEDA made the autoscaler from.
	Triggers []Trigger
	// TargetAbsent is the API server's message if the target does not exist; empty: it exists, or is unknown.
	TargetAbsent string
	// Unknown are the facts that could not be read, a sentence each.
	Unknown []string

	newest map[rejectedSeries]*inspect.Rejection // of Rejections, once they are needed
}

// Scale is the scale subresource of the target.
type Scale struct {
	SpecReplicas, StatusReplicas int32
}

// Reading is the answer of a metrics API.
type Reading struct {
	Asked bool
	// Resource is the group-resource that was asked about, as "ingresses.networking.k8s.io"; empty:
	// external, or unknown.
	Resource string
	Values   []Value
	// Code is the HTTP status of a failure; 0: the request failed before there was one, or it
	// succeeded. Fault is the message.
	Code  int
	Fault string
}

// Value is one value of an answer.
type Value struct {
	Object string // name of the object; of an external metric: its labels, or NoLabels
	Milli  int64  // thousandths, rounded up, as the controller reads them
	Text   string // as answered
	Time   time.Time
	// Pods are those that the value is rolled up from; zero: it is no roll-up.
	Pods metric.PodCount
}

// NoLabels stands for an empty set of labels.
const NoLabels = "no labels"

// API is the registration of a metrics API group.
type API struct {
	Exists    bool
	Name      string // of the APIService; empty: that of the chart
	Service   string // "namespace/name:port"; empty: none
	Sluice    bool   // that Service selects Sluice
	Owner     string // who else owns it, if that is known
	Available bool
	Reason    string // of the condition
	Message   string
	// Certificate is the fault of the certificate that the Service presents against caBundle;
	// empty: none is known.
	Certificate string
}

// Right is a right to read a metric. Resource is written as RBAC does: "pods/http_requests".
type Right struct{ Verb, Group, Resource string }

// LimitRange is a LimitRange, with its entries in their order.
type LimitRange struct {
	Name    string
	Entries []LimitEntry
}

// LimitEntry is an entry of a LimitRange: its type, as "sluice.dev/Pod", and its maxima by resource.
type LimitEntry struct {
	Type string
	Max  map[string]string
}

// Trigger is a trigger of a ScaledObject. Metric is what it asks Sluice for; empty: it asks
// another scaler.
type Trigger struct{ Metric string }

// Neighbour is another autoscaler of the namespace.
type Neighbour struct {
	Name                   string
	TargetKind, TargetName string
	// SharedPods are the pods of the target that the neighbour's selector selects too.
	SharedPods int
}

// Groups of the metrics APIs.
const (
	CustomGroup   = "custom.metrics.k8s.io"
	ExternalGroup = "external.metrics.k8s.io"
)

// GroupOf is the API group that answers for a source of metrics; empty: neither.
func GroupOf(source string) string {
	switch source {
	case sourcePods, sourceObject:
		return CustomGroup
	case sourceExternal:
		return ExternalGroup
	}
	return ""
}

// The values of inspect.AutoscalerMetric.Source that Sluice answers.
const (
	sourcePods     = "Pods"
	sourceObject   = "Object"
	sourceExternal = "External"
)
