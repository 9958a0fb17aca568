package scrape

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

const (
	// maxTogether and mostAtOnce are the FetchLimits of a server.
	maxTogether, mostAtOnce = 32 << 20, 256
	// smallPage is what each page may keep, whatever others do. A pool holds no larger ones.
	smallPage = 16 << 10
)

// FetchLimits bound the pages that are read at once, each for seconds. A zero field is that of a server.
type FetchLimits struct {
	// AtOnce is their number, beyond which each pod has one at a time: endpoints that hang hold up those of their own
	// pod alone.
	AtOnce int
	// Together is what they keep, in bytes, beside BesideRoom each. It is the same once more for equal shares of pods.
	Together int
}

// BesideRoom is what a page takes while it is read, beside what all keep together.
const BesideRoom = 100 << 10

func (l FetchLimits) complete() FetchLimits {
	return FetchLimits{cmp.Or(l.AtOnce, mostAtOnce), cmp.Or(l.Together, maxTogether)}
}

// room is what large pages share while they are read. Any goroutine may call its methods.
type room struct {
	most int // FetchLimits.Together

	mu   sync.Mutex // guards the fields below
	kept int
	of   map[string]int // by pod
}

// grow reports whether a pod's page may keep some more bytes: while there is room, and always up to an equal share for
// each pod that keeps some. So all keep twice the most at most, and no pod takes another one's share.
func (r *room) grow(pod string, by int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]int{}
	}
	pods, own := len(r.of), r.of[pod]+by
	if own == by {
		pods++
	}
	if r.kept+by > r.most && own > r.most/pods {
		return false
	}
	r.kept += by
	r.of[pod] = own
	return true
}

func (r *room) shrink(pod string, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept -= by
	if r.of[pod] -= by; r.of[pod] <= 0 {
		delete(r.of, pod)
	}
}

// share is a page's part of the room, beyond smallPage.
type share struct {
	room *room
	pod  string
	kept int
}

// enter begins a page of a pod, and leave ends it.
func (s *share) enter(r *room, pod string) { s.room, s.pod = r, pod }

func (s *share) leave() {
	if s.kept > 0 {
		s.room.shrink(s.pod, s.kept)
	}
	*s = share{}
}

// keep reports whether the page may keep so many bytes in all.
func (s *share) keep(bytes int) bool {
	more := bytes - smallPage - s.kept
	if more <= 0 || s.room == nil {
		return true
	}
	if !s.room.grow(s.pod, more) {
		return false
	}
	s.kept += more
	return true
}

// turns bound the pages that are read at once. Any goroutine may call its methods.
type turns struct {
	most int // FetchLimits.AtOnce

	mu   sync.Mutex // guards the fields below
	read int
	of   map[string]*podTurns
}

// podTurns are those of a pod.
type podTurns struct {
	read    int
	waiting []chan struct{} // closed for a turn
}

// begin waits for a turn of a pod. It returns false if the context ends before.
func (t *turns) begin(ctx context.Context, pod string) bool {
	t.mu.Lock()
	own := t.of[pod]
	if own == nil {
		own = new(podTurns)
		t.of[pod] = own
	}
	if own.read == 0 || t.read < t.most && len(own.waiting) == 0 {
		own.read++
		t.read++
		t.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	own.waiting = append(own.waiting, turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.Index(own.waiting, turn); at >= 0 {
		own.waiting = slices.Delete(own.waiting, at, at+1)
	} else {
		t.endLocked(pod) // it has the turn by now
	}
	return false
}

func (t *turns) end(pod string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(pod)
}

// endLocked passes a turn on to the page of the pod that has waited longest.
func (t *turns) endLocked(pod string) {
	own := t.of[pod]
	if len(own.waiting) > 0 {
		close(own.waiting[0])
		own.waiting = own.waiting[1:]
		return
	}
	t.read--
	if own.read--; own.read == 0 {
		delete(t.of, pod)
	}
}
