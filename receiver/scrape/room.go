package scrape

import "sync"

const (
	// maxTogether bounds what the pages that are read at once keep beyond smallPage each. A page may be read for seconds.
	maxTogether = 32 << 20
	// smallPage is what each page may keep, whatever others do. A pool holds no larger ones.
	smallPage = 16 << 10
)

// room is what large pages share while they are read. Any goroutine may call its methods.
type room struct {
	mu   sync.Mutex // guards the fields below
	kept int
	of   map[string]int // by pod
}

// grow reports whether a pod's page may keep some more bytes: while there is room, and always up to an equal share for
// each pod that keeps some. So all keep twice maxTogether at most, and no pod takes another one's share.
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
	if r.kept+by > maxTogether && own > maxTogether/pods {
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
