package claim

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
)

const (
	// lately is the time for which a claim that nobody holds is known, forget that for which its number is: all others
	// take a claim with a small number for a new one by then.
	lately, forget = 10 * time.Minute, 15 * time.Minute
	// most bounds the claims, and longest the name of what is claimed.
	most, longest = 1 << 16, 320
)

// Parts are what Claims stand on.
type Parts struct {
	Name string // of this replica
	// Process is greater than that of each former process of the name.
	Process uint64
	// Lives reports whether another replica is heard.
	Lives func(name string) bool
	// Soon has what changed told.
	Soon func()
}

// Claims are those of all replicas, as far as they are known here. Any goroutine may call the methods.
type Claims struct {
	parts   Parts
	changed chan struct{}

	mu        sync.Mutex         // guards the fields below
	all       map[string]*claim  // the newest of all replicas
	own       map[string]*claim  // the newest of this replica
	processes map[string]process // the newest of each other replica
	untold    map[string]bool    // of own that have changed; "" is the claim of nothing, which only tells the process
	swept     time.Time
}

// process is one of another replica.
type process struct {
	number uint64
	heard  time.Time
}

// lateFor bounds the time for which claims of a former process may come. A process with a smaller number than the former,
// whose clock or disk is another one, is believed when that is over.
const lateFor = 10 * time.Second

type claim struct {
	holder          string
	process, number uint64
	released        bool
	since           time.Time // when this replica heard of it, or took it
	unheld          time.Time // when it was found that nobody holds it; zero: somebody did
}

// Holding is who holds a claim.
type Holding struct {
	// Holder is a replica's name; empty: nobody holds the claim.
	Holder string
	Mine   bool
	Since  time.Time // when this replica heard of it, or took it
}

// New makes the claims of a process, which holds none.
func New(p Parts) *Claims {
	return &Claims{parts: p, changed: make(chan struct{}, 1), all: map[string]*claim{}, own: map[string]*claim{},
		processes: map[string]process{}, untold: map[string]bool{"": true}}
}

// Changed has a token after claims of other replicas have come.
func (c *Claims) Changed() <-chan struct{} { return c.changed }

// Take makes this replica the holder of a claim, whoever held it before.
func (c *Claims) Take(what string) {
	c.mu.Lock()
	held := c.all[what]
	if len(what) > longest || held == nil && len(c.all) >= most || c.mineLocked(held) {
		c.mu.Unlock()
		return
	}
	next := &claim{holder: c.parts.Name, process: c.parts.Process, number: 1, since: time.Now()}
	if held != nil {
		next.number = held.number + 1
	}
	c.all[what], c.own[what], c.untold[what] = next, next, true
	c.mu.Unlock()
	c.parts.Soon()
}

// Release ends a claim of this replica.
func (c *Claims) Release(what string) {
	c.mu.Lock()
	held := c.all[what]
	mine := c.mineLocked(held)
	if mine {
		held.released, held.since, c.untold[what] = true, time.Now(), true
	}
	c.mu.Unlock()
	if mine {
		c.parts.Soon()
	}
}

// Of returns who holds a claim.
func (c *Claims) Of(what string) Holding {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweepLocked(time.Now())
	held := c.all[what]
	if held == nil || !c.heldLocked(held) {
		return Holding{}
	}
	return Holding{Holder: held.holder, Mine: held.holder == c.parts.Name, Since: held.since}
}

// Known reports whether somebody holds a claim, or did in the last ten minutes.
func (c *Claims) Known(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.sweepLocked(now)
	held := c.all[what]
	return held != nil && !held.isOld(now)
}

// isOld reports whether nobody has held a claim lately.
func (held *claim) isOld(now time.Time) bool {
	return !held.unheld.IsZero() && now.Sub(held.unheld) >= lately
}

// Speaks reports whether another replica tells its claims. One of an earlier version does not.
func (c *Claims) Speaks(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, speaks := c.processes[name]
	return speaks
}

func (c *Claims) mineLocked(held *claim) bool {
	return held != nil && held.holder == c.parts.Name && c.heldLocked(held)
}

