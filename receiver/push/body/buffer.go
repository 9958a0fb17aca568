package body

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/internal/fair"
)

const (
	// FreeBytes of each body are not charged to the budget.
	FreeBytes = 64 << 10
	// FreeOfShare are bytes of each share that take nothing of the budget, whatever others have taken. There are as many shares
	// as namespaces, and addresses outside of these, that have a request in flight.
	FreeOfShare = 32 << 10
)

// Share is whose bodies arrive, and whose answers are written: those of a namespace, whose author may have any number of pods,
// otherwise those of an address. The zero Share is nobody's.
type Share struct {
	Namespace string
	From      netip.Prefix
}

// Budget bounds the memory of all bodies together. Nothing waits for it: a body that does not fit
// is rejected, and the client sends it again.
type Budget struct {
	Max  int64
	One  int64 // what the largest body takes, which a share has while memory is short, too
	Held atomic.Int64

	mu sync.Mutex // guards of
	of fair.Shares[Share, int64]
}

// beyond is what a share takes of the budget.
func beyond(has int64) int64 { return max(has-FreeOfShare, 0) }

// takeOf is Take for a share: those that take all they can leave a part to others.
func (b *Budget) takeOf(share Share, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	has := b.of.Of(share)
	more := beyond(has+n) - beyond(has)
	if more > 0 && (more > fair.MoreWhileShort(beyond(has), b.Max-b.Held.Load(), b.Max, b.One) || !b.Take(more)) {
		return false
	}
	b.of.Add(share, n)
	return true
}

// giveOf gives back what takeOf has taken.
func (b *Budget) giveOf(share Share, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	has := b.of.Of(share)
	b.Held.Add(beyond(has-n) - beyond(has))
	b.of.Add(share, -n)
}

// Hold takes n bytes of a share until release is called, once.
func (b *Budget) Hold(share Share, n int64) (release func(), held bool) {
	if !b.takeOf(share, n) {
		return nil, false
	}
	return sync.OnceFunc(func() { b.giveOf(share, n) }), true
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
	// Share is whose body it is, if the budget has shares.
	Share  Share
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
		shared := u.Share != (Share{}) && budget.Max >= 2*int64(max-1) // else one body would not fit
		if !u.charge(budget, more, shared) {
			return false
		}
	}
	bigger := make([]byte, len(u.B), size)
	copy(bigger, u.B)
	u.B = bigger
	return true
}

// charge takes bytes from the budget, or from a share in it.
func (u *Buffer) charge(budget *Budget, more int64, shared bool) bool {
	switch {
	case shared && budget.takeOf(u.Share, more):
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
		if !u.charge(budget, more, u.Share != (Share{})) {
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
	budget.Held.Add(u.shared - u.Charged)
	if u.shared > 0 {
		budget.giveOf(u.Share, u.shared)
	}
	u.Charged, u.shared, u.Beside, u.Share = 0, 0, 0, Share{}
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
