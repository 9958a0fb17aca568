package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog"
)

const (
	// gatherTime is how long lines gather, so that they share packets.
	gatherTime = 5 * time.Millisecond
	// maxPacket is the payload of a datagram that passes an Ethernet unfragmented. A longer line is
	// a datagram of its own.
	maxPacket = 1432
	// maxWrite is written to a stream at once.
	maxWrite = 64 << 10

	dialTimeout  = 5 * time.Second
	writeTimeout = 5 * time.Second
	drainTime    = time.Second
	leastBackoff = 100 * time.Millisecond
	maxBackoff   = 10 * time.Second
	// lookupInterval is how long a datagram socket keeps the address that a name had.
	lookupInterval = time.Minute
)

// target is a server that gets lines. One goroutine runs it and owns all fields but the queue.
type target struct {
	name, network, address string
	*queue
	log      *slog.Logger
	failures ratelog.Limiter
	dial     func(ctx context.Context, network, address string) (net.Conn, error)

	conn    net.Conn
	forget  func() bool     // ends the connection's part in ended; nil: it has none
	ended   context.Context // of run
	until   time.Time       // writing ends then, once ended has; zero: it has not
	dialled time.Time
	backoff time.Duration
	retryAt time.Time
}

var errPeerClosed = errors.New("the server closed the connection")

// run sends until ctx ends, and then what waits.
func (t *target) run(ctx context.Context) {
	t.failures.Interval = 10 * time.Second
	t.ended = ctx
	var buffer []byte
	for t.await(ctx) {
		buffer = t.take(buffer)
		t.send(buffer)
	}
	t.drain(buffer)
}

// await waits for lines and for a connection. It returns false when ctx ends.
func (t *target) await(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-t.woken:
	}
	pause(ctx, gatherTime)
	for ctx.Err() == nil {
		if t.connect(ctx) {
			return true
		}
		pause(ctx, time.Until(t.retryAt)) // lines wait, and those without room are dropped
	}
	return false
}

// drain sends the rest. Lines that are left then are dropped.
func (t *target) drain(buffer []byte) {
	ctx, end := context.WithTimeout(context.Background(), drainTime)
	defer end()
	lines := t.take(buffer)
	if len(lines) == 0 || !t.connect(ctx) {
		t.dropped.Add(countLines(lines))
	} else {
		t.send(lines)
	}
	t.close()
}

// connect reports whether there is a connection.
func (t *target) connect(ctx context.Context) bool {
	if t.conn != nil && (t.network == "tcp" || time.Since(t.dialled) < lookupInterval) {
		return true
	}
	if time.Now().Before(t.retryAt) {
		return t.conn != nil
	}
	conn, err := t.dial(ctx, t.network, t.address)
	t.dialled = time.Now()
	if err != nil {
		if ctx.Err() == nil {
			t.retryLater(err)
		}
		return t.conn != nil // a name that is unknown for the moment keeps its address
	}
	t.close()
	t.conn = conn
	if t.network == "tcp" {
		go closeAtEnd(conn)
		t.forget = context.AfterFunc(t.ended, func() { _ = conn.SetWriteDeadline(time.Now().Add(drainTime)) })
	}
	return true
}

