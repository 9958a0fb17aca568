package console

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// metricsContent is the tree of metrics: namespaces, kinds of objects, names.
type metricsContent struct {
	Namespace, Filter string
	Namespaces        []namespaceBranch
	Shown             int
	// Cut is set if the search ended before all metrics were looked at.
	Cut               bool
	First, Next       string
	PushUDP, PushHTTP string
}

type namespaceBranch struct {
	Name  string
	Kinds []kindBranch
}

type kindBranch struct {
	Resource string // empty: external
	Metrics  []inspect.Metric
}

// maxSearched bounds the metrics that a search looks at.
const maxSearched = 100_000

func (s *Server) metrics(_ context.Context, r *request) (any, error) {
	c := &metricsContent{Namespace: r.query.Get("namespace"), Filter: r.query.Get("filter"),
		PushUDP: s.parts.PushUDP, PushHTTP: s.parts.PushHTTP}
	q := inspect.Query{Namespace: c.Namespace, Most: pageSize}
	var err error
	if q.After, err = r.keyOf("metrics"); err != nil {
		return nil, err
	}
	if q.After != (inspect.Key{}) {
		c.First = address("metrics", "namespace", c.Namespace, "filter", c.Filter)
	}
	var items []inspect.Metric
	if c.Filter == "" {
		page := r.source.Metrics(q)
		items, c.Next = page.Items, r.next("metrics", "metrics", page.Next)
	} else {
		q.Most = inspect.MaxMost
		looked := 0
		inspect.All(q, r.source.Metrics, func(m *inspect.Metric) bool {
			if looked++; strings.Contains(m.Name, c.Filter) {
				items = append(items, *m)
			}
			c.Cut = looked >= maxSearched || len(items) >= pageSize
			return !c.Cut
		})
		if n := len(items); c.Cut && n == pageSize {
			last := &items[n-1]
			c.Next, c.Cut = r.next("metrics", "metrics", inspect.Key{last.Namespace, last.Name, last.Resource}), false
		}
	}
	c.Shown, c.Namespaces = len(items), tree(items)
	return c, nil
}

// tree groups metrics, which are in the order of namespace and name.
func tree(items []inspect.Metric) (all []namespaceBranch) {
	for _, m := range items {
		if n := len(all); n == 0 || all[n-1].Name != m.Namespace {
			all = append(all, namespaceBranch{Name: m.Namespace})
		}
		one := &all[len(all)-1]
		i := 0
		for ; i < len(one.Kinds) && one.Kinds[i].Resource != m.Resource; i++ {
		}
		if i == len(one.Kinds) {
			one.Kinds = append(one.Kinds, kindBranch{Resource: m.Resource})
		}
		one.Kinds[i].Metrics = append(one.Kinds[i].Metrics, m)
	}
	return all
}

// metricContent is the page of one metric.
type metricContent struct {
	inspect.Metric
	// SeriesCount is the number of all series; Series are some.
	SeriesCount int
	// Elsewhere are metrics of the name on objects of other kinds.
	Elsewhere []inspect.Metric
	Series    []seriesRow
	Plot      *plot
	Stats     []string
	Read      string // command
}

type seriesRow struct {
	inspect.Series
	Plotted bool
}

// anyResource in a metric's address stands for a resource that an autoscaler doesn't say.
const anyResource = "?"

func (s *Server) metric(_ context.Context, r *request) (any, error) {
	namespace, resource, name := r.query.Get("namespace"), r.query.Get("of"), r.query.Get("name")
	c, found := &metricContent{}, false
	for _, m := range r.source.Metrics(inspect.Query{Namespace: namespace, Name: name}).Items {
		if m.Namespace != namespace { // Source takes the empty one for all
			continue
		}
		if !found && (m.Resource == resource || resource == anyResource && m.Resource != "") {
			c.Metric, found = m, true
		} else {
			c.Elsewhere = append(c.Elsewhere, m)
		}
	}
	if !found {
		return nil, r.noMetric(namespace, name)
	}
	resource, c.SeriesCount = c.Resource, c.Metric.Series
	p := plot{ID: "series", of: subject{namespace: namespace, resource: resource, name: name}, Target: math.NaN()}
	for i, sery := range r.source.Series(namespace, resource, name, inspect.DetailSeries) {
		plotted := i < plottedSeries
		c.Series = append(c.Series, seriesRow{sery, plotted})
		if plotted {
			p.rows, p.Labels = append(p.rows, seriesID(&sery)), append(p.Labels, metric.Visible(seriesID(&sery)))
		}
	}
	if len(p.rows) > 0 {
		c.Plot = r.plotOf(p)
	}
	c.Stats, c.Read = statsOf(c.Kind), readCommand(s.parts.Get, &c.Metric)
	return c, nil
}

// noMetric says that there is no such metric in a namespace, and where the name exists, as far as the
// client may see it.
func (r *request) noMetric(namespace, name string) error {
	absent := &refusal{status: http.StatusNotFound,
		text: fmt.Sprintf("there is no metric %q in namespace %q: it was never pushed there, or it has expired",
			name, namespace)}
	if namespace == "" {
		absent.text = fmt.Sprintf("there is no metric %q outside of namespaces: it was never pushed there, or it has expired",
			name)
	}
	q := inspect.Query{Name: name, Most: maxLinks}
	if !r.wide {
		q.Namespace = namespace
	}
	for _, m := range r.source.Metrics(q).Items {
		absent.links = append(absent.links, metricLink{"It is " + placeOf(&m),
			address("metric", "namespace", m.Namespace, "of", m.Resource, "name", m.Name)})
	}
	return absent
}

// statsOf names the stats of a kind.
func statsOf(kind string) (all []string) {
	for _, k := range metric.Kinds() {
		if k.String() == kind {
			for _, stat := range k.Stats() {
				all = append(all, stat.String())
			}
		}
	}
	return all
}

// readCommand is the command that reads a metric.
func readCommand(get string, m *inspect.Metric) string {
	words := []string{get}
	if m.Namespace != "" {
		words = append(words, "-n", m.Namespace)
	}
	switch m.Resource {
	case "":
		words = append(words, "external")
	default:
		words = append(words, "'"+m.Resource+"/*'")
	}
	return strings.Join(append(words, "'"+strings.ReplaceAll(metric.Visible(m.Name), "'", `'\''`)+"'"), " ")
}
