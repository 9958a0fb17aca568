package inspect

import "time"

// Group and Version are the API group that serves the documents.
const (
	Group   = "inspect.sluice.dev"
	Version = "v1alpha1"
)

// Reference names an object. Resource is a canonical group-resource such as "deployments.apps";
// empty: no object, as of an external metric.
type Reference struct {
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Metric is one name in one namespace, on objects of one resource or external.
type Metric struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Resource of the objects; empty: external.
	Resource string `json:"resource,omitempty"`
	Kind     string `json:"kind"`
	Objects  int    `json:"objects"`
	Series   int    `json:"series"`
	// LastSample is the arrival of the newest sample.
	LastSample time.Time `json:"lastSample"`
	// ReadBy are the autoscalers that name the metric, as "namespace/name", at most MetricReaders. ReadByMore is the
	// number of the others.
	ReadBy     []string `json:"readBy,omitempty"`
	ReadByMore int      `json:"readByMore,omitempty"`
	// LabelKeys are the keys of labels of its first series, at most 8.
	LabelKeys []string `json:"labelKeys,omitempty"`
	// Value is that of the bare name, if there is a single series and it has a value.
	Value string `json:"value,omitempty"`
	// Stat is the stat of Value, and the window that ends now: "rate:1m", "last".
	Stat string `json:"stat,omitempty"`
}

// MetricReaders bounds the readers of a Metric.
const MetricReaders = 100

// Series is one series of a metric, with its value as a reader of the bare name gets it.
type Series struct {
	Object     Reference         `json:"object"`
	Labels     map[string]string `json:"labels,omitempty"`
	Value      string            `json:"value"`
	LastSample time.Time         `json:"lastSample"`
	// Interval is the time between two pushes, in seconds, as far as it can be seen; 0: unknown.
	Interval float64 `json:"interval,omitempty"`
}

// MetricDetail is everything of one name in one namespace: the metric on objects of each resource
// that has it, and some of its series, at most DetailSeries of each.
type MetricDetail struct {
	Metrics []Metric `json:"metrics"`
	Series  []Series `json:"series"`
	// Senders push the metric to the replica that answers, the newest first; at most MetricSenders of
	// each namespace.
	Senders []MetricSender `json:"senders,omitempty"`
	// Windows can be asked for, the shortest first, as "10s".
	Windows []string `json:"windows,omitempty"`
}

// MetricSender is a sender of a metric.
type MetricSender struct {
	// Metric is the namespace of the metric.
	Metric string `json:"metric,omitempty"`
	// Namespace, Name and Sort are those of the sender, as in Sender.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Sort      string `json:"sort"`
	// Account is the service account of a pod.
	Account string `json:"account,omitempty"`
}

// MetricSenders bounds the remembered senders of a metric.
const MetricSenders = 4

// DetailSeries bounds the series of each metric in a MetricDetail.
const DetailSeries = 100

// Object is an object that has series.
type Object struct {
	Reference
	Metrics    int       `json:"metrics"`
	Series     int       `json:"series"`
	LastSample time.Time `json:"lastSample"`
	// MetricNames are some of its metrics, at most 8.
	MetricNames []string `json:"metricNames,omitempty"`
}

// Sender is a pod, an account or an address that pushes.
type Sender struct {
	Namespace string `json:"namespace,omitempty"`
	// Name is the pod's or the account's name, or the address.
	Name string `json:"name"`
	// Sort is "pod", "account" or "address".
	Sort string `json:"sort"`
	// Series are those of the pod itself, and those of the external metrics that the sender pushes,
	// which others may push as well.
	Series   int    `json:"series"`
	Rejected uint64 `json:"rejected,omitempty"` // samples since the start
	// LastHeard is the newest request, one of the newest 16 StatsD lines not seen before, or the newest
	// sample of the pod's own series, or of external metrics that no other sender pushes.
	LastHeard time.Time `json:"lastHeard"`
	// MaybeHeard is set if the sender may have been heard since, up to this moment: it pushes external
	// metrics that others push as well, or metrics of other objects, and StatsD lines that are known say
	// nothing about their sender.
	MaybeHeard time.Time `json:"maybeHeard,omitzero"`
	// Metrics are some that it pushes, sorted, as far as they are remembered; at most SenderMetrics.
	Metrics []string `json:"metrics,omitempty"`
}

// SenderMetrics bounds the metrics of a Sender.
const SenderMetrics = 8

