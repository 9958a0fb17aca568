package index

// Walks visit many families or entries for lists. Like reads, they hold a shard's lock for
// EntriesPerHold steps at a time. A family or entry that exists all the time is visited; one that
// is created or removed meanwhile may be.

// EachFamily calls visit with every family, under the lock of its shard. visit keeps no entry.
func (x *Index) EachFamily(visit func(*Family)) {
	for i := range x.Shards {
		x.Shards[i].eachFamily(visit)
	}
}

func (s *Shard) eachFamily(visit func(*Family)) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	seen := 0
	for f := range s.Each() {
		visit(f)
		seen++
		s.Yield(seen)
	}
}

// EachNameLocked calls visit with the name of every object of the family. It may release the lock
// of the family's shard for a moment.
func (f *Family) EachNameLocked(visit func(name string)) {
	seen := 0
	for e := range f.Entries.All() {
		visit(e.Name)
		seen++
		f.Shard.Yield(seen)
	}
}

// NamedLocked returns the newest entry of an object name, or nil. The older ones follow it.
func (f *Family) NamedLocked(name string) *Entry { return f.named(name) }

// SizeLocked is the number of names.
func (f *Family) SizeLocked() int { return f.Entries.live }

// WalkEntries calls visit with all entries of a family, some at a time and without a lock. It
// returns the number of entries of each kind, and false if there is no such family. visit does not
// keep the slice, whose memory is the buffer's.
func (x *Index) WalkEntries(key Key, buffer *Buffer, visit func([]Found)) (kinds KindCounts, exists bool) {
	shard, hash := x.ShardOfKey(key)
	shard.Mu.Lock()
	f := shard.Family(hash, key)
	if f == nil {
		shard.Mu.Unlock()
		return kinds, false
	}
	kinds = f.kinds
	some := buffer.found[:0]
	for e := range f.Entries.All() {
		if some = appendFound(some, e, true); len(some) >= EntriesPerHold {
			shard.Mu.Unlock()
			visit(some)
			some = some[:0]
			shard.Mu.Lock()
		}
	}
	shard.Mu.Unlock()
	visit(some)
	buffer.found = some
	return kinds, true
}
