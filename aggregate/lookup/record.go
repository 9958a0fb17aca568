package lookup

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-metrics/sluice/aggregate/memory"
)

// record is an alias: a header, followed in memory by the name, the tags and, for a sampled line,
// the rate. It lies in memory without pointers, at a multiple of 16 bytes.
type record struct {
	sender uint64
	// Target is the series or rejection of the alias, see slots.go. All other fields are
	// immutable.
	Target     atomic.Uint64
	nameLength uint16
	tagsLength uint16
	mode       uint16
	class      uint16 // size class, for the free lists
}

const (
	recordHeader = int(unsafe.Sizeof(record{}))
	recordGrain  = 16
	// maxAliasBytes bounds the name and tags of an alias. The series of longer lines are found by
	// identity each time.
	maxAliasBytes = 2048
	chunkGrains   = 1 << 9 // 8 KiB: each shard has one chunk in use
	recordClasses = (recordHeader+maxAliasBytes+rateBytes)/recordGrain + 2
	rateBytes     = 8
	leastClass    = (recordHeader + recordGrain - 1) / recordGrain
)

func (r *record) bytes(from, length int) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(r), recordHeader+from)), length)
}

// touch loads the record's first two cache lines. The arena is readable beyond the last record.
func (r *record) touch() {
	r.Target.Load()
	memory.Touch(unsafe.Add(unsafe.Pointer(r), CacheLine))
}

const CacheLine = 64

// size is the memory of the record, in bytes.
func (r *record) size() int64 { return int64(r.class) * recordGrain }

func (r *record) name() []byte { return r.bytes(0, int(r.nameLength)) }

func (r *record) tags() []byte { return r.bytes(int(r.nameLength), int(r.tagsLength)) }

// rate is the sample rate of a sampled line.
func (r *record) rate() float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(r.bytes(int(r.nameLength)+int(r.tagsLength), rateBytes)))
}

// records is the memory of all aliases. A record's number is its offset in units of recordGrain.
// Shards take chunks of the memory and divide them into records under their locks.
type records struct {
	Memory *memory.Arena
	chunks atomic.Int64 // given out
}

// newRecords reserves address space for size bytes of records, and as much again for free pieces
// that fit no new record.
func newRecords(size int64) *records {
	limit := int64(math.MaxUint32) * recordGrain
	return &records{Memory: memory.NewArena(int(min(2*size+SlotShards*chunkGrains*recordGrain, limit)))}
}

func (r *records) at(number uint32) *record {
	return (*record)(unsafe.Add(r.Memory.Base, uintptr(number)*recordGrain))
}

// chunk returns the number of the first grain of a new chunk, or false if there is no memory.
func (r *records) chunk() (number uint32, ok bool) {
	n := r.chunks.Add(1)
	if !r.Memory.Grow(int(n)*chunkGrains*recordGrain + CacheLine) {
		r.chunks.Add(-1)
		return 0, false
	}
	return uint32(n-1) * chunkGrains, true
}

func (r *records) Bytes() int64 { return r.chunks.Load() * chunkGrains * recordGrain }

// RecordShard is a shard's part of the records, guarded by the shard's lock: the unused rest of its
// current chunk, and free lists by size class.
type RecordShard struct {
	next, end uint32
	free      [recordClasses][]uint32
}

// makeLocked copies a key into a new record, which no slot names yet. It returns false if there is
// no memory.
func (s *RecordShard) makeLocked(all *records, k *Key, target uint64) (number uint32, ok bool) {
	length := recordHeader + len(k.name) + len(k.tags)
	if k.rate != 0 {
		length += rateBytes
	}
	class := recordClass(length)
	if number, ok = s.placeLocked(all, class); !ok {
		return 0, false
	}
	made := all.at(number)
	made.sender, made.mode, made.class = k.sender, k.mode, uint16(class)
	made.nameLength, made.tagsLength = uint16(len(k.name)), uint16(len(k.tags))
	made.Target.Store(target)
	copy(made.name(), k.name)
	copy(made.tags(), k.tags)
	if k.rate != 0 {
		binary.LittleEndian.PutUint64(made.bytes(len(k.name)+len(k.tags), rateBytes), math.Float64bits(k.rate))
	}
	return number, true
}

// recordClass is the size class of a record of length bytes, in grains.
func recordClass(length int) int { return (length + recordGrain - 1) / recordGrain }

// likelyLocked is the number of the next record of a class, unless the current chunk is too short.
func (s *RecordShard) likelyLocked(class int) uint32 {
	if list := s.free[class]; len(list) > 0 {
		return list[len(list)-1]
	}
	return s.next
}

func (s *RecordShard) placeLocked(all *records, class int) (number uint32, ok bool) {
	if list := s.free[class]; len(list) > 0 {
		s.free[class] = list[:len(list)-1]
		return list[len(list)-1], true
	}
	if s.next+uint32(class) > s.end || s.end == 0 {
		if number, ok = s.splitLocked(class); ok {
			return number, true
		}
		first, ok := all.chunk()
		if !ok {
			return 0, false
		}
		s.leaveLocked(s.next, int(s.end-s.next))
		s.next, s.end = first, first+chunkGrains
		if first == 0 {
			s.next = FirstNumber // lower numbers have a meaning in slots
		}
	}
	number = s.next
	s.next += uint32(class)
	return number, true
}

// splitLocked takes a record from the smallest free piece that is larger: pieces of a length that no line has any more
// would otherwise be lost.
func (s *RecordShard) splitLocked(class int) (number uint32, ok bool) {
	for larger := class + 1; larger < recordClasses; larger++ {
		if list := s.free[larger]; len(list) > 0 {
			s.free[larger] = list[:len(list)-1]
			number = list[len(list)-1]
			s.leaveLocked(number+uint32(class), larger-class)
			return number, true
		}
	}
	return 0, false
}

// leaveLocked keeps what is left of a piece for a record that fits.
func (s *RecordShard) leaveLocked(number uint32, grains int) {
	if grains >= leastClass && grains < recordClasses {
		s.free[grains] = append(s.free[grains], number)
	}
}

func (s *RecordShard) giveLocked(all *records, number uint32) {
	class := all.at(number).class
	s.free[class] = append(s.free[class], number)
}
