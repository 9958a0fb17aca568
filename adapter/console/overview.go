package console

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

const (
	// overviewDuty keeps an open overview below a two hundredth of a core.
	overviewDuty = 250
	// scalesPerPage are the autoscalers of a page.
	scalesPerPage = 300
	// someRows are those of each other table of the overview.
	someRows = 5
	// lately is how long a rejection counts as new.
	lately = 10 * time.Minute
)

// overviewContent is the first page: what is wrong, the autoscalers, and what comes in.
type overviewContent struct {
	Namespace, Filter string
	Cluster           bool
	// Wide is set if the client sees the whole process.
	Wide   bool
	Faults []faultLine
	// All is the number of autoscalers, Found of those that the filter takes.
	All, Found      int
	Scales          []scaleRow
	Previous, Next  string
	First, Last     int
	Receivers       []receiverRow
	Senders         []inspect.Sender
	Refusals        []inspect.Rejection
	Agents          int
	Replicas        int
	Bounds          []bound
	Pushed          []metricRow
	PushUDP, PushTo string
	Began           time.Time
}

// faultLine is a line about something that is wrong.
type faultLine struct{ Text, Address string }

func (s *Server) overview(_ context.Context, r *request) (any, error) {
	c := &overviewContent{Namespace: r.query.Get("namespace"), Filter: strings.TrimSpace(r.query.Get("filter")),
		Cluster: s.parts.Facts != nil, PushUDP: s.parts.PushUDP, PushTo: s.parts.PushHTTP, Began: s.history.began}
	c.Wide = r.wide && c.Namespace == ""
	s.scales(c, r)
	c.Refusals = newestRejections(r.source.Rejections(inspect.Query{Namespace: c.Namespace, Most: inspect.MaxMost}).Items)
	if len(c.Refusals) > 0 && r.now.Sub(c.Refusals[0].Last) < lately {
		c.Faults = append(c.Faults, faultLine{"Samples were rejected " + inspect.Age(r.now.Sub(c.Refusals[0].Last)) + " ago",
			address("refused", "namespace", c.Namespace)})
	}
	c.Senders = r.source.Senders(inspect.Query{Namespace: c.Namespace, Most: inspect.MaxMost}).Items
	slices.SortStableFunc(c.Senders, func(a, b inspect.Sender) int { return cmp.Compare(b.Series, a.Series) })
	c.Senders = c.Senders[:min(len(c.Senders), someRows)]
	if c.Wide {
		s.whole(c, r)
	}
	if c.All == 0 {
		c.Pushed = r.newestMetrics(c.Namespace)
	}
	return c, nil
}

// newestRejections are the last ones, the newest first.
func newestRejections(all []inspect.Rejection) []inspect.Rejection {
	slices.SortStableFunc(all, func(a, b inspect.Rejection) int { return b.Last.Compare(a.Last) })
	return all[:min(len(all), someRows)]
}

// scales are the autoscalers of the page, those in need first.
func (s *Server) scales(c *overviewContent, r *request) {
	var all []scaleRow
	broken := 0
	q := inspect.Query{Namespace: c.Namespace, Most: inspect.MaxMost}
	inspect.All(q, r.source.Autoscalers, func(a *inspect.Autoscaler) bool {
		row := scaleRow{Autoscaler: a, Standing: explain.StandingOf(a)}
		if c.All++; row.Broken() {
			broken++
		}
		if strings.Contains(a.Namespace+"/"+a.Name, c.Filter) {
			all = append(all, row)
		}
		return true
	})
	if broken > 0 {
		text := fmt.Sprintf("%s of %s autoscalers don't work", grouped(broken), grouped(c.All))
		if broken == 1 {
			text = fmt.Sprintf("1 of %s autoscalers doesn't work", grouped(c.All))
		}
		c.Faults = append(c.Faults, faultLine{text, "#scales"})
	}
	slices.SortStableFunc(all, func(a, b scaleRow) int { return cmp.Compare(a.Rank, b.Rank) })
	c.Found = len(all)
	from, _ := strconv.Atoi(r.query.Get("from"))
	from = max(0, min(from, len(all)))
	c.Scales = all[from:min(from+scalesPerPage, len(all))]
	c.First, c.Last = from+1, from+len(c.Scales)
	page := func(n int) string {
		return address("overview", "namespace", c.Namespace, "filter", c.Filter, "from", strconv.Itoa(max(n, 0)))
	}
	if from > 0 {
		c.Previous = page(from - scalesPerPage)
	}
	if c.Last < len(all) {
		c.Next = page(from + scalesPerPage)
	}
	for i := range c.Scales {
		c.Scales[i].fill(r)
	}
}

// scaleRow is an autoscaler of the overview.
type scaleRow struct {
	*inspect.Autoscaler
	explain.Standing
	Values []scaleValue
	Spark  template.HTML // of the replicas
}

// scaleValue is a metric of an autoscaler, as a bar against its target.
type scaleValue struct {
	Name, Value, Target string
	// Hidden is set if the reader may not have the value.
	Hidden, Missing, Percent bool
	// Width is the value in hundredths of the target, at most 200; negative: there is no bar.
	Width int
	// From and Band are the tolerance, in the same unit; 0: the controller's default.
	From, Band int
	Spark      template.HTML
}

// Broken reports whether the autoscaler doesn't work.
func (s *scaleRow) Broken() bool { return s.Rank == explain.RankBroken }

