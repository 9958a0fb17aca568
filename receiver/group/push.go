package group

import (
	"cmp"
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
	// Applier is online. The caller marks the last batch boundary.
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

// Push applies a push as a whole, or rejects it.
func (gs *Groups) Push(p *Push) (Outcome, *Rejection) {
	g, r := gs.lock(p.Key, p.Object)
	if r != nil {
		return Outcome{}, r
	}
	defer g.mu.Unlock()
	gs.markLocked(g)
	m := builders.Get().(*familyBuilder)
	defer m.end()
	m.begin(g.key)
	before := g.contents.Load()
	next, fresh, o, r := gs.prepare(m, p, before, g.usage)
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
		gs.setLocked(g, next)
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
	gs.setLocked(g, &c)
}

// overhead is the group's memory without its families.
func (g *group) overhead() int64 {
	const inMaps = 64
	return int64(unsafe.Sizeof(*g)+unsafe.Sizeof(contents{})) + int64(len(g.key.Namespace)+len(g.key.Labels.Packed())) + inMaps
}

// prepare merges a push with the group's contents, and checks the result. Fresh are the families of
// the push, which are part of next.
func (gs *Groups) prepare(m *familyBuilder, p *Push, before *contents, u *usage) (next *contents, fresh []*family, o Outcome, r *Rejection) {
	now := p.Now.UnixNano()
	fresh = make([]*family, 0, len(p.Families))
	for i := range p.Families {
		in := &p.Families[i]
		old := before.find(in.Name)
		switch {
		case isOwn(in.Name):
			for range in.Metrics {
				o.Rejected[metric.Ignored]++
			}
			continue
		case old != nil && old.Type != in.Type && !p.Replace:
			return nil, nil, o, reject(metric.KindConflict, "%q is already a %s in this group and cannot become a %s; PUT replaces the group", in.Name, old.Type, in.Type)
		}
		f, r := m.family(in, old, now)
		if r != nil {
			return nil, nil, o, r
		}
		fresh = append(fresh, f)
	}
	slices.SortFunc(fresh, func(a, b *family) int { return cmp.Compare(a.Name, b.Name) })
	next = &contents{families: fresh, times: times{pushed: now, ttl: p.TTL, began: gs.table.Lifetime()}}
	if before != nil {
		next.failed = before.failed
		if !p.Replace {
			next.families = union(fresh, before.families)
		}
	}
	if len(next.families) > len(fresh) { // the reader has checked a body by itself
		for _, f := range next.families {
			if owner, clash := exposition.SampleOwner(f.Name, next.typeOf); clash {
				return nil, nil, o, reject(metric.KindConflict, "%q is the name of a sample of %q in this group", f.Name, owner)
			}
		}
	}
	next.bytes = gs.sizeOf(p, next)
	more := next.bytes
	if before != nil {
		more -= before.bytes
	}
	if r := gs.checkBytes(u, more); r != nil {
		return nil, nil, o, r
	}
	return next, fresh, o, nil
}

func (gs *Groups) sizeOf(p *Push, c *contents) int64 {
	g := group{key: p.Key}
	n := g.overhead()
	for _, f := range c.families {
		n += f.bytes + int64(unsafe.Sizeof(f))
	}
	return n
}

// union is fresh with the families that only old has. Both are sorted.
func union(fresh, old []*family) []*family {
	all := make([]*family, 0, len(fresh)+len(old))
	for len(fresh) > 0 && len(old) > 0 {
		switch c := cmp.Compare(fresh[0].Name, old[0].Name); {
		case c <= 0:
			all = append(all, fresh[0])
			fresh = fresh[1:]
			if c == 0 {
				old = old[1:]
			}
		default:
			all = append(all, old[0])
			old = old[1:]
		}
	}
	return append(append(all, fresh...), old...)
}
