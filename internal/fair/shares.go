package fair

import (
	"cmp"
	"slices"
)

// Shares are the parts of a budget, by who has them. The zero value is ready. A lock of its owner guards it.
type Shares[K comparable, N int | int64] struct {
	held N
	of   map[K]N
}

// Add counts n more of a share, or fewer if n is negative. It asks no budget.
func (s *Shares[K, N]) Add(share K, n N) {
	if s.of == nil {
		s.of = map[K]N{}
	}
	s.held += n
	if s.of[share] += n; s.of[share] == 0 {
		delete(s.of, share)
	}
}

// Held is the sum of all shares, Len their number, and Of one of them.
func (s *Shares[K, N]) Held() N      { return s.held }
func (s *Shares[K, N]) Len() int     { return len(s.of) }
func (s *Shares[K, N]) Of(share K) N { return s.of[share] }

// More returns how much more a share may take of a budget that nobody else uses.
func (s *Shares[K, N]) More(share K, budget N) N { return More(s.of[share], budget-s.held) }

// Largest returns the share that has most: of several, the first one in order, so all who count the same agree.
func Largest[K cmp.Ordered, N int | int64](s *Shares[K, N]) (largest K) {
	for share, n := range s.of {
		if most := s.of[largest]; n > most || n == most && share < largest {
			largest = share
		}
	}
	return largest
}

// Part is the most that each of several demands may have of a budget, so that those who ask for less leave the rest to
// the others: max-min fairness. It is the largest demand if there is room for all. Part sorts the demands.
func Part[N int | int64](budget N, demands []N) (part N) {
	slices.Sort(demands)
	for i, n := range demands {
		if part = budget / N(len(demands)-i); n > part {
			return part
		}
		part, budget = n, budget-n
	}
	return part
}