// Class is of the row: "broken", or empty.
func (s *scaleRow) Class() string {
	if s.Broken() {
		return "broken"
	}
	return ""
}

// Of is the autoscaler in one word.
func (s *scaleRow) Of() string { return s.Namespace + "/" + s.Name }

// fill adds what is drawn.
func (s *scaleRow) fill(r *request) {
	of := subject{of: ofAutoscaler, namespace: s.Namespace, name: s.Name}
	s.Spark = r.server.history.sparkOf(of, rowWanted, rowReplicas)
	for i := range s.Metrics {
		s.Values = append(s.Values, s.value(r, of, i))
	}
}

// mayRead reports whether the reader may have all series of an external metric of an autoscaler. A name that no series can
// have is matched with no policy.
func (r *request) mayRead(namespace string, m *inspect.AutoscalerMetric) bool {
	name := strings.ReplaceAll(m.Name, `\|`, "/")
	_, err := metric.AskedExpression(name)
	return err == nil && r.readable.MayReadAll(namespace, name)
}

// value is one metric. Its values are those that the controller gets, so a reader whom a policy keeps from some
// series sees none.
func (s *scaleRow) value(r *request, of subject, i int) scaleValue {
	m := &s.Metrics[i]
	v := scaleValue{Name: m.Name, Target: short(m.Target), Missing: m.Missing, Width: -1}
	if m.Source == inspect.SourceExternal && r.readable != nil && !r.mayRead(s.Namespace, m) {
		v.Hidden, v.Missing = true, false
		return v
	}
	number, target, known := math.NaN(), explain.Number(m.Target), false
	if m.Asked {
		if newest, fresh := r.server.history.newest(of, rowOfMetric(i, m), r.now); fresh && !m.Missing {
			number, known = newest, true
		}
		v.Spark = r.server.history.sparkOf(of, rowOfMetric(i, m))
	}
	switch {
	case known || m.Missing:
	case m.Asked:
		number = explain.Compared(s.Autoscaler, m, explain.Number(m.Value))
	default:
		number, v.Percent = explain.Number(m.Current), m.TargetType == "Utilization"
	}
	if v.Value = significant(number); v.Value != "" && target > 0 {
		v.Width = int(min(max(100*number/target, 0), 200))
		if down, up := explain.Tolerances(s.Autoscaler); down != explain.DefaultTolerance || up != explain.DefaultTolerance {
			v.From, v.Band = int(100*(1-down)), max(int(100*(up+down)), 1)
		}
	}
	return v
}

// receiverRow is what a receiver took.
type receiverRow struct {
	Name               string
	Received, Rejected string // samples per second
	Spark              template.HTML
	Wrong              template.HTML // the sparkline of rejected samples; empty: there were none
}

// perSecond is a rate in three digits, or in whole numbers as others of pages.
func perSecond(v float64) string {
	text := significant(v)
	if strings.ContainsAny(text, ".e") {
		return text
	}
	return grouped(text)
}

// whole adds what is known of the whole process.
func (s *Server) whole(c *overviewContent, r *request) {
	s.history.watch(process, nil, r.now)
	health := s.parts.Health()
	for _, receiver := range health.Receivers {
		if receiver.Received == 0 {
			continue
		}
		row := receiverRow{Name: receiver.Name, Spark: s.history.sparkOf(process, rowReceived+receiver.Name)}
		received, known := s.history.newest(process, rowReceived+receiver.Name, r.now)
		rejected, _ := s.history.newest(process, rowRejected+receiver.Name, r.now)
		if known {
			row.Received, row.Rejected = perSecond(received), perSecond(rejected)
		}
		if lawOf(receiver).Refused > 0 {
			row.Wrong = s.history.sparkOf(process, rowRejected+receiver.Name)
		}
		c.Receivers = append(c.Receivers, row)
	}
	for _, check := range health.Checks {
		if !check.Ready {
			c.Faults = append(c.Faults, faultLine{"Not ready: " + check.Name + ": " + check.Detail, "/health"})
		}
	}
	for _, sentence := range r.source.Away() {
		c.Faults = append(c.Faults, faultLine{strings.ToUpper(sentence[:1]) + sentence[1:], "/health"})
	}
	cutOff := 0
	inspect.All(inspect.Query{Most: inspect.MaxMost}, r.source.Agents, func(a *inspect.Agent) bool {
		if c.Agents++; a.Fault() != "" {
			cutOff++
		}
		return true
	})
	if cutOff > 0 {
		c.Faults = append(c.Faults, faultLine{fmt.Sprintf("%d of %d agents cut off", cutOff, c.Agents), "/nodes"})
	}
	c.Bounds, c.Replicas = bounds(&health), health.Replicas
	for _, bound := range c.Bounds {
		if bound.Bar.Class != "applied" {
			text := fmt.Sprintf("%s: %s of %s are used", bound.Name, bound.Used, bound.Most)
			c.Faults = append(c.Faults, faultLine{text, "/limits"})
		}
	}
}

// newestMetrics are some metrics with values, for those who push for the first time.
func (r *request) newestMetrics(namespace string) []metricRow {
	all := r.source.Metrics(inspect.Query{Namespace: namespace, Most: metricsPerPage}).Items
	slices.SortStableFunc(all, func(a, b inspect.Metric) int { return b.LastSample.Compare(a.LastSample) })
	return r.metricRows(all[:min(len(all), someRows)])
}

func notFound(format string, args ...any) error {
	return &refusal{status: http.StatusNotFound, text: fmt.Sprintf(format, args...)}
}
