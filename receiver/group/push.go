package group

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// Push is what one request says of a group.
type Push struct {
	Key Key
	// About is what the group's series describe. It is the same for one key.
	Object metric.Object
	// Families are borrowed: valid until the call returns. No two have one name.
	Families []exposition.Family
	// Replace takes out of the group what is not in Families; else families of other names stay.
	Replace bool
	// TTL is how long the group lives after this push; 0: for ever.
	TTL    time.Duration
	Now    time.Time
	Sender *metric.Sender
	// Applier is not parked. The caller passes its last boundary.
	Applier Applier
}

// Outcome is what became of the metrics of a push that was taken.
type Outcome struct {
	Applied  int
	Rejected [metric.NumReasons]int
	// Unserved are some of the rejected, by name.
	Unserved []Unserved
}

// Unserved is a metric that is kept for exposition and that the table does not have.
type Unserved struct {
	Name   string
	Reason metric.Reason
}

// maxUnserved bounds Outcome.Unserved.
const maxUnserved = 16

func (o *Outcome) reject(name string, r metric.Reason) {
	o.Rejected[r]++
	u := Unserved{name, r}
	if len(o.Unserved) < maxUnserved && !slices.Contains(o.Unserved, u) {
		o.Unserved = append(o.Unserved, u)
	}
}

// Push applies a push whole, or refuses it.
func (gs *Groups) Push(p *Push) (Outcome, *Rejection) {
	g, r := gs.lock(p.Key, p.Object)
	if r != nil {
		return Outcome{}, r
	}
	defer g.mu.Unlock()
	gs.markLocked(g)
	m := mergers.Get().(*merger)
	defer m.end()
	m.begin(g.key)
	before := g.contents.Load()
	next, fresh, o, r := gs.prepare(m, p, before, g.usage)
	if r == nil {
		r = gs.rival(g, before, fresh)
	}
	if r == nil {
		a := &m.applying
		a.groups, a.push, a.about, a.before, a.next, a.fresh, a.outcome = gs, p, &g.about, before, next, fresh, o
		r = a.run()
		o = a.outcome
	}
	switch {
	case r == nil:
		gs.setLocked(g, next)
		return o, nil
	case before == nil && refusesAll(r.Reason): // whoever may not push makes no group by trying
		gs.endLocked(g)
	default:
		gs.failLocked(g, p.TTL, p.Now)
	}
	return Outcome{}, r
}

// Fail enters that a push was refused that could be read.
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

// overhead is what a group takes beside its families.
func (g *group) overhead() int64 {
	const inMaps = 64
	return int64(unsafe.Sizeof(*g)+unsafe.Sizeof(contents{})) + int64(len(g.key.Namespace)+len(g.key.Labels.Packed())) + inMaps
}

// prepare merges a push with what is there, and checks the whole. Fresh are the families of the push, in next.
func (gs *Groups) prepare(m *merger, p *Push, before *contents, u *usage) (next *contents, fresh []*family, o Outcome, r *Rejection) {
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
			return nil, nil, o, refuse(metric.KindConflict, "%q is a %s in this group and cannot become a %s: PUT replaces the group", in.Name, old.Type, in.Type)
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
	if len(next.families) > len(fresh) { // a body by itself was checked by its reader
		for _, f := range next.families {
			if owner, clash := exposition.SampleOwner(f.Name, next.typeOf); clash {
				return nil, nil, o, refuse(metric.KindConflict, "%q is the name of a sample of %q in this group", f.Name, owner)
			}
		}
	}
	next.bytes = gs.weigh(p, next)
	more := next.bytes
	if before != nil {
		more -= before.bytes
	}
	if r := gs.room(u, more); r != nil {
		return nil, nil, o, r
	}
	return next, fresh, o, nil
}

func (gs *Groups) weigh(p *Push, c *contents) int64 {
	g := group{key: p.Key}
	n := g.overhead()
	for _, f := range c.families {
		n += f.bytes + int64(unsafe.Sizeof(f))
	}
	return n
}

// union is fresh with what old has besides. Both are sorted.
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
