package replica

import (
	"cmp"
	"container/heap"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fabric is a bus of several replicas in virtual time. Nothing runs by itself: deliver hands over
// the messages that are due, in one goroutine, so a seed determines a run.
type fabric struct {
	rng   *rand.Rand
	now   func() time.Time
	began time.Time
	queue mail
	count int
	sum   uint32 // of all messages that were delivered
	ports []*port
	cut   map[[2]*port]bool

	// Faults of each message: the probabilities of loss, doubling and delay, and the longest delay.
	drop, double, late float64
	delay              time.Duration

	forged bool // messages may be anything
}

const transit = time.Millisecond

func newFabric(rng *rand.Rand, now func() time.Time) *fabric {
	return &fabric{rng: rng, now: now, began: now(), cut: map[[2]*port]bool{}}
}

// newEpoch is NewEpoch by the seed.
func (f *fabric) newEpoch() *Epoch {
	return &Epoch{id: f.rng.Uint64(), incarnation: uint64(f.now().UnixNano())}
}

// port is the bus of one process.
type port struct {
	fabric *fabric
	subs   []subscription
	closed bool
	frozen bool      // the process stands still: what arrives waits
	held   []*posted // that waits
}

type subscription struct {
	literal string // the pattern up to its first wildcard
	rest    string
	handle  func(string, []byte)
}

func (f *fabric) open() *port {
	p := &port{fabric: f}
	f.ports = append(f.ports, p)
	return p
}

// close ends a process: what is on its way to it is lost.
func (p *port) close() {
	p.closed, p.subs = true, nil
	p.fabric.ports = slices.DeleteFunc(p.fabric.ports, func(one *port) bool { return one == p })
}

func (p *port) Subscribe(pattern string, handle func(string, []byte)) (func(), error) {
	at := strings.IndexAny(pattern+"*", "*>")
	p.subs = append(p.subs, subscription{pattern[:at], pattern[at:], handle})
	return func() { p.subs = nil }, nil
}

func (p *port) Busy() bool { return false }

func (p *port) Publish(subject string, message []byte) error {
	f := p.fabric
	message = slices.Clone(message)
	for _, to := range f.ports {
		if f.rng.Float64() < f.drop || len(f.cut) > 0 && f.cut[[2]*port{p, to}] {
			continue
		}
		f.post(to, subject, message)
		if f.rng.Float64() < f.double {
			f.post(to, subject, message)
		}
	}
	return nil
}

func (f *fabric) post(to *port, subject string, message []byte) {
	at := f.now().Add(transit)
	if f.rng.Float64() < f.late {
		at = at.Add(time.Duration(f.rng.Int64N(int64(f.delay))))
	}
	f.count++
	heap.Push(&f.queue, &posted{at, f.count, to, subject, message})
}

// nextAt is when the next message is due, or a later moment if none is due before that.
func (f *fabric) nextAt(later time.Time) time.Time {
	if len(f.queue) > 0 && f.queue[0].at.Before(later) {
		return f.queue[0].at
	}
	return later
}

// deliver delivers what is due, and what the receivers then send if that is due as well.
func (f *fabric) deliver() {
	for _, p := range f.ports {
		for !p.frozen && len(p.held) > 0 {
			one := p.held[0]
			p.held = p.held[1:]
			one.handOver()
		}
	}
	for len(f.queue) > 0 && !f.queue[0].at.After(f.now()) {
		one := heap.Pop(&f.queue).(*posted)
		if one.to.frozen {
			one.to.held = append(one.to.held, one)
			continue
		}
		f.sum = crc32.Update(f.sum+uint32(one.at.UnixNano()), crc32.IEEETable, one.message)
		one.handOver()
	}
}

func (p *posted) handOver() {
	for _, s := range p.to.subs {
		if rest, ok := strings.CutPrefix(p.subject, s.literal); ok && matches(s.rest, rest) {
			s.handle(p.subject, p.message)
		}
	}
}

// matches is NATS' rule for "*" and ">".
func matches(pattern, subject string) bool {
	for {
		want, patternRest, more := strings.Cut(pattern, ".")
		have, subjectRest, longer := strings.Cut(subject, ".")
		if want == ">" {
			return true
		}
		if more != longer || want != "*" && want != have {
			return false
		}
		if !more {
			return true
		}
		pattern, subject = patternRest, subjectRest
	}
}

// posted is a message on its way.
type posted struct {
	at      time.Time
	order   int
	to      *port
	subject string
	message []byte
}

type mail []*posted

func (m mail) Len() int { return len(m) }
func (m mail) Less(i, j int) bool {
	return cmp.Or(m[i].at.Compare(m[j].at), m[i].order-m[j].order) < 0
}
func (m mail) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *mail) Push(x any)   { *m = append(*m, x.(*posted)) }
func (m *mail) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
