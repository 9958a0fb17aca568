// Package smallest finds the smallest items of many in bounded memory. Lists in pages use it: a page
// is the smallest items after the last one of the page before.
//
// It knows no item, and starts no goroutine.
package smallest

import "sort"

// Set keeps the smallest items of those added, each once. The zero Set is invalid; see Of.
//
// It keeps up to twice as many items, and sorts them when there are more. So adding an item that is
// larger than those kept costs one comparison.
type Set[T any] struct {
	most    int
	compare func(a, b *T) int
	kept    []T
	added   []int32 // the order in which kept was added, while it is sorted
	asked   T       // the argument of compare: a local variable would be allocated for each item
	bound   bool    // kept[most-1] is the largest item that may be in the answer
	full    bool    // an item was dropped
}

// Of returns an empty set of at most limit items, which must be at least 1. Two items are the same if
// compare returns 0.
func Of[T any](limit int, compare func(a, b *T) int) *Set[T] {
	return &Set[T]{most: limit, compare: compare}
}

// Add adds an item. Of several that are the same, the first is kept.
func (s *Set[T]) Add(one T) {
	if !s.Takes(one) {
		return
	}
	if s.kept = append(s.kept, one); len(s.kept) == 2*s.most {
		s.tidy()
	}
}

// Takes reports whether Add would keep an item, as far as that is known cheaply. An item that it would
// not keep counts as dropped, so a caller may leave out all items that are not smaller.
func (s *Set[T]) Takes(one T) bool {
	if !s.bound {
		return true
	}
	s.asked = one
	takes := s.compare(&s.asked, &s.kept[s.most-1]) <= 0
	s.full = s.full || !takes
	return takes
}

// Sorted returns the items in order. more reports whether there were others. The set must not be
// used afterwards.
func (s *Set[T]) Sorted() (items []T, more bool) {
	s.tidy()
	return s.kept, s.full
}

// tidy sorts the items, and drops repeated ones and those that are too large.
func (s *Set[T]) tidy() {
	s.added = s.added[:0]
	for i := range s.kept {
		s.added = append(s.added, int32(i))
	}
	sort.Sort((*inOrder[T])(s))
	n := 0 // items that stay
	for i := range s.kept {
		if n > 0 && s.compare(&s.kept[i], &s.kept[n-1]) == 0 {
			continue
		}
		if n == s.most {
			s.full = true
			break
		}
		s.kept[n] = s.kept[i]
		n++
	}
	clear(s.kept[n:])
	s.kept, s.bound = s.kept[:n], n == s.most
}

// inOrder sorts the items in place, equal ones as they were added: sort.Stable would take several times
// as long. Package slices would pass them by value, and each comparison would allocate.
type inOrder[T any] Set[T]

func (s *inOrder[T]) Len() int { return len(s.kept) }

func (s *inOrder[T]) Less(i, j int) bool {
	c := s.compare(&s.kept[i], &s.kept[j])
	return c < 0 || c == 0 && s.added[i] < s.added[j]
}

func (s *inOrder[T]) Swap(i, j int) {
	s.kept[i], s.kept[j] = s.kept[j], s.kept[i]
	s.added[i], s.added[j] = s.added[j], s.added[i]
}
