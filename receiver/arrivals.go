package receiver

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// arrivals knows the sources of samples, and which of them hold data that is not applied: data in
// the socket's buffer, and data that a goroutine has read. Its methods may be called by any
// goroutine.
type arrivals struct {
	watch
	busy    atomic.Int32 // sources whose turn is taken
	added   atomic.Int64 // number of sources so far
	mu      sync.Mutex
	sources map[int]source // by descriptor
}

// source is a socket whose data any goroutine can apply.
type source interface {
	// freshen reads the socket at least once, and applies what it holds. It stops at a time, if more
	// waits by then.
	freshen(until time.Time)
	// isBusy reports whether a goroutine has taken the source's turn.
	isBusy() bool
}

const (
	// mostFresh bounds the time that a read or a push spends on the data of all sources, beyond the
	// first read of each whose data is among the firstBytes. So a process that is stalled for as long
	// still reads each, unless they hold more than that: a flood.
	mostFresh  = 10 * time.Millisecond
	firstBytes = 512 << 10
	// firstRead is what the first read of a connection takes at most, about.
	firstRead = 16 << 10
	// mostRounds bounds how often it looks for connections that can be accepted.
	mostRounds = 8
)

// freshen applies the data that had arrived before the call. Without such data it costs one system
// call, whatever the number of sources.
func (a *arrivals) freshen() {
	// A goroutine takes its turn before it reads. So data that is not in a socket any more, and not
	// applied, is seen by the second look. A connection that was accepted is a source before that
	// turn ends: the third look sees it, and so do those below.
	added := a.added.Load()
	if !a.watch.some() && a.busy.Load() == 0 && a.added.Load() == added {
		return
	}
	until := time.Now().Add(mostFresh)
	for range mostRounds {
		added = a.added.Load()
		freshenAll(a.unapplied(true), until)
		if a.added.Load() == added {
			break
		}
	}
	freshenAll(a.unapplied(false), until)
}

// waiting is a source with unapplied data, and how much its socket holds.
type waiting struct {
	source
	bytes int
}

func freshenAll(all []waiting, until time.Time) {
	left := firstBytes
	for _, s := range all {
		now := time.Now()
		if left -= min(s.bytes, firstRead); left < 0 && !now.Before(until) {
			return
		}
		own := now.Add(freshenTime)
		if until.Before(own) {
			own = until
		}
		s.freshen(own)
	}
}

// unapplied returns the listeners with connections that wait, or all other sources with unapplied data. A source that
// holds less than another one is before it, so a flood does not keep it waiting.
func (a *arrivals) unapplied(listeners bool) (all []waiting) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fds := a.watch.ready()
	for fd, s := range a.sources {
		if s.isBusy() {
			fds = append(fds, fd)
		}
	}
	slices.Sort(fds)
	for _, fd := range slices.Compact(fds) {
		s := a.sources[fd]
		if _, listens := s.(*streams); s != nil && listens == listeners {
			all = append(all, waiting{s, a.watch.held(fd)})
		}
	}
	slices.SortStableFunc(all, func(one, other waiting) int { return cmp.Compare(one.bytes, other.bytes) })
	return all
}

func (a *arrivals) add(fd int, s source, datagrams bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sources == nil {
		a.sources = map[int]source{}
	}
	if a.sources[fd] != nil { // of a connection that was closed and not yet removed
		a.watch.remove(fd)
	}
	a.sources[fd] = s
	defer a.added.Add(1)
	return a.watch.add(fd, datagrams)
}

// remove removes a source. Its descriptor may be closed, and its number may be another source's.
func (a *arrivals) remove(fd int, s source) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sources[fd] != s {
		return
	}
	delete(a.sources, fd)
	a.watch.remove(fd)
}

// close ends watching: all sources have been removed.
func (a *arrivals) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watch.close()
}

// turn is held while a source is read and its data applied; not while a goroutine waits for data.
type turn struct {
	mu  sync.Mutex
	all *arrivals
}

func (t *turn) take() {
	t.mu.Lock()
	t.all.busy.Add(1)
}

func (t *turn) give() {
	t.all.busy.Add(-1)
	t.mu.Unlock()
}

func (t *turn) isBusy() bool {
	free := t.mu.TryLock()
	if free {
		t.mu.Unlock()
	}
	return !free
}
