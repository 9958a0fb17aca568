package operations

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A gathering is followed by a rest of nine times as long, so that it takes a tenth of a processor,
// and at most maxRest: pages have their places meanwhile, and crowds would keep scrapers out of these.
const (
	restFactor = 9
	maxRest    = 300 * time.Millisecond
)

// pacedGatherer gathers metrics once for all who ask while it rests: however many ask, and however
// often, they share the cost. Each gathering begins after all who get it have asked, so nobody gets
// values from before. Any goroutine may call its methods.
type pacedGatherer struct {
	from prometheus.Gatherer
	turn chan time.Time // has the end of the rest, unless somebody rests or gathers

	mu   sync.Mutex // guards next
	next *gathering // nil: nobody waits
}

// gathering is one for all who wait for done. The first of them makes it.
type gathering struct {
	done     chan struct{}
	families []*dto.MetricFamily
	err      error
}

func newPacedGatherer(from prometheus.Gatherer) *pacedGatherer {
	g := &pacedGatherer{from: from, turn: make(chan time.Time, 1)}
	g.turn <- time.Time{}
	return g
}

// Gather implements prometheus.Gatherer. Others have the families, too.
func (g *pacedGatherer) Gather() ([]*dto.MetricFamily, error) {
	g.mu.Lock()
	next, first := g.next, g.next == nil
	if first {
		next = &gathering{done: make(chan struct{})}
		g.next = next
	}
	g.mu.Unlock()
	if first {
		g.gather(next)
	}
	<-next.done
	return next.families, next.err
}

func (g *pacedGatherer) gather(next *gathering) {
	time.Sleep(time.Until(<-g.turn))
	g.mu.Lock()
	g.next = nil // whoever asks from now on gets the next gathering
	g.mu.Unlock()
	began := time.Now()
	defer func() {
		g.turn <- time.Now().Add(min(restFactor*time.Since(began), maxRest))
		close(next.done)
	}()
	next.families, next.err = g.from.Gather()
}
