package lookup

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// Aliases finds a series by the name and tag bytes of a line, as on the wire. It looks up their
// hash without a lock, and compares all bytes with the record's.
type Aliases struct {
	seed     maphash.Seed
	lineHash Hash
	Slots    *Slots
	Records  *records
	Shards   [SlotShards]RecordShard // each guarded by the lock of the Slots shard of its index
	Used     atomic.Int64            // bytes of records in use
}

// NewAliases returns an empty table that reserves address space for size bytes of aliases.
func NewAliases(size int64) *Aliases {
	return &Aliases{seed: maphash.MakeSeed(), lineHash: NewHash(), Slots: NewSlots(), Records: newRecords(size)}
}

// Key identifies a line or a sample, as on the wire. The bytes are borrowed.
type Key struct {
	hash uint64
	name []byte
	tags []byte
	mode uint16 // kind and separator; for a line, the bits of lines.go
	mask uint16 // the bits of mode that a record has to match
	// rate is the sample rate of a sampled line; else 0.
	rate float64
	// sender is the key of the sender, with the claims outside the tags mixed in: the same bytes
	// from two senders describe two objects. It is 0 if the sender does not matter.
	sender uint64
}

// KeyOf returns the key of a sample: of its line, if it has one, else of its name and tags.
func (a *Aliases) KeyOf(s *metric.Sample) Key {
	if s.Line != nil {
		return a.lineKeyOf(s)
	}
	return a.keyOfSample(s)
}

func (a *Aliases) keyOfSample(s *metric.Sample) Key {
	h := maphash.Bytes(a.seed, s.Name)
	if len(s.Tags) > 0 {
		h = bits.RotateLeft64(h, 29)*0x9e3779b97f4a7c15 ^ maphash.Bytes(a.seed, s.Tags)
	}
	mode := uint16(s.Kind) | uint16(s.Separator)<<8
	h ^= uint64(mode) * 0xd6e8feb86659fd93
	k := Key{hash: h, name: s.Name, tags: s.Tags, mode: mode, mask: 0xffff}
	if s.Sender != nil {
		k.sender = a.origin(s)
		k.hash = bits.RotateLeft64(h, 31) ^ k.sender*0x9e3779b97f4a7c15
	}
	return k
}

// origin mixes the claims outside name and tags into the sender's key. Their seeded 64-bit hashes
// collide as rarely as the keys of senders.
func (a *Aliases) origin(s *metric.Sample) uint64 {
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

// Find returns the record of a key, or nil.
func (a *Aliases) Find(k *Key) *record {
	p := a.Slots.Probe(k.hash)
	for {
		number := p.Next()
		if number == 0 {
			return nil
		}
		if r := a.Records.at(number); r.matches(k) {
			return r
		}
	}
}

// Set sets the target of a key, in a new record if needed, and returns the previous target or 0. It
// returns false if the key is too long to be remembered, or if there is no memory.
func (a *Aliases) Set(k *Key, target uint64) (before uint64, ok bool) {
	if len(k.name)+len(k.tags) > maxAliasBytes {
		return 0, false
	}
	shard := a.Slots.Shard(k.hash)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	if r := a.Find(k); r != nil {
		return r.Target.Swap(target), true
	}
	number, ok := a.Shards[k.hash%SlotShards].makeLocked(a.Records, k, target)
	if !ok {
		return 0, false
	}
	a.Used.Add(a.Records.at(number).size())
	shard.AddLocked(k.hash, number)
	return 0, true
}

// place returns the probable address of the next record for a hash and length, for prefetching.
func (a *Aliases) place(hash uint64, length int) uintptr {
	shard := a.Slots.Shard(hash)
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	return uintptr(unsafe.Pointer(a.Records.at(a.Shards[hash%SlotShards].likelyLocked(recordClass(length)))))
}

// Sweep removes the records of one shard that stale selects. Their numbers may be recycled after
// every writer was quiescent.
func (a *Aliases) Sweep(index int, stale func(target uint64) bool) []uint32 {
	shard := &a.Slots.Shards[index]
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	return shard.sweepLocked(func(number uint32) bool { return stale(a.Records.at(number).Target.Load()) })
}

// Recycle frees swept records of one shard.
func (a *Aliases) Recycle(index int, numbers []uint32) {
	shard := &a.Slots.Shards[index]
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	for _, number := range numbers {
		a.Used.Add(-a.Records.at(number).size())
		a.Shards[index].giveLocked(a.Records, number)
	}
}

// Size returns the number of aliases, and the bytes of all tables and records.
func (a *Aliases) Size() (n int, bytes int64) {
	for i := range a.Slots.Shards {
		shard := &a.Slots.Shards[i]
		shard.Mu.Lock()
		n += shard.live
		bytes += shard.bytesLocked()
		shard.Mu.Unlock()
	}
	return n, bytes + a.Records.Bytes()
}

func (r *record) matches(k *Key) bool {
	return r.sender == k.sender && r.mode&k.mask == k.mode && int(r.nameLength) == len(k.name) &&
		bytes.Equal(r.name(), k.name) && bytes.Equal(r.tags(), k.tags)
}
