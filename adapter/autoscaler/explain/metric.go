package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/internal/suggest"
	"github.com/sluice-metrics/sluice/metric"
)

// MetricFacts are all that is known about a name.
type MetricFacts struct {
	Namespace, Name string
	// Metrics are all that may be listed; those without a namespace can be read in each.
	Metrics    []inspect.Metric
	Series     []inspect.Series    // some of the name's
	Rejections []inspect.Rejection // of the namespace
	// Senders are some of those that push the name, in all namespaces that may be read.
	Senders []inspect.MetricSender
	// Windows can be asked for.
	Windows []string
	// Expired says when the name was last seen here, and why it isn't any more; empty: it wasn't, or it is.
	Expired string
	Rule    *Rule // of the name; nil: none is known
	Unknown []string
}

// NameReport is the explanation of a name.
type NameReport struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Metrics   []inspect.Metric `json:"metrics"`
	Series    []inspect.Series `json:"series,omitempty"`
	// Senders are some of those that push the name here or elsewhere.
	Senders    []inspect.MetricSender `json:"senders,omitempty"`
	Windows    []string               `json:"windows,omitempty"`
	Rule       *RuleReport            `json:"rule,omitempty"`
	Missing    []string               `json:"missing,omitempty"` // metrics of the rule's operands that have no series
	Rejections []inspect.Rejection    `json:"rejections,omitempty"`
	Elsewhere  []string               `json:"elsewhere,omitempty"` // namespaces
	Nearest    string                 `json:"nearest,omitempty"`
	Expired    string                 `json:"expired,omitempty"`
	Unknown    []string               `json:"unknown,omitempty"`
}

// Metric explains a name.
func Metric(f *MetricFacts) NameReport {
	r := NameReport{Namespace: f.Namespace, Name: f.Name, Metrics: []inspect.Metric{}, Series: f.Series,
		Senders: f.Senders, Windows: f.Windows, Rule: f.Rule.report(), Unknown: f.Unknown}
	for i := range f.Rejections {
		if f.Rejections[i].Metric == f.Name {
			r.Rejections = append(r.Rejections, f.Rejections[i])
		}
	}
	var here []string
	for i := range f.Metrics {
		m := &f.Metrics[i]
		isHere := m.Namespace == f.Namespace || m.Namespace == ""
		switch {
		case m.Name == f.Name && isHere:
			r.Metrics = append(r.Metrics, *m)
		case m.Name == f.Name && !slices.Contains(r.Elsewhere, m.Namespace):
			r.Elsewhere = append(r.Elsewhere, m.Namespace)
		case m.Name != f.Name && isHere:
			here = append(here, m.Name)
		}
	}
	r.Missing = f.Rule.missing(here)
	if r.Broken() && r.Rule == nil {
		if r.Expired = f.Expired; r.Expired == "" {
			r.Nearest = suggest.Nearest(f.Name, here)
		}
	}
	return r
}

// Broken reports whether the name has no series, and no rule that computes it.
func (r *NameReport) Broken() bool {
	return len(r.Metrics) == 0 && (r.Rule == nil || r.Rule.Refused || len(r.Missing) > 0)
}

// WriteText prints a report for people.
func (r *NameReport) WriteText(w io.Writer, now time.Time) error {
	p := printer{w: w, now: now}
	if r.Rule != nil {
		p.ruleOfName(r)
	} else if r.Broken() {
		text := fmt.Sprintf("%s was never pushed in %s, or has expired", r.Name, r.Namespace)
		switch {
		case r.Expired != "":
			text = fmt.Sprintf("%s has no series in %s: %s", r.Name, r.Namespace, r.Expired)
		case len(r.Rejections) > 0:
			text = fmt.Sprintf("%s has no series in %s: it is pushed, and rejected", r.Name, r.Namespace)
		}
		if r.Nearest != "" {
			text += "; did you mean " + r.Nearest + "?"
		}
		p.line("%s", Sentence(text))
	}
	for i := range r.Metrics {
		p.name(r, &r.Metrics[i])
	}
	p.series(r.Series)
	for i, namespace := range r.Elsewhere {
		if i == mostElsewhere {
			p.line("and in %d more", len(r.Elsewhere)-i)
			break
		}
		p.line("It also exists in %s%s", namespace, after(", pushed by ", sendersText(r.sendersIn(namespace))))
	}
	for i := range r.Rejections {
		if i == 0 {
			p.line("")
			p.line("Rejected")
		}
		rejection := &r.Rejections[i]
		p.line("  %d × of %s (%s), %s ago: %s", rejection.Count, rejection.Sender, rejection.Reason,
			age(p.now.Sub(rejection.Last)),
			Sentence(rejection.Message))
	}
	p.unknown(r.Unknown)
	return p.err
}

// mostElsewhere bounds the other namespaces that are printed.
const mostElsewhere = 10

