package console

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// pageSize is the number of rows of a page with a list.
const pageSize = 200

func order(broken bool) int {
	if broken {
		return 0
	}
	return 1
}

// autoscalerContent is the page of one autoscaler.
type autoscalerContent struct {
	inspect.Autoscaler
	Broken  bool
	Why     string
	Report  explain.Report
	Metrics []metricSection
	Scale   *plot
	Ranges  []rangeLink
	Began   time.Time // of the history
}

// metricSection is one metric of an autoscaler.
type metricSection struct {
	*inspect.AutoscalerMetric
	Report explain.MetricReport
	// Listed are the values of the report, pods without one first; More is how many are left out.
	Listed []explain.ValueReport
	More   int
	Plot   *plot
	// Unplotted says why there is no plot, though Sluice answers the metric; empty: there is one.
	Unplotted string
	Links     []metricLink
	// Question is the last question of the controller; nil: Sluice can't know it.
	Question *Use
}

// metricLink leads to the page of a metric.
type metricLink struct {
	Text, Address string
}

// mostValues bounds the values of a metric on an autoscaler's page.
const mostValues = 200

func (s *Server) autoscaler(_ context.Context, r *request) (any, error) {
	namespace, name := r.query.Get("namespace"), r.query.Get("name")
	page := r.source.Autoscalers(inspect.Query{Namespace: namespace, Name: name, Most: 1})
	if len(page.Items) == 0 {
		return nil, notFound("there is no autoscaler %q in the namespace %q", name, namespace)
	}
	r.thing = namespace + "/" + name
	c := &autoscalerContent{Autoscaler: page.Items[0]}
	a := &c.Autoscaler
	standing := explain.StandingOf(a)
	c.Broken, c.Why = standing.Rank == explain.RankBroken, standing.Why
	facts, asked := s.facts(a, r)
	c.Report = explain.Autoscaler(facts)
	of := subject{of: ofAutoscaler, namespace: namespace, name: name}
	for i := range a.Metrics {
		m := r.section(c, facts.Metrics, of, i)
		if i < len(asked) && a.Metrics[i].Asked {
			m.Question = &asked[i]
		}
		c.Metrics = append(c.Metrics, m)
	}
	c.Scale = r.plotOf(plot{ID: "replicas", of: of, rows: []string{rowReplicas, rowWanted},
		Labels: []string{"replicas", "wanted"}, Minutes: minutesOf(r.query), Target: math.NaN(), Stepped: true})
	c.Ranges, c.Began = rangesOf("autoscaler", r.query), s.history.began
	return c, nil
}

// section is the part of the page about one metric. known are the metrics that may be named like a
// missing one.
func (r *request) section(c *autoscalerContent, known []inspect.Metric, s subject, i int) metricSection {
	m := &c.Autoscaler.Metrics[i]
	one := metricSection{AutoscalerMetric: m, Report: c.Report.Metrics[i], Links: linksTo(c.Namespace, m, known)}
	one.Listed = slices.Clone(one.Report.Values)
	slices.SortStableFunc(one.Listed, func(a, b explain.ValueReport) int {
		return order(a.Reason != "") - order(b.Reason != "")
	})
	if len(one.Listed) > mostValues {
		one.Listed, one.More = one.Listed[:mostValues], len(one.Listed)-mostValues
	}
	row := rowOfMetric(i, m)
	switch {
	case !m.Asked:
	case m.Missing && !r.server.history.hasValue(s, row):
		one.Unplotted = "Nothing to plot: there was no value in the last ten minutes. " + m.Why
	default:
		label := "value"
		if m.TargetType == "AverageValue" {
			label = "value per replica"
		}
		one.Plot = r.plotOf(plot{ID: "metric" + strconv.Itoa(i), of: s, rows: []string{row}, Labels: []string{label},
			Minutes: minutesOf(r.query), Target: explain.Number(m.Target)})
	}
	return one
}

// maxLinks bounds the links of a missing metric to those of its name elsewhere.
const maxLinks = 5

