package connlimit

import (
	"cmp"
)

// address is the open connections of one peer address. Limiter.mu guards it.
type address struct {
	members []*Member
	kept    int // of them, when yieldingLocked counted
}

func (a *address) add(m *Member) {
	m.of, m.at = a, len(a.members)
	a.members = append(a.members, m)
}

func (a *address) remove(m *Member) {
	last := len(a.members) - 1
	a.members[m.at] = a.members[last]
	a.members[m.at].at = m.at
	a.members[last] = nil
	a.members = a.members[:last]
	m.of = nil
}

// first returns the member that yields before the others: of those that don't keep their slots. Nil: there is none.
func (a *address) first(now int64) (first *Member) {
	for _, m := range a.members {
		if !m.keeps(now) && (first == nil || m.compare(first) < 0) {
			first = m
		}
	}
	return first
}

// yieldingLocked returns the member of all that yields. Nil: none does.
//
// It is one of the address that has most to yield. So a client that opens many connections loses its own, and a client that
// opens a few loses none, whatever the others prove.
func (l *Limiter) yieldingLocked() (first *Member) {
	now := l.now()
	l.countKeptLocked(now)
	most := 0
	for _, of := range l.open {
		yielding := len(of.members) - of.kept
		if yielding == 0 || yielding < most {
			continue
		}
		if m := of.first(now); m != nil && (first == nil || yielding > most || m.compare(first) < 0) {
			first, most = m, yielding
		}
	}
	return first
}

// countKeptLocked counts the members that each address keeps.
func (l *Limiter) countKeptLocked(now int64) {
	if l.limits.Keep == 0 {
		return
	}
	for _, of := range l.open {
		of.kept = 0
		for _, m := range of.members {
			if m.keeps(now) {
				of.kept++
			}
		}
	}
}

func (m *Member) keeps(now int64) bool {
	keep := m.limiter.limits.Keep
	return keep > 0 && use(m.use.Load()) == busy && now-m.since.Load() < int64(keep)
}

// compare is negative if m yields rather than other.
func (m *Member) compare(other *Member) int {
	return cmp.Or(cmp.Compare(m.use.Load(), other.use.Load()), cmp.Compare(m.since.Load(), other.since.Load()))
}
