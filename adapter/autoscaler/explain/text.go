package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/resource"
)

// mostValues bounds the printed values of a metric; pods without a value come first.
const mostValues = 20

// WriteText prints a report for people.
func (r *Report) WriteText(w io.Writer, now time.Time) error {
	p := printer{w: w, now: now}
	a := &r.Autoscaler
	of := ""
	if a.ScaledObject != "" {
		of = " (of scaledobject/" + a.ScaledObject + ")"
	}
	p.line("hpa/%s%s in %s scales %s/%s: %s now, %d to %d allowed", a.Name, of, a.Namespace, a.TargetKind, a.TargetName,
		replicas(a.CurrentReplicas), a.MinReplicas, a.MaxReplicas)
	for _, text := range r.AtThePush {
		p.line("%s", text)
	}
	p.findings(r)
	for _, c := range a.Conditions {
		if c.Status == "False" && c.Type == "ScalingActive" {
			p.line("")
			p.line("Kubernetes says: %s (%s)", c.Message, c.Reason)
		}
	}
	for i := range r.Metrics {
		p.metric(&r.Metrics[i])
	}
	p.decision(&r.Decision)
	p.unknown(r.Unknown)
	return p.err
}

func (p *printer) decision(d *Decision) {
	p.line("")
	p.line("Decision")
	for _, s := range d.Steps {
		p.line("  %s", s)
	}
	if n := d.Replicas; n != nil {
		p.line("  = %s", replicas(*n))
	}
}

func (p *printer) unknown(texts []string) {
	for i, text := range texts {
		if i == 0 {
			p.line("")
			p.line("Unknown")
		}
		p.line("  %s", text)
	}
}

type printer struct {
	w   io.Writer
	now time.Time
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(metric.Visible(fmt.Sprintf(format, args...)), " "))
	}
}

func (p *printer) metric(m *MetricReport) {
	p.line("")
	p.line("Metric %s", m.Asks)
	if m.Fault != "" {
		p.line("  no value: %s", m.Fault)
	}
	p.rule(m.Rule)
	p.values(m.Values)
	for _, s := range m.Steps {
		p.line("  %s", s)
	}
}

// values prints the values in columns, those that are missing first.
func (p *printer) values(all []ValueReport) {
	width := 0
	for _, v := range all {
		width = max(width, len(metric.Visible(v.Of)))
	}
	width = min(width, 60)
	printed := 0
	for _, missing := range []bool{true, false} {
		for _, v := range all {
			if (v.Reason != "") != missing {
				continue
			}
			if printed++; printed > mostValues {
				continue
			}
			text := v.Reason
			if !missing {
				text = v.Value
				if !v.Time.IsZero() {
					text = fmt.Sprintf("%-10s %s ago", v.Value, age(p.now.Sub(v.Time)))
				}
				if v.Incomplete {
					text += ", incomplete"
				}
			}
			p.line("  %-*s  %s", width, v.Of, text)
		}
	}
	if printed > mostValues {
		p.line("  and %d more (-o json prints all)", printed-mostValues)
	}
}

func (p *printer) findings(r *Report) {
	p.line("")
	if len(r.Findings) == 0 {
		p.line("Nothing is wrong.")
		return
	}
	for _, f := range r.Findings {
		mark := "Fault"
		if f.Warning {
			mark = "Note"
		}
		of := ""
		if f.Metric != "" {
			of = " of " + f.Metric
		}
		p.line("%s%s (%s)", mark, of, f.Cause)
		p.line("  %s", Sentence(f.Text))
		for _, remedy := range f.Remedy {
			p.line("    %s", remedy)
		}
	}
}

// Sentence ends a text like one.
func Sentence(text string) string {
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0fs", max(d, 0).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%.0fm", d.Minutes())
	}
	return fmt.Sprintf("%.0fh", d.Hours())
}

// Commands are for people to copy into a shell, and pushers choose the names in them.

// plainWord is a word that a shell takes as it stands.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-][A-Za-z0-9_./:@%+,=-]*$`)

// Word is a text as one word of a shell's command.
func Word(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// quoted is a value as JSON, as an argument in a shell.
func quoted(value any) string {
	body, err := json.Marshal(value)
	if err != nil {
		return "…" // of maps of strings and numbers there is none
	}
	return "'" + strings.ReplaceAll(string(body), "'", `'\''`) + "'"
}

// applying is the command that applies an object. It is one line, so that it survives indentation.
func applying(object map[string]any) string {
	return "echo " + quoted(object) + " | kubectl apply -f -"
}

// Number is a quantity ("1500m") as a number; NaN: the text is none.
func Number(quantity string) float64 {
	q, err := resource.ParseQuantity(quantity)
	if err != nil {
		return math.NaN()
	}
	return q.AsApproximateFloat64()
}
