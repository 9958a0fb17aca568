package aggregate

import (
	"cmp"
	"runtime"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// mergedRead computes the values of one answer from several tables. The embedded evaluation reads
// from one of them at a time; its roll-up spans all.
type mergedRead struct {
	sources []source
	own     int // index of the own table
	at      int // index of the table that the evaluation reads from, or noSource
	visited int

	parts []part // of the current name
	same  []part // of the current object
	twins []twin // of the current object, selected
	rest  []twin // of twins: not returned yet
	room  [1]part

	evaluation
}

const noSource = -1

// part is an object's entry at one origin.
type part struct {
	source int
	index.Found
}

// twin is a series at one origin.
type twin struct {
	source int
	lookup.Ref
	labels string // packed
	seen   int64  // date of the newest sample, in Unix nanoseconds
}

func newMergedRead(sources []source) *mergedRead {
	r := &mergedRead{sources: sources, own: ownSource(sources), at: noSource}
	r.same = r.room[:0] // enough for one origin
	return r
}

// ownSource returns the index of the own table.
func ownSource(all []source) int {
	return slices.IndexFunc(all, func(s source) bool { return s.peer == nil })
}

// plan finds the entries of a query at all origins, and determines the kinds, the stat and the
// window to read.
func (m *Merged) plan(sources []source, q *metric.Query, key index.Key) (*mergedRead, error) {
	r := newMergedRead(sources)
	r.find(q, key)
	if !r.living() && q.Resource == "" && q.Namespace != "" {
		r.release()
		key.Namespace = ""
		r.find(q, key)
		r.living()
	}
	err := m.own.checkWindow(q)
	if err == nil && r.empty() {
		err = absent(r.tables(), q)
	}
	if err == nil {
		err = r.evaluate(m.own, q, key)
	}
	if err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// evaluate starts the evaluation of a query whose entries were found.
func (r *mergedRead) evaluate(own *Table, q *metric.Query, key index.Key) error {
	k, takes := r.chooseKinds(own, q, key)
	return r.evaluateKind(own, q, k, takes)
}

// evaluateKind starts the evaluation of series of given kinds.
func (r *mergedRead) evaluateKind(own *Table, q *metric.Query, k metric.Kind, takes kindSet) error {
	var err error
	if r.evaluation, err = own.evaluationOf(q, k, r.sources[r.own].now); err != nil {
		return err
	}
	r.takes, r.at = takes, r.own
	r.Course = &r.sources[r.own].course
	for i := range r.sources {
		s := &r.sources[i]
		s.view = s.table.viewOf(r.View.Span.Window, s.now)
		if tick := s.table.Clock.Tick; s.course.Standing {
			s.moved = s.table.viewOf(r.View.Span.Window, s.now.After(s.course.Silence(tick), tick))
		}
	}
	return nil
}

// find finds the entries of a query at each origin.
func (r *mergedRead) find(q *metric.Query, key index.Key) {
	for i := range r.sources {
		s := &r.sources[i]
		scope := s.table.index.ScopeOf(key, q)
		s.buffer = index.BufferFor(scope.MaxEntries)
		s.found, s.seen = s.table.index.Find(key, q, scope, s.buffer), 0
	}
}

// living is Table.living for each origin. It reports whether any series lives.
func (r *mergedRead) living() bool {
	for i := range r.sources {
		s := &r.sources[i]
		s.found = s.table.living(s.found, s.now, s.hidden)
	}
	return !r.empty()
}

func (r *mergedRead) empty() bool {
	return !slices.ContainsFunc(r.sources, func(s source) bool { return len(s.found) > 0 })
}

// mostFound is the largest number of entries of an origin.
func (r *mergedRead) mostFound() (n int) {
	for i := range r.sources {
		n = max(n, len(r.sources[i].found))
	}
	return n
}

func (r *mergedRead) tables() (all []*Table) {
	for i := range r.sources {
		all = append(all, r.sources[i].table)
	}
	return all
}

// release returns the buffers of the entries.
func (r *mergedRead) release() {
	for i := range r.sources {
		if s := &r.sources[i]; s.buffer != nil {
			s.buffer.Release()
			s.buffer, s.found = nil, nil
		}
	}
}

// end returns scratch space.
func (r *mergedRead) end() {
	r.End()
	r.release()
}

// failure is the error of an answer; nil if it has points.
func (r *mergedRead) failure(q *metric.Query, points []metric.Point, matched bool) error {
	if err := r.QueryError(q); err != nil {
		return err
	}
	if len(points) == 0 {
		return nothing(r.tables(), q, &r.evaluation, matched)
	}
	return nil
}

// use makes the evaluation read from a table.
func (r *mergedRead) use(source int) {
	if r.at == source {
		return
	}
	s := &r.sources[source]
	r.at, r.table, r.now, r.hidden = source, s.table, s.now, s.hidden
	r.Rank = source
	r.SetTable(&s.table.Env, s.view, s.now, s.offset)
	r.Course = &s.course
}

// readFrom makes the evaluation read from a source for the value of the present object. If that origin is
// cut off, the answer is no newer than what is known of it.
func (r *mergedRead) readFrom(source int) {
	r.use(source)
	s := &r.sources[source]
	if !s.course.CutOff {
		return
	}
	if date := s.now.Date(); r.asOf.IsZero() || date.Before(r.asOf) {
		r.asOf = date
	}
}

// beginMerged starts the next object.
func (r *mergedRead) beginMerged(k metric.Kind) {
	r.Kind = k
	r.use(r.own)
	r.begin()
}

// next returns the entries of the next object in the order of names, one from each origin that has
// it; none at the end. The result is valid until the next call.
func (r *mergedRead) next() []part {
	if len(r.sources) == 1 {
		return r.nextOfOne(&r.sources[0])
	}
	if len(r.parts) == 0 {
		r.nextName()
	}
	if len(r.parts) == 0 {
		return nil
	}
	uid, rest := r.parts[0].Entry.UID, r.parts[:0]
	r.same = r.same[:0]
	for _, p := range r.parts {
		if p.Entry.UID == uid {
			r.same = append(r.same, p)
		} else {
			rest = append(rest, p)
		}
	}
	r.parts = rest
	return r.same
}

// nextOfOne is next for one origin, which has no entry twice.
func (r *mergedRead) nextOfOne(s *source) []part {
	if len(s.found) == 0 {
		return nil
	}
	r.same = append(r.same[:0], part{0, s.found[0]})
	r.visit(s)
	return r.same
}

// nextName takes the entries of the first name among those not visited.
func (r *mergedRead) nextName() {
	first := -1
	for i := range r.sources {
		if found := r.sources[i].found; len(found) > 0 &&
			(first < 0 || found[0].Entry.Name < r.sources[first].found[0].Entry.Name) {
			first = i
		}
	}
	r.parts = r.parts[:0]
	if first < 0 {
		return
	}
	name := r.sources[first].found[0].Entry.Name
	for i := range r.sources {
		s := &r.sources[i]
		for len(s.found) > 0 && s.found[0].Entry.Name == name {
			r.parts = append(r.parts, part{i, s.found[0]})
			r.visit(s)
		}
	}
}

// visit steps over the first entry of a source.
func (r *mergedRead) visit(s *source) {
	if s.seen%perTouch == 0 {
		r.touchAt(s)
	}
	s.found, s.seen = s.found[1:], s.seen+1
	if r.visited++; r.visited%index.EntriesPerHold == 0 {
		runtime.Gosched() // lets other goroutines run during a large answer
	}
}

// touchAt is touch for the next entries of a source.
func (r *mergedRead) touchAt(s *source) {
	was := r.table
	r.table = s.table
	r.touch(s.found[:min(perTouch, len(s.found))])
	r.table = was
}

// ofKind drops entries of other kinds.
func ofKind(parts []part, k metric.Kind) []part {
	return slices.DeleteFunc(parts, func(p part) bool { return p.Entry.Kind != k })
}

// addParts adds the series of an object to the roll-up.
func (r *mergedRead) addParts(parts []part) {
	r.eachSeries(parts, func() bool { return true })
}

// eachSeries adds each series of an object to the roll-up, as one if several origins have it, and then calls
// added, until that returns false.
func (r *mergedRead) eachSeries(parts []part, added func() bool) {
	if len(parts) == 1 {
		for _, s := range parts[0].Series {
			r.readFrom(parts[0].source)
			if r.add(s); !added() {
				return
			}
		}
		return
	}
	r.gather(parts)
	for twins := r.nextTwins(); len(twins) > 0; twins = r.nextTwins() {
		if r.addTwins(twins, parts[0].Entry); !added() {
			return
		}
	}
}

// objects appends the value of each object, and reports whether any series is live and matches.
func (r *mergedRead) objects(points []metric.Point) (_ []metric.Point, matched bool) {
	for parts := r.next(); len(parts) > 0; parts = r.next() {
		k := r.kindOf(parts)
		if !r.takes.has(k) {
			continue
		}
		r.beginMerged(k)
		r.addParts(ofKind(parts, k))
		matched = matched || r.Series > 0
		r.use(r.own)
		if p, ok := r.point(); ok {
			p.Object = parts[0].Entry.Object()
			points = append(points, p)
		}
	}
	return points, matched
}

// external appends the values of an external metric, and reports whether any of its series is live
// and matches. Readers add up the values of label sets: if one is unknown, there are none.
func (r *mergedRead) external(points []metric.Point, parts []part) (_ []metric.Point, matched bool) {
	before, partial := len(points), false
	finish := func() {
		matched, partial = matched || r.Series > 0, partial || r.Partial()
		r.use(r.own)
		points = r.appendPoint(points)
	}
	r.beginMerged(r.Kind)
	r.eachSeries(parts, func() bool {
		if r.Stat.Additive() {
			finish()
			r.beginMerged(r.Kind)
		}
		return true
	})
	if !r.Stat.Additive() {
		finish()
	}
	if partial {
		return points[:before], matched
	}
	r.joinSpans(points)
	return points, matched
}

// fewTwins is the number of series of an object up to which comparing all labels is cheaper than
// sorting.
const fewTwins = 8

// gather selects the series of an object: those that live and match.
func (r *mergedRead) gather(parts []part) {
	r.twins = r.twins[:0]
	for _, p := range parts {
		r.use(p.source)
		for _, s := range p.Series {
			r.appendTwin(s)
		}
	}
	if len(r.twins) > fewTwins {
		slices.SortStableFunc(r.twins, func(a, b twin) int { return strings.Compare(a.labels, b.labels) })
	}
	r.rest = r.twins
}

// nextTwins returns the next gathered series of equal labels, one from each origin that has it; none
// at the end.
func (r *mergedRead) nextTwins() []twin {
	if len(r.rest) == 0 {
		return nil
	}
	n := joinTwins(r.rest, len(r.twins) > fewTwins)
	same := r.rest[:n]
	r.rest = r.rest[n:]
	return same
}

// joinTwins moves the twins of the first series behind it and returns their number.
func joinTwins(all []twin, sorted bool) int {
	n := 1
	for i := 1; i < len(all); i++ {
		if all[i].labels == all[0].labels {
			all[n], all[i] = all[i], all[n]
			n++
		} else if sorted {
			break
		}
	}
	return n
}

// appendTwin appends a series of the table in use, if it lives and matches.
func (r *mergedRead) appendTwin(s lookup.Ref) {
	b, place := r.table.blocks.of(s.Number)
	b.history.Lock()
	defer b.history.Unlock()
	if !r.selectsLocked(s, b, place) {
		return
	}
	seen := r.now.Date()
	if !b.page.dirty.Has(place) {
		seen = r.now.DateOf(b.page.cells[place].Seen.Load())
	}
	r.twins = append(r.twins, twin{r.at, s, b.series[place].packed(), seen.UnixNano()})
}

// addTwins adds a series that several origins may have, of an entry of one of them.
func (r *mergedRead) addTwins(twins []twin, e *index.Entry) {
	if len(twins) == 1 {
		r.readFrom(twins[0].source)
		r.addSelected(twins[0].Ref)
		return
	}
	slices.SortStableFunc(twins, func(a, b twin) int { return cmp.Compare(a.seen, b.seen) })
	r.BeginTwins()
	series := r.Series
	newest := twins[len(twins)-1].seen
	for _, t := range twins {
		r.readFrom(t.source)
		// An origin that is down stands still. If another one has a later sample of the series, the sender has moved
		// there, and the window of what it pushed before goes on.
		if s := &r.sources[t.source]; s.course.Standing && newest > s.now.Date().UnixNano() {
			r.View, r.at = s.moved, noSource
		}
		b, place := r.table.blocks.of(t.Number)
		b.history.Lock()
		r.addTwinLocked(t, b, place, r.Series == series)
		b.history.Unlock()
	}
	r.use(r.own)
	if r.Series > series {
		r.EndTwins()
		r.warnOfTwins(e)
	}
}

// addTwinLocked adds a series of one origin, if it still lives. The first one counts the series.
func (r *mergedRead) addTwinLocked(t twin, b *block, place uint32, first bool) {
	if b.page.cells[place].State.Load() != t.State {
		return
	}
	if first {
		r.countSeries(b.series[place].labels())
	}
	r.recordLocked(b, place)
	r.noteStartLocked(b, place)
	r.ReadTwinLocked(b.handle(place), &r.sources[t.source].course)
}

// warnOfTwins warns of a counter that is pushed too slowly for the window.
func (r *mergedRead) warnOfTwins(e *index.Entry) {
	if r.Kind != metric.Counter || r.Stat != metric.Rate {
		return
	}
	r.slow = slowPush{}
	r.checkPace(e)
	if r.slow.entry != nil {
		r.pace.warn(&r.evaluation)
	}
}
