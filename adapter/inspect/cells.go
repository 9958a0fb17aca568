package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// The cells of each document are in the order of its columns in Resources.

func (m *Metric) Meta() Meta    { return Meta{m.Name, m.Namespace} }
func (m *Metric) Fault() string { return "" }

func (m *Metric) Cells(now time.Time) []string {
	of, objects := m.Resource, strconv.Itoa(m.Objects)
	if of == "" {
		of, objects = "external", none
	}
	return []string{m.Name, of, m.Kind, objects, strconv.Itoa(m.Series), ago(now, m.LastSample),
		orNone(m.Readers(",")), orNone(strings.TrimSpace(m.Value + " " +
			m.Stat)), orNone(strings.Join(m.LabelKeys, ",")),
		orNone(m.stats())}
}

// Readers lists the autoscalers that name the metric.
func (m *Metric) Readers(separator string) string {
	text := strings.Join(m.ReadBy, separator)
	if m.ReadByMore > 0 {
		text += fmt.Sprintf(" and %d more", m.ReadByMore)
	}
	return text
}

// stats are those that the kind has: the default one first.
func (m *Metric) stats() string {
	kind, _ := metric.ParseKind(m.Kind)
	all := make([]string, 0, 8)
	for _, stat := range kind.Stats() {
		all = append(all, stat.String())
	}
	return strings.Join(all, ",")
}

// Meta of a MetricDetail is that of its metrics; without a namespace if they are in several.
func (d *MetricDetail) Meta() (m Meta) {
	for i := range d.Metrics {
		if meta := d.Metrics[i].Meta(); i == 0 {
			m = meta
		} else if m.Namespace != meta.Namespace {
			m.Namespace = ""
		}
	}
	return m
}

func (d *MetricDetail) Fault() string            { return "" }
func (d *MetricDetail) Cells(time.Time) []string { return nil }

func (o *Object) Meta() Meta    { return Meta{o.Name, o.Namespace} }
func (o *Object) Fault() string { return "" }

func (o *Object) Cells(now time.Time) []string {
	return []string{o.Reference.text(), strconv.Itoa(o.Metrics), strconv.Itoa(o.Series), ago(now, o.LastSample),
		orNone(some(o.MetricNames, o.Metrics))}
}

func (s *Sender) Meta() Meta    { return Meta{s.Name, s.Namespace} }
func (s *Sender) Fault() string { return "" }

func (s *Sender) Cells(now time.Time) []string {
	return []string{s.Name, s.Sort, strconv.Itoa(s.Series), strconv.FormatUint(s.Rejected, 10), s.heard(now),
		orNone(strings.Join(s.Metrics, ","))}
}

// heard is the age of the last sign of the sender: "0s to 12m" if it is not known better.
func (s *Sender) heard(now time.Time) string {
	known := ago(now, s.LastHeard)
	if maybe := ago(now, s.MaybeHeard); s.MaybeHeard.After(s.LastHeard) && maybe != known {
		return maybe + " to " + known
	}
	return known
}

func (r *Rejection) Meta() Meta    { return Meta{orNone(r.Metric), r.Namespace} }
func (r *Rejection) Fault() string { return "" }

func (r *Rejection) Cells(now time.Time) []string {
	return []string{orNone(r.Metric), orNone(r.Sender), r.Reason, strconv.FormatUint(r.Count, 10), ago(now, r.Last),
		r.Message, r.Receiver, ago(now, r.First), orNone(r.Example)}
}

func (a *Agent) Meta() Meta { return Meta{Name: a.Node} }

func (a *Agent) Fault() string {
	if a.State == AgentCutOff {
		return "the agent is cut off: it was connected, and did not say that it ends"
	}
	return ""
}

func (a *Agent) Cells(now time.Time) []string {
	lag := none
	if !a.LastFrame.IsZero() {
		lag = time.Duration(a.Lag * float64(time.Second)).Round(time.Millisecond).String()
	}
	return []string{a.Node, a.State, ago(now, a.Since), strconv.Itoa(a.Series), strconv.FormatUint(a.Samples, 10), lag,
		strconv.FormatUint(a.Rejected, 10), orNone(a.Reason), orNone(a.Version), ago(now, a.LastFrame), orNone(a.Message)}
}

func (g *PushedGroup) Meta() Meta { return Meta{g.Job, g.Namespace} }

func (g *PushedGroup) Fault() string {
	if g.LastFailure.After(g.LastPush) {
		return fmt.Sprintf("the last push to job %s was rejected", g.Job)
	}
	return ""
}

func (g *PushedGroup) Cells(now time.Time) []string {
	return []string{g.Job, orNone(labelText(g.Labels)), strconv.Itoa(g.Families), strconv.Itoa(g.Series),
		ago(now, g.LastPush), ago(now, g.LastFailure)}
}

func (l *Limit) Meta() Meta {
	if l.Of.Resource == "namespaces" {
		return Meta{l.Of.Name, l.Of.Name}
	}
	return Meta{l.Of.Name, l.Of.Namespace}
}

func (l *Limit) Fault() string { return "" }

