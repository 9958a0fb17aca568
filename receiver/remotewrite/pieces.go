package remotewrite

import (
	"cmp"
	"math"
	"slices"
)

// A Prometheus spreads the series of one histogram over its shards, and cuts requests at a number of samples. Memory puts the parts of one
// moment together, whichever requests brought them. A moment is whole when it has all parts that moments before it had; which
// those are is learned from the first one, which is whole when the next begins.

const (
	maxMoments = 16            // of one histogram under way; one more gives the oldest up. Shards run apart after an outage
	maxWaiting = 3             // of them with their total; one more ends the oldest, without the parts that it lacks
	maxPieces  = 1 << 20       // of all histograms of all senders
	hopeless   = 5 * 60 * 1000 // milliseconds without any total, after which parts are refused
)

// whole is one classic histogram or summary of one sender whose parts do not come in one request.
type whole struct {
	of      Type
	seen    int64  // Unix milliseconds
	slots   []slot // the parts that there are, as far as is known, in order
	learned bool   // a moment is over, so slots are known
	moments []instant
	done    int64 // the newest moment that was handed on
	total   int64 // when the last total came, or else the first part; Unix milliseconds
}

// slot is which part: a bucket's bound, a quantile, the count or the sum.
type slot struct {
	role  role
	bound float64
}

func compareSlots(a, b slot) int {
	return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.bound, b.bound))
}

// instant is the parts of one moment that came so far, in order, without what they borrowed.
type instant struct {
	at    int64
	parts []part
}

func (p *part) slot() slot { return slot{p.role, p.bound} }

// hasTotal reports whether it is known how many observations there were.
func (m *instant) hasTotal(of Type) bool {
	return slices.ContainsFunc(m.parts, func(p part) bool {
		return of == SummaryType && p.role == countRole || p.role == bucketRole && math.IsInf(p.bound, 1)
	})
}

// joined is what became of parts.
type joined struct {
	ready  []instant // to be handed on, in the order of their times
	lost   int       // moments that came to nothing
	refuse bool      // the parts can never become a whole, or there is no room
}

// knows returns the type of a whole that comes in pieces.
func (m *SenderState) knows(key uint64) (Type, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.wholes[key]
	if w == nil {
		return NoType, false
	}
	return w.of, true
}

// forget lets go of a whole that has ended.
func (m *SenderState) forget(key uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked(key)
}

func (m *SenderState) forgetLocked(key uint64) {
	if w := m.wholes[key]; w != nil {
		m.pieces -= w.size()
		delete(m.wholes, key)
	}
}

func (w *whole) size() int {
	n := len(w.slots) + 1
	for i := range w.moments {
		n += len(w.moments[i].parts)
	}
	return n
}

// join takes sorted parts of one moment, each slot once.
func (m *SenderState) join(key uint64, of Type, parts []part, now int64) (j joined) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked(now)
	w := m.wholes[key]
	if w == nil {
		w = &whole{of: of, total: now}
	}
	if m.pieces+2*len(parts) > maxPieces {
		return joined{refuse: true}
	}
	m.pieces -= m.sizeOf(key)
	m.wholes[key] = w
	w.seen = now
	w.take(parts, &j)
	m.pieces += w.size()
	return j
}

func (m *SenderState) sizeOf(key uint64) int {
	if w := m.wholes[key]; w != nil {
		return w.size()
	}
	return 0
}

func (w *whole) take(parts []part, j *joined) {
	at := parts[0].at
	for _, p := range parts {
		if i, there := slices.BinarySearchFunc(w.slots, p.slot(), compareSlots); !there {
			w.slots = slices.Insert(w.slots, i, p.slot())
		}
	}
	if at <= w.done { // handed on without them; the next one waits for them
		return
	}
	i, there := slices.BinarySearchFunc(w.moments, at, func(m instant, at int64) int { return cmp.Compare(m.at, at) })
	if !there {
		w.begin(i, at, j)
		i = slices.IndexFunc(w.moments, func(m instant) bool { return m.at == at })
		if i < 0 {
			return
		}
	}
	one := &w.moments[i]
	for _, p := range parts {
		p.message = nil
		k, again := slices.BinarySearchFunc(one.parts, p, func(a, b part) int { return compareSlots(a.slot(), b.slot()) })
		if again {
			one.parts[k] = p
		} else {
			one.parts = slices.Insert(one.parts, k, p)
		}
	}
	if !one.hasTotal(w.of) {
		j.refuse = w.seen-w.total > hopeless
		return
	}
	w.total = w.seen
	if w.learned && len(one.parts) == len(w.slots) {
		w.handOn(i, j)
	}
}

// begin adds a moment. One too many with a total ends the oldest of them: it is handed on as it is, and what it does not have is
// not waited for any more. One too many without is given up.
func (w *whole) begin(i int, at int64, j *joined) {
	w.moments = slices.Insert(w.moments, i, instant{at: at})
	if !w.learned && len(w.moments) > 1 {
		w.learned = true
		if w.moments[0].hasTotal(w.of) {
			w.handOn(0, j)
		}
	}
	w.endOldest(j)
	if len(w.moments) > maxMoments {
		w.moments = slices.Delete(w.moments, 0, 1)
		j.lost++
	}
}

// endOldest hands the oldest moment with a total on if too many wait with theirs.
func (w *whole) endOldest(j *joined) {
	first, totals := -1, 0
	for k := range w.moments {
		if w.moments[k].hasTotal(w.of) {
			if totals++; first < 0 {
				first = k
			}
		}
	}
	if totals < maxWaiting {
		return
	}
	w.slots = w.slots[:0]
	for _, p := range w.moments[first].parts {
		w.slots = append(w.slots, p.slot())
	}
	w.handOn(first, j)
}

// handOn hands a moment on. Totals before it say nothing more.
func (w *whole) handOn(i int, j *joined) {
	j.ready = append(j.ready, w.moments[i])
	w.done = w.moments[i].at
	w.moments = slices.Delete(w.moments, 0, i+1)
}
