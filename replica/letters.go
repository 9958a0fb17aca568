package replica

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// letters joins the pieces of bodies. It holds a bounded number of bytes, and forgets the oldest
// letter above it.
type letters struct {
	budget *budget
	open   []*letter // in the order of their first pieces
	bytes  int
}

// budget bounds the bytes of messages that several followers hold: in inboxes, letters and pending
// changes. Any goroutine may call its methods.
type budget struct {
	most int64
	held atomic.Int64
}

const (
	// maxPeersHold bounds what the followers of configured peers hold in sum, or all followers if no
	// peers are configured. maxOthersHold is the bound of all others.
	maxPeersHold  = 4 * maxBody
	maxOthersHold = 2 * maxBody
)

// take reports whether there is room for n bytes. give returns them.
func (b *budget) take(n int) bool {
	if b.held.Add(int64(n)) > b.most {
		b.give(n)
		return false
	}
	return true
}

func (b *budget) give(n int) { b.held.Add(int64(-n)) }

// letter is a body of which some pieces have arrived.
type letter struct {
	sender
	number uint64
	pieces [][]byte
	left   int
	bytes  int
}

// maxLetters bounds the letters that are open at once. Their bytes are bounded by maxBody.
const maxLetters = 64

// join enters a piece, which it retains, and returns the body if the piece completes one.
func (l *letters) join(h *header, piece []byte) (body []byte, complete bool) {
	if h.pieces == 1 {
		return piece, true
	}
	letter := l.find(h)
	if letter.pieces[h.piece] != nil {
		return nil, false
	}
	for !l.budget.take(len(piece)) {
		first := l.open[0]
		if l.drop(first); first == letter {
			return nil, false
		}
	}
	letter.pieces[h.piece] = piece
	letter.left--
	letter.bytes += len(piece)
	l.bytes += len(piece)
	if letter.left > 0 {
		l.bound()
		return nil, false
	}
	l.drop(letter)
	return slices.Concat(letter.pieces...), true
}

func (l *letters) find(h *header) *letter {
	for _, one := range l.open {
		if one.number == h.letter && one.sender == h.sender && len(one.pieces) == h.pieces {
			return one
		}
	}
	one := &letter{sender: h.sender, number: h.letter, pieces: make([][]byte, h.pieces), left: h.pieces}
	l.open = append(l.open, one)
	return one
}

func (l *letters) bound() {
	for len(l.open) > maxLetters || l.bytes > maxBody {
		l.drop(l.open[0])
	}
}

func (l *letters) drop(one *letter) {
	at := slices.Index(l.open, one)
	l.open = slices.Delete(l.open, at, at+1)
	l.bytes -= one.bytes
	l.budget.give(one.bytes)
}

// clear forgets all letters.
func (l *letters) clear() {
	l.budget.give(l.bytes)
	l.open, l.bytes = nil, 0
}

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
