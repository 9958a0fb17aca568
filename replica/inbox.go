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

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put enters a message. It reports false if there is no room.
func (i *inbox) put(p parcel) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.bytes+len(p.piece)+parcelBytes > maxInbox {
		return false
	}
	i.bytes += len(p.piece) + parcelBytes
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
	taken := i.parcels
	i.parcels, i.bytes = nil, 0
	return taken
}
