package route

import (
	"bytes"
	"errors"
	"io"

	"github.com/sluice-metrics/sluice/internal/fair"
)

const (
	// decodedFactor is what a byte of an answer takes in memory once it is decoded: 1.7 for values
	// without labels, 4 for those with one, up to 5.4 where an answer is nearly all labels.
	decodedFactor = 4
	// leastObject is what an object of an answer counts as at least: an empty value takes 160 bytes.
	leastObject = 50
	// maxHeld bounds the memory of all answers, from their first byte until they are written, and
	// freeHeld is the part of a reader that counts towards no bound.
	maxHeld, freeHeld = 64 << 20, 256 << 10
)

func newAnswersRoom() *fair.Room[string, int] { return fair.NewBriefRoom[string](freeHeld, maxHeld) }

// held is what an answer takes of the room for answers. One goroutine uses it. Nil: it takes nothing.
type held struct {
	room  *fair.Room[string, int]
	share string
	bytes int
}

func (h *held) take(n int) bool {
	if h == nil {
		return true
	}
	if !h.room.Take(h.share, n) {
		return false
	}
	h.bytes += n
	return true
}

func (h *held) give() {
	h.room.Give(h.share, h.bytes)
	h.bytes = 0
}

var errNoRoom = errors.New("there is no room for the answer")

// heldBody is a body that takes its room as it is read.
type heldBody struct {
	io.Reader
	held *held
}

// Read implements io.Reader.
func (b heldBody) Read(into []byte) (int, error) {
	n, err := b.Reader.Read(into)
	if !b.held.take(decodedFactor * n) {
		return 0, errNoRoom
	}
	return n, err
}

// sizeOf is the size of an answer, which is larger than its bytes if it is of very small objects.
func sizeOf(body []byte) int { return max(len(body), leastObject*bytes.Count(body, []byte("{"))) }
