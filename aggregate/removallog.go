package aggregate

import (
	"fmt"
	"sync"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// removalLog holds the latest removal of up to maxRemovals metrics, by object and for all objects
// together ("*"). Error messages use it to explain why a metric is absent.
type removalLog struct {
	mu   sync.Mutex
	at   map[removalKey]removal
	ring []removalKey
	next int
}

type removalKey struct {
	family index.Key
	object string
}

type removal struct {
	seen window.LifeStamp
	why  string // empty: no removal is known
}

const maxRemovals = 8192

func (g *removalLog) note(e *index.Entry, one removal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, object := range []string{e.Name, "*"} {
		g.noteLocked(removalKey{e.Family.Key, object}, one)
	}
}

func (g *removalLog) noteLocked(key removalKey, one removal) {
	if g.at == nil {
		g.at, g.ring = map[removalKey]removal{}, make([]removalKey, maxRemovals)
	}
	if _, there := g.at[key]; !there {
		delete(g.at, g.ring[g.next])
		g.ring[g.next] = key
		g.next = (g.next + 1) % maxRemovals
	}
	g.at[key] = one
}

func (g *removalLog) find(family index.Key, object string) removal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at[removalKey{family, object}]
}

func (t *Table) removalOf(b *block, place uint32, why cause) removal {
	seen := b.page.cells[place].Seen.Load()
	switch why {
	case deleted:
		return removal{seen, "deleted"}
	case objectGone:
		return removal{seen, "when its object was deleted or finished"}
	case overLimit:
		return removal{seen, "evicted by a limit in favour of another metric"}
	case markedStale:
		return removal{seen, "when its client marked it stale"}
	case removedThere:
		return removal{seen, "removed at the replica that received it"}
	case madeRoom:
		return removal{seen, "evicted to make room for newer series"}
	}
	ttl, _ := t.ttl(b, place)
	return removal{seen, fmt.Sprintf("expired after %s", metric.FormatWindow(ttl))}
}
