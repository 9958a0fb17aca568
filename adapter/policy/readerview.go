package policy

import (
	"slices"

	"github.com/sluice-metrics/sluice/metric"
)

// A Checker decides about requests for external metrics and about series: a Set, or what stands before
// one.
type Checker interface {
	// Check returns nil, or the error for the reader.
	Check(Request) error
	// MayHave reports whether a reader may have one series of a metric by each of some expressions.
	// lookup returns a label's value as selectors spell it.
	MayHave(namespace string, all []metric.Expression, lookup func(key string) (string, bool), reader metric.Reader) bool
	// Governs reports whether a policy says anything about a metric in a namespace, to whomever; about any
	// metric, if the expression is the zero one. With an error, metric.ErrNotReady, it is true.
	Governs(namespace string, e metric.Expression) (bool, error)
}

// ReaderView is what one reader may have, for lists of metrics. It implements inspect.Readable. Without
// policies it is everything.
type ReaderView struct {
	Policies Checker // nil: none
	Reader   metric.Reader
}

// MayReadAll reports whether the reader may ask for all series of a metric.
func (v ReaderView) MayReadAll(namespace, expression string) bool {
	return v.Policies == nil ||
		v.Policies.Check(Request{Namespace: namespace, Expression: metric.ParseExpression(expression),
			Reader: v.Reader}) == nil
}

// MayHave reports whether the reader may have one series of a metric, name[:stat][:window].
func (v ReaderView) MayHave(namespace, expression string, label func(key string) (string, bool)) bool {
	return v.Policies == nil || v.Policies.MayHave(namespace,
		[]metric.Expression{metric.ParseExpression(expression)}, label, v.Reader)
}

// Unrestricted reports whether no policy counts in a namespace.
func (v ReaderView) Unrestricted(namespace string) bool {
	if v.Policies == nil {
		return true
	}
	governed, _ := v.Policies.Governs(namespace, metric.Expression{})
	return !governed
}

// MayHaveKind reports whether the reader may have one series of a kind as expositions show it: a counter's
// total, a gauge's last value, and the rest with every stat.
func (v ReaderView) MayHaveKind(namespace, name string, k metric.Kind, label func(key string) (string, bool)) bool {
	return v.Policies == nil || v.Policies.MayHave(namespace, exposed(name, k), label, v.Reader)
}

// MayReadKind reports whether the reader may have all series of a metric of a kind as expositions show it.
func (v ReaderView) MayReadKind(namespace, name string, k metric.Kind) bool {
	return v.Policies == nil || !slices.ContainsFunc(exposed(name, k), func(e metric.Expression) bool {
		return v.Policies.Check(Request{Namespace: namespace, Expression: e, Reader: v.Reader}) != nil
	})
}

// exposed are the expressions of what expositions have of a metric.
func exposed(name string, k metric.Kind) []metric.Expression {
	stats := exposedStats(k)
	all := make([]metric.Expression, len(stats))
	for i, stat := range stats {
		all[i] = metric.Expression{Name: name, Stat: stat}
	}
	return all
}

// exposedStats are the stats of a series that expositions have. A timer has several.
func exposedStats(k metric.Kind) []metric.Stat {
	switch k {
	case metric.Counter:
		return []metric.Stat{metric.Total}
	case metric.Gauge:
		return []metric.Stat{metric.Last}
	}
	return k.Stats()
}

// Unseen is for texts that readers of unknown rights may see, such as the status of an object: it may read only
// what no policy names.
type Unseen struct {
	Policies Checker // nil: none
	// Undecided reports whether the policies had not decided about a metric, which was therefore refused.
	Undecided bool
}

// MayReadAll reports whether no policy says anything about a metric.
func (u *Unseen) MayReadAll(namespace, expression string) bool {
	return u.unnamed(namespace, metric.ParseExpression(expression))
}

// unnamed reports whether no policy names a metric, or any if the expression is the zero one.
func (u *Unseen) unnamed(namespace string, e metric.Expression) bool {
	if u.Policies == nil {
		return true
	}
	governed, err := u.Policies.Governs(namespace, e)
	u.Undecided = u.Undecided || err != nil
	return !governed
}

// MayHave is MayReadAll.
func (u *Unseen) MayHave(namespace, expression string, _ func(key string) (string, bool)) bool {
	return u.MayReadAll(namespace, expression)
}

// Unrestricted reports whether no policy counts in a namespace.
func (u *Unseen) Unrestricted(namespace string) bool {
	return u.unnamed(namespace, metric.Expression{})
}
