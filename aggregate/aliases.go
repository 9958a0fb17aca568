package aggregate

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// aliases finds a series by the name and tag bytes of a line as they stand on the wire: hashed, looked up
// without a lock (slots.go), and compared in full with the bytes in the record.
type aliases struct {
	seed     maphash.Seed
	lineHash lineHash
	slots    *slots
	records  *records
	shards   [slotShards]recordShard // under the locks of the slots' shards
	bytes    atomic.Int64            // of records in use
}

// newAliases makes room for aliases of so many bytes.
func newAliases(size int64) *aliases {
	return &aliases{seed: maphash.MakeSeed(), lineHash: newLineHash(), slots: newSlots(), records: newRecords(size)}
}

// aliasKey is what decides which series a line belongs to, as it stands on the wire. The bytes are borrowed.
type aliasKey struct {
	hash uint64
	name []byte
	tags []byte
	mode uint16 // kind and separator; of a line, see recall.go
	mask uint16 // of the mode's bits, those that are looked up
	// rate is that of a sampled line; else 0.
	rate float64
	// sender is the key of who sent the line, 0 where nobody asks: two who send the same bytes speak of different things,
	// and so do two who had the same address. What the line says of its origin beside its tags is mixed in.
	sender uint64
}

// keyOf is what a sample is looked up by: its line, where that says all.
func (a *aliases) keyOf(s *metric.Sample) aliasKey {
	if s.Line != nil {
		return a.lineKeyOf(s)
	}
	return a.key(s)
}

func (a *aliases) key(s *metric.Sample) aliasKey {
	h := maphash.Bytes(a.seed, s.Name)
	if len(s.Tags) > 0 {
		h = bits.RotateLeft64(h, 29)*0x9e3779b97f4a7c15 ^ maphash.Bytes(a.seed, s.Tags)
	}
	mode := uint16(s.Kind) | uint16(s.Separator)<<8
	h ^= uint64(mode) * 0xd6e8feb86659fd93
	k := aliasKey{hash: h, name: s.Name, tags: s.Tags, mode: mode, mask: 0xffff}
	if s.Sender != nil {
		k.sender = a.origin(s)
		k.hash = bits.RotateLeft64(h, 31) ^ k.sender*0x9e3779b97f4a7c15
	}
	return k
}

// origin is what beside name and tags decides whom a line is about. Fields that few lines have are mixed in as hashes of 64
// random bits: two of one sender agree as rarely as the keys of two senders do.
func (a *aliases) origin(s *metric.Sample) uint64 {
	k := s.Sender.Key
	if len(s.Container) > 0 {
		k = bits.RotateLeft64(k, 17) ^ maphash.Bytes(a.seed, s.Container)
	}
	if len(s.External) > 0 {
		k = bits.RotateLeft64(k, 37) ^ maphash.Bytes(a.seed, s.External)
	}
	if s.DefaultExternal {
		k = ^k
	}
	return k
}

// find returns the record of a key, or nil.
func (a *aliases) find(k *aliasKey) *record {
	p := a.slots.probe(k.hash)
	for {
		number := p.next()
		if number == 0 {
			return nil
		}
		if r := a.records.at(number); r.matches(k) {
			return r
		}
	}
}

// lead makes a key lead to a target, with a new record where there is none, and returns where it led before: 0 for
// nowhere. False: the key is too long to be remembered, or there is no memory.
func (a *aliases) lead(k *aliasKey, target uint64) (before uint64, ok bool) {
	if len(k.name)+len(k.tags) > maxAliasBytes {
		return 0, false
	}
	shard := a.slots.shard(k.hash)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if r := a.find(k); r != nil {
		return r.target.Swap(target), true
	}
	number, ok := a.shards[k.hash%slotShards].makeLocked(a.records, k, target)
	if !ok {
		return 0, false
	}
	a.bytes.Add(a.records.at(number).size())
	shard.addLocked(k.hash, number)
	return 0, true
}

// place is where the record of a hash would come to lie now.
func (a *aliases) place(hash uint64, length int) uintptr {
	shard := a.slots.shard(hash)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	return uintptr(unsafe.Pointer(a.records.at(a.shards[hash%slotShards].likelyLocked(recordClass(length)))))
}

// sweep removes the records of one shard that stale says so of. Their numbers may be used again (recycle) only
// after every writer has passed.
func (a *aliases) sweep(index int, stale func(target uint64) bool) []uint32 {
	shard := &a.slots.shards[index]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	return shard.sweepLocked(func(number uint32) bool { return stale(a.records.at(number).target.Load()) })
}

func (a *aliases) recycle(index int, numbers []uint32) {
	shard := &a.slots.shards[index]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	for _, number := range numbers {
		a.bytes.Add(-a.records.at(number).size())
		a.shards[index].giveLocked(a.records, number)
	}
}

// size is the number of aliases, and the bytes of all tables and records.
func (a *aliases) size() (n int, bytes int64) {
	for i := range a.slots.shards {
		shard := &a.slots.shards[i]
		shard.mu.Lock()
		n += shard.live
		bytes += shard.bytesLocked()
		shard.mu.Unlock()
	}
	return n, bytes + a.records.bytes()
}

func (r *record) matches(k *aliasKey) bool {
	return r.sender == k.sender && r.mode&k.mask == k.mode && int(r.nameLength) == len(k.name) &&
		bytes.Equal(r.name(), k.name) && bytes.Equal(r.tags(), k.tags)
}
