package explain

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// ScaledObjectFacts are all that is known about a ScaledObject of KEDA.
type ScaledObjectFacts struct {
	Now                    time.Time
	Namespace, Name        string
	TargetKind, TargetName string
	// MinReplicas is 0 and MaxReplicas is 100 if the ScaledObject names none, as in KEDA.
	MinReplicas, MaxReplicas int32
	Paused                   bool
	// Formula joins the triggers; empty: each counts for itself.
	Formula    string
	Conditions []inspect.AutoscalerCondition
	Events     []ObjectEvent // the newest first
	Triggers   []TriggerFacts
	// External is the registration of external.metrics.k8s.io; nil: unknown.
	External *API
	// AutoscalerName is that of the autoscaler that KEDA made; empty: it made none.
	AutoscalerName string
	// Autoscaler are the facts about it; nil: it can't be read, or there is none.
	Autoscaler *Facts
	// Metrics are all that may be listed; nil: unknown.
	Metrics []inspect.Metric
	Unknown []string
}

// ObjectEvent is an Event on an object.
type ObjectEvent struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Warning bool      `json:"warning,omitempty"`
	Count   int       `json:"count"`
	Last    time.Time `json:"last,omitzero"`
}

// TriggerFacts are one trigger of a ScaledObject.
type TriggerFacts struct {
	Type string
	Name string // for formulas; empty: none
	// Address is scalerAddress. Faults are those of the metadata, by Sluice's own rules.
	Address string
	Faults  []string
	Asks    TriggerQuestion
	// Cached is useCachedMetrics.
	Cached bool
	// Authentication is "kind/name"; empty: none.
	Authentication string
	// AuthenticationMissing is set if there is no such object.
	AuthenticationMissing bool
	// OfAnother is set if another product's external scaler answers, such as KEDA's for HTTP.
	OfAnother bool
	// AddressFault says why the address leads nowhere; empty: it leads to a Service, or is unknown.
	AddressFault string
}

// TriggerQuestion is what a trigger asks Sluice for.
type TriggerQuestion struct {
	// Metric is name[:stat][:window]; Object is external, namespace, pods or resource/name.
	Metric, Object, PodSelector, Selector string
	Target, Activation                    float64
	AbsentIsZero                          bool
}

// ofSluice reports whether a trigger asks an external scaler in Sluice's words.
func (t *TriggerFacts) ofSluice() bool {
	return !t.OfAnother && (t.Type == "external" || t.Type == "external-push")
}

// ScaledObjectReport is the explanation of a ScaledObject.
type ScaledObjectReport struct {
	Namespace   string          `json:"namespace"`
	Name        string          `json:"name"`
	TargetKind  string          `json:"targetKind"`
	TargetName  string          `json:"targetName"`
	MinReplicas int32           `json:"minReplicas"`
	MaxReplicas int32           `json:"maxReplicas"`
	Replicas    *int32          `json:"replicas,omitempty"`
	Formula     string          `json:"formula,omitempty"`
	Triggers    []TriggerReport `json:"triggers"`
	Findings    []Finding       `json:"findings"`
	// Conditions and Events are KEDA's own words.
	Conditions []inspect.AutoscalerCondition `json:"conditions,omitempty"`
	Events     []ObjectEvent                 `json:"events,omitempty"`
	// Autoscaler is the explanation of the one that KEDA made; its findings are among Findings.
	Autoscaler *Report  `json:"autoscaler,omitempty"`
	Unknown    []string `json:"unknown,omitempty"`
}

// TriggerReport is one trigger, and what it gets.
type TriggerReport struct {
	Index int    `json:"index"`
	Type  string `json:"type"`
	Name  string `json:"name,omitempty"`
	// Asks is the question in words; empty: it isn't Sluice's.
	Asks string `json:"asks,omitempty"`
	// Has says which series Sluice has of the metric; empty: unknown.
	Has string `json:"has,omitempty"`
	// Value is the answer that KEDA got; empty: none is known. Fault is the error instead.
	Value string `json:"value,omitempty"`
	Fault string `json:"fault,omitempty"`
	// Active is set if the value is above the activation, and nil if there is no value.
	Active *bool `json:"active,omitempty"`
}

// ScaledObject explains a ScaledObject.
func ScaledObject(f *ScaledObjectFacts) ScaledObjectReport {
	r := ScaledObjectReport{
		Namespace: f.Namespace, Name: f.Name, TargetKind: f.TargetKind, TargetName: f.TargetName,
		MinReplicas: f.MinReplicas, MaxReplicas: f.MaxReplicas, Formula: f.Formula,
		Conditions: f.Conditions, Events: f.Events, Unknown: f.Unknown, Findings: []Finding{},
	}
	for i := range f.Triggers {
		r.Triggers = append(r.Triggers, f.trigger(i))
	}
	r.Findings = append(r.Findings, f.findings(r.Triggers)...)
	if f.Autoscaler != nil {
		f.explainAutoscaler(&r)
	}
	slices.SortStableFunc(r.Findings, gravestFirst)
	return r
}

