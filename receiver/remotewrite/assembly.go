package remotewrite

import (
	"cmp"
	"math"
	"slices"
	"unsafe"
)

// A Prometheus distributes the series of one histogram over its shards, and splits requests at a
// number of samples. SenderState joins the parts of one moment from any requests. A moment is
// complete when it has all parts that earlier moments had. The first moment teaches which parts
// those are: it is complete when the next one begins.
const (
	maxMoments  = 16            // of one histogram; beyond it, the oldest is given up. Shards drift apart after an outage
	maxWaiting  = 3             // moments with their total; one more completes the oldest without its missing parts
	maxParts    = 1 << 13       // of one histogram: twice the buckets that are accepted
	giveUpAfter = 5 * 60 * 1000 // milliseconds without any total, after which parts are rejected
)

// assembly joins the parts of one classic histogram or summary of one sender.
type assembly struct {
	of        Type
	share     uint64
	seen      int64     // Unix milliseconds
	keys      []partKey // the parts that exist, as far as known, sorted
	learned   bool      // a moment is complete, so keys are known
	moments   []moment
	completed int64 // the newest completed moment
	lastTotal int64 // arrival of the last total, or of the first part; Unix milliseconds
}

// partKey identifies a part: a bucket's bound, a quantile, the count or the sum.
type partKey struct {
	role  role
	bound float64
}

func compareKeys(a, b partKey) int {
	return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.bound, b.bound))
}

func compareParts(a, b part) int { return compareKeys(a.key(), b.key()) }

// moment is the parts of one time that have arrived, sorted, without borrowed memory.
type moment struct {
	at    int64
	parts []part
	total bool // the number of observations is among them
}

func (p *part) key() partKey { return partKey{p.role, p.bound} }

// isTotal reports whether a part of a histogram or summary is the number of observations.
func (p *part) isTotal(t Type) bool {
	return t == SummaryType && p.role == countRole || p.role == bucketRole && math.IsInf(p.bound, 1)
}

// joinResult is the result of a join.
type joinResult struct {
	ready  []moment // completed moments, in the order of their times
	lost   int      // moments that were given up
	reject bool     // the parts can never be completed, or a limit is reached
}

// assemblyType returns the type of a histogram or summary that arrives in parts.
func (m *SenderState) assemblyType(key uint64) (Type, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.assemblies[key]
	if w == nil {
		return NoType, false
	}
	return w.of, true
}

// forget drops an assembly that has ended.
func (m *SenderState) forget(key uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked(key)
}

func (m *SenderState) forgetLocked(key uint64) {
	if w := m.assemblies[key]; w != nil {
		m.held.Add(w.share, -w.size())
		delete(m.assemblies, key)
	}
}

// The bytes of a part and of its key, and of an assembly with its place in the map.
const (
	partBytes     = int(unsafe.Sizeof(part{}))
	keyBytes      = int(unsafe.Sizeof(partKey{}))
	momentBytes   = int(unsafe.Sizeof(moment{}))
	assemblyBytes = 192
)

// size is the memory that an assembly takes.
func (w *assembly) size() int {
	n := assemblyBytes + cap(w.keys)*keyBytes + cap(w.moments)*momentBytes
	for i := range w.moments {
		n += cap(w.moments[i].parts) * partBytes
	}
	return n
}

// join adds sorted, distinct parts of one moment.
func (m *SenderState) join(key, share uint64, t Type, parts []part, now int64) (j joinResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked(now)
	w, before := m.assemblies[key], 0
	if w == nil {
		w = &assembly{of: t, share: share, lastTotal: now}
	} else {
		before = w.size()
	}
	// Slices grow to twice what they hold.
	more := assemblyBytes + 2*(len(parts)*(partBytes+keyBytes)+momentBytes)
	if len(w.keys)+len(parts) > maxParts && len(w.keys)+w.newKeys(parts) > maxParts || !m.mayHoldLocked(w.share, more) {
		return joinResult{reject: true}
	}
	m.assemblies[key] = w
	w.seen = now
	w.addParts(parts, &j)
	m.held.Add(w.share, w.size()-before)
	return j
}

