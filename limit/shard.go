package limit

import (
	"iter"
	"sync"
)

// shard has some of the scopes. They are by the hash of their key alone, which they hold themselves.
type shard struct {
	mu     sync.Mutex
	quotas map[uint64]*quota // those of one hash follow one another
}

func (s *shard) find(hash uint64, k quotaKey) *quota {
	for one := s.quotas[hash]; one != nil; one = one.next {
		if one.key == k {
			return one
		}
	}
	return nil
}

func (s *shard) put(hash uint64, one *quota) {
	one.next = s.quotas[hash]
	s.quotas[hash] = one
}

func (s *shard) drop(hash uint64, gone *quota) {
	first := s.quotas[hash]
	if first == gone && gone.next == nil {
		delete(s.quotas, hash)
		return
	}
	if first == gone {
		s.quotas[hash] = gone.next
		return
	}
	for one := first; one != nil; one = one.next {
		if one.next == gone {
			one.next = gone.next
			return
		}
	}
}

func (s *shard) all() iter.Seq[*quota] {
	return func(yield func(*quota) bool) {
		for _, first := range s.quotas {
			for one := first; one != nil; one = one.next {
				if !yield(one) {
					return
				}
			}
		}
	}
}
