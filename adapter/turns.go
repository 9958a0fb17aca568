package adapter

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// turns lets large answers be gathered one at a time, in the order in which they were asked for as far as there is room, so that many at once take no more
// memory and no more of the processor than one after the other. Small ones pass by. Who reads an answer slowly holds its points, but
// keeps nobody from gathering, until all that are held are too many.
type turns struct {
	most     int           // large answers that are waited for, gathered or written
	patience time.Duration // for one's turn

	mu     sync.Mutex
	line   []*turn // who waits
	in     int
	busy   bool // one is being gathered
	points int  // what the answers that are gathered or written may have
}

// heldPoints is how many points large answers may have together: 70 MB of them. One that has more waits until it is alone.
const heldPoints = 1 << 19

// turn is what one request has of turns.
type turn struct {
	of   *turns
	room []metric.Point // given back at its end

	// The rest is of a large answer. The lock of turns guards it.
	points    int           // 0: it is not large, or not in
	come      chan struct{} // closed when it is gathered
	gathering bool
}

type turnKey struct{}

// newTurns gives large answers half of the places of requests in flight, so that those who wait do not take all, and half of
// the time of a request to wait, so that the rest is left to be answered.
func newTurns(cfg Config) *turns {
	return &turns{most: max(cfg.MaxInFlight/2, 1), patience: cfg.RequestTimeout / 2}
}

// taken has each request to the API groups have a turn until it is answered.
func (q *turns) taken(next http.Handler) http.Handler {
	return onlyGroups(next, func(w http.ResponseWriter, r *http.Request) {
		t := &turn{of: q}
		defer t.end()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), turnKey{}, t)))
	})
}

// turnOf is the turn of the request that is answered.
func turnOf(ctx context.Context) *turn {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return new(turn) // nobody takes turns
	}
	return t
}

// roomIn is metric.Query's Room: it waits until it is the answer's turn, if it may be large.
func (t *turn) roomIn(ctx context.Context) func(points int) ([]metric.Point, error) {
	return func(points int) ([]metric.Point, error) {
		if points > fewPoints && t.of != nil {
			if err := t.of.wait(ctx, t, points); err != nil {
				return nil, err
			}
		}
		t.room = takeRoom(points)
		return t.room, nil
	}
}

// gathered ends the gathering: points, if there are any, lie in the answer's room.
func (t *turn) gathered(points []metric.Point) {
	if points != nil {
		t.room = points
	}
	if t.of == nil {
		return
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.gathering {
		t.gathering, t.of.busy = false, false
		have := max(cap(t.room), 1) // not all that there are may have been picked, and the room may be of a larger answer
		t.of.points += have - t.points
		t.points = have
		t.of.nextLocked()
	}
}

// end is when the answer was written, or will not be.
func (t *turn) end() {
	t.gathered(nil)
	if t.room != nil {
		giveRoom(t.room)
		t.room = nil
	}
	q := t.of
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.points > 0 {
		q.points -= t.points
		q.in--
		t.points = 0
		q.nextLocked()
	}
}

// wait waits for a large answer's turn.
func (q *turns) wait(ctx context.Context, t *turn, points int) error {
	if !q.enter(t, points) {
		return apierrors.NewTooManyRequests(fmt.Sprintf("%d large answers are in flight, as many as there may be", q.most), retryAfterSeconds)
	}
	patience := time.NewTimer(q.patience)
	defer patience.Stop()
	select {
	case <-t.come:
		return nil
	case <-patience.C:
	case <-ctx.Done():
	}
	if !q.leave(t) {
		return nil // it came just now
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("an answer of up to %d objects or series is large, and large ones are gathered one at a time: "+
		"its turn did not come in %s", points, q.patience), retryAfterSeconds)
}

// enter puts an answer at the end of the line. False: there are too many.
func (q *turns) enter(t *turn, points int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.in >= q.most {
		return false
	}
	q.in++
	t.points, t.come = points, make(chan struct{})
	q.line = append(q.line, t)
	q.nextLocked()
	return true
}

// leave takes an answer out of the line. False: its turn has come.
func (q *turns) leave(t *turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	place := slices.Index(q.line, t)
	if place < 0 {
		return false
	}
	q.line = slices.Delete(q.line, place, place+1)
	q.in--
	t.points = 0
	q.nextLocked() // who waited behind may need less
	return true
}

// nextLocked gives the first in the line that there is room for its turn, if nobody else has it. One that there is no room for, as
// slow readers have it, keeps no smaller one waiting.
func (q *turns) nextLocked() {
	place := slices.IndexFunc(q.line, func(t *turn) bool { return q.points == 0 || q.points+t.points <= heldPoints })
	if q.busy || place < 0 {
		return
	}
	t := q.line[place]
	q.line = slices.Delete(q.line, place, place+1)
	q.busy, t.gathering = true, true
	q.points += t.points
	close(t.come)
}
