package fair

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Turns are places at which work waits for a processor. Those who wait take turns, one for each share: however much work
// one brings, it delays that of another one by a turn. Any goroutine may call the methods.
type Turns[K comparable] struct {
	each int // places that a share may have

	mu      sync.Mutex // guards the rest
	free    int
	taken   map[K]int
	order   []K // shares that wait, in the order of their turns
	waiting map[K][]chan struct{}
}

// NewTurns makes places, of which a share may have so many at once. With fewer than all, work that takes long leaves places
// to others.
func NewTurns[K comparable](places, each int) *Turns[K] {
	return &Turns[K]{each: each, free: places, taken: map[K]int{}, waiting: map[K][]chan struct{}{}}
}

// Await waits for a place, until Give. If the context ends first, the caller leaves the line, and gets its error.
func (t *Turns[K]) Await(ctx context.Context, share K) error {
	if turn := t.Queue(share); turn != nil {
		return t.await(ctx, share, turn)
	}
	return nil
}

// AwaitFor is Await for some time at most, after which the error is context.DeadlineExceeded.
func (t *Turns[K]) AwaitFor(ctx context.Context, most time.Duration, share K) error {
	turn := t.Queue(share)
	if turn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return t.await(ctx, share, turn)
}

func (t *Turns[K]) await(ctx context.Context, share K, turn chan struct{}) error {
	select {
	case <-turn:
	case <-ctx.Done():
		if t.Leave(share, turn) {
			return ctx.Err()
		}
	}
	return nil
}

// Leave ends a wait in the line, whose turn Queue returned. False: it has a place already.
func (t *Turns[K]) Leave(share K, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := slices.Index(t.waiting[share], turn)
	if place < 0 {
		return false
	}
	t.waiting[share] = slices.Delete(t.waiting[share], place, place+1)
	if len(t.waiting[share]) == 0 {
		delete(t.waiting, share)
		place = slices.Index(t.order, share)
		t.order = slices.Delete(t.order, place, place+1)
	}
	return true
}

// Queue takes a place, and returns nil, or else a channel that is closed once the caller has one.
func (t *Turns[K]) Queue(share K) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free > 0 && t.taken[share] < t.each { // then no one waits who may have it
		t.free--
		t.taken[share]++
		return nil
	}
	turn := make(chan struct{})
	if len(t.waiting[share]) == 0 {
		t.order = append(t.order, share)
	}
	t.waiting[share] = append(t.waiting[share], turn)
	return turn
}

// Give gives the place of a share back, to the next one that waits and may have it.
func (t *Turns[K]) Give(share K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	if t.taken[share]--; t.taken[share] == 0 {
		delete(t.taken, share)
	}
	next := slices.IndexFunc(t.order, func(one K) bool { return t.taken[one] < t.each })
	if next < 0 {
		return
	}
	share = t.order[next]
	t.order = slices.Delete(t.order, next, next+1)
	t.free--
	t.taken[share]++
	close(t.waiting[share][0])
	if t.waiting[share] = t.waiting[share][1:]; len(t.waiting[share]) > 0 {
		t.order = append(t.order, share)
	} else {
		delete(t.waiting, share)
	}
}

// Free is the number of free places.
func (t *Turns[K]) Free() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.free
}