// closeAtEnd closes a connection when the peer closes it: otherwise writes into it would be lost
// before the first error. StatsD servers send nothing. It ends with the connection.
func closeAtEnd(conn net.Conn) {
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

func (t *target) close() {
	if t.conn != nil {
		_ = t.conn.Close()
		t.conn = nil
	}
	if t.forget != nil {
		t.forget()
		t.forget = nil
	}
}

// retryLater logs a failure, and waits longer after each in a row.
func (t *target) retryLater(err error) {
	t.backoff = min(max(2*t.backoff, leastBackoff), maxBackoff)
	t.retryAt = time.Now().Add(t.backoff)
	if suppressed, ok := t.failures.Allow(); ok {
		t.log.Warn("cannot relay lines; those that find no room are dropped", "target", t.name, "error", err,
			"dropped", t.dropped.Load()+t.failed.Load(), "suppressed", suppressed)
	}
}

// send writes lines. The rest after a failure is dropped: a server may have a part of it.
func (t *target) send(lines []byte) {
	for len(lines) > 0 {
		piece := cut(lines, t.pieceBytes())
		lines = lines[len(piece):]
		if err := t.write(piece); err != nil {
			t.lost(piece, err)
			if t.network == "tcp" {
				t.failed.Add(countLines(lines))
				return
			}
			continue
		}
		t.backoff = 0
		t.sent.Add(countLines(piece))
	}
}

func (t *target) pieceBytes() int {
	if t.network == "udp" {
		return maxPacket
	}
	return maxWrite
}

func (t *target) write(piece []byte) error {
	if t.network == "udp" {
		piece = piece[:len(piece)-1] // the newline at the end of a datagram says nothing
	} else if err := t.limitWrite(); err != nil {
		return errPeerClosed
	}
	_, err := t.conn.Write(piece)
	return err
}

// limitWrite sets the deadline of a write. The end of run shortens one that is under way.
func (t *target) limitWrite() error {
	if t.ended.Err() == nil {
		if err := t.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil || t.ended.Err() == nil {
			return err
		}
	}
	if t.until.IsZero() {
		t.until = time.Now().Add(drainTime)
	}
	return t.conn.SetWriteDeadline(t.until)
}

// lost counts lines whose write failed. A datagram socket stays open: its error may be of an
// earlier datagram.
func (t *target) lost(piece []byte, err error) {
	t.failed.Add(countLines(piece))
	if t.network == "tcp" {
		t.close()
	}
	t.retryLater(err)
}

// cut returns the first lines, of at most limit bytes without the last newline, or a longer line.
func cut(lines []byte, limit int) []byte {
	if len(lines) <= limit+1 {
		return lines
	}
	if end := bytes.LastIndexByte(lines[:limit+1], '\n'); end >= 0 {
		return lines[:end+1]
	}
	return lines[:bytes.IndexByte(lines, '\n')+1]
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// queue holds the lines that wait for a target, each with a newline at its end.
type queue struct {
	most  int
	woken chan struct{} // has a token while lines wait

	mu      sync.Mutex
	waiting []byte

	sent, dropped, failed atomic.Uint64 // lines
}

func newQueue(limit int) *queue { return &queue{most: limit, woken: make(chan struct{}, 1)} }

// add appends lines, or drops them if there is no room.
func (q *queue) add(lines []byte) {
	size := len(lines)
	if lines[size-1] != '\n' {
		size++
	}
	q.mu.Lock()
	before := len(q.waiting)
	if before+size > q.most {
		q.mu.Unlock()
		q.dropped.Add(countLines(lines))
		return
	}
	q.waiting = append(q.waiting, lines...)
	if size > len(lines) {
		q.waiting = append(q.waiting, '\n')
	}
	q.mu.Unlock()
	if before == 0 {
		select {
		case q.woken <- struct{}{}:
		default:
		}
	}
}

// take returns all lines, and makes an empty buffer the next one. A buffer that grew far beyond its
// lines is left to the collector.
func (q *queue) take(empty []byte) []byte {
	if cap(empty) > keptBytes {
		empty = nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	lines := q.waiting
	q.waiting = empty[:0]
	return lines
}

// size is the number of bytes that wait.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// keptBytes is the largest buffer that is reused.
const keptBytes = 256 << 10

// countLines counts lines that are not empty, of which the last may lack its newline.
func countLines(lines []byte) (n uint64) {
	n = uint64(bytes.Count(lines, []byte{'\n'}))
	if len(lines) > 0 && lines[len(lines)-1] != '\n' {
		n++
	}
	return n
}
