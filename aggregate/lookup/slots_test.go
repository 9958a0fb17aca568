package lookup

import (
	"math/rand/v2"
	"sync"
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

// T1, T2, T3, T4: lookups while numbers are added, removed and tables grow find only what their
// hash has, and find a number that stays whenever they ask under the lock. Run with -race.
func TestSlotsAreReadWhileTheyChange(t *testing.T) {
	const numbers = 2000
	s := NewSlots()
	hashes := make([]uint64, numbers) // complete before a slot names them
	for i := range hashes {
		hashes[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				for i, hash := range hashes {
					for p := s.Probe(hash); ; {
						number := p.Next()
						if number == 0 {
							break
						}
						if found := hashes[number-FirstNumber]; found>>32 != hash>>32 {
							t.Errorf("hash %x finds number %d of hash %x", hash, number, found)
						} else if int(number-FirstNumber) == i {
							break
						}
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i, hash := range hashes {
		shard := s.Shard(hash)
		shard.Mu.Lock()
		shard.AddLocked(hash, uint32(i)+FirstNumber)
		if p := s.Probe(hash); p.Next() == 0 {
			t.Errorf("number %d is not found under the lock", i)
		}
		shard.Mu.Unlock()
		if i%3 == 2 {
			before := s.Shard(hashes[i-1])
			before.Mu.Lock()
			before.RemoveLocked(hashes[i-1], uint32(i-1)+FirstNumber)
			before.Mu.Unlock()
		}
	}
	close(done)
	readers.Wait()
}
