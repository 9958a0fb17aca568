package aggregate

import (
	"math/rand/v2"
	"testing"
)

// Numbers are found by their hashes however often their table has grown, until they are removed.
func TestSlotsGrow(t *testing.T) {
	s := newSlots()
	random := rand.New(rand.NewPCG(1, 2))
	hashes := make([]uint64, 200_000)
	for i := range hashes {
		hashes[i] = random.Uint64()
		s.shard(hashes[i]).addLocked(hashes[i], uint32(i)+firstNumber)
	}
	for i := range hashes {
		if i%3 == 0 {
			s.shard(hashes[i]).removeLocked(hashes[i], uint32(i)+firstNumber)
		}
	}
	steps := 0
	for i, hash := range hashes {
		found := false
		for p := s.probe(hash); !found; steps++ {
			number := p.next()
			if number == 0 {
				break
			}
			found = number == uint32(i)+firstNumber
		}
		if found != (i%3 != 0) {
			t.Fatalf("number %d: found %v", i, found)
		}
	}
	if steps > len(hashes)+len(hashes)/100 {
		t.Errorf("%d numbers were compared for %d hashes: tags do not tell them apart", steps, len(hashes))
	}
}
