package metric

import (
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Label is one key and value. A tag without a value has the empty value.
type Label struct{ Key, Value string }

// Labels is a label set, sorted by key, each key once. It is held as one string (uvarint length and
// bytes, for key and value in turn): a series costs one pointer, and equality is ==.
type Labels struct{ packed string }

// NewLabels makes a set of labels in any order. Of a repeated key, the first label counts.
// NewLabels sorts the slice in place; the caller may reuse it.
func NewLabels(in []Label) Labels {
	var room [256]byte
	return Labels{packed: string(AppendLabels(room[:0], SortLabels(in)))}
}

// SortLabels sorts in place, drops all but the first label of each key, and returns the rest.
func SortLabels(in []Label) []Label {
	if len(in) > 1 {
		slices.SortStableFunc(in, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
		in = slices.CompactFunc(in, func(a, b Label) bool { return a.Key == b.Key })
	}
	return in
}

// AppendLabels appends the packed form of sorted labels. Equal sets give equal bytes.
func AppendLabels(dst []byte, sorted []Label) []byte {
	for _, l := range sorted {
		dst = binary.AppendUvarint(dst, uint64(len(l.Key)))
		dst = append(dst, l.Key...)
		dst = binary.AppendUvarint(dst, uint64(len(l.Value)))
		dst = append(dst, l.Value...)
	}
	return dst
}

// UnpackLabels checks a packed form that may come from a disk. It returns false if the bytes are
// not a sorted label set.
func UnpackLabels(packed string) (Labels, bool) {
	rest, before := packed, ""
	for first := true; rest != ""; first = false {
		var key string
		var ok bool
		if key, rest, ok = cutPacked(rest); !ok || (!first && key <= before) {
			return Labels{}, false
		}
		if _, rest, ok = cutPacked(rest); !ok {
			return Labels{}, false
		}
		before = key
	}
	return Labels{packed: packed}, true
}

// TrustPackedLabels is UnpackLabels without the check, for a packed form that this process made.
func TrustPackedLabels(packed string) Labels { return Labels{packed: packed} }

// Packed is the set as one string, for hashing and storing.
func (l Labels) Packed() string { return l.packed }

// All yields the labels in the order of their keys.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for rest := l.packed; rest != ""; {
			var key, value string
			key, rest, _ = cutPacked(rest)
			value, rest, _ = cutPacked(rest)
			if !yield(key, value) {
				return
			}
		}
	}
}

// Get returns a key's value, and whether the set has the key.
func (l Labels) Get(key string) (string, bool) { return l.seek(key) }

// seek is Get, and leaves in the set what follows the key, or its place. Sets are sorted, so the keys of another set are all
// found in one walk.
func (l *Labels) seek(key string) (value string, ok bool) {
	for l.packed != "" {
		k, rest, _ := cutPacked(l.packed)
		if k > key {
			break
		}
		value, l.packed, _ = cutPacked(rest)
		if k == key {
			return value, true
		}
	}
	return "", false
}

func (l Labels) Len() int {
	n := 0
	for range l.All() {
		n++
	}
	return n
}

// Map copies the set into a map, the form that the Kubernetes APIs need. It is never nil.
func (l Labels) Map() map[string]string {
	return maps.Collect(l.All())
}

// HavingAll selects the sets that have all of some labels; nil: there are none. It looks at each label of a set once, for a
// deletion asks it about all series of a metric.
func HavingAll(labels []Label) func(Labels) bool {
	if len(labels) == 0 {
		return nil
	}
	labels = SortLabels(slices.Clone(labels))
	var want []string // each of labels, packed
	for _, l := range labels {
		want = append(want, string(AppendLabels(nil, []Label{l})))
	}
	return func(set Labels) bool {
		for i, label := range want {
			for !strings.HasPrefix(set.packed, label) {
				key, rest, _ := cutPacked(set.packed)
				if set.packed == "" || key >= labels[i].Key {
					return false
				}
				_, set.packed, _ = cutPacked(rest)
			}
			set.packed = set.packed[len(label):]
		}
		return true
	}
}

// String prints the set as {a=b,c=d}, for logs and errors.
func (l Labels) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for k, v := range l.All() {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(k + "=" + v)
	}
	return b.String() + "}"
}

// Intersection is the set of labels that both sets have with the same value.
func (l Labels) Intersection(other Labels) Labels {
	if l == other {
		return l
	}
	var both []Label
	for k, v := range l.All() {
		if w, ok := other.seek(k); ok && v == w {
			both = append(both, Label{k, v})
		}
	}
	return NewLabels(both)
}

func cutPacked(s string) (piece, rest string, ok bool) {
	n, size := uvarint(s)
	if size <= 0 || uint64(len(s)-size) < n {
		return "", "", false
	}
	end := size + int(n)
	return s[size:end], s[end:], true
}

// uvarint is binary.Uvarint for strings, without a copy.
func uvarint(s string) (uint64, int) {
	var x uint64
	for i := 0; i < len(s) && i < 5; i++ {
		b := s[i]
		x |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return x, i + 1
		}
	}
	return 0, 0
}
