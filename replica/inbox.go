package replica

import (
	"sync"
	"time"
)

// inbox holds the messages that wait for a follower's goroutine. It is bounded in bytes.
type inbox struct {
	wake chan struct{} // has a token while there are messages

	mu      sync.Mutex // guards the fields below
	parcels []parcel
	bytes   int
	budget  *budget
	closed  bool
}

// parcel is a message that was received.
type parcel struct {
	header
	piece  []byte
	offset time.Duration // local clock minus the sender's; of messages about silent origins
}

const (
	// parcelBytes is the memory of a parcel besides its piece.
	parcelBytes = 128
	maxInbox    = maxBody
)

func newInbox(b *budget) *inbox { return &inbox{wake: make(chan struct{}, 1), budget: b} }

// put enters a message. It reports false if there is no room.
func (i *inbox) put(p parcel) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	size := len(p.piece) + parcelBytes
	if i.closed || i.bytes+size > maxInbox || !i.budget.take(size) {
		return false
	}
	i.bytes += size
	i.parcels = append(i.parcels, p)
	select {
	case i.wake <- struct{}{}:
	default:
	}
	return true
}

// take removes and returns all messages, in their order.
func (i *inbox) take() []parcel {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.takeLocked()
}

func (i *inbox) takeLocked() []parcel {
	taken := i.parcels
	i.budget.give(i.bytes)
	i.parcels, i.bytes = nil, 0
	return taken
}

// close forgets all messages, and takes no more.
func (i *inbox) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.takeLocked()
}
