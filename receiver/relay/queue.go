package relay

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// queue holds the lines that wait for a target, each with a newline at its end.
type queue struct {
	most  int
	woken chan struct{} // has a token while lines wait

	mu      sync.Mutex
	waiting []byte

	sent, dropped, failed atomic.Uint64 // lines
}

func newQueue(most int) *queue { return &queue{most: most, woken: make(chan struct{}, 1)} }

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
