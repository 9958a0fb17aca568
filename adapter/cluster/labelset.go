package cluster

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"
)

// maxLabelText are the bytes that the labels of an object may have, one more for each key and value. An object with more
// is as one without labels.
const maxLabelText = 16 << 10

// labelSet holds an object's labels, sorted by key, as one text: "key\x00value\x00" for each. Most pods of a workload have the
// same labels, and share the text. It is immutable; the zero labelSet has no labels.
type labelSet struct{ text unique.Handle[string] }

func newLabelSet(from map[string]string) labelSet {
	size := 0
	for key, value := range from {
		if strings.ContainsRune(key, 0) || strings.ContainsRune(value, 0) {
			return labelSet{} // the API server refuses it, another one of an aggregated API may not
		}
		size += len(key) + len(value) + 2
	}
	if size == 0 || size > maxLabelText {
		return labelSet{}
	}
	text := make([]byte, 0, size)
	for _, key := range slices.Sorted(maps.Keys(from)) {
		text = append(text, label(key, from[key])...)
	}
	return labelSet{unique.Make(string(text))}
}

// String is the labels' text.
func (s labelSet) String() string {
	if s == (labelSet{}) {
		return ""
	}
	return s.text.Value()
}

// label is one label as its key and value have it in a labelSet.
func label(key, value string) string { return key + "\x00" + value + "\x00" }

// all yields each label as label has it, and its number.
func (s labelSet) all() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		rest := s.String()
		for i := 0; rest != ""; i++ {
			end := strings.IndexByte(rest, 0) + 1
			end += strings.IndexByte(rest[end:], 0) + 1
			if !yield(i, rest[:end]) {
				return
			}
			rest = rest[end:]
		}
	}
}

// count is the number of labels.
func (s labelSet) count() int { return strings.Count(s.String(), "\x00") / 2 }

// Lookup implements labels.Labels.
func (s labelSet) Lookup(key string) (value string, exists bool) {
	for _, one := range s.all() {
		if own, rest, _ := strings.Cut(one, "\x00"); own == key {
			return rest[:len(rest)-1], true
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

// asMap returns the labels; nil: none.
func (s labelSet) asMap() map[string]string {
	if s == (labelSet{}) {
		return nil
	}
	all := map[string]string{}
	for _, one := range s.all() {
		key, value, _ := strings.Cut(one[:len(one)-1], "\x00")
		all[key] = value
	}
	return all
}
