package group

import (
	"slices"

	"github.com/sluice-metrics/sluice/metric"
)

// tableUpdate applies a valid push to the table, or restores the table.
//
// New series come first: only they can be rejected over a limit or for their object. Series are
// removed and overwritten after that, when nothing can be rejected any more.
type tableUpdate struct {
	groups  *Groups
	push    *Push
	about   *metric.Object
	before  *contents // may be nil
	next    *contents
	fresh   []*family // the families of the push, in next
	outcome Outcome

	sample     metric.Sample
	builder    sampleBuilder
	n          int     // samples since the last batch boundary
	created    []place // series that this push created
	oldRemoved bool    // series that leave the group are out of the table
}

// end drops all references but keeps the memory.
func (a *tableUpdate) end() {
	a.builder.end()
	clear(a.created)
	*a = tableUpdate{builder: a.builder, created: a.created[:0]}
}

// place identifies a metric of a family.
type place struct {
	family *family
	index  int
}

func (a *tableUpdate) run() *Rejection {
	a.sample = metric.Sample{Object: a.about, TTL: metric.WithGroup, Sender: a.push.Sender}
	for _, f := range a.fresh {
		if old := a.before.find(f.Name); old == nil || old.Type.Kind() == f.Type.Kind() {
			if r := a.create(f, old); r != nil {
				return a.rollBack(r)
			}
		}
	}
	begun := false
	for _, f := range a.fresh {
		old := a.before.find(f.Name)
		if old == nil || old.Type.Kind() != f.Type.Kind() {
			continue
		}
		if r := a.overwrite(f, old, &begun); r != nil {
			return a.rollBack(r)
		}
	}
	a.removeOld()
	for _, f := range a.fresh {
		if old := a.before.find(f.Name); old != nil && old.Type.Kind() != f.Type.Kind() {
			for i := range f.Metrics {
				a.applyOrSkip(f, i)
			}
		}
	}
	a.groups.hideRemoved(a.about, a.before, a.next)
	return nil
}

// create applies metrics that the table does not have.
func (a *tableUpdate) create(f, old *family) *Rejection {
	match := matchLabels(f, old)
	for i := range f.Metrics {
		if j := match.indexOf(i); j >= 0 && old.served(j) {
			continue
		}
		reason, there := a.apply(f, i)
		if reason == metric.OverLimit && a.removeOld() {
			reason, there = a.apply(f, i)
		}
		switch {
		case rejectsPush(reason):
			return a.rejection(f, reason)
		case there:
			a.created = append(a.created, place{f, i})
		}
	}
	return nil
}

// overwrite applies metrics that the table has. If the table has lost the very first of them, the
// push is rejected as if it were new. An overwritten value can't be restored, so a later loss
// leaves that series unserved.
func (a *tableUpdate) overwrite(f, old *family, begun *bool) *Rejection {
	match := matchLabels(f, old)
	for i := range f.Metrics {
		j := match.indexOf(i)
		if j < 0 || !old.served(j) {
			continue
		}
		if *begun {
			if !a.applyOrSkip(f, i) {
				a.remove(old, j)
			}
			continue
		}
		reason, there := a.apply(f, i)
		if rejectsPush(reason) {
			return a.rejection(f, reason)
		}
		if !there {
			a.remove(old, j)
		}
		*begun = true
	}
	return nil
}

// rejectsPush reports whether the reason rejects the whole push, not one series.
func rejectsPush(r metric.Reason) bool {
	return r == metric.OverLimit || r == metric.Identity || r == metric.Pending
}

// applyOrSkip applies a metric. If the metric is rejected for any reason, the push goes on without
// it.
func (a *tableUpdate) applyOrSkip(f *family, i int) (there bool) {
	reason, there := a.apply(f, i)
	if !there && rejectsPush(reason) {
		f.setUnserved(i)
		if reason == metric.Pending {
			reason = metric.Identity
		}
		a.outcome.reject(f.Name, reason)
	}
	return there
}

