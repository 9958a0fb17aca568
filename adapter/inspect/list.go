package inspect

import (
	"reflect"
	"time"
)

// List is an answer of the API group: a page of documents in the form of Kubernetes' lists. The
// documents carry metadata with their name and namespace beside their fields.
type List[T any] struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Metadata   ListMeta `json:"metadata"`
	Items      []T      `json:"items"`
}

// ListMeta is the metadata of a List.
type ListMeta struct {
	// Continue is the token of the next page; empty: this is the last one.
	Continue string `json:"continue,omitempty"`
}

// OpenAPIModelName names the list in an OpenAPI document.
func (List[T]) OpenAPIModelName() string { return modelPrefix + reflect.TypeFor[T]().Name() + "List" }

// OpenAPIModelName names the document in an OpenAPI document.
func (Autoscaler) OpenAPIModelName() string { return modelPrefix + "Autoscaler" }

// OpenAPIModelName names the document in an OpenAPI document.
func (MetricDetail) OpenAPIModelName() string { return modelPrefix + "MetricDetail" }

const modelPrefix = "dev.sluice.inspect." + Version + "."

// Meta is the metadata of a document.
type Meta struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// Document is what lists show. A pointer to each document implements it.
type Document interface {
	Meta() Meta
	// Cells are the values of the list's columns, as of a moment.
	Cells(now time.Time) []string
	// Fault says what is wrong, for people; empty: nothing is.
	Fault() string
}

// Resource is a list of the API group.
type Resource struct {
	Name     string // plural, as in paths
	Singular string
	Kind     string // of a document; a list's is Kind with "List"
	// Doc describes a document, in a sentence.
	Doc     string
	Columns []Column
	// Identity is the number of columns that, with the namespace, identify a document: the first
	// ones.
	Identity int
}

// Column is a column of the table of a list.
type Column struct {
	Name string
	Wide bool // shown on demand
}

// GroupVersion is the API version of all documents.
const GroupVersion = Group + "/" + Version

// Resources are the lists of the API group. "limits" is kubectl's short name of LimitRanges, which a
// resource of that name would hide.
var Resources = []Resource{
	{"metrics", "metric", "Metric", "One name in one namespace, on objects of one resource or external.",
		columns("NAME", "OF", "KIND", "OBJECTS", "SERIES", "LAST SAMPLE", "READ BY", "+VALUE", "+LABELS", "+STATS"), 2},
	{"objects", "object", "Object", "An object that has series.",
		columns("NAME", "METRICS", "SERIES", "LAST SAMPLE", "+METRIC NAMES"), 1},
	{"senders", "sender", "Sender", "A pod, an account or an address that pushes to the replica that answers.",
		columns("NAME", "SORT", "SERIES", "REJECTED SAMPLES", "LAST HEARD", "+PUSHES"), 2},
	{"rejections", "rejection", "Rejection",
		"Samples that the replica that answers has rejected, of one sender and metric and for one reason.",
		columns("METRIC", "SENDER", "REASON", "SAMPLES", "LAST", "MESSAGE", "+RECEIVER", "+FIRST", "+EXAMPLE"), 3},
	{"groups", "group", "PushedGroup", "A group of the Pushgateway API.",
		columns("JOB", "LABELS", "FAMILIES", "SERIES", "LAST PUSH", "LAST FAILURE"), 2},
	{"limituses", "limituse", "Limit", "The use of the limits of a pod, or of a namespace without its pods.",
		columns("OF", "METRICS", "SERIES", "REJECTED SERIES", "SET BY", "+HELD BY", "+WANTED"), 1},
	{"autoscalers", "autoscaler", "Autoscaler", "A HorizontalPodAutoscaler, with Sluice's answer for each of its metrics.",
		columns("NAME", "SCALES", "METRICS", "MIN", "MAX", "REPLICAS", "WANTED", "+WHY"), 1},
	{"rules", "rule", "Rule", "A rule that computes a metric from others, or renames metrics, with its last value at the replica that answers.",
		columns("NAME", "METRIC", "FROM", "VALUE", "OF", "STATE", "+EXPRESSION"), 1},
	{"policies", "policy", "Policy", "An ExternalMetricPolicy or a ClusterExternalMetricPolicy, as it is in force.",
		columns("NAME", "READERS", "RULES", "STATE", "+EACH RULE"), 1},
}

// columns makes columns of names; "+" marks a wide one.
func columns(names ...string) (all []Column) {
	for _, name := range names {
		if name[0] == '+' {
			all = append(all, Column{name[1:], true})
		} else {
			all = append(all, Column{name, false})
		}
	}
	return all
}

// ResourceNamed returns a list by its name or singular.
func ResourceNamed(name string) (Resource, bool) {
	for _, one := range Resources {
		if one.Name == name || one.Singular == name {
			return one, true
		}
	}
	return Resource{}, false
}
