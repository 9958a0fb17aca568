package body

import "testing"

// The budget is charged for the memory that a body holds, reused or not, and gets all of it back.
func TestReusedMemoryIsCharged(t *testing.T) {
	budget := &Budget{Max: 10 << 20}
	for _, n := range []int{400 << 10, 300 << 10, 900 << 10, 2 << 20, 100 << 10, 50 << 10} {
		var u Buffer
		if !u.reserve(budget, n) || cap(u.B) < n || len(u.B) != 0 {
			t.Fatalf("%d bytes: capacity %d, length %d", n, cap(u.B), len(u.B))
		}
		if want := max(0, int64(cap(u.B))-FreeBytes); u.Charged != want || budget.Held.Load() != want {
			t.Errorf("%d bytes: %d charged, %d held: want %d", n, u.Charged, budget.Held.Load(), want)
		}
		u.Release(budget)
		if budget.Held.Load() != 0 || cap(u.B) > FreeBytes {
			t.Errorf("%d bytes: %d held after the release, capacity %d", n, budget.Held.Load(), cap(u.B))
		}
	}
}

// A small body doesn't hold the memory of a large one, and memory of any size is not kept.
func TestIdleMemoryFits(t *testing.T) {
	giveIdle(make([]byte, 0, maxIdle))
	if b := takeIdle(maxIdle/2 - 1); b != nil {
		t.Errorf("capacity %d for %d bytes", cap(b), maxIdle/2-1)
	}
	giveIdle(make([]byte, 0, maxIdle+1))
	if b := takeIdle(maxIdle + 1); b != nil {
		t.Errorf("capacity %d was kept", cap(b))
	}
}
