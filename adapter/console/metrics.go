package console

import (
	"cmp"
	"context"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

const (
	metricsPerPage = 100
	// maxSorted bounds the metrics that are sorted by another column than the name, and maxValued those that are
	// sorted by their values, which have to be read.
	maxSorted, maxValued = inspect.MaxBare, 5_000
	// maxSummed bounds the series of a metric whose value a list shows.
	maxSummed = 1000
)

// metricsContent is the list of metrics.
type metricsContent struct {
	Namespace, Filter string
	Rows              []metricRow
	Columns           []column
	// First and Last are the places of the rows among all that were sorted, All; 0: they are in the order of names.
	First, Last, All int
	// Cut is set if there are more metrics than are sorted.
	Cut             bool
	Beginning, Next string
	// Sort is the column, as in the address.
	Sort              string
	PushUDP, PushHTTP string
	Began             time.Time
}

// column is a column of the list, by which it can be sorted.
type column struct {
	Title, Class, Address string
	// Sorted is "ascending" or "descending", as in aria-sort; empty: the list is sorted by another column.
	Sorted string
}

// metricRow is a metric of the list.
type metricRow struct {
	inspect.Metric
	// Value has three significant digits; empty: there is none, or the reader may not have it. How is its stat, and what
	// it is of several objects.
	Value, How string
	Spark      template.HTML
}

func (s *Server) metrics(_ context.Context, r *request) (any, error) {
	c := &metricsContent{Namespace: r.query.Get("namespace"), Filter: strings.TrimSpace(r.query.Get("filter")),
		PushUDP: s.parts.PushUDP, PushHTTP: s.parts.PushHTTP, Began: s.history.began}
	q := inspect.Query{Namespace: c.Namespace, Contains: c.Filter, Most: metricsPerPage}
	by, descending := strings.CutPrefix(r.query.Get("sort"), "-")
	if sorting[by] == nil {
		by = "name"
	}
	c.Sort = r.query.Get("sort")
	c.Columns = columnsOf(r.query, by, descending)
	if by == "name" && !descending {
		return c, c.inOrder(r, q)
	}
	all := c.sorted(r, q, by, descending)
	from, _ := strconv.Atoi(r.query.Get("from"))
	from = max(0, min(from, len(all)))
	c.All, c.First, c.Last = len(all), from+1, min(from+metricsPerPage, len(all))
	if from > 0 {
		c.Beginning = with("metrics", r.query, "from", "")
	}
	if c.Last < len(all) {
		c.Next = with("metrics", r.query, "from", strconv.Itoa(c.Last))
	}
	page := make([]inspect.Metric, 0, metricsPerPage)
	for _, m := range all[from:c.Last] {
		page = append(page, *m)
	}
	c.Rows = r.metricRows(page)
	return c, nil
}

// inOrder is a page in the order of names, which the table has.
func (c *metricsContent) inOrder(r *request, q inspect.Query) (err error) {
	if q.After, err = r.keyOf("metrics"); err != nil {
		return err
	}
	if q.After != (inspect.Key{}) {
		c.Beginning = with("metrics", r.query, "after", "")
	}
	page := r.source.Metrics(q)
	c.Rows, c.Next = r.metricRows(page.Items), r.next("metrics", "metrics", page.Next)
	return nil
}

// sorting compares metrics by a column.
var sorting = map[string]func(a, b *inspect.Metric) int{
	"name": func(a, b *inspect.Metric) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	},
	"of":     func(a, b *inspect.Metric) int { return strings.Compare(a.Resource, b.Resource) },
	"kind":   func(a, b *inspect.Metric) int { return strings.Compare(a.Kind, b.Kind) },
	"series": func(a, b *inspect.Metric) int { return cmp.Compare(a.Series, b.Series) },
	"age":    func(a, b *inspect.Metric) int { return b.LastSample.Compare(a.LastSample) },
	"readby": func(a, b *inspect.Metric) int {
		return cmp.Compare(len(a.ReadBy)+a.ReadByMore, len(b.ReadBy)+b.ReadByMore)
	},
	"value": func(a, b *inspect.Metric) int { return 0 }, // by valued
}

