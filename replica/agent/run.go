package agent

import (
	"slices"
	"time"
)

// run is what one server was sent. A frame belongs to the run of the server that was sent it first, and never to two: so no
// sample counts at two servers, and the marks of each server's table make its own run exact. A run whose server is away waits for
// it, with what that one has not acknowledged: half a second's worth is not on its disk at most, and the agent cannot know which.
//
// The Collector's lock guards all fields.
type run struct {
	name      string // of the server; empty: it has no replicas
	epoch     uint64 // of its table
	last      uint64 // number of the last frame
	published uint64 // number of the last frame that its replicas were told of
	frames    []*frame
	streams   int // that lead to the server: two for a moment at most
	// left is when the agent last stopped reporting to the server, or that last acknowledged a frame.
	left time.Time
	// lost are the shares whose samples were given up for memory since the last stream began: the run has no more of them.
	lost map[*share]bool
	// owes says that the server has not heard from the agent since a stream ended: after a restart it may wait for that.
	owes bool
}

// loseAfter is the time after which a server is given up that is away or refuses its run, if there
// is another one. A server forgets a run after an hour too.
const loseAfter = time.Hour

// enter returns the run of a server. main: the agent reports to that server from now on. A run is known by the epoch of the
// server's table. If the server has another epoch than before, the former table is lost: what only that one had goes to
// any server.
func (c *Collector) enter(name string, epoch uint64, main bool) *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found *run
	last := uint64(0)
	for _, r := range c.runs {
		last = max(last, r.last)
		switch {
		case r.epoch == epoch:
			found = r
		case r.name == name && r.streams == 0:
			c.releaseLocked(r, r.published)
		}
	}
	if found == nil {
		// No number comes twice, whatever a table was restored from.
		found = &run{epoch: epoch, last: last}
		c.runs = append(c.runs, found)
	}
	found.name, found.lost = name, nil
	found.streams++
	if main {
		c.current = found
	}
	return found
}

// leave notes the end of a stream of a run. main: the agent reported to that server. A stream for
// the rest alone gives the server no more time: one that refuses the rest ends such a stream again
// and again.
func (c *Collector) leave(r *run, main bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.streams--
	if main {
		r.left, r.owes = time.Now(), true
	}
	slices.SortStableFunc(c.runs, func(a, b *run) int { return a.left.Compare(b.left) })
}

// next returns the frames of a run after a number. main: those that no server was sent become part of it.
func (c *Collector) next(r *run, after uint64, main bool) []*frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	if main {
		for _, f := range c.frames {
			r.last++
			f.number = r.last
		}
		r.frames = append(r.frames, c.frames...)
		c.frames = nil
	}
	for i, f := range r.frames {
		if f.number > after {
			return slices.Clone(r.frames[i:])
		}
	}
	return nil
}

// greet adds an empty frame to a run, which says that all before it has been told.
func (c *Collector) greet(r *run, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.last++
	r.frames = append(r.frames, &frame{number: r.last, began: now, made: now})
}

// forget drops the frames of a run up to a number, which are on the server's disk. final: that applied no later ones, and
// ends; they go to any server.
func (c *Collector) forget(r *run, number, published uint64, final bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.published = max(r.published, published)
	if len(r.frames) > 0 && r.frames[0].number <= number {
		r.left = time.Now()
	}
	c.forgetLocked(r, number)
	if final {
		c.releaseLocked(r, number)
	}
}

func (c *Collector) forgetLocked(r *run, number uint64) {
	for len(r.frames) > 0 && r.frames[0].number <= number {
		f := r.frames[0]
		r.frames[0], r.frames = nil, r.frames[1:]
		c.acknowledged.Add(c.endLocked(f))
	}
}

// endLocked frees what a frame holds, and returns how many samples it had. A stream may still have the frame.
func (c *Collector) endLocked(f *frame) (samples uint64) {
	for _, changed := range f.changes {
		c.holdLocked(changed.of, -changed.bytes())
		changed.uses--
	}
	c.held -= f.samples
	return f.samples
}

// releaseLocked takes the frames of a run after a number out of it. They go to a server as if none had been sent them.
func (c *Collector) releaseLocked(r *run, after uint64) {
	c.forgetLocked(r, after)
	for i, f := range r.frames {
		again := *f
		again.number = 0
		r.frames[i] = &again
	}
	c.frames = append(r.frames, c.frames...)
	r.frames = nil
	wake(c.dirty)
}

// owed reports whether a server is away that was sent something which it has not acknowledged, or that has not heard from the agent
// since. It gives up servers that have been away, or have acknowledged nothing, for loseAfter.
func (c *Collector) owed(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	some := false
	for _, r := range c.runs {
		if r == c.current {
			continue
		}
		if r.streams == 0 && now.Sub(r.left) > loseAfter {
			c.loseLocked(r, nil)
			r.owes = false
		}
		some = some || r.owes || r.samplesLocked() > 0
	}
	return some
}

// waits reports whether a server is to hear of its run.
func (c *Collector) waits(r *run) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return r != c.current && (r.owes || r.samplesLocked() > 0)
}

// told reports whether a server has acknowledged all samples of its run. Then it is owed nothing.
func (c *Collector) told(r *run) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.owes = r.owes && r.samplesLocked() > 0
	return r.samplesLocked() == 0
}

func (r *run) samplesLocked() (n uint64) {
	for _, f := range r.frames {
		n += f.samples
	}
	return n
}

// loseLocked gives up the samples of a run, or only those of a share: those that were published count at other replicas. The frames
// stay, so that their numbers go on if the server comes back.
func (c *Collector) loseLocked(r *run, of *share) {
	c.forgetLocked(r, r.published)
	for i, f := range r.frames {
		kept, lost := *f, frame{}
		kept.changes = nil
		for _, changed := range f.changes {
			if of != nil && changed.of != of {
				kept.changes = append(kept.changes, changed)
				continue
			}
			lost.changes, lost.samples = append(lost.changes, changed), lost.samples+changed.samples
		}
		if kept.samples -= lost.samples; len(kept.changes) == 0 {
			kept.began = f.made
		}
		c.lost.Add(c.endLocked(&lost))
		r.frames[i] = &kept
	}
}

// loseOldestLocked gives up, for memory, the samples that a share has in the run whose server has been away for the longest time. It
// returns false if there are none: no share's samples make room for another one.
func (c *Collector) loseOldestLocked(of *share) bool {
	for _, r := range c.runs {
		if r == c.current || r.streams > 0 || r.lost[of] {
			continue
		}
		if r.lost == nil {
			r.lost = map[*share]bool{}
		}
		r.lost[of] = true
		before := of.bytes
		if c.loseLocked(r, of); of.bytes < before {
			return true
		}
	}
	return false
}