// apply applies a metric, and records the outcome unless the whole push is to be rejected.
func (a *tableUpdate) apply(f *family, i int) (reason metric.Reason, there bool) {
	reason = a.builder.build(&a.sample, a.about, f, i)
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
	case !rejectsPush(reason):
		f.setUnserved(i)
		a.outcome.reject(f.Name, reason)
	}
	return reason, false
}

// batch is the number of samples between two batch boundaries.
const batch = 256

func (f *family) setUnserved(i int) {
	if f.unserved == nil {
		f.unserved = make([]bool, len(f.Metrics))
		f.bytes += int64(len(f.Metrics))
	}
	f.unserved[i] = true
}

// rejection returns the rejection of a push, with a copy of the sample to explain it.
func (a *tableUpdate) rejection(f *family, r metric.Reason) *Rejection {
	s := a.sample
	about := *a.about
	s.Name, s.Object, s.Histogram = []byte(f.Name), &about, nil
	s.Fields = append([]metric.Label(nil), s.Fields...) // the strings belong to the family, which stays
	return &Rejection{Reason: r, Message: r.String(), Sample: &s}
}

// removeOld removes series from the table that the group does not have any more. It returns false
// if that is done already.
func (a *tableUpdate) removeOld() bool {
	if a.oldRemoved || a.before == nil {
		return false
	}
	a.oldRemoved = true
	removed := false
	for old, f := range a.before.replacedIn(a.next) {
		removed = a.groups.remove(a.about, old, f) || removed
	}
	return removed
}

// remove removes one series without a value to serve.
func (a *tableUpdate) remove(f *family, i int) {
	a.groups.table.Remove(*a.about, f.Name, []metric.Labels{a.builder.labelSet(a.about, f, i)})
}

// rollBack restores the table: it removes created series and adds removed ones again.
func (a *tableUpdate) rollBack(r *Rejection) *Rejection {
	a.push.Applier.Quiesce()
	for start := 0; start < len(a.created); {
		f, end := a.created[start].family, start
		var sets []metric.Labels
		for ; end < len(a.created) && a.created[end].family == f; end++ {
			sets = append(sets, a.builder.labelSet(a.about, f, a.created[end].index))
		}
		a.groups.table.Remove(*a.about, f.Name, sets)
		start = end
	}
	if !a.oldRemoved {
		return r
	}
	for _, old := range a.before.families {
		f := a.next.find(old.Name)
		if f == old {
			continue
		}
		match := matchLabels(old, f)
		for i := range old.Metrics {
			if f != nil && f.Type.Kind() == old.Type.Kind() && match.indexOf(i) >= 0 || !old.served(i) {
				continue
			}
			if a.builder.build(&a.sample, a.about, old, i) == metric.Applied {
				a.push.Applier.Apply(&a.sample)
			}
		}
	}
	return r
}

// remove removes the series of a family that another family lacks (nil: all), and reports whether
// there were any.
func (gs *Groups) remove(about *metric.Object, f, but *family) bool {
	match := matchLabels(f, but)
	var sets []metric.Labels
	var s sampleBuilder
	for i := range f.Metrics {
		if f.served(i) && match.indexOf(i) < 0 {
			sets = append(sets, s.labelSet(about, f, i))
		}
	}
	if len(sets) == 0 {
		return false
	}
	gs.table.Remove(*about, f.Name, sets)
	gs.removals.Add(1)
	return true
}

// labelMatch finds the metric of another family with equal labels.
type labelMatch struct {
	aligned int // the first metrics have equal labels in both
	others  map[string]int
	rows    *family
	room    []byte
}

// matchLabels compares families. One client mostly sends the same order, and label slices are
// shared.
func matchLabels(f, other *family) labelMatch {
	m := labelMatch{rows: f}
	if other == nil {
		return m
	}
	for m.aligned < min(len(f.Metrics), len(other.Metrics)) &&
		sameLabels(f.Metrics[m.aligned].Labels, other.Metrics[m.aligned].Labels) {
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

// indexOf is the index in the other family of the i-th metric, or -1.
func (m *labelMatch) indexOf(i int) int {
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
	if len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] {
		return true
	}
	return slices.Equal(a, b)
}
