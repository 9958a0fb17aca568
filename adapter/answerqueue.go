package adapter

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/metric"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// answerQueue collects large answers one at a time, first come first served, so many at once take
// no more memory and CPU than one after the other. Small answers bypass it. An answer that a client
// reads slowly keeps its points reserved, but does not delay the next one unless the reserved
// points exceed maxReserved, or the reader's share of it.
type answerQueue struct {
	answers  *readerShares // of large answers that wait, are collected or written
	reserved *readerShares // of points of the answers that are collected or written
	timeout  time.Duration // longest wait in the queue

	mu         sync.Mutex
	waiting    []*ticket // in order of arrival
	collecting bool      // one answer is being collected
}

// maxReserved bounds the points of large answers, together: 75 MB. Other answers count as points, too
// (usageroom.go). A larger answer counts as what one reader may have.
const maxReserved = 1 << 19

// ticket is a request's place in the queue and its buffer of points.
type ticket struct {
	queue  *answerQueue
	reader string         // that shares are counted for
	points []metric.Point // returned to the pool at the end
	ended  func()         // called at the end; may be nil

	// The fields below are for large answers. The queue's lock guards them.
	reserved   int           // 0: small, or not in the queue
	admitted   chan struct{} // closed when collecting may begin
	collecting bool
}

type ticketKey struct{}

// newAnswerQueue gives large answers half of the requests in flight, so small ones always find a
// place, and half of a request's time for the wait.
func newAnswerQueue(cfg Config, shares sharing) *answerQueue {
	return &answerQueue{answers: shares(max(cfg.MaxInFlight/2, 1)), reserved: shares(maxReserved), timeout: cfg.RequestTimeout / 2}
}

// withTicket gives each request to the API groups a ticket, and releases it after the answer.
func (q *answerQueue) withTicket(next http.Handler) http.Handler {
	return onlyAPIGroups(next, func(w http.ResponseWriter, r *http.Request) {
		t := &ticket{queue: q, reader: shareOf(r.Context())}
		defer t.release()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ticketKey{}, t)))
	})
}

// ticketOf returns the ticket of a request.
func ticketOf(ctx context.Context) *ticket {
	t, ok := ctx.Value(ticketKey{}).(*ticket)
	if !ok {
		return new(ticket) // without a queue
	}
	return t
}

// buffer implements metric.Query's Reserve. For a large answer it waits in the queue.
func (t *ticket) buffer(ctx context.Context) func(points int) ([]metric.Point, error) {
	return func(points int) ([]metric.Point, error) {
		if err := t.admit(ctx, points); err != nil {
			return nil, err
		}
		t.points = takeBuffer(points)
		return t.points, nil
	}
}

// admit waits until an answer that is as large as some points may be collected. It waits once: another
// source of the same answer may be asked where the first one has nothing.
func (t *ticket) admit(ctx context.Context, points int) error {
	if points <= valuelist.MaxSmall || t.queue == nil || t.waited() {
		return nil
	}
	return t.queue.wait(ctx, t, points)
}

// waited reports whether the answer has its place.
func (t *ticket) waited() bool {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return t.collecting
}

// collected ends the collection; points, if any, are in the ticket's buffer.
func (t *ticket) collected(points []metric.Point) {
	if points != nil {
		t.points = points
	}
	// Fewer may have been collected, or the buffer may be of a larger answer.
	t.keep(max(cap(t.points), 1))
}

// keep ends the collection of a large answer that is as large as some points until it is written.
func (t *ticket) keep(points int) {
	if t.queue == nil {
		return
	}
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	if t.collecting {
		t.collecting, t.queue.collecting = false, false
		points = min(points, t.queue.reserved.largest())
		t.queue.reserved.give(t.reader, t.reserved-points)
		t.reserved = points
		t.queue.dispatchLocked()
	}
}

// release is called when the answer was written or failed.
func (t *ticket) release() {
	if t.ended != nil {
		t.ended()
	}
	t.collected(nil)
	if t.points != nil {
		returnBuffer(t.points)
		t.points = nil
	}
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.reserved > 0 {
		q.reserved.give(t.reader, t.reserved)
		q.answers.give(t.reader, 1)
		t.reserved = 0
		q.dispatchLocked()
	}
}

// wait waits until a large answer may be collected.
func (q *answerQueue) wait(ctx context.Context, t *ticket, points int) error {
	if why := q.enqueue(t, points); why != "" {
		return apierrors.NewTooManyRequests(why, retryAfterSeconds)
	}
	timer := time.NewTimer(q.timeout)
	defer timer.Stop()
	select {
	case <-t.admitted:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if !q.cancel(t) {
		return nil // admitted just now
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("the answer is as large as %d values; large answers are collected one at a time, "+
		"and this one waited for %s; retry later", points, q.timeout), retryAfterSeconds)
}

// enqueue appends an answer to the queue, or says why it is full.
func (q *answerQueue) enqueue(t *ticket, points int) (full string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if full = q.answers.take(t.reader, 1, "large answers"); full != "" {
		return full
	}
	// However large an answer is, it counts as what one reader may have: others have their part beside it.
	t.reserved, t.admitted = min(points, q.reserved.largest()), make(chan struct{})
	q.waiting = append(q.waiting, t)
	q.dispatchLocked()
	return ""
}

// cancel removes an answer from the queue. False: it was admitted.
func (q *answerQueue) cancel(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	place := slices.Index(q.waiting, t)
	if place < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, place, place+1)
	q.answers.give(t.reader, 1)
	t.reserved = 0
	q.dispatchLocked() // the next ones may need less
	return true
}

