package body

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/s2"
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

// A body may decompress to exactly the limit, whatever its coding.
func TestTheLimitIsTaken(t *testing.T) {
	plain := bytes.Repeat([]byte("sluice"), 1000)
	var zipped, framed bytes.Buffer
	z, s := gzip.NewWriter(&zipped), s2.NewWriter(&framed, s2.WriterSnappyCompat())
	_, _ = z.Write(plain)
	_, _ = s.Write(plain)
	if err := errors.Join(z.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	for name, wire := range map[string][]byte{"gzip": zipped.Bytes(), "snappy": s2.EncodeSnappy(nil, plain), "x-gzip": zipped.Bytes(), "SNAPPY": framed.Bytes()} {
		budget := &Budget{Max: 1 << 20}
		var into Buffer
		if _, err := Decode(name, wire, &into, budget, len(plain)); err != nil || !bytes.Equal(into.B, plain) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(into.B), len(plain), err)
		}
		if _, err := Decode(name, wire, &into, budget, len(plain)-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v for a byte more than the limit", name, err)
		}
	}
}
