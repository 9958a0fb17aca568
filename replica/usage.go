package replica

import (
	"slices"
	"sync"
	"time"
)

// Usage is what agents report of the use of nodes. An agent reports to one replica, which passes that on. Any
// goroutine may call the methods.
type Usage interface {
	// Own lists the nodes whose agents report to this replica, and OwnReport makes the message of one; nil:
	// it has none any more.
	Own() []string
	OwnReport(node string) []byte
	// Take takes a message that another replica made. It keeps nothing of it.
	Take(message []byte) error
}

// usageRelay passes reports on. None is confirmed or repeated: an agent reports again within seconds, and
// each report replaces the one before. A replica that starts hears of the others by their first reports, and
// asks for all that they have.
type usageRelay struct {
	// letters and heard are the bus's: it calls one at a time.
	letters letters
	budget  budget
	heard   map[string]sender // by name, which were asked

	mu       sync.Mutex // guards the fields below
	buffer   []byte
	asked    bool
	answered time.Time
	left     []string // nodes of which an answer has still to tell
}

const (
	// maxUsage bounds a report, as the port of agents does, and maxUsageHold the pieces of reports that are not whole.
	maxUsage     = 9 << 20
	maxUsageHold = 4 * maxUsage
	// answerUsageEvery is the time between two answers, which all replicas hear, and answerUsageBytes the
	// part of an answer that is sent at once: deltas share the connection.
	answerUsageEvery = 2 * time.Second
	answerUsageBytes = 4 << 20
)

func (u *usageRelay) init() {
	u.budget.most, u.heard = maxUsageHold, map[string]sender{}
	u.letters.budget = &u.budget
}

// PublishUsage tells the other replicas a report.
func (r *Replica) PublishUsage(message []byte) {
	u := &r.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(message) > maxUsage {
		r.reject(reasonSize, r.me.name, "usage of a node exceeds 9 MiB and cannot be passed on")
		return
	}
	u.buffer = r.send(r.subjects.of(usageOf, r.me.name), typeUsage, message, u.buffer)
}

// receiveUsage takes a piece of a report.
func (r *Replica) receiveUsage(subject string, message []byte) {
	h, piece, err := readHeader(message)
	switch {
	case err != nil:
		r.rejectError(err, r.subjects.originOf(subject))
		return
	case h.name == r.me.name:
		return
	case h.kind != typeUsage || h.name != r.subjects.originOf(subject):
		r.reject(reasonName, h.name, "the message has the subject of another origin, or of usage")
		return
	case h.pieces > maxUsage/maxPiece+1:
		r.reject(reasonSize, h.name, "usage of a node exceeds 9 MiB")
		return
	}
	u := &r.usage
	if h.pieces > 1 {
		piece = slices.Clone(piece)
	}
	if body, complete := u.letters.join(&h, piece); complete {
		if err := r.parts.Usage.Take(body); err != nil {
			r.rejectError(err, h.name)
			return
		}
	}
	if u.heard[h.name] != h.sender {
		if len(u.heard) >= maxOrigins {
			clear(u.heard)
		}
		u.heard[h.name] = h.sender
		r.send(r.subjects.of(wantOf, h.name), typeWantUsage, nil, nil)
	}
}

// wantUsage notes that a replica has asked for all reports.
func (r *Replica) wantUsage() {
	r.usage.mu.Lock()
	defer r.usage.mu.Unlock()
	r.usage.asked = r.parts.Usage != nil
}

// usageStep answers replicas that ask.
func (r *Replica) usageStep(now time.Time) {
	for sent := 0; sent < answerUsageBytes; {
		node, ok := r.usage.next(r.parts.Usage, now)
		if !ok {
			return
		}
		if message := r.parts.Usage.OwnReport(node); message != nil {
			r.PublishUsage(message)
			sent += len(message)
		}
	}
}

// next takes the next node of an answer.
func (u *usageRelay) next(of Usage, now time.Time) (node string, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.left) == 0 && u.asked && now.Sub(u.answered) >= answerUsageEvery {
		u.asked, u.answered, u.left = false, now, of.Own()
	}
	if len(u.left) == 0 {
		return "", false
	}
	node, u.left = u.left[0], u.left[1:]
	return node, true
}
