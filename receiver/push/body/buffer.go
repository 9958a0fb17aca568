package body

import (
	"errors"
	"io"
	"sync/atomic"
)

// freeBytes of each body are not charged to the budget.
const FreeBytes = 64 << 10

// budget bounds what the bodies of all requests hold together. Nobody waits for it: what does not fit is
// refused, and the client comes again.
type Budget struct {
	Max  int64
	Held atomic.Int64
}

func (b *Budget) Take(n int64) bool {
	if b.Held.Add(n) <= b.Max {
		return true
	}
	b.Held.Add(-n)
	return false
}

// buffer is a body in memory. It grows with what arrived, never with what was announced, and charges what
// it holds beyond freeBytes.
type Buffer struct {
	B       []byte
	Charged int64
}

// grow makes room for at least one more byte, up to max.
func (u *Buffer) grow(budget *Budget, max int) bool {
	size := min(2*cap(u.B), max)
	if size < 512 {
		size = min(512, max)
	}
	if more := int64(size) - FreeBytes - u.Charged; more > 0 {
		if !budget.Take(more) {
			return false
		}
		u.Charged += more
	}
	bigger := make([]byte, len(u.B), size)
	copy(bigger, u.B)
	u.B = bigger
	return true
}

// reserve makes room for n bytes at once.
func (u *Buffer) reserve(budget *Budget, n int) bool {
	if n <= cap(u.B) {
		return true
	}
	if more := int64(n) - FreeBytes - u.Charged; more > 0 {
		if !budget.Take(more) {
			return false
		}
		u.Charged += more
	}
	u.B = make([]byte, 0, n)
	return true
}

// release gives the charge back, and the memory too if it is more than a pool should keep.
func (u *Buffer) Release(budget *Budget) {
	budget.Held.Add(-u.Charged)
	u.Charged = 0
	if cap(u.B) > FreeBytes {
		u.B = nil
	}
	u.B = u.B[:0]
}

var (
	ErrTooLarge = errors.New("too large")
	ErrBusy     = errors.New("too many bytes in flight")

	ErrUnknownCoding = errors.New("unknown content coding")
)

// fill reads r to its end. One byte more than max is errTooLarge.
func (u *Buffer) Fill(r io.Reader, budget *Budget, max int) error {
	u.B = u.B[:0]
	for {
		if len(u.B) == cap(u.B) && !u.grow(budget, max+1) {
			return ErrBusy
		}
		n, err := r.Read(u.B[len(u.B):cap(u.B)])
		u.B = u.B[:len(u.B)+n]
		switch {
		case len(u.B) > max:
			return ErrTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
