package replica

import (
	"flag"
	"fmt"
	"maps"
	"testing"
	"time"
)

var (
	seeds   = flag.Int("seeds", 200, "seeds that each simulation runs")
	oneSeed = flag.Uint64("seed", 0, "the only seed to run; 0: seeds 1 to -seeds")
)

// eachSeed runs a simulation for the seeds that were asked for. A failure names its seed, with
// which it can be repeated.
func eachSeed(t *testing.T, run func(t *testing.T, seed uint64)) {
	t.Parallel() // with the other simulations
	first, last := uint64(1), uint64(*seeds)
	if *oneSeed != 0 {
		first, last = *oneSeed, *oneSeed
	}
	for seed := first; seed <= last; seed++ {
		if ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { run(t, seed) }); !ok {
			return
		}
	}
}

// chaos is a simulation of the protocol over tables in small: what no message may do, while
// processes are killed and restarted and the fabric loses, doubles, delays and reorders.
type chaos struct {
	*world
	tables map[originKey]*modelTable // of every epoch, as its last process left it
	epochs map[*node]originKey
	held   map[*node]map[originKey]uint64 // newest total of each shown epoch
	lost   map[originKey]uint64           // counted, then lost with a flush that did not reach the disk
}

func TestSimulation(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		c := &chaos{tables: map[originKey]*modelTable{}, epochs: map[*node]originKey{},
			held: map[*node]map[originKey]uint64{}, lost: map[originKey]uint64{}}
		c.world = newWorld(t, seed)
		for i := range 2 + c.rng.IntN(3) {
			n := newNode(t, c.fabric, fmt.Sprintf("origin-%d", i))
			n.skew = time.Duration(c.rng.IntN(3)-1) * time.Hour
			c.nodes = append(c.nodes, n)
			c.started(n)
		}
		for range 3 {
			c.trouble()
			c.calm()
			c.exact()
		}
	})
}

// started notes the epoch of a process.
func (c *chaos) started(n *node) {
	key := originKey{n.name, n.replica.me.epoch}
	c.epochs[n], c.tables[key], c.held[n] = key, n.table, map[originKey]uint64{}
}

// trouble is ten seconds to a minute of everything at once.
func (c *chaos) trouble() {
	c.drop, c.double, c.late = c.rng.Float64()*0.4, c.rng.Float64()*0.2, c.rng.Float64()*0.5
	c.delay = time.Duration(1+c.rng.IntN(3000)) * time.Millisecond
	for range 100 + c.rng.IntN(500) {
		n := c.nodes[c.rng.IntN(len(c.nodes))]
		switch p := c.rng.IntN(100); {
		case p < 2:
			c.cutOrHeal()
		case p < 4 && n.replica != nil:
			n.kill()
		case p < 6 && n.replica == nil:
			c.restart(n)
		default:
			for range c.rng.IntN(4) {
				if n.replica != nil {
					c.push(n)
				}
			}
		}
		c.world.run(time.Duration(1+c.rng.IntN(10)) * 20 * time.Millisecond)
		c.check()
	}
}

func (c *chaos) cutOrHeal() {
	if len(c.cut) > 0 && c.rng.IntN(2) == 0 {
		clear(c.cut)
		return
	}
	a, b := c.nodes[c.rng.IntN(len(c.nodes))].port, c.nodes[c.rng.IntN(len(c.nodes))].port
	c.cut[[2]*port{a, b}] = true
	if c.rng.IntN(3) > 0 { // else one way only
		c.cut[[2]*port{b, a}] = true
	}
}

// restart starts a process from its disk, from an older state of it, or with an empty one.
func (c *chaos) restart(n *node) {
	switch p := c.rng.IntN(10); {
	case p == 0:
		n.disk = nil
	case p < 3 && n.diskBefore != nil:
		n.disk = n.diskBefore
	}
	if n.disk != nil {
		// Followers may have read a whole block after the last flush.
		c.lost[c.epochs[n]] += n.table.total() - n.disk.total()
	}
	if n.disk != nil && c.rng.IntN(10) == 0 {
		n.disk.windows = byte(c.rng.IntN(3))
	}
	n.start()
	c.started(n)
}

// check checks what holds at any moment: a shadow never counts more than its origin, and less than
// before only if the origin lost a flush.
func (c *chaos) check() {
	for _, n := range c.nodes {
		if n.replica == nil {
			continue
		}
		before := c.held[n]
		now := map[originKey]uint64{}
		for _, f := range n.replica.origins.sorted() {
			if f.shown == nil {
				continue
			}
			now[f.key] = f.shown.(*modelShadow).total()
			if most := c.tables[f.key].total() + c.lost[f.key]; now[f.key] > most {
				c.t.Fatalf("%s: %v counts %d of %d", n.name, f.key, now[f.key], most)
			}
		}
		for key, total := range before {
			if now[key]+c.lost[key] < total {
				c.t.Fatalf("%s: %v fell from %d to %d; lost %d", n.name, key, total, now[key], c.lost[key])
			}
			now[key] = max(now[key], total)
		}
		c.held[n] = now
	}
}

// calm starts all processes and lets messages arrive.
func (c *chaos) calm() {
	c.drop, c.double, c.late = 0, 0, 0
	clear(c.cut)
	for _, n := range c.nodes {
		if n.replica == nil {
			c.restart(n)
		}
	}
	for range 100 {
		c.world.run(100 * time.Millisecond)
		c.check()
	}
}

// exact checks that each shadow of a living epoch equals the table, and that nobody has forgotten
// any.
func (c *chaos) exact() {
	for _, n := range c.nodes {
		for _, other := range c.nodes {
			if other == n {
				continue
			}
			f := n.replica.origins.all[c.epochs[other]]
			if f == nil {
				c.t.Fatalf("%s does not follow %v", n.name, c.epochs[other])
			}
			shadow := f.shown.(*modelShadow)
			if len(shadow.blocks) < len(other.table.blocks) {
				c.t.Fatalf("%s has %d blocks of %s, want %d", n.name, len(shadow.blocks), other.name, len(other.table.blocks))
			}
			for i, have := range shadow.blocks {
				var want [4]uint64
				if i < len(other.table.blocks) {
					want = other.table.blocks[i].values
				}
				if have != want {
					c.t.Fatalf("%s has %v in block %d of %s, want %v: %+v, lacking %d, %+v",
						n.name, have, i, other.name, want, f.blocks[i], f.lacking, f.status(c.at))
				}
			}
			if !f.complete || shadow.at+1000 < other.table.at {
				c.t.Fatalf("%s: %s is at %d of %d, complete %v", n.name, other.name, shadow.at, other.table.at, f.complete)
			}
		}
		for key, total := range maps.All(c.held[n]) {
			if f := n.replica.origins.all[key]; f == nil && total > 0 && c.at.Sub(n.replica.started) < endsAfter {
				c.t.Fatalf("%s forgot %v", n.name, key)
			}
		}
	}
}
