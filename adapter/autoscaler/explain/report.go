package explain

import (
	"net/http"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// Report is the explanation of an autoscaler.
type Report struct {
	Autoscaler inspect.Autoscaler `json:"autoscaler"`
	Metrics    []MetricReport     `json:"metrics"`
	Decision   Decision           `json:"decision"`
	// Findings are the faults, and then the warnings; empty: nothing is wrong.
	Findings []Finding `json:"findings"`
	// AtThePush are lines on what Sluice does for the autoscaler at a push (wake, instant), and did last.
	AtThePush []string `json:"-"`
	// Unknown are the facts that could not be read.
	Unknown []string `json:"unknown,omitempty"`
}

// MetricReport is what an autoscaler gets for one metric, and what it makes of it.
type MetricReport struct {
	Source string `json:"source"`
	Name   string `json:"name"`
	// Asks is the question in words.
	Asks string `json:"asks"`
	// Rule computes or renames the metric; nil: it is pushed, or the rule is unknown.
	Rule *RuleReport `json:"rule,omitempty"`
	// Values are the values of the answer, in its order: of pods, or of series.
	Values []ValueReport `json:"values,omitempty"`
	// Fault is the error of the answer; empty: there is none.
	Fault string `json:"fault,omitempty"`
	// Steps is the controller's arithmetic, a sentence each.
	Steps []string `json:"steps,omitempty"`
	// Proposal is the number of replicas that the metric asks for; nil: none.
	Proposal *int32 `json:"proposal,omitempty"`
	// Foreign is set for metrics that Sluice does not answer (CPU, memory).
	Foreign bool `json:"foreign,omitempty"`
	// Unreadable is set if the person who asks may not read the metric. The controller may.
	Unreadable bool `json:"unreadable,omitempty"`
	// strict is the number that the metric would ask for without the tolerance, if Proposal is set.
	strict int32
}

// ValueReport is the value of a pod or a series, or the reason why there is none.
type ValueReport struct {
	Of     string    `json:"of"`
	Value  string    `json:"value,omitempty"`
	Time   time.Time `json:"time,omitzero"`
	Reason string    `json:"reason,omitempty"`
	// Incomplete is set if the value lacks series that a limit rejects.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Decision is what the controller makes of all metrics.
type Decision struct {
	// Replicas that the controller wants by these values; nil: it changes nothing.
	Replicas *int32 `json:"replicas,omitempty"`
	// Steps are sentences.
	Steps []string `json:"steps"`
	// held is what the spec makes of the metrics' number; nil: it follows them.
	held *Finding
}

// Finding is one fault, and how to mend it.
type Finding struct {
	Cause Cause `json:"cause"`
	// Metric is the name that the fault concerns; empty: all.
	Metric string `json:"metric,omitempty"`
	Text   string `json:"text"`
	// Remedy is a command, or a change to make; one a line.
	Remedy []string `json:"remedy,omitempty"`
	// Warning is set for a finding that does not keep the autoscaler from working.
	Warning bool `json:"warning,omitempty"`
}

// Cause is one of the faults that explain knows.
type Cause string

// The causes, from those of the whole API to those of the spec. A fault of the API hides those behind it.
const (
	NotRegistered  Cause = "not-registered"    // or another product's
	Unavailable    Cause = "unavailable"       // the APIService says why
	Unreachable    Cause = "unreachable"       // the API server cannot reach the port
	RightMissing   Cause = "right-missing"     // of the controller, or of who asks
	NeverPushed    Cause = "never-pushed"      // misspelt or expired
	OtherNamespace Cause = "other-namespace"   // it exists in another one
	OtherKind      Cause = "other-kind"        // of object or of metric
	SelectorEmpty  Cause = "selector-empty"    // the selector selects no series
	AgentCutOff    Cause = "agent-cut-off"     // the agent of a pod's node is not heard any more
	NoAgent        Cause = "no-agent"          // the node of a pod has none, others have
	PodsMissing    Cause = "pods-missing"      // some pods have no value
	NotScraped     Cause = "not-scraped"       // pods announce an endpoint with it, which cannot be scraped
	SeriesRejected Cause = "series-rejected"   // values lack series that a limit rejects
	TargetType     Cause = "target-type"       // Value against AverageValue, thousandths
	Overlap        Cause = "overlap"           // autoscalers or selectors
	OneBroken      Cause = "one-broken"        // one metric of several; stale status
	NotAbleToScale Cause = "not-able-to-scale" // the target itself
	KEDA           Cause = "keda"              // the metric is answered by KEDA's adapter
	Provider       Cause = "provider"          // the metric is forwarded to another provider, which gives no value
	Shadowed       Cause = "shadowed"          // the same, and Sluice has series of the name
	HeldBySpec     Cause = "held-by-spec"      // bounds, tolerance or rates of the spec hold the replicas
)

// Autoscaler explains an autoscaler.
func Autoscaler(f *Facts) Report {
	r := Report{Autoscaler: f.Autoscaler, Unknown: f.Unknown, Findings: []Finding{}, AtThePush: f.atThePush()}
	if f.Scale != nil {
		r.Autoscaler.CurrentReplicas = f.Scale.SpecReplicas // the status is of the last sync
	}
	for i := range f.Autoscaler.Metrics {
		r.Metrics = append(r.Metrics, f.metric(i))
	}
	r.Decision = f.decide(r.Metrics)
	r.Findings = append(append(r.Findings, f.findings(r.Metrics)...), append(f.judgeWake(), f.judgeInstant()...)...)
	if held := r.Decision.held; held != nil && !r.Broken() {
		r.Findings = append([]Finding{*held}, r.Findings...)
	}
	if r.Decision.Replicas != nil && r.Broken() && f.active() == "False" {
		r.Decision.Steps = append([]string{"the controller changes nothing until the fault is mended; by these values it then wants:"}, r.Decision.Steps...)
	}
	return r
}

// Broken reports whether something keeps the autoscaler from working.
func (r *Report) Broken() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.Warning })
}

