package aggregate

import (
	"sync"

	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/aggregate/window"
)

// graves remembers when metrics that are gone were last seen, so that an absence can be explained: of each object, and
// of all objects together ("*"). It keeps the newest few thousand.
type graves struct {
	mu   sync.Mutex
	at   map[graveKey]grave
	ring []graveKey
	next int
}

type graveKey struct {
	family index.Key
	object string
}

type grave struct {
	seen window.LifeStamp
	why  string // empty: there is none
}

const maxGraves = 8192

func (g *graves) bury(e *index.Entry, one grave) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, object := range []string{e.Name, "*"} {
		g.buryLocked(graveKey{e.Family.Key, object}, one)
	}
}

func (g *graves) buryLocked(key graveKey, one grave) {
	if g.at == nil {
		g.at, g.ring = map[graveKey]grave{}, make([]graveKey, maxGraves)
	}
	if _, there := g.at[key]; !there {
		delete(g.at, g.ring[g.next])
		g.ring[g.next] = key
		g.next = (g.next + 1) % maxGraves
	}
	g.at[key] = one
}

func (g *graves) find(family index.Key, object string) grave {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at[graveKey{family, object}]
}
