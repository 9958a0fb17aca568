package group

import (
	"fmt"
	"time"
)

// A replica remembers for a while when a group was deleted, so that a replica that could not be
// reached meanwhile doesn't bring the group back.

const (
	// tombstoneLife is how long a replica may be away without bringing deleted groups back.
	tombstoneLife = 24 * time.Hour
	// maxTombstones bounds the tombstones of a shard; the oldest is forgotten first.
	maxTombstones = 400
)

// tombstoneVersion is the first byte of the document of a tombstone.
const tombstoneVersion = 4

// tombstone returns when a group was deleted; zero: it was not.
func (gs *Groups) tombstone(h Hash) version {
	if gs.replication == nil {
		return version{}
	}
	s := gs.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tombstones[h]
}

// setTombstone remembers a deletion, unless a newer one is known.
func (gs *Groups) setTombstone(h Hash, ended version) {
	s := gs.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tombstones[h].before(ended) || gs.replication.now().Sub(time.UnixMilli(ended.stamp)) > tombstoneLife {
		return
	}
	s.tombstones[h] = ended
	s.changed[h] = struct{}{}
	if len(s.tombstones) <= maxTombstones {
		return
	}
	oldest := h
	for other, at := range s.tombstones {
		if at.before(s.tombstones[oldest]) {
			oldest = other
		}
	}
	s.forgetLocked(oldest)
	if suppressed, ok := gs.replication.early.Allow(); ok {
		gs.replication.logger.Warn("deletions of groups are forgotten early: a replica that is away may bring deleted groups back",
			"kept", shards*maxTombstones, "for", tombstoneLife, "suppressed", suppressed)
	}
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

func isTombstone(value []byte) bool { return len(value) > 0 && value[0] == tombstoneVersion }

// appendTombstone appends the document of a deletion: version, the group's hash, the time and the
// origin.
func appendTombstone(dst []byte, h Hash, ended version) []byte {
	e := encoder{dst: append(append(dst, tombstoneVersion), h[:]...)}
	e.version(ended)
	return e.dst
}

func readTombstone(value []byte) (h Hash, ended version, err error) {
	if len(value) < 1+len(h) || !isTombstone(value) {
		return h, ended, errDocument
	}
	copy(h[:], value[1:])
	d := decoder{all: string(value[1+len(h):])}
	ended = d.version()
	d.must(d.at == len(d.all) && ended.stamp > 0)
	if d.failed {
		return h, ended, fmt.Errorf("%w: a deletion", errDocument)
	}
	return h, ended, nil
}