// newKeys is how many parts are not known yet.
func (w *assembly) newKeys(parts []part) (n int) {
	for i := range parts {
		if _, there := slices.BinarySearchFunc(w.keys, parts[i].key(), compareKeys); !there {
			n++
		}
	}
	return n
}

// learn makes the keys of parts known.
func (w *assembly) learn(parts []part) {
	known := len(w.keys)
	for i := range parts {
		if _, there := slices.BinarySearchFunc(w.keys[:known], parts[i].key(), compareKeys); !there {
			w.keys = append(w.keys, parts[i].key())
		}
	}
	mergeSorted(w.keys, known, compareKeys)
}

// add adds parts, which replace those of their keys.
func (m *moment) add(parts []part, t Type) {
	known := len(m.parts)
	for _, p := range parts {
		p.message = nil
		m.total = m.total || p.isTotal(t)
		if at, again := slices.BinarySearchFunc(m.parts[:known], p, compareParts); again {
			m.parts[at] = p
		} else {
			m.parts = append(m.parts, p)
		}
	}
	mergeSorted(m.parts, known, compareParts)
}

// mergeSorted sorts elements of which the first n and the others are sorted. Each moves once, in blocks: requests
// with a single part each may not cost a sort of thousands.
func mergeSorted[E any](all []E, n int, compare func(a, b E) int) {
	others := slices.Clone(all[n:])
	for k, other := range slices.Backward(others) {
		at, _ := slices.BinarySearchFunc(all[:n], other, compare)
		copy(all[at+k+1:], all[at:n])
		all[at+k], n = other, at
	}
}

func (w *assembly) addParts(parts []part, j *joinResult) {
	at := parts[0].at
	w.learn(parts)
	if at <= w.completed { // completed without them; the next moment waits for them
		return
	}
	i, there := slices.BinarySearchFunc(w.moments, at, func(m moment, at int64) int { return cmp.Compare(m.at, at) })
	if !there {
		w.begin(i, at, j)
		i = slices.IndexFunc(w.moments, func(m moment) bool { return m.at == at })
		if i < 0 {
			return
		}
	}
	one := &w.moments[i]
	one.add(parts, w.of)
	if !one.total {
		j.reject = w.seen-w.lastTotal > giveUpAfter
		return
	}
	w.lastTotal = w.seen
	if w.learned && len(one.parts) == len(w.keys) {
		w.complete(i, j)
	}
}

// begin adds a moment. If too many moments with a total wait, the oldest of them is completed as it
// is, and its missing parts are no longer expected. If too many without a total wait, the oldest is
// given up.
func (w *assembly) begin(i int, at int64, j *joinResult) {
	w.moments = slices.Insert(w.moments, i, moment{at: at})
	if !w.learned && len(w.moments) > 1 {
		w.learned = true
		if w.moments[0].total {
			w.complete(0, j)
		}
	}
	w.endOldest(j)
	if len(w.moments) > maxMoments {
		w.moments = slices.Delete(w.moments, 0, 1)
		j.lost++
	}
}

// endOldest completes the oldest moment with a total if too many wait.
func (w *assembly) endOldest(j *joinResult) {
	first, totals := -1, 0
	for k := range w.moments {
		if w.moments[k].total {
			if totals++; first < 0 {
				first = k
			}
		}
	}
	if totals < maxWaiting {
		return
	}
	w.keys = w.keys[:0]
	for _, p := range w.moments[first].parts {
		w.keys = append(w.keys, p.key())
	}
	w.complete(first, j)
}

// complete passes a moment on. It supersedes earlier totals.
func (w *assembly) complete(i int, j *joinResult) {
	j.ready = append(j.ready, w.moments[i])
	w.completed = w.moments[i].at
	w.moments = slices.Delete(w.moments, 0, i+1)
}