// linksTo are links to the page of a metric. A missing one has none: its links lead to metrics of its
// name that exist, for objects of other kinds or in other namespaces.
func linksTo(namespace string, m *inspect.AutoscalerMetric, known []inspect.Metric) (links []metricLink) {
	bare := bareName(m)
	switch {
	case m.Source == "Resource" || m.Source == "ContainerResource":
		return nil
	case !m.Missing:
		return []metricLink{{"The metric", address("metric", "namespace", namespace, "of", resourceOf(m), "name", bare)}}
	}
	for i := range known {
		one := &known[i]
		if one.Name != bare || len(links) == maxLinks {
			continue
		}
		text := "It is " + placeOf(one)
		links = append(links, metricLink{text, address("metric", "namespace", one.Namespace, "of",
			one.Resource, "name", bare)})
	}
	return links
}

// placeOf says where a metric is.
func placeOf(m *inspect.Metric) string {
	text := "external"
	if m.Resource != "" {
		text = "a metric of " + m.Resource
	}
	if m.Namespace == "" {
		return text + ", outside of namespaces"
	}
	return text + " in namespace " + m.Namespace
}

// bareName is the name of an autoscaler's metric without stat and window.
func bareName(m *inspect.AutoscalerMetric) string {
	return metric.ParseExpression(strings.ReplaceAll(m.Name, `\|`, "/")).Name
}

// resourceOf is the resource of a metric's page; "?" if an autoscaler doesn't say it.
func resourceOf(m *inspect.AutoscalerMetric) string {
	switch m.Source {
	case "Pods":
		return "pods"
	case "External":
		return ""
	}
	return "?"
}

// facts gathers what this process knows of an autoscaler, and the controller's last questions for its
// metrics. It has no rights of a person, and asks the API server nothing.
func (s *Server) facts(a *inspect.Autoscaler, r *request) (f *explain.Facts, asked []Use) {
	f = &explain.Facts{Autoscaler: *a}
	if s.parts.Facts != nil {
		f, asked = s.parts.Facts(a)
		for _, use := range asked {
			f.Asked = append(f.Asked, use.At)
		}
	}
	f.Now, f.Sets = r.now, make([][]inspect.Series, len(a.Metrics))
	f.Unknown = append(f.Unknown, fmt.Sprintf("the registration of the metrics APIs, the controller's rights and the target's "+
		"selector: sluice explain -n %s hpa/%s reads them", a.Namespace, a.Name))
	of := a.Namespace
	if r.wide {
		of = ""
	} else {
		f.Unknown = append(f.Unknown, "metrics of other namespaces: you may not read all namespaces")
	}
	missing := false
	for i := range a.Metrics {
		m := &a.Metrics[i]
		missing = missing || m.Missing
		if m.Selector != "" && m.Missing {
			f.Sets[i] = r.source.Series(a.Namespace, resourceOf(m), bareName(m), inspect.DetailSeries)
		}
	}
	if missing { // for the nearest names and other namespaces
		f.Metrics = r.someMetrics(of)
	}
	whole := inspect.Query{Namespace: a.Namespace, Most: inspect.MaxMost}
	f.Rejections = r.source.Rejections(whole).Items
	f.Targets = r.source.Targets(whole).Items
	if slices.ContainsFunc(f.Rejections, func(r inspect.Rejection) bool { return r.Reason == metric.OverLimit.String() }) {
		f.Limits = r.source.Limits(whole).Items
	}
	for _, autoscaler := range r.source.Autoscalers(whole).Items {
		if autoscaler.Name != a.Name {
			f.Neighbours = append(f.Neighbours, explain.Neighbour{
				Name: autoscaler.Name, TargetKind: autoscaler.TargetKind, TargetName: autoscaler.TargetName})
		}
	}
	return f, asked
}

// maxKnown bounds the metrics that an explanation looks at.
const maxKnown = 20_000

func (r *request) someMetrics(namespace string) []inspect.Metric {
	all := []inspect.Metric{}
	q := inspect.Query{Namespace: namespace, Most: inspect.MaxMost}
	inspect.All(q, r.source.Metrics, func(m *inspect.Metric) bool {
		all = append(all, *m)
		return len(all) < maxKnown
	})
	return all
}
