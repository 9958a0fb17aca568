package natsbus

import (
	"errors"
	"sync"
)

const (
	// outboxBytes bounds the messages that wait for the connection: some seconds of a busy
	// replica.
	outboxBytes = 32 << 20
	// largeBytes is the size from which a message leaves smallBytes of these to smaller ones: a flood
	// of large changes drops neither heartbeats nor the changes of other blocks.
	largeBytes = 256 << 10
	smallBytes = outboxBytes / 4
)

// errFull means that a message was dropped: NATS takes messages more slowly than they come.
var errFull = errors.New("dropped: the connection to NATS is busy")

// errClosed means that a message was dropped after the end.
var errClosed = errors.New("dropped: the connection to NATS is closed")

// letter is a message whose bytes end at end in a batch's data.
type letter struct {
	subject string
	end     int
}

// batch is a number of messages, one after the other in data.
type batch struct {
	data    []byte
	letters []letter
	peak    int // the most bytes of a recent batch; falls by 1/16 with each
}

// reset empties the batch. It keeps the memory that flushes need, and none of a flood.
func (b *batch) reset() {
	b.peak = max(b.peak-b.peak/16, len(b.data))
	if cap(b.data) > 4*b.peak {
		b.data, b.letters = nil, nil
	}
	clear(b.letters)
	b.data, b.letters = b.data[:0], b.letters[:0]
}

// outbox stands between publishers, who must not wait, and the connection, whose writes may.
// It has two batches: publishers fill one while the sender sends the other.
type outbox struct {
	mu      sync.Mutex
	filling *batch
	sending int // bytes that the sender has taken and not finished
	closed  bool
	wake    chan struct{} // of capacity 1
}

func newOutbox() *outbox {
	return &outbox{filling: &batch{}, wake: make(chan struct{}, 1)}
}

// put appends a copy of the message.
func (o *outbox) put(subject string, message []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errClosed
	}
	room := outboxBytes
	if len(message) >= largeBytes {
		room -= smallBytes
	}
	if o.sending+len(o.filling.data)+len(message) > room {
		return errFull
	}
	o.filling.data = append(o.filling.data, message...)
	o.filling.letters = append(o.filling.letters, letter{subject, len(o.filling.data)})
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return nil
}

// busy reports whether more than half of the room is taken.
func (o *outbox) busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sending+len(o.filling.data) > outboxBytes/2
}

// sent gives back the room of the batch that was taken.
func (o *outbox) sent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = 0
}

// take exchanges the sent batch for the filled one.
func (o *outbox) take(sent *batch) *batch {
	sent.reset()
	o.mu.Lock()
	defer o.mu.Unlock()
	filled := o.filling
	o.filling, o.sending = sent, len(filled.data)
	return filled
}

// close ends the loop of send after it has sent what is there.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.wake)
	}
}

// send calls publish with each message in order, until close.
func (o *outbox) send(publish func(subject string, message []byte)) {
	spare := &batch{}
	for open := true; open; {
		_, open = <-o.wake
		spare = o.take(spare)
		begin := 0
		for _, l := range spare.letters {
			publish(l.subject, spare.data[begin:l.end])
			begin = l.end
		}
		o.sent()
	}
	o.take(spare)
}
