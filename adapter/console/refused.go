package console

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// refusedContent is the page of rejected samples.
type refusedContent struct {
	Namespace   string
	Wide        bool
	Reasons     []Count // of all receivers; only for those who may see all
	Total       uint64
	Rows        []inspect.Rejection
	First, Next string
}

func (s *Server) refused(_ context.Context, r *request) (any, error) {
	c := &refusedContent{Namespace: r.query.Get("namespace"), Wide: r.wide}
	q := inspect.Query{Namespace: c.Namespace, Most: pageSize}
	var err error
	if q.After, err = r.keyOf("rejections"); err != nil {
		return nil, err
	}
	page := r.source.Rejections(q)
	c.Rows, c.Next = page.Items, r.next("refused", "rejections", page.Next)
	if q.After != (inspect.Key{}) {
		c.First = address("refused", "namespace", c.Namespace)
	} else if c.Next == "" {
		slices.SortStableFunc(c.Rows, func(a, b inspect.Rejection) int { return b.Last.Compare(a.Last) })
	}
	if r.wide && c.Namespace == "" {
		c.Reasons = reasons(s.parts.Health().Receivers)
		for _, one := range c.Reasons {
			c.Total += one.Number
		}
	}
	return c, nil
}

// reasons sums the rejected samples of all receivers, the most frequent reason first.
func reasons(receivers []Receiver) (all []Count) {
	for _, of := range receivers {
		for _, one := range of.Rejected {
			i := slices.IndexFunc(all, func(c Count) bool { return c.Reason == one.Reason })
			if i < 0 {
				all = append(all, one)
			} else {
				all[i].Number += one.Number
			}
		}
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