// explainAutoscaler adds the explanation of KEDA's autoscaler. What it says about KEDA is said by the
// triggers, and KEDA itself sets the first replica.
func (f *ScaledObjectFacts) explainAutoscaler(r *ScaledObjectReport) {
	report := Autoscaler(f.Autoscaler)
	atZero := f.Autoscaler.Scale != nil && f.Autoscaler.Scale.SpecReplicas == 0 && f.MinReplicas == 0
	for _, finding := range report.Findings {
		if finding.Cause == KEDA || finding.Cause == OneBroken || atZero && finding.Cause == NotAbleToScale {
			continue
		}
		r.Findings = append(r.Findings, finding)
	}
	report.Findings = []Finding{}
	r.Unknown = append(r.Unknown, report.Unknown...)
	report.Unknown = nil
	if atZero {
		report.Decision = Decision{Steps: []string{"0 replicas: the autoscaler rests, and KEDA sets the first replica once a trigger is active"}}
	}
	if f.Autoscaler.Scale != nil {
		r.Replicas = &f.Autoscaler.Scale.SpecReplicas
	}
	r.Autoscaler = &report
}

// Broken reports whether something keeps the ScaledObject from working.
func (r *ScaledObjectReport) Broken() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.Warning })
}

// trigger reports on one trigger.
func (f *ScaledObjectFacts) trigger(i int) TriggerReport {
	t := &f.Triggers[i]
	out := TriggerReport{Index: i, Type: t.Type, Name: t.Name}
	if !t.ofSluice() {
		return out
	}
	out.Asks, out.Has = t.Asks.words(), f.has(&t.Asks)
	reading := f.reading(i)
	if reading == nil {
		return out
	}
	if out.Fault = reading.Fault; out.Fault != "" {
		return out
	}
	sum := int64(0)
	for _, v := range reading.Values {
		sum += v.Milli
	}
	active := float64(sum) > t.Asks.Activation*1000
	out.Value, out.Active = number(sum), &active
	return out
}

// words is the question in words.
func (q *TriggerQuestion) words() string {
	text := cmp.Or(q.Metric, "no metric")
	switch q.Object {
	case "external", "":
		text += " external"
	case "namespace":
		text += " of the namespace"
	case "pods":
		text += " of pods, rolled up"
		if q.PodSelector != "" {
			text += ", with " + q.PodSelector
		}
	default:
		text += " of " + q.Object
	}
	if q.Selector != "" {
		text += " with " + q.Selector
	}
	text += ", target " + plain(q.Target) + ", active above " + plain(q.Activation)
	if q.AbsentIsZero {
		return text + ", 0 while absent"
	}
	return text + ", an error while absent"
}

func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// resource is that of the objects; empty: external.
func (q *TriggerQuestion) resource() string {
	switch q.Object {
	case "external", "":
		return ""
	case "namespace":
		return "namespaces"
	case "pods":
		return "pods"
	}
	resource, _, _ := strings.Cut(q.Object, "/")
	return resource
}

// here are the metrics of the question's name that the namespace may read, on any kind of object.
func (f *ScaledObjectFacts) here(q *TriggerQuestion) (all []inspect.Metric) {
	name := metric.BareName(q.Metric)
	for _, m := range f.Metrics {
		if m.Name == name && (m.Namespace == f.Namespace || m.Namespace == "") {
			all = append(all, m)
		}
	}
	return all
}

// has says what Sluice has of a metric.
func (f *ScaledObjectFacts) has(q *TriggerQuestion) string {
	if f.Metrics == nil || q.Metric == "" {
		return ""
	}
	for _, m := range f.here(q) {
		if sameResource(m.Resource, q.resource()) {
			text := fmt.Sprintf("a %s %s, %d series", m.Kind, onResource(m.Resource), m.Series)
			if !m.LastSample.IsZero() {
				text += ", newest sample " + age(f.Now.Sub(m.LastSample)) + " ago"
			}
			return text
		}
	}
	return noSeries
}

const noSeries = "no series"