// metric reports on one metric.
func (f *Facts) metric(i int) MetricReport {
	m := &f.Autoscaler.Metrics[i]
	out := MetricReport{Source: m.Source, Name: m.Name, Asks: asks(m), Foreign: GroupOf(m.Source) == ""}
	reading := f.reading(i)
	if out.Foreign || !reading.Asked {
		return out
	}
	out.Fault, out.Unreadable = reading.Fault, reading.Code == http.StatusForbidden
	out.Values, out.Rule = f.values(i), f.rule(i).report()
	if reading.Fault != "" {
		return out
	}
	out.Steps = rollUpSteps(m, reading)
	if n, ok := f.calculation(&out).propose(m, reading.Values); ok {
		if out.Proposal = &n; out.strict == 0 {
			out.strict = n
		}
	}
	return out
}

// calculation is the arithmetic for a metric, whose steps go into its report.
func (f *Facts) calculation(out *MetricReport) *calculation {
	c := &calculation{facts: f, tol: tolerancesOf(&f.Autoscaler), current: f.Autoscaler.CurrentReplicas,
		status: f.Autoscaler.CurrentReplicas, out: out}
	if f.Scale != nil {
		c.current, c.status = f.Scale.SpecReplicas, f.Scale.StatusReplicas
	}
	return c
}

func (f *Facts) reading(i int) *Reading {
	if i < len(f.Readings) {
		return &f.Readings[i]
	}
	return &Reading{}
}

// asks is the question of a metric in words.
func asks(m *inspect.AutoscalerMetric) string {
	of := ""
	switch m.Source {
	case sourcePods:
		of = "of each pod"
	case sourceObject:
		of = "of " + m.ObjectKind + " " + m.ObjectName
	case sourceExternal:
		of = "external"
	default:
		return m.Name + " (not from Sluice)"
	}
	text := m.Name + " " + of
	if m.Selector != "" {
		text += " with " + m.Selector
	}
	if m.Provider != "" {
		text += ", answered by the provider " + m.Provider
	}
	return text + ", target " + m.Target + map[string]string{"AverageValue": " per replica",
		"Value": " in total"}[m.TargetType]
}

// values lists the values of an answer and, for pods, those that have none.
func (f *Facts) values(i int) []ValueReport {
	m, reading := &f.Autoscaler.Metrics[i], f.reading(i)
	var out []ValueReport
	has, incomplete := map[string]bool{}, map[string]bool{}
	for _, podWithout := range f.incomplete(i) {
		incomplete[podWithout.name] = true
	}
	for _, v := range reading.Values {
		has[v.Object] = true
		out = append(out, ValueReport{Of: v.Object, Value: v.Text, Time: v.Time, Incomplete: incomplete[v.Object]})
	}
	if m.Source != sourcePods || reading.Fault != "" && (reading.Code != http.StatusNotFound || noAPI(reading)) {
		return out
	}
	for _, p := range f.Pods {
		if !has[p.Name] {
			out = append(out, ValueReport{Of: p.Name, Reason: f.absenceOf(m, &p).why})
		}
	}
	return out
}
