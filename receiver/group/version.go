package group

import (
	"cmp"
	"slices"
	"time"
)

// In replicas, each keeps all groups whole, and each change of a group has a version. Groups are
// joined part by part: of each part the newest version counts, whatever order they come in. The
// series of a family are in the table of the replica that got the family's last push, and of
// replicas that got earlier pushes of the same series.

// A version orders the changes of a group: by time, then by the origin's name. A change is newer
// than all changes that its origin knew of, even if the origin's clock is behind.
type version struct {
	stamp  int64 // Unix milliseconds; 0: never
	origin string
}

func (v version) before(o version) bool {
	return cmp.Or(cmp.Compare(v.stamp, o.stamp), cmp.Compare(v.origin, o.origin)) < 0
}

func later(a, b version) version {
	if a.before(b) {
		return b
	}
	return a
}

// versions are those of one group's contents. They are immutable.
type versions struct {
	pushed   version   // the last applied push
	failed   version   // the last rejected push
	replaced version   // the last PUT: older families are gone
	ended    version   // the last deletion: all older changes are gone
	families []version // of contents.families, in their order
}

// newest is the newest version of any part.
func (v *versions) newest() (n version) {
	for _, one := range []version{v.pushed, v.failed, v.replaced, v.ended} {
		n = later(n, one)
	}
	for _, f := range v.families {
		n = later(n, f)
	}
	return n
}

// newestOf is the newest version of the changes that one origin made; zero: there is none.
func (v *versions) newestOf(origin string) (n version) {
	for _, one := range append([]version{v.pushed, v.failed, v.replaced, v.ended}, v.families...) {
		if one.origin == origin {
			n = later(n, one)
		}
	}
	return n
}

func (v *versions) equal(o *versions) bool {
	return v.pushed == o.pushed && v.failed == o.failed && v.replaced == o.replaced && v.ended == o.ended &&
		slices.Equal(v.families, o.families)
}

// keeps reports whether a family of this version is neither replaced nor deleted.
func (v *versions) keeps(family version) bool {
	return !family.before(v.replaced) && v.ended.before(family)
}

// shift corrects all stamps by milliseconds.
func (v *versions) shift(by int64) {
	for _, one := range []*version{&v.pushed, &v.failed, &v.replaced, &v.ended} {
		one.shift(by)
	}
	for i := range v.families {
		v.families[i].shift(by)
	}
}

func (v *version) shift(by int64) {
	if v.stamp != 0 {
		v.stamp = max(v.stamp+by, 1)
	}
}

// familyVersion is the version of a family; zero: there is none.
func (c *contents) familyVersion(name string) version {
	if i := c.place(name); i >= 0 && c.versions != nil {
		return c.versions.families[i]
	}
	return version{}
}

// unexpired is the contents for a join. An expired group has no families, even before a sweep removes it;
// the PUT and the deletion that it knows of still hold.
func (c *contents) unexpired(now time.Duration) *contents {
	if !c.expired(now) {
		return c
	}
	return &contents{versions: &versions{replaced: c.versions.replaced, ended: c.versions.ended}}
}

// join joins the contents of a group at two replicas. Neither changes; gone means that nothing is
// left but the time of the deletion.
func join(a, b *contents) (c *contents, gone bool) {
	v := &versions{
		replaced: later(a.versions.replaced, b.versions.replaced),
		ended:    later(a.versions.ended, b.versions.ended),
	}
	c = &contents{versions: v}
	for i, j := 0, 0; i < len(a.families) || j < len(b.families); {
		order := 0
		switch {
		case i == len(a.families):
			order = 1
		case j == len(b.families):
			order = -1
		default:
			order = cmp.Compare(a.families[i].Name, b.families[j].Name)
		}
		var f *family
		var own version
		if order <= 0 {
			f, own = a.families[i], a.versions.families[i]
			i++
		}
		if order >= 0 {
			if other := b.versions.families[j]; f == nil || own.before(other) {
				f, own = b.families[j], other
			}
			j++
		}
		if v.keeps(own) {
			c.families, v.families = append(c.families, f), append(v.families, own)
		}
	}
	c.joinTimes(a, b)
	return c, v.pushed.stamp == 0 && v.failed.stamp == 0
}

// joinTimes sets the times of a join. The TTL counts from the last applied push; without one, from
// the last rejected push.
func (c *contents) joinTimes(a, b *contents) {
	v := c.versions
	pushes, failures := a, a
	if a.versions.pushed.before(b.versions.pushed) {
		pushes = b
	}
	if a.versions.failed.before(b.versions.failed) {
		failures = b
	}
	if v.ended.before(failures.versions.failed) {
		v.failed, c.failed = failures.versions.failed, failures.failed
		c.ttl, c.began = failures.ttl, failures.began
	}
	if v.ended.before(pushes.versions.pushed) {
		v.pushed, c.pushed = pushes.versions.pushed, pushes.pushed
		c.ttl, c.began = pushes.ttl, pushes.began
	}
}
