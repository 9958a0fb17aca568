package pressure

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// What is garbage is not in use, and what is in use counts against the limit.
func TestHigh(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	if look() {
		t.Fatal("high without a limit")
	}
	const held = 64 << 20
	before, _ := inUse()
	kept := make([]byte, held)
	runtime.GC()
	if with, _ := inUse(); with < before+held/2 {
		t.Errorf("%d bytes are in use, with %d more than %d", with, held, before)
	}
	debug.SetMemoryLimit(held)
	if !look() {
		t.Error("not high at the limit")
	}
	debug.SetMemoryLimit(4 * held)
	if look() {
		t.Error("high at a quarter of the limit")
	}
	runtime.KeepAlive(kept)
	kept = nil
	runtime.GC()
	if with, _ := inUse(); with > held/2 {
		t.Errorf("%d bytes are in use, without %d", with, held)
	}
}

func BenchmarkHigh(b *testing.B) {
	b.Run("asked", func(b *testing.B) {
		for b.Loop() {
			High()
		}
	})
	b.Run("looked", func(b *testing.B) {
		for b.Loop() {
			look()
		}
	})
}
