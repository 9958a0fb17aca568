package fair

import "sync"

// Room is a budget of which one share has at most three times what is left. Any goroutine may call its methods.
type Room[K comparable, N int | int64] struct {
	free, most N
	brief      bool

	mu     sync.Mutex // guards the rest
	held   Shares[K, N]
	beyond N // of held: what is not free
}

func NewRoom[K comparable, N int | int64](most N) *Room[K, N] { return &Room[K, N]{most: most} }

// NewBriefRoom is a Room of memory that is soon given back, as at the end of a request. While memory is short, shares grow less.
func NewBriefRoom[K comparable, N int | int64](free, most N) *Room[K, N] {
	return &Room[K, N]{free: free, most: most, brief: true}
}

// NewRoomBeyond is a Room in which each share has a part free, which takes nothing of the budget.
func NewRoomBeyond[K comparable, N int | int64](free, most N) *Room[K, N] {
	return &Room[K, N]{free: free, most: most}
}

// Take takes n of the room for a share, or returns false.
func (r *Room[K, N]) Take(share K, n N) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.moreLocked(share) {
		return false
	}
	r.addLocked(share, n)
	return true
}

// More is how much more a share may take at this moment.
func (r *Room[K, N]) More(share K) N {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moreLocked(share)
}

func (r *Room[K, N]) moreLocked(share K) N {
	has := r.held.Of(share)
	more := More(r.notFree(has), r.most-r.beyond)
	if r.brief {
		more = MoreWhileShort(r.notFree(has), r.most-r.beyond, r.most, 0)
	}
	return max(r.free-has, 0) + max(more, 0)
}

// Give gives back what Take has taken.
func (r *Room[K, N]) Give(share K, n N) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(share, -n)
}

func (r *Room[K, N]) addLocked(share K, n N) {
	has := r.held.Of(share)
	r.beyond += r.notFree(has+n) - r.notFree(has)
	r.held.Add(share, n)
}

func (r *Room[K, N]) notFree(n N) N { return max(n-r.free, 0) }

// Held is the sum of all shares, Of one of them. Both count what is free, too.
func (r *Room[K, N]) Held() N {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held.Held()
}

func (r *Room[K, N]) Of(share K) N {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held.Of(share)
}