func (c *Claims) heldLocked(held *claim) bool {
	return !held.released && !c.endedLocked(held) && (held.holder == c.parts.Name || c.parts.Lives(held.holder))
}

// endedLocked reports whether the process that took a claim has ended.
func (c *Claims) endedLocked(held *claim) bool {
	return held.holder != c.parts.Name && held.process != c.processes[held.holder].number
}

// sweepLocked forgets claims that nobody has held for long, once a minute.
func (c *Claims) sweepLocked(now time.Time) {
	if now.Sub(c.swept) < time.Minute {
		return
	}
	c.swept = now
	for what, held := range c.all {
		switch {
		case c.heldLocked(held):
			held.unheld = time.Time{}
		case held.unheld.IsZero():
			held.unheld = now
		case now.Sub(held.unheld) >= forget:
			delete(c.all, what)
			delete(c.own, what)
		}
	}
}

// Document is a claim as replicas exchange it.
type Document struct {
	Key   [16]byte
	Stamp int64 // Unix milliseconds
	Value []byte
}

// TakeShared returns the own claims that have changed since the last call.
func (c *Claims) TakeShared() (all []Document) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for what := range c.untold {
		all = c.appendLocked(all, what)
	}
	clear(c.untold)
	return all
}

// AllShared returns all own claims.
func (c *Claims) AllShared() []Document {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweepLocked(time.Now())
	all := c.appendLocked(nil, "")
	for what := range c.own {
		all = c.appendLocked(all, what)
	}
	return all
}

const flagReleased = 1

// appendLocked appends an own claim.
func (c *Claims) appendLocked(all []Document, what string) []Document {
	held := c.own[what]
	if held == nil {
		held = &claim{}
	}
	value := binary.AppendUvarint(nil, c.parts.Process)
	value = append(binary.AppendUvarint(value, held.number), map[bool]byte{true: flagReleased}[held.released])
	sum := sha256.Sum256([]byte(c.parts.Name + "\x00" + what))
	return append(all, Document{Key: [16]byte(sum[:16]), Stamp: time.Now().UnixMilli(), Value: append(value, what...)})
}

var errDocument = errors.New("a claim of another replica is damaged")

// Apply enters claims of another replica, in whatever order they come. The error is of one that was not entered.
func (c *Claims) Apply(origin string, documents []Document) (bad error) {
	if origin == c.parts.Name || len(documents) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweepLocked(time.Now())
	for i := range documents {
		what, told, err := readClaim(documents[i].Value)
		if err != nil {
			bad = err
			continue
		}
		told.holder, told.since = origin, time.Now()
		c.enterLocked(what, told)
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return bad
}

func (c *Claims) enterLocked(what string, told *claim) {
	if newest := c.processes[told.holder]; told.process < newest.number && told.since.Sub(newest.heard) < lateFor {
		return // it came late, of a process that has ended
	}
	c.processes[told.holder] = process{told.process, told.since}
	held := c.all[what]
	switch {
	case what == "" || held == nil && len(c.all) >= most:
	case held == nil || held.isOld(told.since) || c.endedLocked(held) || held.before(told),
		!told.released && held.holder != c.parts.Name && !c.parts.Lives(held.holder): // who claims knows nothing of the former
		c.all[what] = told
		if own := c.own[what]; own != nil && !own.released { // others may never hear of the one that took it
			own.released, c.untold[what] = true, true
		}
	}
}

// before reports whether another claim counts instead.
func (held *claim) before(told *claim) bool {
	switch {
	case held.number != told.number:
		return held.number < told.number
	case held.holder != told.holder:
		return strings.Compare(held.holder, told.holder) < 0
	}
	return told.released && !held.released
}

func readClaim(value []byte) (what string, told *claim, err error) {
	d := blob.Decoder{Rest: value}
	told = &claim{process: d.Uvarint(), number: d.Uvarint(), released: d.Byte()&flagReleased != 0}
	if d.Err != nil || len(d.Rest) > longest {
		return "", nil, errDocument
	}
	return string(d.Rest), told, nil
}