func (l *Limit) Cells(time.Time) []string {
	return []string{l.Of.text(), share(l.Metrics, l.MaxMetrics), share(l.Series, l.MaxSeries),
		strconv.FormatUint(l.Rejected, 10), orDefault(l.Source), orNone(l.holders()), l.wanted()}
}

// holders are the metrics that hold the slots with their series: "http_requests 80 (autoscaler), mails 3".
func (l *Limit) holders() string {
	all := make([]string, len(l.Holders))
	for i, holder := range l.Holders {
		if all[i] = holder.Metric + " " + strconv.Itoa(holder.Series); holder.Autoscaler {
			all[i] += " (autoscaler)"
		}
	}
	return some(all, l.Metrics)
}

// wanted are the numbers beyond the limit with which nothing would have been rejected.
func (l *Limit) wanted() string {
	var all []string
	if l.WantedMetrics > l.MaxMetrics {
		all = append(all, fmt.Sprintf("%d metrics", l.WantedMetrics))
	}
	if l.WantedSeries > l.MaxSeries {
		all = append(all, fmt.Sprintf("%d series", l.WantedSeries))
	}
	return orNone(strings.Join(all, ", "))
}

// some lists the first of a number of names.
func some(names []string, all int) string {
	text := strings.Join(names, ", ")
	if left := all - len(names); left > 0 && len(names) > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

func share(used, limit int) string { return strconv.Itoa(used) + "/" + strconv.Itoa(limit) }

func (r *Rule) Meta() Meta { return Meta{r.Name, r.Namespace} }

func (r *Rule) Fault() string {
	if r.State == RuleAccepted {
		return ""
	}
	return r.Message
}

func (r *Rule) Cells(time.Time) []string {
	of := none
	if r.Value != "" {
		if of = r.Of.text(); r.Of.Resource == "" {
			of = "external"
		}
	}
	return []string{r.Name, r.Metric, strings.Join(r.From, ", "), orNone(r.Value), of, r.State, orNone(r.Expression)}
}

// States of a rule that holds.
const (
	RuleAccepted = "Accepted"
	RulePushed   = "Pushed" // but its metric is pushed, and answers where it is
)

func (a *Autoscaler) Meta() Meta { return Meta{a.Name, a.Namespace} }

func (a *Autoscaler) Fault() string { return strings.Join(a.Faults(), "; ") }

// Faults are all that is wrong with an autoscaler, a sentence each: the metrics that are missing first.
func (a *Autoscaler) Faults() (all []string) {
	if a.Unread != "" {
		all = append(all, "its metrics are not read: "+a.Unread)
	}
	for i := range a.Metrics {
		if m := &a.Metrics[i]; m.Missing {
			all = append(all, fmt.Sprintf("metric %s is missing: %s", m.Name, m.Why))
		}
	}
	for i := range a.Metrics {
		if m := &a.Metrics[i]; m.HeldBack != "" {
			all = append(all, fmt.Sprintf("metric %s is held back: %s", m.Name, m.HeldBack))
		}
	}
	for _, c := range a.Conditions {
		if c.Type == "AbleToScale" && c.Status == "False" {
			all = append(all, "the target can't be scaled: "+c.Message)
		}
	}
	return all
}

func (a *Autoscaler) Cells(time.Time) []string {
	metrics := make([]string, len(a.Metrics))
	for i := range a.Metrics {
		metrics[i] = a.Metrics[i].text()
	}
	return []string{a.Name, strings.ToLower(a.TargetKind) + "/" + a.TargetName, orNone(strings.Join(metrics, ", ")),
		strconv.Itoa(int(a.MinReplicas)), strconv.Itoa(int(a.MaxReplicas)), strconv.Itoa(int(a.CurrentReplicas)),
		a.wanted(), orNone(a.Fault())}
}

func (a *Autoscaler) wanted() string {
	if !a.Wants() {
		return "-"
	}
	return strconv.Itoa(int(a.DesiredReplicas))
}

// text is the metric with its value and target: "http_requests 12/10", "jobs missing/5"; of a roll-up, with
// the pods that have a value: "busy 6/10 (2 of 3 pods)".
func (m *AutoscalerMetric) text() string {
	value := m.Value
	switch {
	case m.Missing:
		value = "missing"
	case value == "":
		value = orNone(m.Current)
	}
	text := m.Name + " " + value + "/" + orNone(m.Target)
	if m.Source == SourceObject && m.Pods > 0 {
		text += fmt.Sprintf(" (%d of %d pods)", m.Values, m.Pods)
	}
	return text
}

func (r *Reference) text() string {
	if r.Resource == "" {
		return "external"
	}
	return r.Resource + "/" + r.Name
}

// none stands for a value that there is not, as in kubectl.
const none = "-"

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}

func orDefault(text string) string {
	if text == "" {
		return "default"
	}
	return text
}

func ago(now, then time.Time) string {
	if then.IsZero() {
		return none
	}
	return Age(now.Sub(then))
}

// Age formats an age in one unit, as kubectl does.
func Age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(max(d, 0)/time.Second)) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}
