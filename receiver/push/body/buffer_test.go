package body

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/netip"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/s2"
)

var errNeverEnds = errors.New("no more comes")

func from(n byte) Share {
	return Share{From: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 32)}
}

// Bodies that arrive and never end, of one address or of two, leave room for those of others.
func TestBodiesThatNeverEndLeaveRoom(t *testing.T) {
	const most = 8 << 20
	for _, holding := range []byte{1, 2} {
		budget, held := &Budget{Max: 2 * most}, []*Buffer{}
		for range 50 {
			for _, size := range []int{most - 1, 3 << 20, 1 << 20, 300 << 10, 70 << 10} {
				for n := range holding {
					u := &Buffer{Share: from(n)}
					if u.Fill(io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(errNeverEnds)), budget, most) == ErrBusy {
						u.Release(budget)
					}
					held = append(held, u)
				}
			}
		}
		other := &Buffer{Share: from(100)}
		if err := other.Fill(bytes.NewReader(make([]byte, 300<<10)), budget, most); err != nil {
			t.Errorf("%d hold %d bytes, and another one's body: %v", holding, budget.Held.Load(), err)
		}
		for _, u := range append(held, other) {
			u.Release(budget)
		}
		if budget.Held.Load() != 0 || budget.of.Len() != 0 {
			t.Errorf("%d bytes and %d shares are left", budget.Held.Load(), budget.of.Len())
		}
	}
}

// However many shares take all they can, each other one has its free part, of which nothing is taken from the budget.
func TestEachShareHasAFreePart(t *testing.T) {
	budget, releases := &Budget{Max: 16 << 20}, []func(){}
	for n := range byte(20) {
		for most := budget.Max; most > 0; most /= 2 {
			for release, held := budget.Hold(from(n), most); held; release, held = budget.Hold(from(n), most) {
				releases = append(releases, release)
			}
		}
	}
	if free := budget.Max - budget.Held.Load(); free < 0 || free > 4<<10 {
		t.Errorf("%d bytes of the budget are free", free)
	}
	small := &Buffer{Share: from(100), All: true}
	if err := small.Fill(bytes.NewReader(make([]byte, FreeOfShare/2)), budget, FreeOfShare-1); err != nil {
		t.Errorf("the body of another share: %v", err)
	}
	if release, held := budget.Hold(from(100), FreeOfShare); held {
		t.Error("a share has its free part twice")
		release()
	}
	small.Release(budget)
	for _, release := range releases {
		release()
	}
	if budget.Held.Load() != 0 || budget.of.Len() != 0 {
		t.Errorf("%d bytes and %d shares are left", budget.Held.Load(), budget.of.Len())
	}
}

// Decompressed bodies of one address leave room for those of others.
func TestDecompressedBodiesLeaveRoom(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(make([]byte, 1<<20))
	_ = w.Close()
	for coding, wire := range map[string][]byte{"gzip": zipped.Bytes(), "snappy": s2.EncodeSnappy(nil, make([]byte, 1<<20))} {
		budget, held := &Budget{Max: 16 << 20}, 0
		for ; ; held++ {
			if _, err := Decode(t.Context(), coding, netip.Prefix{}, wire, &Buffer{Share: from(1)}, budget, 1<<20); err != nil {
				break
			}
		}
		if _, err := Decode(t.Context(), coding, netip.Prefix{}, wire, &Buffer{Share: from(2)}, budget, 1<<20); err != nil || held < 10 {
			t.Errorf("beside %d of an address, one of another, %s: %v", held, coding, err)
		}
	}
}

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

// Memory beside a body counts as a part of what is in no budget, also where the memory of an earlier body is at hand.
func TestMemoryBesideABodyIsCharged(t *testing.T) {
	const beside, size = 48 << 10, 32 << 10
	for _, earlier := range [][]byte{nil, make([]byte, 0, FreeBytes)} {
		budget := &Budget{Max: 1 << 20}
		u := Buffer{B: earlier, Beside: beside}
		if err := u.Fill(bytes.NewReader(make([]byte, size)), budget, size); err != nil {
			t.Fatal(err)
		}
		if least := int64(beside + size - FreeBytes); u.Charged < least || budget.Held.Load() != u.Charged {
			t.Errorf("%d bytes are charged, and %d held; want %d at least", u.Charged, budget.Held.Load(), least)
		}
		if u.Release(budget); budget.Held.Load() != 0 || u.Beside != 0 {
			t.Errorf("%d bytes are held after the release", budget.Held.Load())
		}
	}
}
