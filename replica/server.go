package replica

import (
	"context"
	"sync"
	"time"
)

// server sends whole blocks, numbers and documents of the own table to replicas that ask for them.
// A block is sent once, however often it was asked for meanwhile, and each replica may ask for a
// bounded number of blocks per second. So a replica that asks for everything, again and again,
// costs a bounded share of a processor.
type server struct {
	r    *Replica
	wake chan struct{}

	mu         sync.Mutex
	requesters []*requester // served in turn
	turn       int
	delayed    bool // a requester waits for its budget
	// documents are being sent; nil: none are. mu guards the pointer, the serving goroutine has the rest.
	documents *documentsAnswer
	sentBatch bool // of documents, so what others ask for is next; mu guards it

	// The serving goroutine owns these.
	ended                             <-chan struct{} // closed at the end of run
	waited                            time.Duration   // for the bus, in all
	clock, names, state, body, buffer []byte          // scratch space
}

// requester is a replica that asks.
type requester struct {
	name      string
	blocks    []int
	queued    map[int]struct{} // blocks
	silent    bool
	relayed   []relayedBlock
	numbers   bool
	documents bool
	questions [][]byte
	budget    float64 // answers that it may get at once
	since     time.Time
}

const maxRequesters = maxOrigins

// The budget of a requester: every block four times, then an eighth of all blocks per second. The
// blocks of shadows count too.
const (
	leastBudget = 256
	leastRate   = 64
)

func (s *server) budget() (most, perSecond float64) {
	blocks := s.r.parts.Table.Blocks() + s.r.origins.blocks()
	return float64(4*blocks + leastBudget), float64(blocks/8 + leastRate)
}

// ask enters a request.
func (s *server) ask(from string, m *wantBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	requester := s.requesterLocked(from)
	if requester == nil {
		s.r.reject(reasonFlood, from, tooManyAsk)
		return
	}
	blocks := s.r.parts.Table.Blocks()
	for _, b := range m.blocks {
		if _, queued := requester.queued[b]; !queued && b < blocks {
			requester.queued[b] = struct{}{}
			requester.blocks = append(requester.blocks, b)
		}
	}
	requester.numbers = requester.numbers || m.numbers
	if s.documents == nil || s.documents.to != from { // otherwise they are on their way
		requester.documents = requester.documents || m.documents && s.r.parts.Documents != nil
	}
	requester.silent = requester.silent || m.silent
	s.wakeUp()
}

const tooManyAsk = "too many replicas ask for blocks"

func (s *server) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *server) requesterLocked(name string) *requester {
	for _, one := range s.requesters {
		if one.name == name {
			return one
		}
	}
	most, _ := s.budget()
	one := &requester{name: name, queued: map[int]struct{}{}, budget: most, since: s.r.now()}
	if len(s.requesters) < maxRequesters {
		s.requesters = append(s.requesters, one)
		return one
	}
	return s.replaceLocked(one)
}

// replaceLocked gives a requester the place of the one that has waited for nothing for the longest time; nil: all wait.
func (s *server) replaceLocked(one *requester) *requester {
	oldest := -1
	for i, other := range s.requesters {
		if other.idle() && (oldest < 0 || other.since.Before(s.requesters[oldest].since)) {
			oldest = i
		}
	}
	if oldest < 0 {
		return nil
	}
	s.requesters[oldest] = one
	return one
}

// answer is one thing to send.
type answer struct {
	to                 string
	block              int // -1: none
	numbers, documents bool
	silent             bool
	relayed            relayedBlock // of nil: none
	question           []byte       // nil: none
}

// next takes the next request that its replica's budget allows.
func (s *server) next(now time.Time) (a answer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delayed = false
	due := s.documents != nil && !now.Before(s.documents.due)
	if due && !s.sentBatch {
		s.sentBatch = true
		return answer{to: s.documents.to, block: -1, documents: true}, true
	}
	s.sentBatch = false
	for range s.requesters {
		s.turn = (s.turn + 1) % len(s.requesters)
		requester := s.requesters[s.turn]
		begins := requester.documents && s.documents == nil
		if !begins && requester.idleBeside() {
			continue
		}
		s.refillLocked(requester, now)
		if requester.budget < 1 {
			s.delayed = true
			s.r.reject(reasonFlood, requester.name,
				"the replica asks for more blocks than a follower needs; the answers are delayed")
			continue
		}
		requester.budget--
		a = answer{to: requester.name, block: -1, numbers: requester.numbers, documents: begins,
			silent: requester.silent}
		requester.numbers, requester.silent = false, false
		if begins {
			requester.documents, s.documents = false, &documentsAnswer{to: requester.name}
		}
		if len(requester.blocks) > 0 {
			a.block = requester.blocks[0]
			requester.blocks = requester.blocks[1:]
			delete(requester.queued, a.block)
		} else if len(requester.relayed) > 0 {
			a.relayed = requester.relayed[0]
			requester.relayed = requester.relayed[1:]
		}
		if len(requester.questions) > 0 {
			a.question, requester.questions = requester.questions[0], requester.questions[1:]
		}
		return a, true
	}
	if due {
		s.sentBatch = true
		return answer{to: s.documents.to, block: -1, documents: true}, true
	}
	return answer{}, false
}

