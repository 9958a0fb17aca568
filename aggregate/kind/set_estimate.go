package kind

import (
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/aggregate/blob"
)

// Sets with more members than the largest table holds are counted by HyperLogLog (Flajolet et al.,
// 2007) with the improved estimator of Ertl (arXiv:1702.01284). With 2^12 registers, the standard
// error is 1.04/√4096 = 1.6 %.
const (
	hllBits      = 12
	hllRegisters = 1 << hllBits
	hllMaxRank   = 64 - hllBits + 1
)

// registers is a HyperLogLog without concurrent writers.
type registers [hllRegisters]byte

// register returns the register of a hash and the hash's rank in it.
func register(hash uint64) (index int, rank byte) {
	index = int(hash >> (64 - hllBits))
	rest := hash<<hllBits | 1<<(hllBits-1) // the guard bit bounds the rank
	return index, byte(bits.LeadingZeros64(rest)) + 1
}

func (r *registers) insert(hash uint64) {
	i, rank := register(hash)
	r[i] = max(r[i], rank)
}

func (r *registers) merge(other *registers) {
	for i, rank := range other {
		r[i] = max(r[i], rank)
	}
}

// estimate returns Ertl's estimate of the number of members. It is unbiased over the whole range of
// a window and needs no correction tables.
func (r *registers) estimate() float64 {
	var histogram [hllMaxRank + 2]int
	for _, rank := range r {
		histogram[min(int(rank), hllMaxRank)]++
	}
	const m = float64(hllRegisters)
	z := m * tau(1-float64(histogram[hllMaxRank])/m)
	for rank := hllMaxRank - 1; rank >= 1; rank-- {
		z = 0.5 * (z + float64(histogram[rank]))
	}
	z += m * sigma(float64(histogram[0])/m)
	return m * m / (2 * math.Ln2 * z)
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for before := math.NaN(); z != before; {
		x *= x
		before = z
		z += x * y
		y += y
	}
	return z
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := math.NaN(); z != before; {
		x = math.Sqrt(x)
		before = z
		y *= 0.5
		z -= (1 - x) * (1 - x) * y
	}
	return z / 3
}

// liveRegisters is a HyperLogLog for concurrent writers: four registers a word, raised by
// compare-and-swap. The roller swaps words with zero, so each rank is recorded in one tick only.
type liveRegisters [hllRegisters / 4]atomic.Uint32

func (l *liveRegisters) insert(hash uint64) {
	i, rank := register(hash)
	word, shift := &l[i/4], i%4*8
	for {
		old := word.Load()
		if byte(old>>shift) >= rank {
			return
		}
		if word.CompareAndSwap(old, old&^(0xff<<shift)|uint32(rank)<<shift) {
			return
		}
	}
}

// into merges the live registers into r, and reports whether there were any. With take, it also
// clears them.
func (l *liveRegisters) into(r *registers, take bool) (some bool) {
	for i := range l {
		word := l[i].Load()
		if word == 0 {
			continue
		}
		if take {
			word = l[i].Swap(0)
		}
		for k := range 4 {
			r[i*4+k] = max(r[i*4+k], byte(word>>(8*k)))
		}
		some = true
	}
	return some
}

// appendRegisters appends the nonzero registers as pairs of gap and rank.
func appendRegisters(dst []byte, r *registers) []byte {
	before := 0
	for i, rank := range r {
		if rank != 0 {
			dst = binary.AppendUvarint(dst, uint64(i-before))
			dst = append(dst, rank)
			before = i
		}
	}
	return dst
}

// readRegisters reads the output of appendRegisters. It returns false if src is invalid.
func readRegisters(src []byte, r *registers) bool {
	i := 0
	for len(src) > 0 {
		gap, n := binary.Uvarint(src)
		if n <= 0 || len(src) == n || gap >= hllRegisters {
			return false
		}
		if i += int(gap); i >= hllRegisters || src[n] > hllMaxRank {
			return false
		}
		r[i] = src[n]
		src = src[n+1:]
	}
	return true
}

// Replicas unite sets by the hashes of their members, so they hash with one seed. A table that has
// sets already adopts another seed while it runs. Each of its sets then begins anew. Its former
// part stays, and gets all later samples too, until everything in it is older than every window.
// So each part alone is complete: the former one for windows that begin before the adoption, the
// new one for later windows.
//
// A writer that found the body just before the adoption adds its member to the former part only.
// The new part lacks that member until its next sample.

// formerSeed is the seed before the current one.
type formerSeed struct {
	seed  uint64
	since uint32 // tick of the adoption of the current one
}