// after is a text after its beginning; an empty one has none.
func after(beginning, text string) string {
	if text == "" {
		return ""
	}
	return beginning + text
}

// sendersIn are the remembered senders of the name in a namespace.
func (r *NameReport) sendersIn(namespace string) (all []inspect.MetricSender) {
	for _, sender := range r.Senders {
		if sender.Metric == namespace {
			all = append(all, sender)
		}
	}
	return all
}

// sendersText names senders: "pod shop/web-1 (service account shop:front)"; empty: none is known.
func sendersText(all []inspect.MetricSender) string {
	var words []string
	for i := range all {
		words = append(words, senderText(&all[i]))
	}
	text := strings.Join(words, ", ")
	if len(all) == inspect.MetricSenders {
		text += " and perhaps others"
	}
	return text
}

func senderText(s *inspect.MetricSender) string {
	name := s.Name
	if s.Namespace != "" {
		name = s.Namespace + "/" + s.Name
	}
	if s.Account != "" {
		name += " (service account " + s.Namespace + ":" + s.Account + ")"
	}
	return s.Sort + " " + name
}

// interval is the time between two pushes of a metric, as its series show it; empty: unknown.
func (r *NameReport) interval(m *inspect.Metric) string {
	least, most := 0.0, 0.0
	for i := range r.Series {
		s := &r.Series[i]
		if s.Object.Resource != m.Resource || s.Interval == 0 {
			continue
		}
		if least == 0 || s.Interval < least {
			least = s.Interval
		}
		most = max(most, s.Interval)
	}
	from, to := age(time.Duration(least*float64(time.Second))), age(time.Duration(most*float64(time.Second)))
	switch {
	case least == 0:
		return ""
	case from == to:
		return from
	}
	return from + " to " + to
}

// readAs says how a metric can be asked for; empty: its kind is unknown.
func (r *NameReport) readAs(m *inspect.Metric) string {
	kind, known := metric.ParseKind(m.Kind)
	if !known {
		return ""
	}
	var others []string
	example := kind.DefaultStat()
	for _, s := range kind.Stats() {
		if s != kind.DefaultStat() {
			others = append(others, s.String())
		}
		if !example.Windowed() {
			example = s
		}
	}
	text := fmt.Sprintf("%s (%s)", r.Name, kind.DefaultStat())
	if len(others) > 0 {
		text += "; other stats: " + strings.Join(others, ", ")
	}
	if len(r.Windows) > 0 && example.Windowed() {
		text += fmt.Sprintf("; windows: %s, as in %s:%s:%s", strings.Join(r.Windows, ", "), r.Name, example, r.Windows[0])
	}
	return text
}

func (p *printer) name(r *NameReport, m *inspect.Metric) {
	objects := ""
	if m.Resource != "" {
		objects = " of " + count(m.Objects, "object")
	}
	p.line("%s is a %s %s%s: %d series%s, newest sample %s ago", m.Name, m.Kind, onResource(m.Resource),
		inNamespace(m.Namespace),
		m.Series, objects, age(p.now.Sub(m.LastSample)))
	if every := r.interval(m); every != "" {
		p.line("  new values about every %s", every)
	}
	if senders := sendersText(r.sendersIn(m.Namespace)); senders != "" {
		p.line("  pushed by %s", senders)
	}
	if text := r.readAs(m); text != "" {
		p.line("  read as %s", text)
	}
	if len(m.ReadBy) == 0 {
		p.line("  no autoscaler names it")
	} else {
		p.line("  named by the autoscalers %s", m.Readers(", "))
	}
}

// series prints series, with their namespaces if they are in several.
func (p *printer) series(all []inspect.Series) {
	several := slices.ContainsFunc(all, func(s inspect.Series) bool { return s.Object.Namespace != all[0].Object.Namespace })
	var values []ValueReport
	for i := range all {
		s := &all[i]
		of := labelText(s.Labels)
		if s.Object.Name != "" {
			of = s.Object.Resource + "/" + s.Object.Name
			if len(s.Labels) > 0 {
				of += " " + labelText(s.Labels)
			}
		}
		if several {
			of += inNamespace(s.Object.Namespace)
		}
		values = append(values, ValueReport{Of: of, Value: s.Value, Time: s.LastSample})
	}
	p.values(values)
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return " of no namespace"
	}
	return " in " + namespace
}

// rollUpSteps says how many pods a value is rolled up from. Other values have no such step.
func rollUpSteps(m *inspect.AutoscalerMetric, r *Reading) []string {
	if len(r.Values) != 1 || r.Values[0].Pods.Of == 0 {
		return nil
	}
	n := r.Values[0].Pods
	return []string{fmt.Sprintf("%s %s has no series of its own: the value is rolled up from its pods, %d of %d with a value",
		m.ObjectKind, m.ObjectName, n.With, n.Of)}
}
