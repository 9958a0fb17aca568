package adapter

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/metric"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// turns lets large answers be gathered one at a time, in the order in which they were asked for as far as there is room, so that many at once take no more
// memory and no more of the processor than one after the other. Small ones pass by. Who reads an answer slowly holds its points, but
// keeps nobody from gathering, until all that are held are too many.
type answerQueue struct {
	maxAnswers int           // large answers that are waited for, gathered or written
	timeout    time.Duration // for one's turn

	mu         sync.Mutex
	waiting    []*ticket // who waits
	answers    int
	collecting bool // one is being gathered
	reserved   int  // what the answers that are gathered or written may have
}

// heldPoints is how many points large answers may have together: 70 MB of them. One that has more waits until it is alone.
const maxReserved = 1 << 19

// turn is what one request has of turns.
type ticket struct {
	queue  *answerQueue
	points []metric.Point // given back at its end

	// The rest is of a large answer. The lock of turns guards it.
	reserved   int           // 0: it is not large, or not in
	admitted   chan struct{} // closed when it is gathered
	collecting bool
}

type ticketKey struct{}

// newTurns gives large answers half of the places of requests in flight, so that those who wait do not take all, and half of
// the time of a request to wait, so that the rest is left to be answered.
func newAnswerQueue(cfg Config) *answerQueue {
	return &answerQueue{maxAnswers: max(cfg.MaxInFlight/2, 1), timeout: cfg.RequestTimeout / 2}
}

// taken has each request to the API groups have a turn until it is answered.
func (q *answerQueue) withTicket(next http.Handler) http.Handler {
	return onlyAPIGroups(next, func(w http.ResponseWriter, r *http.Request) {
		t := &ticket{queue: q}
		defer t.release()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ticketKey{}, t)))
	})
}

// turnOf is the turn of the request that is answered.
func ticketOf(ctx context.Context) *ticket {
	t, ok := ctx.Value(ticketKey{}).(*ticket)
	if !ok {
		return new(ticket) // nobody takes turns
	}
	return t
}

// roomIn is metric.Query's Room: it waits until it is the answer's turn, if it may be large.
func (t *ticket) buffer(ctx context.Context) func(points int) ([]metric.Point, error) {
	return func(points int) ([]metric.Point, error) {
		if points > valuelist.MaxSmall && t.queue != nil {
			if err := t.queue.wait(ctx, t, points); err != nil {
				return nil, err
			}
		}
		t.points = takeBuffer(points)
		return t.points, nil
	}
}

// gathered ends the gathering: points, if there are any, lie in the answer's room.
func (t *ticket) collected(points []metric.Point) {
	if points != nil {
		t.points = points
	}
	if t.queue == nil {
		return
	}
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.collecting {
		t.collecting, t.queue.collecting = false, false
		have := max(cap(t.points), 1) // not all that there are may have been picked, and the room may be of a larger answer
		t.queue.reserved += have - t.reserved
		t.reserved = have
		t.queue.dispatchLocked()
	}
}

// end is when the answer was written, or will not be.
func (t *ticket) release() {
	t.collected(nil)
	if t.points != nil {
		returnBuffer(t.points)
		t.points = nil
	}
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.reserved > 0 {
		q.reserved -= t.reserved
		q.answers--
		t.reserved = 0
		q.dispatchLocked()
	}
}

// wait waits for a large answer's turn.
func (q *answerQueue) wait(ctx context.Context, t *ticket, points int) error {
	if !q.enqueue(t, points) {
		return apierrors.NewTooManyRequests(fmt.Sprintf("%d large answers are in flight, as many as there may be", q.maxAnswers), retryAfterSeconds)
	}
	patience := time.NewTimer(q.timeout)
	defer patience.Stop()
	select {
	case <-t.admitted:
		return nil
	case <-patience.C:
	case <-ctx.Done():
	}
	if !q.cancel(t) {
		return nil // it came just now
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("an answer of up to %d objects or series is large, and large ones are gathered one at a time: "+
		"its turn did not come in %s", points, q.timeout), retryAfterSeconds)
}

// enter puts an answer at the end of the line. False: there are too many.
func (q *answerQueue) enqueue(t *ticket, points int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answers >= q.maxAnswers {
		return false
	}
	q.answers++
	t.reserved, t.admitted = points, make(chan struct{})
	q.waiting = append(q.waiting, t)
	q.dispatchLocked()
	return true
}

// leave takes an answer out of the line. False: its turn has come.
func (q *answerQueue) cancel(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	place := slices.Index(q.waiting, t)
	if place < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, place, place+1)
	q.answers--
	t.reserved = 0
	q.dispatchLocked() // who waited behind may need less
	return true
}

// nextLocked gives the first in the line that there is room for its turn, if nobody else has it. One that there is no room for, as
// slow readers have it, keeps no smaller one waiting.
func (q *answerQueue) dispatchLocked() {
	place := slices.IndexFunc(q.waiting, func(t *ticket) bool { return q.reserved == 0 || q.reserved+t.reserved <= maxReserved })
	if q.collecting || place < 0 {
		return
	}
	t := q.waiting[place]
	q.waiting = slices.Delete(q.waiting, place, place+1)
	q.collecting, t.collecting = true, true
	q.reserved += t.reserved
	close(t.admitted)
}

// rooms are for the points of answers, crowdedRooms for those of large ones: they are 20 MB for 150,000 objects, and gone after
// two cycles of the collector, which looks through them, in which nobody asked for such an answer.
var (
	smallBuffers = sync.Pool{New: func() any { return new([]metric.Point) }}
	largeBuffers = sync.Pool{New: func() any { return new([]metric.Point) }}
)

// takeRoom takes room for an answer of some points, which need not have as much yet.
func takeBuffer(points int) []metric.Point {
	if points > valuelist.MaxSmall {
		return *largeBuffers.Get().(*[]metric.Point)
	}
	return *smallBuffers.Get().(*[]metric.Point)
}

// giveRoom gives back what takeRoom took, with the points that came into it.
func returnBuffer(points []metric.Point) {
	clear(points) // or strings of what is gone would stay
	points = points[:0]
	if cap(points) > valuelist.MaxSmall {
		largeBuffers.Put(&points)
		return
	}
	smallBuffers.Put(&points)
}
