package aggregate

import (
	"sync/atomic"
	"unsafe"
)

// record is an alias: a header, followed in memory by the name and the tags. It lies in memory without
// pointers, on a multiple of 16 bytes.
type record struct {
	hash   uint64
	sender uint64
	// target is where the alias leads, see target.go. It is the one thing that may change.
	target     atomic.Uint64
	nameLength uint16
	tagsLength uint16
	mode       uint16
	class      uint16 // of its size, for using it again
}

const (
	recordHeader = int(unsafe.Sizeof(record{}))
	recordGrain  = 16
	// maxAliasBytes bounds the name and tags of an alias; longer lines are found by their canonical form each time.
	maxAliasBytes = 2048
	chunkGrains   = 1 << 11 // 32 KiB
	recordClasses = (recordHeader+maxAliasBytes)/recordGrain + 2
)

func (r *record) bytes(from, length int) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(r), recordHeader+from)), length)
}

// size is what the record takes, in bytes.
func (r *record) size() int64 { return int64(r.class) * recordGrain }

func (r *record) name() []byte { return r.bytes(0, int(r.nameLength)) }

func (r *record) tags() []byte { return r.bytes(int(r.nameLength), int(r.tagsLength)) }

// records is the memory of a shard's aliases: chunks cut into pieces from their start, and lists of pieces that
// were given back, by size. A record's number is its place in grains over all chunks.
type records struct {
	chunks atomic.Pointer[[]*chunk] // copied when it grows

	used int // grains of the last chunk
	free [recordClasses][]uint32
}

// chunk is memory for records, aligned to eight bytes.
type chunk [chunkGrains * recordGrain / 8]uint64

func (r *records) at(number uint32) *record {
	c := (*r.chunks.Load())[number/chunkGrains]
	return (*record)(unsafe.Pointer(&c[int(number%chunkGrains)*(recordGrain/8)]))
}

// makeLocked copies a key into a new record, complete but not yet named by a slot.
func (r *records) makeLocked(k *aliasKey, target uint64) uint32 {
	class := (recordHeader + len(k.name) + len(k.tags) + recordGrain - 1) / recordGrain
	number := r.placeLocked(class)
	made := r.at(number)
	made.hash, made.sender, made.mode, made.class = k.hash, k.sender, k.mode, uint16(class)
	made.nameLength, made.tagsLength = uint16(len(k.name)), uint16(len(k.tags))
	made.target.Store(target)
	copy(made.name(), k.name)
	copy(made.tags(), k.tags)
	return number
}

func (r *records) placeLocked(class int) uint32 {
	if list := r.free[class]; len(list) > 0 {
		r.free[class] = list[:len(list)-1]
		return list[len(list)-1]
	}
	var chunks []*chunk
	if held := r.chunks.Load(); held != nil {
		chunks = *held
	}
	if len(chunks) == 0 || r.used+class > chunkGrains {
		chunks = append(chunks[:len(chunks):len(chunks)], new(chunk))
		r.chunks.Store(&chunks)
		r.used = 0
		if len(chunks) == 1 {
			r.used = firstNumber // the numbers before it have a meaning in slots
		}
	}
	number := uint32((len(chunks)-1)*chunkGrains + r.used)
	r.used += class
	return number
}

func (r *records) giveLocked(number uint32) {
	class := r.at(number).class
	r.free[class] = append(r.free[class], number)
}

func (r *records) bytesLocked() int64 {
	if held := r.chunks.Load(); held != nil {
		return int64(len(*held)) * chunkGrains * recordGrain
	}
	return 0
}