// sorted are all metrics by a column.
func (c *metricsContent) sorted(r *request, q inspect.Query, by string, descending bool) (all []*inspect.Metric) {
	limit := maxSorted
	if by == "value" {
		limit = maxValued
	}
	q.Most, q.Bare = limit, by != "readby"
	inspect.All(q, r.source.Metrics, func(m *inspect.Metric) bool {
		if c.Cut = len(all) == limit; !c.Cut {
			all = append(all, m)
		}
		return !c.Cut
	})
	direction := 1
	if descending {
		direction = -1
	}
	compare := sorting[by]
	if by == "value" {
		values := make(map[*inspect.Metric]float64, len(all))
		for _, m := range all {
			values[m] = r.valueOf(m)
		}
		compare = func(a, b *inspect.Metric) int { return cmp.Compare(values[a], values[b]) }
	}
	slices.SortStableFunc(all, func(a, b *inspect.Metric) int { return direction * compare(a, b) })
	return all
}

// valueOf is the value of a metric in a list; NaN: there is none, or the reader may not have it.
func (r *request) valueOf(m *inspect.Metric) float64 {
	if m.Value != "" {
		if v, err := strconv.ParseFloat(m.Value, 64); err == nil {
			return v
		}
	}
	if m.Series <= maxSummed {
		if v, objects := r.source.Value(m.Namespace, m.Resource, m.Name); objects > 0 {
			return v
		}
	}
	return math.NaN()
}

// metricRows adds values and sparklines, and has them recorded. A reader who may not have all series of a metric sees
// no sparkline, which is of all.
func (r *request) metricRows(all []inspect.Metric) []metricRow {
	rows := make([]metricRow, len(all))
	for i, m := range all {
		row := metricRow{Metric: m, How: howOf(&m)}
		row.Value = significant(r.valueOf(&m))
		if m.Resource != "" || r.readable == nil || r.readable.MayReadAll(m.Namespace, m.Name) {
			of := subject{namespace: m.Namespace, resource: m.Resource, name: m.Name}
			if m.Series <= maxSummed {
				r.server.history.watch(of, []string{rowTotal}, r.now)
				row.Spark = r.server.history.sparkOf(of, rowTotal)
			}
		}
		rows[i] = row
	}
	return rows
}

// howOf names the value of a list: the stat of the bare name, and whether it is of several.
func howOf(m *inspect.Metric) string {
	kind, _ := metric.ParseKind(m.Kind)
	stat := kind.DefaultStat()
	switch {
	case stat == metric.NoStat:
		return ""
	case m.Resource != "" && m.Objects > 1:
		return "mean " + stat.String()
	case m.Resource == "" && m.Series > 1 && stat.Additive():
		return "sum " + stat.String()
	}
	return stat.String()
}

// columnsOf are the columns with the addresses that sort by them: numbers begin with the highest.
func columnsOf(q url.Values, by string, descending bool) (all []column) {
	for _, c := range []struct {
		key, title, class string
		high              bool
	}{
		{"name", "Metric", "", false}, {"of", "Of", "", false}, {"kind", "Kind", "", false},
		{"value", "Value", "number", true}, {"", "Ten minutes", "", false}, {"series", "Series", "number", true},
		{"age", "Last sample", "", false}, {"readby", "Read by", "", true},
	} {
		one := column{Title: c.title, Class: c.class}
		sort := c.key
		if c.key == by {
			if one.Sorted = "ascending"; descending {
				one.Sorted = "descending"
			}
		}
		if c.key == by && !descending || c.key != by && c.high {
			sort = "-" + sort
		}
		if c.key != "" {
			one.Address = with("metrics", q, "sort", sort)
		}
		all = append(all, one)
	}
	return all
}

// with is the address of a page with another parameter, from the beginning of its list.
func with(path string, q url.Values, key, value string) string {
	changed := url.Values{}
	for name, values := range q {
		if name != "after" && name != "from" {
			changed[name] = values
		}
	}
	if changed.Del(key); value != "" {
		changed.Set(key, value)
	}
	return "/" + path + "?" + changed.Encode()
}
