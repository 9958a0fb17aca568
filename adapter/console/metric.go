package console

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// metricContent is the page of one metric.
type metricContent struct {
	inspect.Metric
	// SeriesCount is the number of all series; Series are some.
	SeriesCount int
	// Elsewhere are metrics of the name on objects of other kinds.
	Elsewhere []inspect.Metric
	Series    []seriesRow
	Plot      *plot
	// Stats and Windows can be chosen; Stat and Window are.
	Stats, Windows []string
	Stat, Window   string
	Windowed       bool // the stat has a window
	Filter         string
	Minutes        int
	Ranges         []rangeLink
	// Digits is the address of the page with all digits, or with three.
	Digits    string
	AllDigits bool
	Began     time.Time // of the history
	Snippets  []Snippet
}

// seriesRow is a series of the table.
type seriesRow struct {
	inspect.Series
	Key     string // in addresses and rows
	Text    string // the value as it is shown; empty: there is none
	Plotted bool
}

// rangeLink leads to a page with plots of another length.
type rangeLink struct {
	Minutes int
	Address string
	Chosen  bool
}

// anyResource in a metric's address stands for a resource that an autoscaler doesn't say.
const anyResource = "?"

func (s *Server) metric(_ context.Context, r *request) (any, error) {
	namespace, resource, name := r.query.Get("namespace"), r.query.Get("of"), r.query.Get("name")
	c, found := &metricContent{Filter: strings.TrimSpace(r.query.Get("filter")), Began: s.history.began,
		Minutes: minutesOf(r.query), Ranges: rangesOf("metric", r.query), AllDigits: r.query.Get("digits") == "all"}, false
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
	r.thing, c.SeriesCount = name, c.Metric.Series
	e, stat := c.choose(r.query, r.source.Windows())
	of := subject{namespace: namespace, resource: c.Resource, name: e.String()}
	chosen := r.query["s"][:min(len(r.query["s"]), maxPlotted)]
	r.fillSeries(c, of, chosen)
	if c.Digits = with("metric", r.query, "digits", "all"); c.AllDigits {
		c.Digits = with("metric", r.query, "digits", "")
	}
	c.Snippets = s.howto(c, e, stat, chosen).snippets(s.parts.Get, s.parts.Kubectl)
	return c, nil
}

// choose reads the stat and the window. Those that the kind or the table doesn't have are left out.
func (c *metricContent) choose(q url.Values, windows []string) (e metric.Expression, stat metric.Stat) {
	kind, _ := metric.ParseKind(c.Kind)
	c.Stats, c.Windows = statsOf(c.Kind), windows
	e.Name, stat = c.Name, kind.DefaultStat()
	if asked, ok := metric.ParseStat(q.Get("stat")); ok && kind.Has(asked) {
		e.Stat, stat, c.Stat = asked, asked, asked.String()
	}
	if c.Windowed = stat.Windowed(); c.Windowed && slices.Contains(windows, q.Get("window")) {
		e.Window, _ = metric.ParseWindow(q.Get("window"))
		c.Window = q.Get("window")
	}
	return e, stat
}

// fillSeries lists the series and draws some: those that were chosen, or the first.
func (r *request) fillSeries(c *metricContent, of subject, chosen []string) {
	limit := inspect.DetailSeries
	if c.Filter != "" || len(chosen) > 0 {
		limit = inspect.MaxMost
	}
	p := plot{of: of, Target: math.NaN(), Minutes: c.Minutes}
	for _, sery := range r.source.Series(of.namespace, of.resource, of.name, limit) {
		row := seriesRow{Series: sery, Key: seriesKey(&sery), Text: sery.Value}
		id := seriesID(&sery)
		row.Plotted = slices.Contains(chosen, row.Key) || len(chosen) == 0 && len(p.rows) < plottedSeries
		if !row.Plotted && (len(c.Series) >= inspect.DetailSeries || !strings.Contains(id, c.Filter)) {
			continue
		}
		if row.Plotted {
			p.rows, p.Labels = append(p.rows, row.Key), append(p.Labels, metric.Truncate(metric.Visible(id), metric.MaxQuoted))
		}
		c.Series = append(c.Series, row)
	}
	if len(p.rows) > 0 {
		p.ID = plotID(&p)
		c.Plot = r.plotOf(p)
	}
	for i := range c.Series {
		if row := &c.Series[i]; !c.AllDigits {
			row.Text = short(row.Value)
			if v, ok := r.server.history.newest(of, row.Key, r.now); ok && row.Plotted {
				row.Text = significant(v)
			}
		}
	}
}

// howto gathers what is shown for the texts to copy.
func (s *Server) howto(c *metricContent, e metric.Expression, stat metric.Stat, chosen []string) *howto {
	h := &howto{metric: &c.Metric, expression: e, stat: stat, value: math.NaN()}
	if s.parts.KindOf != nil && c.Resource != "" {
		h.apiVersion, h.kind, h.namespaced = s.parts.KindOf(c.Resource)
	}
	n := 0
	for i := range c.Series {
		row := &c.Series[i]
		if len(chosen) > 0 && !row.Plotted {
			continue
		}
		if n++; n == 1 {
			h.object, h.one = row.Object.Name, &row.Series
			h.value, _ = strconv.ParseFloat(row.Value, 64)
		}
		if h.object != row.Object.Name {
			h.object = ""
		}
	}
	if n > 1 || len(chosen) == 0 && c.SeriesCount > 1 {
		h.one = nil
	}
	if h.source() == inspect.SourceObject && h.object == "" && len(c.Series) > 0 {
		h.object = c.Series[0].Object.Name // an autoscaler describes one
	}
	if h.source() == inspect.SourcePods {
		h.object = ""
	}
	return h
}

// minutesOf is the length of a page's plots.
func minutesOf(q url.Values) int {
	switch q.Get("minutes") {
	case "1":
		return 1
	case "60":
		return 60
	}
	return fineSeconds / 60
}

func rangesOf(path string, q url.Values) (all []rangeLink) {
	for _, n := range []int{1, 10, 60} {
		all = append(all, rangeLink{n, with(path, q, "minutes", strconv.Itoa(n)), n == minutesOf(q)})
	}
	return all
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
	k, _ := metric.ParseKind(kind)
	for _, stat := range k.Stats() {
		all = append(all, stat.String())
	}
	return all
}
