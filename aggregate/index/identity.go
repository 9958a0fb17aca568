package index

import (
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// Identity is the identity of a series. All spellings of a series have the same identity. The
// strings may be borrowed.
type Identity struct {
	Object    metric.Object
	Name      string
	Labels    string // packed
	Sum       uint64
	FamilySum uint64 // the hash of resource, namespace and name
	NamedSum  uint64 // the hash of resource, namespace, name and the object's name
	// The fields below are not part of the identity. Bound: the series lives as long as its object.
	// Lasting: the object's strings are not borrowed.
	Bound, Lasting bool
}

// Hash sets the hashes.
func (f *Identity) Hash(h *lookup.Hash) {
	f.FamilySum = f.Key().sum(h)
	f.NamedSum = h.String(f.FamilySum, f.Object.Name)
	f.Sum = h.String(h.String(f.NamedSum, f.Object.UID), f.Labels)
}

func (f *Identity) Key() Key {
	return Key{f.Object.Resource, f.Object.Namespace, f.Name}
}

// Matches reports whether the series of entry e with these packed labels has the identity.
func (f *Identity) Matches(e *Entry, labels string) bool {
	return e.Name == f.Object.Name && e.UID == f.Object.UID && e.Family.Key == f.Key() && labels == f.Labels
}
