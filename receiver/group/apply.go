package group

import (
	"github.com/sluice-metrics/sluice/metric"
)

// applying carries a push that was found in order into the table, or brings the table back to what it was.
//
// Series that the group does not have there yet come first: they alone can be refused for want of room, or for their object.
// What is taken out of the table and overwritten comes after, when nothing is refused any more.
type applying struct {
	groups  *Groups
	push    *Push
	about   *metric.Object
	before  *contents // nil: none
	next    *contents
	fresh   []*family // of next, those that the push brought
	outcome Outcome

	sample metric.Sample
	feed   feed
	n      int     // samples since the last boundary
	made   []place // series that this push made
	left   bool    // what leaves the group is out of the table
}

// end lets go of all but the memory.
func (a *applying) end() {
	a.feed.end()
	clear(a.made)
	*a = applying{feed: a.feed, made: a.made[:0]}
}

// place is a metric of a family.
type place struct {
	family *family
	index  int
}

func (a *applying) run() *Rejection {
	a.sample = metric.Sample{Object: a.about, TTL: metric.Forever, Sender: a.push.Sender}
	for _, f := range a.fresh {
		if old := a.before.find(f.Name); old == nil || kindOf(old.Type) == kindOf(f.Type) {
			if r := a.create(f, old); r != nil {
				return a.undo(r)
			}
		}
	}
	begun := false
	for _, f := range a.fresh {
		old := a.before.find(f.Name)
		if old == nil || kindOf(old.Type) != kindOf(f.Type) {
			continue
		}
		if r := a.overwrite(f, old, &begun); r != nil {
			return a.undo(r)
		}
	}
	a.leave()
	for _, f := range a.fresh {
		if old := a.before.find(f.Name); old != nil && kindOf(old.Type) != kindOf(f.Type) {
			for i := range f.Metrics {
				a.applyOr(f, i)
			}
		}
	}
	return nil
}

// create applies what is not in the table yet.
func (a *applying) create(f, old *family) *Rejection {
	match := matching(f, old)
	for i := range f.Metrics {
		if j := match.of(i); j >= 0 && old.served(j) {
			continue
		}
		reason, there := a.apply(f, i)
		if reason == metric.OverLimit && a.leave() {
			reason, there = a.apply(f, i)
		}
		switch {
		case refusesAll(reason):
			return a.refusal(f, reason)
		case there:
			a.made = append(a.made, place{f, i})
		}
	}
	return nil
}

// overwrite applies what is in the table already. If that has lost the very first one, the push is refused as if it were
// new; what has been overwritten cannot be brought back, so what is lost among others is not served.
func (a *applying) overwrite(f, old *family, begun *bool) *Rejection {
	match := matching(f, old)
	for i := range f.Metrics {
		j := match.of(i)
		if j < 0 || !old.served(j) {
			continue
		}
		if *begun {
			if !a.applyOr(f, i) {
				a.remove(old, j)
			}
			continue
		}
		reason, there := a.apply(f, i)
		if refusesAll(reason) {
			return a.refusal(f, reason)
		}
		if !there {
			a.remove(old, j)
		}
		*begun = true
	}
	return nil
}

// refusesAll says which refusals are of the push and not of the one series.
func refusesAll(r metric.Reason) bool {
	return r == metric.OverLimit || r == metric.Identity || r == metric.Pending
}

// applyOr applies a metric, and if it is refused, for whatever reason, the push is taken without it.
func (a *applying) applyOr(f *family, i int) (there bool) {
	reason, there := a.apply(f, i)
	if !there && refusesAll(reason) {
		f.setUnserved(i)
		if reason == metric.Pending {
			reason = metric.Identity
		}
		a.outcome.reject(f.Name, reason)
	}
	return there
}

// apply applies a metric, and enters what became of it unless the whole push is to be refused for it.
func (a *applying) apply(f *family, i int) (reason metric.Reason, there bool) {
	reason = a.feed.fill(&a.sample, a.about, f, i)
	if reason == metric.Applied {
		if a.n++; a.n%batch == 0 {
			a.push.Applier.Quiesce()
		}
		reason = a.push.Applier.Apply(&a.sample)
	}
	switch {
	case reason == metric.Applied:
		a.outcome.Applied++
		return reason, true
	case !refusesAll(reason):
		f.setUnserved(i)
		a.outcome.reject(f.Name, reason)
	}
	return reason, false
}

