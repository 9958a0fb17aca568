package console

import (
	"context"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// limitsContent is the page of limits, those that are nearest to being used up first.
type limitsContent struct {
	Namespace string
	Cluster   bool
	// Process are the bounds of the whole process; only for those who may see all.
	Process []bound
	Rows    []limitRow
	// Full is how many of the rows have no slot left.
	Full int
	// More is set if there are limits behind the rows.
	More bool
}

// bound is a bound of the process and its use.
type bound struct {
	Name, Setting, Used, Most string
	Bar                       useBar
}

type limitRow struct {
	inspect.Limit
	Metrics, Series useBar
	// Others is the number of metrics that hold slots and aren't among the Holders.
	Others int
}

// useBar is a use of a limit, drawn.
type useBar struct {
	Used, Most int64
	Class      string // of the bar
	Width      string // in percent
}

// nearlyFull is the share of a limit from which its bar warns.
const nearlyFull = 0.8

func barOf(used, most int64) useBar {
	one := useBar{used, most, "applied", percent(uint64(max(min(used, most), 0)), uint64(max(most, 0)))}
	switch {
	case used >= most:
		one.Class, one.Width = "rejected", "100"
	case float64(used) >= nearlyFull*float64(most):
		one.Class = "pending"
	}
	return one
}

func (s *Server) limits(_ context.Context, r *request) (any, error) {
	c := &limitsContent{Namespace: r.query.Get("namespace"), Cluster: s.parts.Target != nil}
	page := r.source.Limits(inspect.Query{Namespace: c.Namespace, Most: pageSize + 1, Fullest: true})
	if c.More = len(page.Items) > pageSize; c.More {
		page.Items = page.Items[:pageSize]
	}
	for _, one := range page.Items {
		row := limitRow{Limit: one, Metrics: barOf(int64(one.Metrics), int64(one.MaxMetrics)),
			Series: barOf(int64(one.Series), int64(one.MaxSeries)), Others: max(0, one.Metrics-len(one.Holders))}
		if row.Metrics.Class == "rejected" || row.Series.Class == "rejected" {
			c.Full++
		}
		c.Rows = append(c.Rows, row)
	}
	if r.wide && c.Namespace == "" {
		h := s.parts.Health()
		c.Process = []bound{
			{"Series", "max-series", grouped(h.HeldSeries), grouped(h.MaxSeries), barOf(int64(h.HeldSeries), int64(h.MaxSeries))},
			{"Memory", "max-bytes", mebibytes(h.HeldBytes), mebibytes(h.MaxBytes), barOf(h.HeldBytes, h.MaxBytes)},
		}
	}
	return c, nil
}