// idle reports whether a requester waits for nothing, idleBeside whether for nothing but documents.
func (r *requester) idle() bool { return !r.documents && r.idleBeside() }

func (r *requester) idleBeside() bool {
	return len(r.blocks) == 0 && len(r.relayed) == 0 && len(r.questions) == 0 && !r.numbers && !r.silent
}

func (s *server) refillLocked(r *requester, now time.Time) {
	most, perSecond := s.budget()
	r.budget = min(r.budget+now.Sub(r.since).Seconds()*perSecond, most)
	r.since = now
}

// busyEvery is the time between two looks whether the bus takes more.
const busyEvery = 10 * time.Millisecond

// run serves until ctx ends. After each answer it rests for as long as it worked on it, and while the bus is busy: it
// would drop answers, and with them the changes and heartbeats that can't wait.
func (s *server) run(ctx context.Context) {
	s.ended = ctx.Done()
	for s.awaitRoom() {
		began, waited := s.r.now(), s.waited
		if a, ok := s.next(began); ok {
			s.send(a)
			time.Sleep(s.r.now().Sub(began) - (s.waited - waited))
			if ctx.Err() != nil {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-s.retry():
		}
	}
}

// awaitRoom waits while the bus is busy. It returns false at the end of run.
func (s *server) awaitRoom() bool {
	began := s.r.now()
	defer func() { s.waited += s.r.now().Sub(began) }()
	for s.r.parts.Bus.Busy() {
		select {
		case <-s.ended:
			return false
		case <-time.After(busyEvery):
		}
	}
	return true
}

// retry returns a channel for the next look at requests that wait for a budget, or for the next batch of documents;
// nil if none does.
func (s *server) retry() <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.documents != nil {
		return time.After(s.documents.due.Sub(s.r.now()))
	}
	if !s.delayed {
		return nil
	}
	return time.After(stepEvery)
}

func (s *server) send(a answer) {
	to := s.r.subjects.of(stateOf, s.r.me.name, a.to)
	if a.numbers {
		m := numbersBody{s.r.publisher.numbers()}
		s.buffer = s.r.send(to, typeNumbers, m.append(nil), s.buffer)
	}
	if a.documents {
		s.sendDocuments()
	}
	if a.silent {
		now := s.r.now()
		m := relayBody{asked: true, live: s.r.origins.liveNames(now), all: s.r.silentOrigins(now)}
		s.buffer = s.r.send(to, typeRelay, m.append(nil), s.buffer)
	}
	if a.block >= 0 {
		s.sendBlock(to, a.block)
	}
	if a.relayed.of != nil {
		s.sendRelayed(to, a.relayed)
	}
	if a.question != nil {
		s.sendAnswer(a.to, a.question)
	}
}

// sendBlock sends a block. The number is read before the state, and the names after it: the state
// includes the delta of the number, and all its series have names. If a delta was published
// meanwhile, the state is read again: that delta may be older than the state, and must not be
// applied after it.
func (s *server) sendBlock(to string, block int) {
	m := wholeBody{block: block}
	for range readTries {
		var ok bool
		if m.seq, m.flush, ok = s.r.publisher.numberOf(block); !ok {
			return
		}
		s.state = s.r.parts.Table.AppendBlockState(s.state[:0], block)
		if seq, _, _ := s.r.publisher.numberOf(block); seq == m.seq {
			break
		}
	}
	s.names = s.r.parts.Table.AppendBlockNames(s.names[:0], block)
	s.clock = s.r.parts.Table.AppendClock(s.clock[:0])
	m.clock, m.state, m.names = s.clock, s.state, s.names
	s.body = m.append(s.body[:0])
	s.buffer = s.r.sendPieces(to, typeWhole, s.body, s.buffer, s.awaitRoom)
	s.trim()
}

// trim frees scratch space that a large block took.
func (s *server) trim() {
	for _, b := range []*[]byte{&s.names, &s.state, &s.body, &s.buffer} {
		if cap(*b) > keptBuffer {
			*b = nil
		}
	}
}

// readTries bounds the readings of a block that changes meanwhile.
const readTries = 3
