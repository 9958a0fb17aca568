package console

import (
	"cmp"
	"context"
	"slices"
	"time"

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
	// More is set if there are limits behind the rows; Rejected and Wanted, if some row says so.
	More, Rejected, Wanted bool
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

func barOf(used, limit int64) useBar {
	u := useBar{used, limit, "applied", percent(uint64(max(min(used, limit), 0)), uint64(max(limit, 0)))}
	switch {
	case used >= limit:
		u.Class, u.Width = "rejected", "100"
	case float64(used) >= nearlyFull*float64(limit):
		u.Class = "pending"
	}
	return u
}

func (s *Server) limits(_ context.Context, r *request) (any, error) {
	c := &limitsContent{Namespace: r.query.Get("namespace"), Cluster: s.parts.Facts != nil}
	page := r.source.Limits(inspect.Query{Namespace: c.Namespace, Most: pageSize + 1, Fullest: true})
	if c.More = len(page.Items) > pageSize; c.More {
		page.Items = page.Items[:pageSize]
	}
	for _, limit := range page.Items {
		row := limitRow{Limit: limit, Metrics: barOf(int64(limit.Metrics), int64(limit.MaxMetrics)),
			Series: barOf(int64(limit.Series), int64(limit.MaxSeries)), Others: max(0, limit.Metrics-len(limit.Holders))}
		if row.Metrics.Class == "rejected" || row.Series.Class == "rejected" {
			c.Full++
		}
		c.Rejected = c.Rejected || limit.Rejected > 0
		c.Wanted = c.Wanted || limit.WantedMetrics > limit.MaxMetrics || limit.WantedSeries > limit.MaxSeries
		c.Rows = append(c.Rows, row)
	}
	if r.wide && c.Namespace == "" {
		h := s.parts.Health()
		c.Process = bounds(&h)
	}
	return c, nil
}

// bounds are those of the process.
func bounds(h *Health) []bound {
	return []bound{
		{"Series", "max-series", grouped(h.HeldSeries), grouped(h.MaxSeries),
			barOf(int64(h.HeldSeries), int64(h.MaxSeries))},
		{"Memory", "max-bytes", mebibytes(h.HeldBytes), mebibytes(h.MaxBytes), barOf(h.HeldBytes, h.MaxBytes)},
	}
}

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
	var err error
	if c.Rows, c.First, c.Next, err = pageOf(r, "refused", "rejections", c.Namespace, r.source.Rejections); err != nil {
		return nil, err
	}
	if c.First == "" && c.Next == "" {
		slices.SortStableFunc(c.Rows, func(a, b inspect.Rejection) int { return b.Last.Compare(a.Last) })
	}
	if r.wide && c.Namespace == "" {
		c.Reasons = reasons(s.parts.Health().Receivers)
		for _, reason := range c.Reasons {
			c.Total += reason.Number
		}
	}
	return c, nil
}

// reasons sums the rejected samples of all receivers, the most frequent reason first.
func reasons(receivers []Receiver) (all []Count) {
	for _, receiver := range receivers {
		for _, count := range receiver.Rejected {
			i := slices.IndexFunc(all, func(c Count) bool { return c.Reason == count.Reason })
			if i < 0 {
				all = append(all, count)
			} else {
				all[i].Number += count.Number
			}
		}
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// nodesContent is the page of nodes' agents.
type nodesContent struct {
	Agents bool // may report
	Rows   []inspect.Agent
	// CutOff is how many of all nodes' agents are cut off; All is how many there are.
	CutOff, All int
	First, Next string
}

func (s *Server) nodes(_ context.Context, r *request) (any, error) {
	c := &nodesContent{Agents: s.parts.Agents}
	var err error
	if c.Rows, c.First, c.Next, err = pageOf(r, "nodes", "agents", "", r.source.Agents); err != nil {
		return nil, err
	}
	inspect.All(inspect.Query{Most: inspect.MaxMost}, r.source.Agents, func(a *inspect.Agent) bool {
		if c.All++; a.Fault() != "" {
			c.CutOff++
		}
		return true
	})
	return c, nil
}

// lag is the age of an agent's newest frame when it came.
func lag(a inspect.Agent) string {
	if a.LastFrame.IsZero() {
		return "–"
	}
	return time.Duration(a.Lag * float64(time.Second)).Round(time.Millisecond).String()
}

// rulesContent is the page of rules and policies.
type rulesContent struct {
	Namespace string
	Cluster   bool
	Rules     []inspect.Rule
	// Refused is how many of the rules don't hold, and Faulty how many of the policies have faults.
	Refused, Faulty int
	First, Next     string
	// PoliciesUnknown says why the policies are unknown. Empty: they are known.
	PoliciesUnknown string
	Policies        []policyRow
	MorePolicies    bool
}

// policyRow is a policy with its first rules and faults, and how many more there are.
type policyRow struct {
	inspect.Policy
	MoreRules, MoreFaults int
}

// Bounds of a row: 200 whole policies would be megabytes.
const (
	rowRules  = 10
	rowFaults = 3
)

func (s *Server) rules(_ context.Context, r *request) (any, error) {
	c := &rulesContent{Namespace: r.query.Get("namespace"), Cluster: s.parts.Facts != nil}
	q := inspect.Query{Namespace: c.Namespace, Most: pageSize}
	var err error
	if q.After, err = r.keyOf("rules"); err != nil {
		return nil, err
	}
	page := r.source.Rules(q)
	c.Rules, c.Next = page.Items, r.next("rules", "rules", page.Next)
	if q.After != (inspect.Key{}) {
		c.First = address("rules", "namespace", c.Namespace)
	}
	for i := range c.Rules {
		if !c.Rules[i].Holds() {
			c.Refused++
		}
	}
	if err := r.source.UnknownPolicies(); err != nil {
		c.PoliciesUnknown = err.Error()
		return c, nil
	}
	policies := r.source.Policies(inspect.Query{Namespace: c.Namespace, Most: pageSize})
	c.MorePolicies = policies.Next != (inspect.Key{})
	for _, one := range policies.Items {
		c.Policies = append(c.Policies, policyRowOf(one))
	}
	c.Faulty = len(slices.DeleteFunc(slices.Clone(c.Policies), func(p policyRow) bool { return len(p.Faults) == 0 }))
	return c, nil
}

func policyRowOf(p inspect.Policy) policyRow {
	row := policyRow{Policy: p, MoreRules: max(0, len(p.Rules)-rowRules),
		MoreFaults: max(0, len(p.Faults)-rowFaults)}
	row.Rules = p.Rules[:len(p.Rules)-row.MoreRules]
	row.Faults = p.Faults[:len(p.Faults)-row.MoreFaults]
	return row
}
