package cluster

import (
	"slices"
	"strings"
	"unique"
)

// label is one label of an object. Most are shared by all pods of a workload, so each is kept once.
type label struct{ key, value string }

// labelSet is an object's labels by key. It is never changed.
type labelSet []unique.Handle[label]

func newLabelSet(from map[string]string) labelSet {
	if len(from) == 0 {
		return nil
	}
	set := make(labelSet, 0, len(from))
	for key, value := range from {
		set = append(set, unique.Make(label{key, value}))
	}
	slices.SortFunc(set, func(a, b unique.Handle[label]) int { return strings.Compare(a.Value().key, b.Value().key) })
	return set
}

// Lookup implements labels.Labels.
func (s labelSet) Lookup(key string) (value string, exists bool) {
	for _, one := range s {
		if l := one.Value(); l.key == key {
			return l.value, true
		}
	}
	return "", false
}

// Has implements labels.Labels.
func (s labelSet) Has(key string) bool {
	_, exists := s.Lookup(key)
	return exists
}

// Get implements labels.Labels.
func (s labelSet) Get(key string) string {
	value, _ := s.Lookup(key)
	return value
}
