package fair

import "sync"

// Turns are places at which work waits for a processor. Those who wait take turns, one for each share: however much work
// one brings, it delays that of another one by a turn. Any goroutine may call the methods.
type Turns[K comparable] struct {
	mu      sync.Mutex // guards the rest
	free    int
	order   []K // shares that wait, in the order of their turns
	waiting map[K][]chan struct{}
}

// NewTurns makes places.
func NewTurns[K comparable](places int) *Turns[K] {
	return &Turns[K]{free: places, waiting: map[K][]chan struct{}{}}
}

// Take waits for a place, until Give.
func (t *Turns[K]) Take(share K) {
	if turn := t.queue(share); turn != nil {
		<-turn
	}
}

// queue takes a place, or returns what is closed once there is one.
func (t *Turns[K]) queue(share K) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free > 0 { // then no one is waiting
		t.free--
		return nil
	}
	turn := make(chan struct{})
	if len(t.waiting[share]) == 0 {
		t.order = append(t.order, share)
	}
	t.waiting[share] = append(t.waiting[share], turn)
	return turn
}

// Give gives a place back, to the next one that waits.
func (t *Turns[K]) Give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.free++
		return
	}
	share := t.order[0]
	t.order = t.order[1:]
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