// batch is how many samples are applied between two boundaries that the table can use.
const batch = 256

func (f *family) setUnserved(i int) {
	if f.unserved == nil {
		f.unserved = make([]bool, len(f.Metrics))
		f.bytes += int64(len(f.Metrics))
	}
	f.unserved[i] = true
}

// refusal keeps the sample for who words it.
func (a *applying) refusal(f *family, r metric.Reason) *Rejection {
	s := a.sample
	about := *a.about
	s.Name, s.Object, s.Histogram = []byte(f.Name), &about, nil
	s.Fields = append([]metric.Label(nil), s.Fields...) // their strings are the family's, which stay
	return &Rejection{Reason: r, Message: r.String(), Sample: &s}
}

// leave takes out of the table what is not in the group any more; false: it has been.
func (a *applying) leave() bool {
	if a.left || a.before == nil {
		return false
	}
	a.left = true
	removed := false
	for _, old := range a.before.families {
		f := a.next.find(old.Name)
		if f == old {
			continue
		}
		if f != nil && kindOf(f.Type) != kindOf(old.Type) {
			f = nil
		}
		removed = a.groups.remove(a.about, old, f) || removed
	}
	return removed
}

// remove takes one series out that has no value that could be served any more.
func (a *applying) remove(f *family, i int) {
	a.groups.table.Remove(*a.about, f.Name, []metric.Labels{a.feed.labels(a.about, f, i)})
}

// undo brings the table back: what was made goes, and what has left comes again.
func (a *applying) undo(r *Rejection) *Rejection {
	a.push.Applier.Quiesce()
	for start := 0; start < len(a.made); {
		f, end := a.made[start].family, start
		var sets []metric.Labels
		for ; end < len(a.made) && a.made[end].family == f; end++ {
			sets = append(sets, a.feed.labels(a.about, f, a.made[end].index))
		}
		a.groups.table.Remove(*a.about, f.Name, sets)
		start = end
	}
	if !a.left {
		return r
	}
	for _, old := range a.before.families {
		f := a.next.find(old.Name)
		if f == old {
			continue
		}
		match := matching(old, f)
		for i := range old.Metrics {
			if f != nil && kindOf(f.Type) == kindOf(old.Type) && match.of(i) >= 0 || !old.served(i) {
				continue
			}
			if a.feed.fill(&a.sample, a.about, old, i) == metric.Applied {
				a.push.Applier.Apply(&a.sample)
			}
		}
	}
	return r
}

// remove takes out of the table the series of a family that another does not have; nil: all. It says whether there were any.
func (gs *Groups) remove(about *metric.Object, f, but *family) bool {
	match := matching(f, but)
	var sets []metric.Labels
	var one feed
	for i := range f.Metrics {
		if f.served(i) && match.of(i) < 0 {
			sets = append(sets, one.labels(about, f, i))
		}
	}
	if len(sets) == 0 {
		return false
	}
	gs.table.Remove(*about, f.Name, sets)
	return true
}

// matched says which metric of another family has the labels of one.
type matched struct {
	aligned int // so many have the same place in both
	others  map[string]int
	rows    *family
	room    []byte
}

// matching compares families. Those of one client come in the same order most often, and share their labels.
func matching(f, other *family) matched {
	m := matched{rows: f}
	if other == nil {
		return m
	}
	for m.aligned < min(len(f.Metrics), len(other.Metrics)) && sameLabels(f.Metrics[m.aligned].Labels, other.Metrics[m.aligned].Labels) {
		m.aligned++
	}
	if m.aligned == len(f.Metrics) || m.aligned == len(other.Metrics) {
		return m
	}
	m.others = make(map[string]int, len(other.Metrics)-m.aligned)
	for i := m.aligned; i < len(other.Metrics); i++ {
		m.others[string(metric.AppendLabels(nil, other.Metrics[i].Labels))] = i
	}
	return m
}

// of is where the i-th metric is in the other family, or -1.
func (m *matched) of(i int) int {
	if i < m.aligned {
		return i
	}
	if m.others == nil {
		return -1
	}
	m.room = metric.AppendLabels(m.room[:0], m.rows.Metrics[i].Labels)
	if j, ok := m.others[string(m.room)]; ok {
		return j
	}
	return -1
}

func sameLabels(a, b []metric.Label) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) > 0 && &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