// reading is what KEDA's adapter answers about a trigger; nil: unknown, or not for the eyes of who
// asks. KEDA names metrics "s0-…",
// "s1-…" by the place of the trigger.
func (f *ScaledObjectFacts) reading(i int) *Reading {
	if f.Autoscaler == nil {
		return nil
	}
	prefix := "s" + strconv.Itoa(i) + "-"
	for at, m := range f.Autoscaler.Autoscaler.Metrics {
		if r := f.Autoscaler.reading(at); strings.HasPrefix(m.Name, prefix) && r.Asked &&
			r.Code != http.StatusForbidden {
			return r
		}
	}
	return nil
}

// recent bounds the age of Events, which KEDA repeats at each poll, and of rejections, that say something about
// the present.
const recent = 10 * time.Minute

// judgeSettings are notes about a trigger that works, and not as one may expect.
func (f *ScaledObjectFacts) judgeSettings(i int) (out []Finding) {
	t := &f.Triggers[i]
	note := func(text, remedy string) {
		out = append(out, Finding{Cause: TriggerSettings, Metric: fmt.Sprintf("trigger %d", i), Warning: true, Text: text,
			Remedy: []string{remedy}})
	}
	if len(t.Faults) > 0 {
		return nil
	}
	if f.MinReplicas == 0 && !t.Asks.AbsentIsZero {
		note("minReplicaCount is 0, and a metric that nobody has pushed is an error: at each poll KEDA closes the stream, and waits up to a minute before it opens another",
			`In the trigger's metadata: absent: "0"`)
	}
	if f.MinReplicas == 0 && t.Type == "external" {
		note("minReplicaCount is 0, and KEDA only polls this trigger: the first replica waits for pollingInterval (30 s by default)",
			"In the trigger: type: external-push")
	}
	if t.Cached {
		note("useCachedMetrics is set: the autoscaler gets values of KEDA's last poll, not present ones",
			"In the trigger: useCachedMetrics: false")
	}
	return out
}

// judgeKEDA looks at KEDA's own conditions. explained: a fault is known already, which is why it isn't
// ready.
func (f *ScaledObjectFacts) judgeKEDA(explained bool) (out []Finding) {
	if f.Paused {
		out = append(out, Finding{Cause: KEDAState, Warning: true,
			Text:   "the ScaledObject is paused by an annotation: KEDA scales nothing",
			Remedy: []string{fmt.Sprintf("kubectl annotate scaledobject -n %s %s autoscaling.keda.sh/paused- autoscaling.keda.sh/paused-replicas-", f.Namespace, f.Name)}})
	}
	for _, c := range f.Conditions {
		switch {
		case c.Type == "Ready" && c.Status == "False" && !explained:
			out = append(out, f.notReady(c.Message))
		case c.Type == "Fallback" && c.Status == "True":
			out = append(out, Finding{Cause: KEDAState, Warning: true,
				Text:   "KEDA gets no value from a trigger, so spec.fallback decides: " + c.Message,
				Remedy: []string{"The reason is a fault above, or in: " + operatorLog}})
		}
	}
	if f.AutoscalerName == "" && !explained && len(out) == 0 {
		out = append(out, Finding{Cause: KEDAState, Text: "KEDA has made no autoscaler yet",
			Remedy: []string{fmt.Sprintf("kubectl describe -n %s scaledobject %s", f.Namespace, f.Name),
				"kubectl get pods -n keda"}})
	}
	return out
}

// notReady explains the condition Ready. KEDA drops the scaler's own words there.
func (f *ScaledObjectFacts) notReady(message string) Finding {
	out := Finding{Cause: KEDAState, Text: "KEDA says: " + message,
		Remedy: []string{fmt.Sprintf("kubectl describe -n %s scaledobject %s", f.Namespace, f.Name)}}
	if strings.Contains(message, "no metric specs returned") {
		out.Text += ". KEDA got no answer from Sluice when the ScaledObject was made; only its log says why"
		out.Remedy = []string{operatorLog, restartKEDA}
	}
	return out
}

// Service is a Service of the cluster, and a port of it.
type Service struct{ Namespace, Name, Port string }

// ServiceOf is the Service that scalerAddress names, as in dns:///sluice-keda.sluice.svc:9095; false:
// it names none.
func ServiceOf(address string) (Service, bool) {
	if scheme, rest, is := strings.Cut(address, "://"); is {
		_, target, hasTarget := strings.Cut(rest, "/")
		if scheme != "dns" && scheme != "passthrough" || !hasTarget {
			return Service{}, false
		}
		address = target
	}
	host, port, err := net.SplitHostPort(address)
	parts := strings.Split(host, ".")
	if err != nil || net.ParseIP(host) != nil || len(parts) < 2 || len(parts) > 2 && parts[2] != "svc" {
		return Service{}, false
	}
	return Service{Namespace: parts[1], Name: parts[0], Port: port}, true
}