// Rejection is what one sender was refused of one metric, for one reason.
type Rejection struct {
	Namespace string `json:"namespace,omitempty"`
	Sender    string `json:"sender,omitempty"`
	Receiver  string `json:"receiver"`
	// Reason is a value of the label "reason" of sluice_samples_rejected_total.
	Reason string `json:"reason"`
	Metric string `json:"metric,omitempty"`
	// Message says what was wrong, and what would be right.
	Message string `json:"message"`
	// Example is the beginning of the newest rejected line.
	Example string    `json:"example,omitempty"`
	Count   uint64    `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
}

// Agent is the agent of a node.
type Agent struct {
	Node string `json:"node"`
	// State is AgentConnected, AgentCutOff or AgentStopped, and Since when it began.
	State   string    `json:"state"`
	Since   time.Time `json:"since"`
	Version string    `json:"version,omitempty"` // of Sluice
	Series  int       `json:"series"`            // that it has told since it connected, but those that it has forgotten
	Samples uint64    `json:"samples"`           // since it first connected to these processes
	// Lag is the age of the newest frame when it came, in seconds, and LastFrame when it came.
	Lag       float64   `json:"lag"`
	LastFrame time.Time `json:"lastFrame,omitzero"`
	Rejected  uint64    `json:"rejected,omitempty"` // of Samples
	// Reason and Message are those of the last rejection.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Elsewhere: agents may report to another replica too, which has not said which.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// States of an agent. One that stopped was ended, and had said so.
const (
	AgentConnected = "connected"
	AgentCutOff    = "cut off"
	AgentStopped   = "stopped"
)

// PushedGroup is a group of the Pushgateway API.
type PushedGroup struct {
	Namespace string            `json:"namespace,omitempty"`
	Job       string            `json:"job"`
	Labels    map[string]string `json:"labels,omitempty"`
	Families  int               `json:"families"`
	Series    int               `json:"series"`
	LastPush  time.Time         `json:"lastPush"`
	// LastFailure is zero if the last push was accepted.
	LastFailure time.Time `json:"lastFailure,omitzero"`
}

// Limit is the use of the slots of a pod, another object or a namespace.
type Limit struct {
	// Of is the object; of a namespace: resource "namespaces".
	Of         Reference `json:"of"`
	Metrics    int       `json:"metrics"`
	MaxMetrics int       `json:"maxMetrics"`
	Series     int       `json:"series"`
	MaxSeries  int       `json:"maxSeries"`
	// Source names the LimitRanges that set the maximum; empty: the default.
	Source string `json:"source,omitempty"`
	// Rejected are the series that were refused since the start.
	Rejected uint64 `json:"rejected,omitempty"`
	// WantedMetrics and WantedSeries are the numbers with which nothing would have been refused since
	// the limit last changed; 0: nothing was. WantedSeries is estimated, to a few percent.
	WantedMetrics int `json:"wantedMetrics,omitempty"`
	WantedSeries  int `json:"wantedSeries,omitempty"`
	// Holders are the metrics that hold the slots, those with the most series first; of many, some.
	Holders []Holder `json:"holders,omitempty"`
}

// Holder is a metric that holds a slot of a limit.
type Holder struct {
	Metric string `json:"metric"`
	Series int    `json:"series"`
	// Autoscaler is set if an autoscaler of the namespace names the metric.
	Autoscaler bool `json:"autoscaler,omitempty"`
}

// Rule is a rule that computes a metric from others, or gives pushed metrics another name.
type Rule struct {
	Namespace string `json:"namespace,omitempty"` // empty: it holds in all
	Name      string `json:"name"`
	// Metric is the name that readers ask for; of a rename, a template.
	Metric string `json:"metric"`
	// From are the pushed metrics that the rule reads, each once; of a rename, the pattern of their names.
	From       []string `json:"from"`
	Expression string   `json:"expression,omitempty"` // empty: a rename
	// Operands are those of the expression, sorted by name.
	Operands []RuleOperand `json:"operands,omitempty"`
	// State is "Accepted", or why the rule is refused, in one word. Message says it for people.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Value is the newest one that a reader got from this replica, and Of its object: the first of
	// several.
	Value string    `json:"value,omitempty"`
	Of    Reference `json:"of,omitzero"`
	Time  time.Time `json:"time,omitzero"`

	// Asked is the namespace that the reader asked, and Renamed the pushed metrics that operands stand for by a rename.
	Asked   string   `json:"-"`
	Renamed []string `json:"-"`
}

// RuleOperand is a pushed metric in the expression of a rule.
type RuleOperand struct {
	Name     string `json:"name"`               // in the expression
	Metric   string `json:"metric"`             // name[:stat][:window]
	Selector string `json:"selector,omitempty"` // of label sets; empty: all
}

// Holds reports whether the rule answers somewhere. One whose metric is pushed answers where it isn't.
func (r *Rule) Holds() bool { return r.State == RuleAccepted || r.State == RulePushed }
