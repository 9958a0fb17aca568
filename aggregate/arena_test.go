package aggregate

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/sluice-metrics/sluice/metric"
)

// An arena grows in place: what was written stays where it was, what is new is zero, and the end is the end.
func TestArenaGrowsInPlace(t *testing.T) {
	const size = 6 << 20
	a := newArena(size)
	if uintptr(a.base)%8 != 0 {
		t.Errorf("base %p", a.base)
	}
	word := func(at int) *uint64 { return (*uint64)(unsafe.Add(a.base, at)) }
	for at := 0; at+8 <= size; at += 4096 {
		if !a.reach(at + 8) {
			t.Fatalf("%d of %d bytes cannot be reached", at+8, size)
		}
		if *word(at) != 0 {
			t.Fatalf("byte %d is not zero", at)
		}
		*word(at) = uint64(at)
	}
	for at := 0; at+8 <= size; at += 4096 {
		if *word(at) != uint64(at) {
			t.Fatalf("byte %d changed", at)
		}
	}
	if a.reach(a.reserved + 1) {
		t.Error("more was reached than there is")
	}
	runtime.KeepAlive(a)
}

// A table without memory refuses new series and forgets aliases, and nothing else.
func TestNoArena(t *testing.T) {
	f := newFixture(t)
	f.push("c:1|c|#pod:a,ns:ns")
	pages, records := f.blocks.pages, f.aliases.records.memory
	f.blocks.pages, f.blocks.next = &arena{base: pages.base}, blockSeries
	f.aliases.records.memory = &arena{base: records.base}
	for i := range f.aliases.shards {
		f.aliases.shards[i] = recordShard{}
	}
	f.refuses("d:1|c|#pod:a,ns:ns", metric.OverLimit)
	f.push("c:1|c|#ns:ns,pod:a")
	f.want("c:total", "a=2")
	runtime.KeepAlive(pages)
	runtime.KeepAlive(records)
}

// Where not even addresses could be had, lines are parsed each time.
func TestNoAddresses(t *testing.T) {
	f := newFixture(t)
	f.aliases.records.memory = &arena{}
	for range 2 {
		if outcomes, parsed := f.take(f.w, nil, "c:1|c|#pod:a,ns:ns"); parsed != 1 || outcomes[0] != metric.Applied {
			t.Errorf("%v, %d parsed", outcomes, parsed)
		}
	}
	f.w.Offline()
	f.want("c:total", "a=2")
}
