package connlimit

import (
	"cmp"
	"net/netip"

	"github.com/sluice-metrics/sluice/internal/fair"
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

// first returns the member that yields before the others: of those that don't keep their slots, or of all. Nil: there is none.
func (a *address) first(now int64, all bool) (first *Member) {
	for _, m := range a.members {
		if (all || !m.keeps(now)) && (first == nil || m.compare(first) < 0) {
			first = m
		}
	}
	return first
}

// yieldingLocked returns the member that yields to a new one of an address. Nil: none does.
//
// It is one of the address that has most to yield. So a client that opens many connections loses its own, and a client that
// opens a few loses none, whatever the others prove.
//
// Busy members are kept, but an address has a share: three times the slots that nobody keeps. One that keeps more has all its
// members to yield, to an address that keeps fewer, and has no other members; one that would keep more takes no slot of those within their share. So a
// few addresses whose members are always busy neither keep new ones out, nor take back what they lost.
func (l *Limiter) yieldingLocked(to netip.Prefix) (first *Member) {
	now := l.now()
	left := l.countKeptLocked(now)
	own := cmp.Or(l.open[to], &address{})
	hasShare := own.kept > 0 && fair.More(own.kept, left) < 1
	most := 0
	for _, of := range l.open {
		yielding, all := len(of.members)-of.kept, false
		switch {
		case of == own:
		case len(own.members) == own.kept && fair.More(of.kept, left) < 0 && of.kept > own.kept+1: // so an address doesn't take back what it lost
			yielding, all = len(of.members), true
		case hasShare:
			continue
		}
		if yielding == 0 || yielding < most {
			continue
		}
		if m := of.first(now, all); m != nil && (first == nil || yielding > most || m.compare(first) < 0) {
			first, most = m, yielding
		}
	}
	return first
}

// countKeptLocked counts the members that each address keeps, and returns how many slots nobody keeps.
func (l *Limiter) countKeptLocked(now int64) (left int) {
	left = l.limits.Max
	if l.limits.Keep == 0 {
		return left
	}
	for _, of := range l.open {
		of.kept = 0
		for _, m := range of.members {
			if m.keeps(now) {
				of.kept++
			}
		}
		left -= of.kept
	}
	return left
}

func (m *Member) keeps(now int64) bool {
	keep := m.limiter.limits.Keep
	return keep > 0 && use(m.use.Load()) == busy && now-m.since.Load() < int64(keep)
}

// compare is negative if m yields rather than other.
func (m *Member) compare(other *Member) int {
	return cmp.Or(cmp.Compare(m.use.Load(), other.use.Load()), cmp.Compare(m.since.Load(), other.since.Load()))
}
