package aggregate

import "github.com/sluice-metrics/sluice/metric"

// canonicalForm is a series' identity, the same for every spelling. Its strings may be borrowed.
type canonicalForm struct {
	object metric.Object
	name   string
	labels string // packed
	hash   uint64
	family uint64 // the hash of resource, namespace and name
	named  uint64 // that of these and the object's name
	// No part of the identity: whether it is bound to the life of its object, and whether the object's strings last.
	bound, lasting bool
}

// sum sets the hashes.
func (f *canonicalForm) sum(h *lineHash) {
	f.family = f.familyKey().sum(h)
	f.named = h.string(f.family, f.object.Name)
	f.hash = h.string(h.string(f.named, f.object.UID), f.labels)
}

func (f *canonicalForm) familyKey() familyKey {
	return familyKey{f.object.Resource, f.object.Namespace, f.name}
}

// matches reports whether a series of an entry with these labels, packed, has the identity.
func (f *canonicalForm) matches(e *entry, labels string) bool {
	return e.name == f.object.Name && e.uid == f.object.UID && e.family.key == f.familyKey() && labels == f.labels
}
