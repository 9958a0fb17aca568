package group

import (
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
)

// A replica remembers for a while when a group was deleted, so that a replica that could not be
// reached meanwhile doesn't bring the group back.

const (
	// tombstoneLife is how long a replica may be away without bringing deleted groups back.
	tombstoneLife = 24 * time.Hour
	// maxTombstones bounds the tombstones of a shard. The oldest of the namespace that has most is forgotten first, so nobody's
	// many have those of others forgotten.
	maxTombstones = 400
)

// The first byte of the document of a tombstone. That of a former release names no namespace.
const (
	tombstoneWithoutNamespace = 4
	tombstoneVersion          = 5
)

// tombstone is the version of a deletion. Zero: there is none.
type tombstone struct {
	version
	namespace string // whose share of tombstones it takes
}

func (gs *Groups) tombstone(h Hash) tombstone {
	if gs.replication == nil {
		return tombstone{}
	}
	s := gs.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tombstones[h]
}

// setTombstone remembers a deletion, unless a newer one is known.
func (gs *Groups) setTombstone(h Hash, ended tombstone) {
	s := gs.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tombstones[h].before(ended.version) || gs.replication.now().Sub(time.UnixMilli(ended.stamp)) > tombstoneLife {
		return
	}
	s.tombstones[h] = ended
	s.changed[h] = struct{}{}
	if len(s.tombstones) <= maxTombstones {
		return
	}
	s.forgetLocked(s.oldestTombstoneLocked())
	if suppressed, ok := gs.replication.early.Allow(); ok {
		gs.replication.logger.Warn("deletions of groups are forgotten early: a replica that is away may bring deleted groups back",
			"kept", shards*maxTombstones, "for", tombstoneLife, "suppressed", suppressed)
	}
}

func (s *shard) oldestTombstoneLocked() (oldest Hash) {
	var count fair.Shares[string, int]
	for _, one := range s.tombstones {
		count.Add(one.namespace, 1)
	}
	largest, first := fair.Largest(&count), version{}
	for h, one := range s.tombstones {
		if one.namespace == largest && (first == version{} || one.before(first)) {
			oldest, first = h, one.version
		}
	}
	return oldest
}

func (gs *Groups) dropTombstone(h Hash) {
	s := gs.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tombstones, h) // the group's own document takes its place
}

func (s *shard) forgetLocked(h Hash) {
	delete(s.tombstones, h)
	s.changed[h] = struct{}{}
}

// forgetOld forgets the tombstones that are over.
func (s *shard) forgetOld(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, ended := range s.tombstones {
		if now.Sub(time.UnixMilli(ended.stamp)) > tombstoneLife {
			s.forgetLocked(h)
		}
	}
}

func isTombstone(value []byte) bool {
	return len(value) > 0 && (value[0] == tombstoneVersion || value[0] == tombstoneWithoutNamespace)
}

// appendTombstone appends the document of a deletion: version, the group's hash, the time and the
// origin, the namespace.
func appendTombstone(dst []byte, h Hash, ended tombstone) []byte {
	e := encoder{dst: append(append(dst, tombstoneVersion), h[:]...)}
	e.version(ended.version)
	e.text(ended.namespace)
	return e.dst
}

func readTombstone(value []byte) (h Hash, ended tombstone, err error) {
	if len(value) < 1+len(h) || !isTombstone(value) {
		return h, ended, errDocument
	}
	copy(h[:], value[1:])
	d := decoder{all: string(value[1+len(h):])}
	ended.version = d.version()
	if value[0] != tombstoneWithoutNamespace {
		ended.namespace = d.text()
	}
	d.must(d.at == len(d.all) && ended.stamp > 0)
	if d.failed {
		return h, ended, fmt.Errorf("%w: a deletion", errDocument)
	}
	return h, ended, nil
}
