package group

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Push is one request to change a group.
type Push struct {
	Key Key
	// Object is the object that the group's series describe. It is the same for one key.
	Object metric.Object
	// Families are borrowed until the call returns. Their names are distinct.
	Families []exposition.Family
	// Replace removes from the group all that is not in Families; otherwise families of other names
	// stay.
	Replace bool
	// TTL is how long the group lives after this push; 0: forever.
	TTL    time.Duration
	Now    time.Time
	Sender *metric.Sender
	// Applier is online, and within no batch. The caller marks the last batch boundary.
	Applier Applier
}

// Outcome counts the metrics of an applied push.
type Outcome struct {
	Applied  int
	Rejected [metric.NumReasons]int
	// Unserved lists some of the rejected metrics, by name.
	Unserved []Unserved
}

// Unserved is a metric that is kept for exposition and that the table does not have.
type Unserved struct {
	Name   string
	Reason metric.Reason
}

// maxUnserved limits Outcome.Unserved.
const maxUnserved = 16

func (o *Outcome) reject(name string, r metric.Reason) {
	o.Rejected[r]++
	u := Unserved{name, r}
	if len(o.Unserved) < maxUnserved && !slices.Contains(o.Unserved, u) {
		o.Unserved = append(o.Unserved, u)
	}
}

// Rejection says why a push was rejected. The group is unchanged.
type Rejection struct {
	Reason  metric.Reason
	Message string
	// Sample is the one that the table rejected, with strings of its own; nil: none.
	Sample *metric.Sample
}

func reject(r metric.Reason, format string, args ...any) *Rejection {
	return &Rejection{Reason: r, Message: fmt.Sprintf(format, args...)}
}

// Push applies a push as a whole, or rejects it.
func (gs *Groups) Push(p *Push) (Outcome, *Rejection) {
	p.Applier.Offline()
	g, r := gs.lock(p.Key, p.Object)
	p.Applier.Online()
	if r != nil {
		return Outcome{}, r
	}
	defer g.mu.Unlock()
	gs.markLocked(g)
	gs.shareLocked(g)
	m := builders.Get().(*familyBuilder)
	defer m.end()
	m.begin(g.key, &g.about)
	before := g.contents.Load()
	next, fresh, o, r := gs.merge(m, p, before, g.usage)
	if r == nil {
		r = gs.checkConflict(g, before, fresh)
	}
	if r == nil {
		a := &m.update
		a.groups, a.push, a.about, a.before, a.next, a.fresh, a.outcome = gs, p, &g.about, before, next, fresh, o
		r = a.run()
		o = a.outcome
	}
	switch {
	case r == nil:
		gs.setPushedLocked(g, next, p)
		return o, nil
	case before == nil && rejectsPush(r.Reason): // a sender without the right creates no group by trying
		gs.removeLocked(g)
	default:
		gs.failLocked(g, p.TTL, p.Now)
	}
	return Outcome{}, r
}

// RecordFailure records that a well-formed push was rejected.
func (gs *Groups) RecordFailure(k Key, about metric.Object, ttl time.Duration, now time.Time) {
	g, r := gs.lock(k, about)
	if r != nil {
		return
	}
	defer g.mu.Unlock()
	gs.markLocked(g)
	gs.shareLocked(g)
	gs.failLocked(g, ttl, now)
}

func (gs *Groups) failLocked(g *group, ttl time.Duration, now time.Time) {
	c := contents{times: times{ttl: ttl}, bytes: g.overhead()}
	if old := g.contents.Load(); old != nil {
		c = *old
	}
	c.failed = now.UnixNano()
	if c.pushed == 0 {
		c.began = gs.table.Lifetime()
	}
	if gs.replication != nil {
		c.versions = gs.versionsAfterFailure(g, now)
		if c.pushed == 0 {
			c.bytes = g.overhead() + versionBytes(c.versions)
		}
	}
	gs.setLocked(g, &c)
}

// overhead is the group's memory without its families.
func (g *group) overhead() int64 {
	const inMaps = 64
	return int64(unsafe.Sizeof(*g)+unsafe.Sizeof(contents{})) +
		int64(len(g.key.Namespace)+len(g.key.Labels.Packed())) + inMaps
}
