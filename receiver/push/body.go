package push

import (
	"errors"
	"io"
	"sync/atomic"
)

// freeBytes of each body are not charged to the budget.
const freeBytes = 64 << 10

// budget bounds what the bodies of all requests hold together. Nobody waits for it: what does not fit is
// refused, and the client comes again.
type budget struct {
	max  int64
	held atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.held.Add(n) <= b.max {
		return true
	}
	b.held.Add(-n)
	return false
}

// buffer is a body in memory. It grows with what arrived, never with what was announced, and charges what
// it holds beyond freeBytes.
type buffer struct {
	b       []byte
	charged int64
}

// grow makes room for at least one more byte, up to max.
func (u *buffer) grow(budget *budget, max int) bool {
	size := min(2*cap(u.b), max)
	if size < 512 {
		size = min(512, max)
	}
	if more := int64(size) - freeBytes - u.charged; more > 0 {
		if !budget.take(more) {
			return false
		}
		u.charged += more
	}
	bigger := make([]byte, len(u.b), size)
	copy(bigger, u.b)
	u.b = bigger
	return true
}

// reserve makes room for n bytes at once.
func (u *buffer) reserve(budget *budget, n int) bool {
	if n <= cap(u.b) {
		return true
	}
	if more := int64(n) - freeBytes - u.charged; more > 0 {
		if !budget.take(more) {
			return false
		}
		u.charged += more
	}
	u.b = make([]byte, 0, n)
	return true
}

// release gives the charge back, and the memory too if it is more than a pool should keep.
func (u *buffer) release(budget *budget) {
	budget.held.Add(-u.charged)
	u.charged = 0
	if cap(u.b) > freeBytes {
		u.b = nil
	}
	u.b = u.b[:0]
}

var (
	errTooLarge = errors.New("too large")
	errBusy     = errors.New("too many bytes in flight")

	errUnknownCoding = errors.New("unknown content coding")
)

// fill reads r to its end. One byte more than max is errTooLarge.
func (u *buffer) fill(r io.Reader, budget *budget, max int) error {
	u.b = u.b[:0]
	for {
		if len(u.b) == cap(u.b) && !u.grow(budget, max+1) {
			return errBusy
		}
		n, err := r.Read(u.b[len(u.b):cap(u.b)])
		u.b = u.b[:len(u.b)+n]
		switch {
		case len(u.b) > max:
			return errTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
