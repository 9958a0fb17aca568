package lookup

import (
	"math/rand/v2"
	"testing"
)

// Numbers are found by their hashes however often their table has grown, until they are removed.
func TestSlotsGrow(t *testing.T) {
	s := NewSlots()
	random := rand.New(rand.NewPCG(1, 2))
	hashes := make([]uint64, 200_000)
	for i := range hashes {
		hashes[i] = random.Uint64()
		s.Shard(hashes[i]).AddLocked(hashes[i], uint32(i)+FirstNumber)
	}
	for i := range hashes {
		if i%3 == 0 {
			s.Shard(hashes[i]).RemoveLocked(hashes[i], uint32(i)+FirstNumber)
		}
	}
	steps := 0
	for i, hash := range hashes {
		found := false
		for p := s.Probe(hash); !found; steps++ {
			number := p.Next()
			if number == 0 {
				break
			}
			found = number == uint32(i)+FirstNumber
		}
		if found != (i%3 != 0) {
			t.Fatalf("number %d: found %v", i, found)
		}
	}
	if steps > len(hashes)+len(hashes)/100 {
		t.Errorf("%d numbers were compared for %d hashes: tags do not tell them apart", steps, len(hashes))
	}
}
