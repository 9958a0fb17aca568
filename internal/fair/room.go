package fair

import "sync"

// Room is a budget of which one share has at most three times what is left. Any goroutine may call its methods.
type Room[K comparable, N int | int64] struct {
	most N

	mu    sync.Mutex // guards taken
	taken Shares[K, N]
}

func NewRoom[K comparable, N int | int64](most N) *Room[K, N] { return &Room[K, N]{most: most} }

// Take takes n of the room for a share, or returns false.
func (r *Room[K, N]) Take(share K, n N) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.taken.More(share, r.most) {
		return false
	}
	r.taken.Add(share, n)
	return true
}

// Give gives back what Take has taken.
func (r *Room[K, N]) Give(share K, n N) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken.Add(share, -n)
}

// Held is the sum of all shares, Of one of them.
func (r *Room[K, N]) Held() N {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken.Held()
}

func (r *Room[K, N]) Of(share K) N {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken.Of(share)
}
