package body

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
			if err := c.decode(t.Context(), netip.Prefix{}, []byte("x"), new(Buffer), &Budget{Max: 1 << 20}, 100); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, want := most.Load(), int64(2*runtime.GOMAXPROCS(0)); n == 0 || n > want {
		t.Errorf("%d decoders were at work at once, want %d at most", n, want)
	}
	failing := newCoding(func(*decoder) error { return errors.New("no") }, "failing")
	for range 3 * decodersAtWork() { // a turn is given back
		if failing.decode(t.Context(), netip.Prefix{}, nil, new(Buffer), new(Budget), 1) == nil {
			t.Fatal("no error")
		}
	}
}

// Bodies of one address that wait for a decoder, however many, delay one of another address by a turn.
func TestBombsOfOneAddressDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order strings.Builder
		step := make(chan struct{})
		c := newCoding(func(d *decoder) error {
			of, _ := d.source.ReadByte()
			mu.Lock()
			order.WriteByte(of)
			mu.Unlock()
			<-step
			return io.ErrUnexpectedEOF
		}, "slow")
		const bombs = 500
		for range bombs {
			go func() {
				_ = c.decode(t.Context(), netip.MustParsePrefix("10.0.0.1/32"), []byte("x"), new(Buffer), new(Budget), 1)
			}()
		}
		synctest.Wait()
		go func() {
			_ = c.decode(t.Context(), netip.MustParsePrefix("10.0.0.2/32"), []byte("o"), new(Buffer), new(Budget), 1)
		}()
		synctest.Wait()
		for range bombs + 1 {
			step <- struct{}{}
			synctest.Wait()
		}
		if at := strings.IndexByte(order.String(), 'o'); at < 0 || at > decodersAtWork()+2 {
			t.Errorf("the body of another address is decoded after %d bombs, of %d", at, bombs)
		}
	})
}

// A body whose client gives up, or that has waited for long, leaves the line of decoders.
func TestTheWaitForADecoderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		c := newCoding(func(*decoder) error {
			<-step
			return io.ErrUnexpectedEOF
		}, "slow")
		gone, leave := context.WithCancel(t.Context())
		ended := make(chan error, 3*decodersAtWork())
		for i := range 3 * decodersAtWork() {
			ctx := t.Context()
			if i >= 2*decodersAtWork() {
				ctx = gone
			}
			go func() { ended <- c.decode(ctx, netip.Prefix{}, nil, new(Buffer), new(Budget), 1) }()
			synctest.Wait()
		}
		for _, end := range []func(){leave, func() { time.Sleep(decoderPatience) }} {
			end()
			synctest.Wait()
			if len(ended) != decodersAtWork() {
				t.Errorf("%d waits have ended, want %d", len(ended), decodersAtWork())
			}
			for range len(ended) {
				if err := <-ended; !errors.Is(err, ErrCrowded) {
					t.Error(err)
				}
			}
		}
		close(step)
		for range decodersAtWork() {
			if err := <-ended; !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
		}
		if n := c.inUse.Free(); n != decodersAtWork() {
			t.Errorf("%d decoders are free at the end", n)
		}
	})
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
		if _, err := Decode(t.Context(), name, netip.Prefix{}, wire, &into, budget, len(plain)); err != nil || !bytes.Equal(into.B, plain) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(into.B), len(plain), err)
		}
		if _, err := Decode(t.Context(), name, netip.Prefix{}, wire, &into, budget, len(plain)-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v for a byte more than the limit", name, err)
		}
	}
}