// formerSet is the part of a set with the former seed.
type formerSet struct {
	*set
	since uint32 // tick from which on the set has the current seed
}

// AdoptSeed makes all sets change to a seed at their next record. One goroutine at a time calls it. If the
// previous seed is as young, the seed before it stays the former one: its parts are complete.
func (e *Env) AdoptSeed(seed uint64, tick uint32) {
	former := e.SetSeed.Load()
	if f := e.former.Load(); f != nil && f.since >= e.oldestTick(tick) {
		former = f.seed
	}
	e.former.Store(&formerSeed{former, tick})
	e.SetSeed.Store(seed)
}

// newSetBody returns the body of a new set. While other sets have a former part, so has this one.
func (e *Env) newSetBody() *Body {
	body := &Body{Set: e.newSet(e.SetSeed.Load())}
	if f := e.former.Load(); f != nil && f.since >= e.oldestTick(e.Clock.Now().Tick) {
		body.former.Store(&formerSet{e.newSet(f.seed), f.since})
	}
	return body
}

func (e *Env) newSet(seed uint64) *set {
	s := NewSet(e.Spans)
	s.seed = seed
	return s
}

// setsLocked yields the set and, if there is one, its former part.
func (body *Body) setsLocked() iter.Seq[*set] {
	return func(yield func(*set) bool) {
		if yield(body.Set) {
			if former := body.former.Load(); former != nil {
				yield(former.set)
			}
		}
	}
}

// followSeedLocked makes a set change to the table's seed, and drops a former part that is older
// than every window.
func (e *Env) followSeedLocked(h Series, now uint32) {
	body, complete := h.body(), h.body().Set
	if former := body.former.Load(); former != nil {
		complete = former.set
		if former.since < e.oldestTick(now) {
			body.former.Store(nil)
			complete = body.Set
		}
	}
	if seed := e.SetSeed.Load(); body.Set.seed != seed {
		e.changeSeedLocked(h, seed, complete, now)
	}
}

// changeSeedLocked gives a set a new part with a seed.
func (e *Env) changeSeedLocked(h Series, seed uint64, former *set, since uint32) {
	before := h.body()
	body := &Body{Set: e.newSet(seed), Rewritten: true, share: before.share}
	if former != nil && former.seed == seed { // the table is back at it
		body.Set = former
	} else if former != nil {
		body.former.Store(&formerSet{former, since})
	}
	h.Bodies.replace(h.Place, body)
	e.Weigh(before, 0)
	setKind{}.Weigh(e, h)
}

// inherit adds the members of another set from a tick on.
func (s *set) inherit(from *set, since uint32, budget Budget) {
	from.Exact.Load().Each(func(hash uint64, tick uint32) {
		if tick >= since {
			s.Insert(hash, tick, budget)
		}
	})
}

// hasSeed is the bit above a saved number of members that announces the seed. The former part, if
// any, then follows the registers.
const hasSeed = 1 << 32

func (body *Body) appendSetLocked(dst []byte, e *Env, delta bool, since uint32) []byte {
	if !e.Replicated {
		return body.Set.appendLocked(dst, e.Spans, delta, since, 0)
	}
	dst = body.Set.appendLocked(dst, e.Spans, delta, since, hasSeed)
	if former := body.former.Load(); former != nil {
		dst = binary.AppendUvarint(dst, uint64(former.since))
		dst = former.appendLocked(dst, e.Spans, delta, since, hasSeed)
	}
	return dst
}

// set reads the output of appendSetLocked.
func (r *Restorer) set(d *blob.Decoder, h Series) {
	n, seed := readSetHead(d, r.SetSeed.Load())
	if d.Err != nil {
		return
	}
	before := h.body()
	if before.Set.seed != seed {
		r.changeSeedLocked(h, seed, nil, 0)
	}
	body := h.body()
	if body.Set.restore(d, r, n); !d.More() {
		return
	}
	since := r.CurrentTick(d.Uint32())
	n, seed = readSetHead(d, 0)
	former := body.former.Load()
	switch {
	case d.Err != nil || seed == body.Set.seed:
		d.Fail()
		return
	case before != body && before.Set.seed == seed:
		former = &formerSet{before.Set, since}
	case former == nil || former.seed != seed:
		former = &formerSet{r.newSet(seed), since}
	}
	former.since = max(former.since, since)
	former.restore(d, r, n)
	body.former.Store(former)
}

func readSetHead(d *blob.Decoder, seed uint64) (n uint32, _ uint64) {
	head := d.Uvarint()
	if head&hasSeed != 0 {
		seed = d.Uint64()
	}
	if head >= 2*hasSeed {
		d.Fail()
	}
	return uint32(head), seed
}
