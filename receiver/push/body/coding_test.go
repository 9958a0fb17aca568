package body

import (
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// slowReader yields the processor as a long body makes a decoder do, and tells how many are at it.
type slowReader struct{ at, most *atomic.Int64 }

func (r slowReader) Read([]byte) (int, error) {
	n := r.at.Add(1)
	defer r.at.Add(-1)
	for most := r.most.Load(); n > most && !r.most.CompareAndSwap(most, n); most = r.most.Load() {
	}
	for range 100 {
		runtime.Gosched()
	}
	return 0, io.EOF
}

// However many compressed bodies come at once, each with a window of its own choice, few decoders
// are at work.
func TestDecodersAtWorkAreFew(t *testing.T) {
	var at, most atomic.Int64
	c := newCoding(func(d *decoder) error {
		d.Reader = slowReader{&at, &most}
		return nil
	}, "slow")
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			if err := c.decode([]byte("x"), new(Buffer), &Budget{Max: 1 << 20}, 100); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, want := most.Load(), int64(2*runtime.GOMAXPROCS(0)); n == 0 || n > want {
		t.Errorf("%d decoders were at work at once, want %d at most", n, want)
	}
	failing := newCoding(func(*decoder) error { return errors.New("no") }, "failing")
	for range 3 * cap(failing.inUse) { // a turn is given back
		if failing.decode(nil, new(Buffer), new(Budget), 1) == nil {
			t.Fatal("no error")
		}
	}
}
