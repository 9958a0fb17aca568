package pending

import (
	"sync"

	"github.com/sluice-metrics/sluice/internal/fair"
)

// room is what pending samples and their senders may take. Of all namespaces, one has at most three times what is left:
// its author may have many accounts and pods, and the tokens of finished pods make senders that never become known.
type room struct {
	maxBytes   int64
	maxSenders int

	mu      sync.Mutex                 // guards the rest
	bytes   fair.Shares[string, int64] // by namespace; empty: of none, or not known
	senders fair.Shares[string, int]
}

// takeSender takes the room of a new sender, or returns the bound that was reached.
func (r *room) takeSender(namespace string) (bound string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.maxSenders <= r.senders.Held() || namespace != "" && r.senders.More(namespace, r.maxSenders) < 1 {
		return "maxSenders"
	}
	r.senders.Add(namespace, 1)
	r.bytes.Add(namespace, senderBytes)
	return ""
}

// takeBytes takes bytes, or returns the bound that was reached.
func (r *room) takeBytes(namespace string, n int64) (bound string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes.Held()+n > r.maxBytes || namespace != "" && n > r.bytes.More(namespace, r.maxBytes) {
		return "maxBytes"
	}
	r.bytes.Add(namespace, n)
	return ""
}

// add takes or gives back what is there already.
func (r *room) add(namespace string, bytes int64, senders int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes.Add(namespace, bytes)
	r.senders.Add(namespace, senders)
}

// held are the bytes that are taken, and the number of senders.
func (r *room) held() (bytes int64, senders int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes.Held(), r.senders.Held()
}
