package limit

import (
	"iter"
	"sync"
)

// shard has some of the scopes. They are by the hash of their key alone, which they hold themselves.
type shard struct {
	mu     sync.Mutex
	scopes map[uint64]*scope // those of one hash follow one another
}

func (s *shard) find(hash uint64, k scopeKey) *scope {
	for one := s.scopes[hash]; one != nil; one = one.next {
		if one.key == k {
			return one
		}
	}
	return nil
}

func (s *shard) put(hash uint64, one *scope) {
	one.next = s.scopes[hash]
	s.scopes[hash] = one
}

func (s *shard) drop(hash uint64, gone *scope) {
	first := s.scopes[hash]
	if first == gone && gone.next == nil {
		delete(s.scopes, hash)
		return
	}
	if first == gone {
		s.scopes[hash] = gone.next
		return
	}
	for one := first; one != nil; one = one.next {
		if one.next == gone {
			one.next = gone.next
			return
		}
	}
}

func (s *shard) all() iter.Seq[*scope] {
	return func(yield func(*scope) bool) {
		for _, first := range s.scopes {
			for one := first; one != nil; one = one.next {
				if !yield(one) {
					return
				}
			}
		}
	}
}
