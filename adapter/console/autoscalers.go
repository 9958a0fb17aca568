package console

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// pageSize is the number of rows of a page with a list.
const pageSize = 200

// autoscalersContent is the page of all autoscalers, broken ones first.
type autoscalersContent struct {
	Namespace       string
	Cluster         bool
	Broken, All     int
	Rows            []autoscalerRow
	Previous, Next  string
	First, Last     int
	PushUDP, Filter string
}

type autoscalerRow struct {
	*inspect.Autoscaler
	Broken bool
	Why    string
}

func (s *Server) autoscalers(_ context.Context, r *request) (any, error) {
	c := &autoscalersContent{Namespace: r.query.Get("namespace"), Cluster: s.parts.Target != nil, PushUDP: s.parts.PushUDP,
		Filter: r.query.Get("filter")}
	if !c.Cluster {
		return c, nil
	}
	var rows []autoscalerRow
	q := inspect.Query{Namespace: c.Namespace, Most: inspect.MaxMost}
	inspect.All(q, r.source.Autoscalers, func(a *inspect.Autoscaler) bool {
		if c.All++; !strings.Contains(a.Namespace+"/"+a.Name, c.Filter) {
			return true
		}
		one := autoscalerRow{Autoscaler: a}
		if one.Broken, one.Why = stateOf(a); one.Broken {
			c.Broken++
		}
		rows = append(rows, one)
		return true
	})
	slices.SortStableFunc(rows, func(a, b autoscalerRow) int { return cmp.Compare(order(a.Broken), order(b.Broken)) })
	first, _ := strconv.Atoi(r.query.Get("from"))
	first = max(0, min(first, len(rows)))
	c.Rows = rows[first:min(first+pageSize, len(rows))]
	c.First, c.Last = first+1, first+len(c.Rows)
	from := func(n int) string {
		return address("autoscalers", "namespace", c.Namespace, "filter", c.Filter, "from", strconv.Itoa(max(n, 0)))
	}
	if first > 0 {
		c.Previous = from(first - pageSize)
	}
	if c.Last < len(rows) {
		c.Next = from(first + pageSize)
	}
	return c, nil
}

func order(broken bool) int {
	if broken {
		return 0
	}
	return 1
}

// stateOf reports whether an autoscaler works, and why not.
func stateOf(a *inspect.Autoscaler) (broken bool, why string) {
	if why = a.Fault(); why != "" {
		return true, why
	}
	for _, c := range a.Conditions {
		if c.Status == "False" && (c.Type == "AbleToScale" || c.Type == "ScalingActive") && c.Reason != "ScalingDisabled" {
			return true, c.Message
		}
	}
	for _, c := range a.Conditions {
		switch {
		case c.Reason == "ScalingDisabled":
			return false, "is switched off: " + c.Message
		case c.Type == "ScalingLimited" && c.Status == "True":
			why = c.Message
		}
	}
	for i := range a.Metrics {
		if m := &a.Metrics[i]; m.Why != "" && m.Asked {
			return false, m.Name + ": " + m.Why
		}
	}
	return false, why
}
