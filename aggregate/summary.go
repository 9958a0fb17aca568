package aggregate

import (
	"math"

	"github.com/sluice-metrics/sluice/metric"
)

// timerStat is a timer's value, or notes why it has none. Percentiles of a summary are those of its last push: there is
// nothing that they could be merged with.
func (r *reading) timerStat() (v float64, ok bool) {
	if q := r.stat.Quantile(); !math.IsNaN(q) && r.summaries > 0 {
		if r.series > 1 {
			r.unmergeable = true
			return 0, false
		}
		v, ok = quantileOf(r.quantiles, q)
		if !ok {
			r.lacks = "its last push had " + percentilesOf(r.quantiles)
		}
		return v, ok
	}
	v, ok, read := r.spread.stat(r.stat)
	if !read {
		r.unread = true
		return 0, false
	}
	if !ok && r.spread.size() > 0 {
		r.lacks = untold
	}
	return v, ok
}

// quantileOf finds exactly this quantile.
func quantileOf(all []metric.Quantile, q float64) (v float64, ok bool) {
	for _, one := range all {
		if one.Q == q {
			return one.Value, known(one.Value)
		}
	}
	return 0, false
}

// percentilesOf names those that can be asked for.
func percentilesOf(all []metric.Quantile) string {
	var has []metric.Stat
	for _, s := range metric.Timer.Stats() {
		if _, ok := quantileOf(all, s.Quantile()); ok {
			has = append(has, s)
		}
	}
	if len(has) == 0 {
		return "no percentile that can be asked for"
	}
	return metric.StatNames(has)
}

// refuse is the error of an answer that would merge what cannot be merged, or of a stat that nothing reads.
func (r *reading) refuse(q *metric.Query) error {
	if r.unread {
		return metric.InvalidQueryf("%q: this version cannot read %s of a %s", q.Expression.String(), r.stat, r.kind)
	}
	if !r.unmergeable {
		return nil
	}
	return metric.InvalidQueryf("%q: percentiles of summaries cannot be merged over label sets; pick one with a selector",
		q.Expression.String())
}
