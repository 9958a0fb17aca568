package replica

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// narrow is a bus that sends narrowRate bytes per second, and drops what would make more than narrowRoom wait.
type narrow struct {
	*endpoint
	mu       sync.Mutex
	unsent   int
	free     time.Time // when all is sent
	dropped  int
	answered int // messages with documents that were asked for
}

const narrowRate, narrowRoom = 8 << 20, 4 << 20

func (n *narrow) Busy() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unsent > narrowRoom/2
}

func (n *narrow) Publish(subject string, message []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unsent+len(message) > narrowRoom {
		n.dropped++
		return errors.New("dropped")
	}
	if h, _, err := readHeader(message); err == nil && h.kind == typeDocuments && strings.Contains(subject, "."+stateOf+".") {
		n.answered++
	}
	now := time.Now()
	if n.free.Before(now) {
		n.free = now
	}
	n.unsent += len(message)
	n.free = n.free.Add(time.Duration(len(message)) * time.Second / narrowRate)
	message = append([]byte(nil), message...)
	time.AfterFunc(n.free.Sub(now), func() {
		_ = n.endpoint.Publish(subject, message)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.unsent -= len(message)
	})
	return nil
}

// An answer with more documents than the bus holds arrives whole, once, though others change all the time meanwhile. Nothing
// else is lost for it.
func TestManyDocumentsArriveOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		bus := &narrow{endpoint: &endpoint{e, "a"}}
		a := joinBy(t, bus, "a")
		const many = 400
		for i := range many {
			a.docs.own[fmt.Sprint(i)] = Document{fmt.Sprint(i), 1, make([]byte, 100<<10)}
		}
		time.Sleep(3 * time.Second)
		stop, changed := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(changed)
			for i := int64(1); ; i++ {
				a.docs.put(Document{"changing", i, []byte{1}})
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
		b := join(t, e, "b")
		time.Sleep(20 * time.Second)
		bus.mu.Lock()
		if want := len(batchesOf(a.docs.All())); bus.dropped > 0 || bus.answered != want {
			t.Errorf("%d messages were dropped, and %d with documents sent, want %d", bus.dropped, bus.answered, want)
		}
		bus.mu.Unlock()
		if got := b.docs.count(); got != many+1 {
			t.Errorf("b has %d documents, want %d", got, many+1)
		}
		if ready, why := b.replica.Answers(); !ready {
			t.Errorf("b does not answer: %s", why)
		}
		close(stop)
		<-changed
		b.leave()
		a.leave()
	})
}

// Changes that come while all documents arrive count, in whatever order, and a missing one is noticed.
func TestChangesWhileDocumentsArrive(t *testing.T) {
	change := func(seq uint64) documentsBody { return documentsBody{seq: seq} }
	batch := func(seq uint64, n int) documentsBody { return documentsBody{seq: seq, batch: n, batches: 2} }
	for name, c := range map[string]struct {
		come  []documentsBody
		seq   uint64
		known bool
	}{
		"none":                {[]documentsBody{batch(7, 0), batch(7, 1)}, 7, true},
		"between":             {[]documentsBody{batch(7, 0), change(8), change(9), batch(7, 1)}, 9, true},
		"before and after":    {[]documentsBody{change(6), change(7), batch(7, 1), change(8), batch(7, 0), change(9)}, 9, true},
		"late":                {[]documentsBody{batch(7, 0), change(9), change(8), batch(7, 1)}, 9, true},
		"doubled":             {[]documentsBody{change(8), change(8), batch(7, 0), batch(7, 0), batch(7, 1), change(8)}, 8, true},
		"one is missing":      {[]documentsBody{batch(7, 0), change(9), batch(7, 1), change(10)}, 7, true},
		"and comes":           {[]documentsBody{batch(7, 0), change(9), batch(7, 1), change(10), change(8)}, 10, true},
		"and is asked for":    {[]documentsBody{batch(7, 0), change(9), batch(7, 1), change(10), batch(9, 0), batch(9, 1)}, 10, true},
		"a batch is missing":  {[]documentsBody{batch(7, 0), change(8), batch(8, 1)}, 0, false},
		"the first of all":    {[]documentsBody{batch(0, 0), batch(0, 1), change(1), change(2)}, 2, true},
		"before all of these": {[]documentsBody{change(1), batch(0, 0), change(2), batch(0, 1)}, 2, true},
	} {
		var d followedDocuments
		for i := range c.come {
			d.enter(&c.come[i])
		}
		if d.seq != c.seq || d.known != c.known {
			t.Errorf("%s: %d, %v; want %d, %v", name, d.seq, d.known, c.seq, c.known)
		}
	}
}