// dispatchLocked admits the first waiting answer that fits, if none is being collected. An answer
// that does not fit delays no smaller one.
func (q *answerQueue) dispatchLocked() {
	if q.collecting {
		return
	}
	place := slices.IndexFunc(q.waiting, func(t *ticket) bool { return q.reserved.take(t.reader, t.reserved, "points") == "" })
	if place < 0 {
		return
	}
	t := q.waiting[place]
	q.waiting = slices.Delete(q.waiting, place, place+1)
	q.collecting, t.collecting = true, true
	close(t.admitted)
}

// smallBuffers and largeBuffers are for the points of answers. Those of 150,000 objects take 20 MB,
// which the collector scans, and are freed two collections after the last large answer.
var (
	smallBuffers = sync.Pool{New: func() any { return new([]metric.Point) }}
	largeBuffers = sync.Pool{New: func() any { return new([]metric.Point) }}
)

// takeBuffer takes a buffer for an answer of some points; its capacity may be smaller.
func takeBuffer(points int) []metric.Point {
	if points > valuelist.MaxSmall {
		return *largeBuffers.Get().(*[]metric.Point)
	}
	return *smallBuffers.Get().(*[]metric.Point)
}

// returnBuffer returns a buffer with its points.
func returnBuffer(points []metric.Point) {
	clear(points) // releases the strings
	points = points[:0]
	if cap(points) > valuelist.MaxSmall {
		largeBuffers.Put(&points)
		return
	}
	smallBuffers.Put(&points)
}

// retryAfterSeconds is the Retry-After of rejected requests.
const retryAfterSeconds = 1

// limitInFlight rejects requests to the API groups beyond the limit with 429. The custom metrics
// library disables API Priority and Fairness, so nothing else would limit them. Health and version
// are exempt: an overloaded server is not dead. Watches have a limit of their own. A request is in flight until its
// answer is written, which its client may put off, so readers have shares.
func limitInFlight(next http.Handler, requests, watches *readerShares, of func(*http.Request) string, exempt exemption) http.Handler {
	return onlyAPIGroups(next, func(w http.ResponseWriter, r *http.Request) {
		shares, reader := requests, of(r)
		if isWatch(r) { // it lasts, and must not keep autoscalers out
			shares = watches
		}
		if full := shares.take(reader, 1, "requests"); full != "" {
			exempt.orReject(w, r, next, full)
			return
		}
		defer shares.give(reader, 1)
		next.ServeHTTP(w, r)
	})
}

// maxWatches bounds the watches of usage.
const maxWatches = 100

// requestPaths reads requests as the library does.
var requestPaths = request.RequestInfoFactory{APIPrefixes: sets.NewString("apis"), GrouplessAPIPrefixes: sets.NewString()}

// isWatch reports whether the library takes a request for a watch of usage, which is all that can be watched:
// "watch=false" is none, and "watch/" in a path, which Kubernetes had before, is one.
func isWatch(r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, genericapiserver.APIGroupPrefix+"/"+derivedVersion.Group+"/") {
		return false
	}
	info, err := requestPaths.NewRequestInfo(r)
	return err == nil && info.Verb == "watch"
}

// exemption says which requests pass a limit, though it is reached. It is asked for those alone; nil: none.
type exemption func(*http.Request) bool

// orReject passes a request on, or rejects it with the reason.
func (e exemption) orReject(w http.ResponseWriter, r *http.Request, next http.Handler, why string) {
	if e != nil && e(r) {
		next.ServeHTTP(w, r)
		return
	}
	rejectTooMany(w, r, why)
}

// limitInFlightPerClient is limitInFlight per client address.
func limitInFlightPerClient(next http.Handler, limit int, exempt exemption) http.Handler {
	requests, watches := connlimit.NewSlots(0, limit), connlimit.NewSlots(0, max(limit, maxWatches))
	refusal := fmt.Sprintf("%d requests from this address are in flight, which is the limit per address; retry later",
		limit)
	return onlyAPIGroups(next, func(w http.ResponseWriter, r *http.Request) {
		from, slots := connlimit.Prefix(r.RemoteAddr), requests
		if isWatch(r) {
			slots = watches
		}
		if slots.Acquire(from) != nil {
			exempt.orReject(w, r, next, refusal)
			return
		}
		defer slots.Release(from)
		next.ServeHTTP(w, r)
	})
}

// onlyAPIGroups passes requests to the API groups to limited, and all others to next.
func onlyAPIGroups(next http.Handler, limited http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, genericapiserver.APIGroupPrefix+"/") {
			limited(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func rejectTooMany(w http.ResponseWriter, r *http.Request, why string) {
	err := apierrors.NewTooManyRequests(why, retryAfterSeconds)
	responsewriters.ErrorNegotiated(err, cmserver.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
}
