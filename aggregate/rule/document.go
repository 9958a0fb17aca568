package rule

import "time"

// APIVersion and the kinds of documents.
const (
	APIVersion  = "sluice.dev/v1alpha1"
	Kind        = "MetricRule"
	ClusterKind = "ClusterMetricRule"
)

// Document is a rule as it is written: a MetricRule or a ClusterMetricRule.
type Document struct {
	// Namespace is empty for a ClusterMetricRule, which holds in all namespaces and in none.
	Namespace, Name string
	UID             string
	Generation      int64
	// Created orders rules of one metric: the oldest one holds. Zero: the order of the list.
	Created time.Time
	Spec    Spec
	// Fault says why the spec could not be read. Empty: it could.
	Fault string
}

// Spec is the content of a rule: Metric, Let and Value, or Rename.
type Spec struct {
	// Metric is the name that the rule computes, without a stat or a window.
	Metric string `json:"metric,omitempty" yaml:"metric"`
	// Let maps the names of operands to pushed metrics, as name[:stat][:window].
	Let map[string]string `json:"let,omitempty" yaml:"let"`
	// Selectors select label sets of operands before they are rolled up.
	Selectors map[string]string `json:"selectors,omitempty" yaml:"selectors"`
	// Value is an expression in CEL over the operands. Its type is double.
	Value string `json:"value,omitempty" yaml:"value"`
	// Rename gives pushed metrics another name.
	Rename *Rename `json:"rename,omitempty" yaml:"rename"`
}

// Rename gives the metrics whose whole name From matches the name To.
type Rename struct {
	// From is a regular expression (RE2) of literal text and groups.
	From string `json:"from" yaml:"from"`
	// To is the new name, in which $1 or ${1} stands for the first group.
	To string `json:"to" yaml:"to"`
}

// Bounds of a rule. They are those of the CustomResourceDefinitions.
const (
	maxExpression = 1024 // bytes
	maxOperands   = 8
	maxOperand    = 32  // bytes of an operand's name
	maxMetric     = 253 // bytes
	maxSelector   = 512 // bytes
	maxPattern    = 128 // bytes of Rename.From
)

// String names the document as kubectl does.
func (d *Document) String() string {
	if d.Namespace == "" {
		return "clustermetricrule/" + d.Name
	}
	return "metricrule/" + d.Name + " in " + d.Namespace
}
