package group

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
)

// maxFamilies bounds the families of a group: a push of one family looks at all of them, with the
// group locked.
const maxFamilies = 10_000

// merge makes the contents of a group after a push: the families of the push and, unless it
// replaces the group, the group's other families. It checks the result and changes nothing. Fresh
// are the families of the push, which are part of next.
func (gs *Groups) merge(m *familyBuilder, p *Push, before *contents,
	u *usage) (next *contents, fresh []*family, o Outcome, r *Rejection) {
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
			return nil, nil, o, reject(metric.KindConflict,
				"%q is already a %s in this group and cannot become a %s; PUT replaces the group", in.Name, old.Type, in.Type)
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
		if n := len(next.families); n > max(maxFamilies, len(before.families)) {
			return nil, nil, o, reject(metric.OverLimit,
				"the group would have %d metric names; must be at most %d: replace it by PUT, or push to several groups", n, maxFamilies)
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
	joined := make([]*family, 0, len(fresh)+len(old))
	for len(fresh) > 0 && len(old) > 0 {
		switch c := cmp.Compare(fresh[0].Name, old[0].Name); {
		case c <= 0:
			joined = append(joined, fresh[0])
			fresh = fresh[1:]
			if c == 0 {
				old = old[1:]
			}
		default:
			joined = append(joined, old[0])
			old = old[1:]
		}
	}
	return append(append(joined, fresh...), old...)
}
