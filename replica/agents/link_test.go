package agents

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// badLink is a proxy between an agent and a server. What passes it waits, comes in pieces, and connections are cut in the middle of what passes; the
// other end hears of that late or never.
type badLink struct {
	listener net.Listener
	to       string
	cut      atomic.Bool // cut connections now and then
	cuts     atomic.Int64
	running  sync.WaitGroup
	mu       sync.Mutex
	open     []net.Conn
}

func newBadLink(t *testing.T, to string) *badLink {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &badLink{listener: listener, to: to}
	l.running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			l.mu.Lock()
			l.open = append(l.open, near, far)
			l.mu.Unlock()
			l.running.Go(func() { l.pass(near, far) })
			l.running.Go(func() { l.pass(far, near) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.mu.Lock()
		for _, conn := range l.open {
			_ = conn.Close()
		}
		l.mu.Unlock()
		l.running.Wait()
	})
	return l
}

// pass carries bytes from one end to the other.
func (l *badLink) pass(from, to net.Conn) {
	buffer := make([]byte, 8<<10)
	for passed := 0; ; {
		n, err := from.Read(buffer)
		if err != nil {
			_ = to.Close()
			return
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		for piece := range slices.Chunk(buffer[:n], 1+rand.IntN(n)) {
			if passed += len(piece); l.cut.Load() && passed > 500 && rand.IntN(8) == 0 {
				l.cuts.Add(1)
				_, _ = to.Write(piece[:rand.IntN(len(piece))])
				_ = from.Close() // the other end hears nothing more, and the connection to it stays open
				return
			}
			if _, err := to.Write(piece); err != nil {
				_ = from.Close()
				return
			}
		}
	}
}

// Over a link that is slow, tears what passes into pieces and is cut in the midst of it, each sample counts once. Frames come again over the next
// connection while the server may still read them from the one before.
func TestABadLink(t *testing.T) {
	t.Parallel() // it waits for acknowledgements
	table := durableTable()
	s := serve(t, "127.0.0.1:0", table.parts())
	bad := newBadLink(t, s.Addr().String())
	collector, link := newLink(t, bad.listener.Addr().String())
	end := runLink(t, link)
	applier := collector.NewApplier()
	push := func(n int) {
		for range n {
			sample := metric.Sample{Name: fmt.Appendf(nil, "c%d", rand.IntN(20)), Kind: metric.Counter, Op: metric.Add, Whole: 1}
			if reason := applier.Apply(&sample); reason != metric.Applied {
				t.Fatal(reason)
			}
			applier.Quiesce()
		}
	}
	sent := 0
	bad.cut.Store(true)
	for bad.cuts.Load() < 12 {
		push(50)
		sent += 50
		time.Sleep(20 * time.Millisecond)
	}
	bad.cut.Store(false)
	total := func() (sum int) {
		for i := range 20 {
			sum += int(table.sum(fmt.Sprint("c", i)))
		}
		return sum
	}
	for deadline := time.Now().Add(5 * time.Minute); total() < sent && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if got := total(); got != sent {
		t.Errorf("%d samples are applied, %d were pushed, over %d cuts", got, sent, bad.cuts.Load())
	}
	end()
	if got := total(); got != sent {
		t.Errorf("%d samples are applied in the end, %d were pushed", got, sent)
	}
}
