package index

import (
	"github.com/sluice-metrics/sluice/aggregate/lookup"
	"github.com/sluice-metrics/sluice/metric"
)

// Identity is a series' identity, the same for every spelling. Its strings may be borrowed.
type Identity struct {
	Object    metric.Object
	Name      string
	Labels    string // packed
	Sum       uint64
	FamilySum uint64 // the hash of resource, namespace and name
	NamedSum  uint64 // that of these and the object's name
	// No part of the identity: whether it is bound to the life of its object, and whether the
	// object's strings last.
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

// Matches reports whether a series of an entry with these labels, packed, has the identity.
func (f *Identity) Matches(e *Entry, labels string) bool {
	return e.Name == f.Object.Name && e.UID == f.Object.UID && e.Family.Key == f.Key() && labels == f.Labels
}
