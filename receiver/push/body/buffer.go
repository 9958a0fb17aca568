package body

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/internal/fair"
)

// FreeBytes of each body are not charged to the budget.
const FreeBytes = 64 << 10

// Budget bounds the memory of all bodies together. Nothing waits for it: a body that does not fit
// is rejected, and the client sends it again.
type Budget struct {
	Max  int64
	Held atomic.Int64

	mu   sync.Mutex                       // guards from
	from fair.Shares[netip.Prefix, int64] // what bodies that arrive, and answers that are written, have, by address
}

// takeOf is Take for a body that arrives from an address: bodies that never end leave a part to other addresses.
func (b *Budget) takeOf(from netip.Prefix, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > fair.More(b.from.Of(from), b.Max-b.Held.Load()) || !b.Take(n) {
		return false
	}
	b.from.Add(from, n)
	return true
}

// giveOf ends the share of a body. It returns nothing to the budget.
func (b *Budget) giveOf(from netip.Prefix, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.from.Add(from, -n)
}

// Hold takes n bytes of the share of an address until release is called, once.
func (b *Budget) Hold(from netip.Prefix, n int64) (release func(), held bool) {
	if !b.takeOf(from, n) {
		return nil, false
	}
	return sync.OnceFunc(func() {
		b.Held.Add(-n)
		b.giveOf(from, n)
	}), true
}

// Take takes n bytes, and reports whether there were enough.
func (b *Budget) Take(n int64) bool {
	if b.Held.Add(n) <= b.Max {
		return true
	}
	b.Held.Add(-n)
	return false
}

// Buffer is a body in memory. It grows with the bytes that arrive, never with those announced, and
// charges its memory beyond FreeBytes.
type Buffer struct {
	B       []byte
	Charged int64
	// All charges FreeBytes, too: as many bodies may arrive as there are streams, not connections.
	All bool
	// Beside is memory that is held beside the body, and counts as a part of its FreeBytes.
	Beside int64
	// From is the address that a body arrives from, if the budget is shared between these.
	From   netip.Prefix
	shared int64 // of Charged
}

// uncharged is how much memory is not charged.
func (u *Buffer) uncharged() int64 {
	if u.All {
		return 0
	}
	return max(FreeBytes-u.Beside, 0)
}

// grow makes space for at least one more byte, up to max.
func (u *Buffer) grow(budget *Budget, max int) bool {
	size := min(2*cap(u.B), max)
	if size < 512 {
		size = min(512, max)
	}
	if more := int64(size) - u.uncharged() - u.Charged; more > 0 {
		shared := u.From.IsValid() && budget.Max >= 2*int64(max-1) // else one body would not fit
		if !u.charge(budget, more, shared) {
			return false
		}
	}
	bigger := make([]byte, len(u.B), size)
	copy(bigger, u.B)
	u.B = bigger
	return true
}

// charge takes bytes from the budget, or from the share of an address in it.
func (u *Buffer) charge(budget *Budget, more int64, shared bool) bool {
	switch {
	case shared && budget.takeOf(u.From, more):
		u.shared += more
	case shared || !budget.Take(more):
		return false
	}
	u.Charged += more
	return true
}

// reserve makes space for n bytes.
func (u *Buffer) reserve(budget *Budget, n int) bool {
	if n <= cap(u.B) {
		return true
	}
	reused := takeIdle(n)
	if more := int64(max(n, cap(reused))) - u.uncharged() - u.Charged; more > 0 {
		if !u.charge(budget, more, u.From.IsValid()) {
			return false
		}
	}
	if u.B = reused; u.B == nil {
		u.B = make([]byte, 0, n)
	}
	return true
}

// Release returns the charge, and gives the memory up if it is more than a request should keep.
func (u *Buffer) Release(budget *Budget) {
	budget.Held.Add(-u.Charged)
	if u.shared > 0 {
		budget.giveOf(u.From, u.shared)
	}
	u.Charged, u.shared, u.Beside, u.From = 0, 0, 0, netip.Prefix{}
	if cap(u.B) > FreeBytes || u.All {
		giveIdle(u.B)
		u.B = nil
	}
	u.B, u.All = u.B[:0], false
}

// idle has the memory of decompressed bodies that are larger than a request keeps: a Prometheus
// sends the next one within a moment, and clearing and collecting fresh memory takes a tenth of a
// remote write. The garbage collector empties it.
var idle sync.Pool // of *[]byte

// maxIdle bounds one piece of idle memory, so that one large body doesn't stay.
const maxIdle = 1 << 20

// takeIdle returns idle memory of n to 2n bytes, or nil.
func takeIdle(n int) []byte {
	p, _ := idle.Get().(*[]byte)
	if p == nil || cap(*p) < n || cap(*p) > 2*n {
		return nil
	}
	return (*p)[:0]
}

func giveIdle(b []byte) {
	if cap(b) <= maxIdle {
		idle.Put(&b)
	}
}

var (
	ErrTooLarge = errors.New("too large")
	ErrBusy     = errors.New("too many bytes in flight")
	ErrCrowded  = errors.New("too many bodies wait for a decoder")

	ErrUnknownCoding = errors.New("unknown content coding")
)

// Fill reads r to its end. One byte more than max is ErrTooLarge.
func (u *Buffer) Fill(r io.Reader, budget *Budget, max int) error {
	if u.B = u.B[:0]; int64(cap(u.B)) > u.uncharged() {
		u.B = nil // the memory of an earlier body, which is not charged
	}
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
