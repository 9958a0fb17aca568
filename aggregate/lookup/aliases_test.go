package lookup

import (
	"fmt"
	"testing"
)

// A record is found by all of its key: two keys of one hash are two records.
func TestKeysOfOneHash(t *testing.T) {
	a := NewAliases(1 << 20)
	key := Key{hash: 7 << 32, name: []byte("n"), tags: []byte("a:b"), mode: 1, mask: 0xffff, sender: 1}
	others := [4]Key{key, key, key, key}
	others[0].name, others[1].tags, others[2].mode, others[3].sender = []byte("m"), []byte("a:c"), 2, 2
	if before, ok := a.Set(&key, 1); before != 0 || !ok {
		t.Fatalf("set: %d before, %t", before, ok)
	}
	for i := range others {
		if a.Find(&others[i]) != nil {
			t.Errorf("%+v finds the record of %+v", others[i], key)
		}
	}
	if a.Find(&key) == nil {
		t.Error("the record is not found")
	}
}

// Lines whose length changes leave no memory behind, whatever lengths come next.
func TestLengthsThatChangeTakeNoMore(t *testing.T) {
	a := NewAliases(64 << 20)
	const lines, longest = 2_000, 2000 // of 8 MiB, with the race detector
	round := func(length int) {
		for i := range lines {
			key := Key{hash: uint64(i+1) << 20 * 0x9e3779b97f4a7c15, name: fmt.Append(nil, i), tags: make([]byte, length), mask: 0xffff}
			if _, ok := a.Set(&key, 1); !ok {
				t.Fatalf("line %d of %d bytes is not remembered", i, length)
			}
		}
		for shard := range SlotShards {
			a.Recycle(shard, a.Sweep(shard, func(uint64) bool { return true }))
		}
	}
	round(longest)
	first := a.Records.Bytes()
	for length := longest - 16; length > longest-16*6; length -= 16 {
		round(length)
	}
	for range 5 {
		round(16)
		round(longest - 16*6)
	}
	if now := a.Records.Bytes(); now > first/8*9 || a.Used.Load() != 0 {
		t.Errorf("%d bytes, %d at first; %d in use", now, first, a.Used.Load())
	}
}
