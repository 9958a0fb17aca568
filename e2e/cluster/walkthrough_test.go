package cluster

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// walks is how many times the README's walk-through is done, side by side. The autoscaler removes
// any of the four pods on the way down, so a single walk says little.
const walks = 10

// perDatagram is the time that the README's loop takes for a datagram beside its "sleep 0.1".
const perDatagram = 14 * time.Millisecond

// The README's walk-through, to the letter: one pod of four pushes, then nobody does. The
// Deployment settles at four and returns to one, whichever of its pods stays.
func walksThroughTheReadme(t *testing.T, c *cluster) {
	namespaces := make([]string, walks)
	loops := make([]*walk, walks)
	for i := range namespaces {
		namespaces[i] = c.Namespace(t, fmt.Sprintf("readme-%d", i))
		c.Apply(t, namespaces[i], example(t, "hpa-pods.yaml", namespaces[i]))
	}
	for i, ns := range namespaces {
		loops[i] = c.startWalk(t, addressOf(t, c.AwaitPods(t, ns, "app=web", 1)[0]))
	}
	for _, ns := range namespaces {
		c.wantReplicas(t, ns, "web", 4)
	}
	for _, ns := range namespaces {
		c.AwaitPods(t, ns, "app=web", 4)
	}
	time.Sleep(10 * time.Second) // the first values of four pods
	for i, ns := range namespaces {
		c.steady(t, ns, "web", 4, time.Second)
		loops[i].end()
	}
	for i, ns := range namespaces {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c.wantReplicas(t, ns, "web", 1)
			c.noWarningsNow(t, ns, "web")
		})
	}
}

// walk is the README's shell loop in one pod.
type walk struct {
	stop chan struct{}
	once sync.Once
	done sync.WaitGroup
}

func (c *cluster) startWalk(t *testing.T, from netip.Addr) *walk {
	t.Helper()
	w := &walk{stop: make(chan struct{})}
	w.done.Go(func() {
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(100*time.Millisecond + perDatagram):
				_ = c.trySendFrom(from, "http_requests:4|c")
			}
		}
	})
	t.Cleanup(w.end)
	return w
}

func (w *walk) end() {
	w.once.Do(func() { close(w.stop) })
	w.done.Wait()
}
