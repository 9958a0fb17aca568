package replica

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds     = flag.Uint64("seeds", 50, "number of seeds that the simulations run; slow ones run a part of them")
	firstSeed = flag.Uint64("first-seed", 1, "the first seed")
)

// eachSeed runs a simulation in virtual time for the seeds that were asked for, or for one of every
// some of them, on all processors. A failure names its seed and the command that repeats it.
func eachSeed(t *testing.T, every uint64, run func(t *testing.T, seed uint64)) {
	t.Parallel() // with the other simulations
	if testing.Short() {
		every *= 8
	}
	limit := max(1, *seeds/every)
	var taken atomic.Uint64
	for worker := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint("worker=", worker), func(t *testing.T) {
			t.Parallel()
			for n := taken.Add(1); n <= limit; n = taken.Add(1) {
				if !runSeed(t, *firstSeed+n-1, run) {
					taken.Add(limit) // the others stop, too
				}
			}
		})
	}
}

func runSeed(t *testing.T, seed uint64, run func(t *testing.T, seed uint64)) bool {
	name, _, _ := strings.Cut(t.Name(), "/")
	return t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("panic: %v\n%s", p, debug.Stack())
				}
				if t.Failed() {
					t.Errorf("seed %d fails; to repeat it: go test ./replica -run '^%s$' -first-seed %d -seeds 1", seed, name, seed)
				}
			}()
			run(t, seed)
		})
	})
}

// A seed is the same run each time, to the byte.
func TestSeedsRepeat(t *testing.T) {
	for name, run := range map[string]func(*testing.T, uint64) *fabric{"protocol": simulate, "tables": simulateTables} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				var sums [2]uint32
				for i := range sums {
					synctest.Test(t, func(t *testing.T) { sums[i] = run(t, seed).sum })
				}
				if sums[0] != sums[1] {
					t.Errorf("seed %d delivers other messages when it is repeated", seed)
				}
			}
		})
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
	eachSeed(t, 1, func(t *testing.T, seed uint64) { simulate(t, seed) })
}

func simulate(t *testing.T, seed uint64) *fabric {
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
	return c.fabric
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
		held, all := c.held[n], n.replica.origins.all
		for key, f := range all {
			if f.shown == nil {
				continue
			}
			now := f.shown.(*modelShadow).total()
			if limit := c.tables[key].total() + c.lost[key]; now > limit {
				c.t.Fatalf("%s: %v counts %d of %d", n.name, key, now, limit)
			}
			c.fell(n, key, now)
			held[key] = max(held[key], now)
		}
		for key := range held {
			if f := all[key]; f == nil || f.shown == nil {
				c.fell(n, key, 0)
			}
		}
	}
}

// fell fails if an epoch counts less than it did at a replica, and its origin did not lose that.
func (c *chaos) fell(n *node, key originKey, now uint64) {
	if before := c.held[n][key]; now+c.lost[key] < before {
		c.t.Fatalf("%s: %v fell from %d to %d; lost %d", n.name, key, before, now, c.lost[key])
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

// exact checks that each shadow of a living epoch equals the table, that nobody has forgotten any, and
// that each name has one process.
func (c *chaos) exact() {
	for _, n := range c.nodes {
		if c.rejected(n, reasonName) > 0 {
			c.t.Fatalf("%s takes a process that has ended for another one of its name", n.name)
		}
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
		for key, total := range c.held[n] {
			if f := n.replica.origins.all[key]; f == nil && total > 0 && c.at.Sub(n.replica.started) < endsAfter {
				c.t.Fatalf("%s forgot %v", n.name, key)
			}
		}
	}
}
