package replica

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/sluice-metrics/sluice/aggregate/blob"
)

// A replica may ask the others for what only they know, such as their agents. A question and its answer are bytes that
// this package does not read. Neither is repeated: who asks has a deadline.

const (
	// maxQuestion bounds a question, and maxQuestions those of one replica that wait for an answer.
	maxQuestion, maxQuestions = 4 << 10, 8
	// maxAnswersHold bounds the pieces of answers that are not whole.
	maxAnswersHold = maxBody
)

// asks are the questions of this replica that wait for answers.
type asks struct {
	mu      sync.Mutex // guards the fields below
	letters letters
	budget  budget
	open    map[uint64]*asked
	number  uint64
}

// asked is a question to all replicas.
type asked struct {
	answers map[string][]byte
	left    map[string]bool // replicas that have not answered
	all     chan struct{}   // closed once all have
}

func (a *asks) init() {
	a.open, a.budget.most = map[uint64]*asked{}, maxAnswersHold
	a.letters.budget = &a.budget
}

// Ask asks replicas, until ctx ends, and returns the answers by name.
func (r *Replica) Ask(ctx context.Context, names []string, question []byte) map[string][]byte {
	if len(names) == 0 || len(question) > maxQuestion {
		return nil
	}
	number, q := r.asks.begin(names)
	body := append(binary.AppendUvarint(nil, number), question...)
	for _, name := range names {
		r.send(r.subjects.of(wantOf, name), typeAsk, body, nil)
	}
	select {
	case <-q.all:
	case <-ctx.Done():
	}
	return r.asks.end(number)
}

func (a *asks) begin(names []string) (number uint64, q *asked) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number++
	q = &asked{answers: map[string][]byte{}, left: map[string]bool{}, all: make(chan struct{})}
	for _, name := range names {
		q.left[name] = true
	}
	a.open[a.number] = q
	return a.number, q
}

func (a *asks) end(number uint64) map[string][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.open[number]
	delete(a.open, number)
	if len(a.open) == 0 {
		a.letters.clear()
	}
	return q.answers
}

// answered takes a piece of an answer, which it retains.
func (a *asks) answered(h *header, piece []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) == 0 {
		return nil // it is late
	}
	body, whole := a.letters.join(h, piece)
	if !whole {
		return nil
	}
	d := blob.Decoder{Rest: body}
	number := d.Uvarint()
	if d.Err != nil {
		return errDamaged
	}
	q := a.open[number]
	if q == nil || !q.left[h.name] {
		return nil
	}
	q.answers[h.name] = d.Rest
	delete(q.left, h.name)
	if len(q.left) == 0 {
		close(q.all)
	}
	return nil
}

// question is one of another replica: a number that it gave, and what it asks.
func (s *server) question(from string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	requester := s.requesterLocked(from)
	if requester == nil || len(requester.questions) >= maxQuestions {
		s.r.reject(reasonFlood, from, tooManyAsk)
		return
	}
	requester.questions = append(requester.questions, body)
	s.wakeUp()
}

// sendAnswer answers a question.
func (s *server) sendAnswer(to string, question []byte) {
	d := blob.Decoder{Rest: question}
	number := d.Uvarint()
	body := append(binary.AppendUvarint(nil, number), s.r.parts.Answer(d.Rest)...)
	s.r.send(s.r.subjects.of(syncedOf, to, s.r.me.name), typeAnswer, body, nil)
}

// receiveAsk takes a question of another replica.
func (r *Replica) receiveAsk(h *header, piece []byte) {
	d := blob.Decoder{Rest: piece}
	d.Uvarint()
	switch {
	case d.Err != nil || len(d.Rest) > maxQuestion || h.pieces > 1:
		r.rejectError(errDamaged, h.name)
	case r.parts.Answer != nil:
		r.server.question(h.name, append([]byte(nil), piece...))
	}
}
