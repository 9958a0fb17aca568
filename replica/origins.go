package replica

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// maxOrigins bounds the epochs that are followed.
const maxOrigins = 64

// originKey identifies an origin's epoch.
type originKey struct {
	name  string
	epoch uint64
}

// origins are the followers, by epoch. An origin that lost its table has a follower for its new
// epoch, and one that keeps what the former epoch counted.
type origins struct {
	r *Replica

	mu      sync.Mutex // guards all below but running, and which shadow each follower shows
	all     map[originKey]*follower
	stopped bool
	first   time.Time // when the first follower was made
	// ended are the epochs that were forgotten here, and when they were heard. Another replica may still relay them.
	ended   map[originKey]time.Time
	running sync.WaitGroup
}

func (o *origins) init(r *Replica) {
	o.r, o.all, o.ended = r, map[originKey]*follower{}, map[originKey]time.Time{}
}

// deliver passes a message to the follower of its epoch. A heartbeat makes a new follower.
func (o *origins) deliver(h *header, piece []byte) {
	f, forgotten := o.of(h)
	if forgotten != nil {
		forgotten.close()
	}
	if f == nil {
		return
	}
	f.received.Add(uint64(len(piece)))
	o.hand(f, parcel{header: *h, piece: slices.Clone(piece)})
}

// hand gives a message to a follower.
func (o *origins) hand(f *follower, p parcel) {
	if o.r.inline {
		f.handle(&p, o.r.now())
		return
	}
	if !f.inbox.put(p) {
		o.r.reject(reasonFlood, p.name, "messages arrive faster than they can be applied; whole blocks will be asked for")
	}
}

// of returns the follower of a message's epoch, or nil; and the follower that had to make room for
// a new one, which the caller closes.
func (o *origins) of(h *header) (f, forgotten *follower) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := originKey{h.name, h.epoch}
	if f = o.all[key]; f != nil || h.kind != typeBeat || o.stopped {
		return f, nil
	}
	if len(o.all) >= maxOrigins {
		if forgotten = o.makeRoomLocked(h.name); forgotten == nil {
			o.r.reject(reasonFlood, h.name, tooManyOrigins)
			return nil, nil
		}
	}
	if o.first.IsZero() {
		o.first = o.r.now()
	}
	f = newFollower(o.r, key)
	o.addLocked(f)
	delete(o.ended, key)
	return f, forgotten
}

// succeed notes that a process has another epoch than before.
func (o *origins) succeed(key originKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.all {
		if f.key.name == key.name && f.key != key {
			f.succeeded.Store(true)
		}
	}
}

// isFormer reports whether the origin has left an epoch behind: another one of its name was heard since.
func (o *origins) isFormer(of *follower) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.all {
		if f.key.name == of.key.name && f != of && f.heard.Load() > of.heard.Load() {
			return true
		}
	}
	return of.key.name == o.r.me.name
}

const tooManyOrigins = "there are too many origins"

func (o *origins) addLocked(f *follower) {
	o.all[f.key] = f
	if !o.r.inline {
		o.running.Go(f.run)
	}
}

// find returns the follower of an epoch, or nil.
func (o *origins) find(key originKey) *follower {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[key]
}

// blocks is the number of blocks of all shadows.
func (o *origins) blocks() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.all {
		n += int(f.size.Load())
	}
	return n
}

// makeRoomLocked removes the follower of the epoch that was silent for the longest time. A configured
// peer takes the place of one that is not configured, even of one that is heard.
func (o *origins) makeRoomLocked(newcomer string) *follower {
	var oldest *follower
	now, isPeer := o.r.now(), o.r.cfg.isPeer(newcomer)
	for _, f := range o.all {
		yields := f.silence(now) > runsAfter || isPeer && !o.r.cfg.isPeer(f.key.name)
		if yields && (oldest == nil || f.heard.Load() < oldest.heard.Load()) {
			oldest = f
		}
	}
	if oldest != nil {
		o.r.note("too many origins; the one that was silent for the longest time is forgotten", oldest.key.name)
		delete(o.all, oldest.key)
		o.showLocked()
	}
	return oldest
}

// forget removes a follower. Its shadow is ended when readers no longer see it.
func (o *origins) forget(f *follower) {
	o.mu.Lock()
	known := o.all[f.key] == f
	if known {
		delete(o.all, f.key)
		o.showLocked()
	}
	o.mu.Unlock()
	if known {
		f.close()
	}
}

// maxEnded bounds the forgotten epochs that are remembered.
const maxEnded = 4 * maxOrigins

// end forgets an origin that has nothing left to answer with. Nobody relays to here again what it had.
func (o *origins) end(f *follower) {
	o.mu.Lock()
	if len(o.ended) >= maxEnded {
		clear(o.ended)
	}
	o.ended[f.key] = f.advanced
	o.mu.Unlock()
	o.forget(f)
}

// show makes a follower's shadow visible in place of the one that it showed before, which it
// returns.
func (o *origins) show(f *follower, shadow Shadow) (before Shadow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, f.shown = f.shown, shadow
	if o.all[f.key] == f {
		o.showLocked()
	}
	return before
}

func (o *origins) showLocked() {
	var shown []Shadow
	rank := 0
	for _, f := range o.sortedLocked() {
		if f.shown == nil {
			continue
		}
		shown = append(shown, f.shown)
		if f.key.name < o.r.me.name {
			rank = len(shown)
		}
	}
	o.r.parts.SetShadows(shown, rank)
}

// sorted returns all followers, by name and epoch.
func (o *origins) sorted() []*follower {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sortedLocked()
}

func (o *origins) sortedLocked() []*follower {
	return slices.SortedFunc(maps.Values(o.all), func(a, b *follower) int {
		return cmp.Or(cmp.Compare(a.key.name, b.key.name), cmp.Compare(a.key.epoch, b.key.epoch))
	})
}

// live returns the followers of origins that are heard.
func (o *origins) live(now time.Time) []*follower {
	return slices.DeleteFunc(o.sorted(), func(f *follower) bool { return !f.live(now) })
}

// liveNames are the names of the live origins.
func (o *origins) liveNames(now time.Time) (names []string) {
	for _, f := range o.live(now) {
		names = append(names, f.key.name)
	}
	return names
}

// stop ends all goroutines. The shadows stay, because answers may still be under way.
func (o *origins) stop() {
	o.mu.Lock()
	o.stopped = true
	o.mu.Unlock()
	for _, f := range o.sorted() {
		f.close()
	}
	o.running.Wait()
}
