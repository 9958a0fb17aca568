package deletion

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/metric"
)

// Selector selects series of one metric, or with a namespace alone all series of that.
type Selector struct {
	Resource  string // canonical group-resource; empty: external
	Namespace string
	Object    string // the object's name; "*": all of them; empty for externals
	Name      string // of the metric
	// Labels are labels that the series have or, if Exact, all their labels.
	Labels []metric.Label
	Exact  bool
}

func (s *Selector) wholeNamespace() bool { return s.Name == "" }

// inNamespace is the namespace whose share of deletions one of the selector takes; empty: none.
func (s *Selector) inNamespace() string {
	return metric.Object{Resource: s.Resource, Namespace: s.Namespace, Name: s.Object}.InNamespace()
}

// Key identifies the deletions of one selector: a newer one replaces an older one.
type Key [16]byte

// key returns the key of a selector with sorted labels.
func (s *Selector) key() (k Key) {
	sum := sha256.Sum256(s.append(nil))
	copy(k[:], sum[:])
	return k
}

// clone returns the selector with strings of its own, and sorted labels.
func (s *Selector) clone() Selector {
	c := Selector{
		Resource: strings.Clone(s.Resource), Namespace: strings.Clone(s.Namespace), Object: strings.Clone(s.Object),
		Name: strings.Clone(s.Name), Exact: s.Exact, Labels: make([]metric.Label, len(s.Labels)),
	}
	for i, l := range s.Labels {
		c.Labels[i] = metric.Label{Key: strings.Clone(l.Key), Value: strings.Clone(l.Value)}
	}
	slices.SortFunc(c.Labels, func(a, b metric.Label) int { return strings.Compare(a.Key, b.Key) })
	return c
}

// Query returns the query that selects the same series.
func (s *Selector) Query() metric.Query {
	q := metric.Query{
		Resource: s.Resource, Namespace: s.Namespace, Object: s.Object,
		Expression: metric.Expression{Name: s.Name}, MatchLabels: metric.HavingAll(s.Labels),
	}
	if s.Exact {
		all := metric.NewLabels(slices.Clone(s.Labels))
		q.MatchLabels = func(labels metric.Labels) bool { return labels == all }
	}
	return q
}

// A document is documentMark, the selector, the stamp and the origin. Texts have their length before
// them, and numbers are uvarints.
const documentMark = 'D'

// IsDocument reports whether a document of the store is a deletion's.
func IsDocument(value []byte) bool { return len(value) > 0 && value[0] == documentMark }

func (s *Selector) append(dst []byte) []byte {
	for _, text := range []string{s.Resource, s.Namespace, s.Object, s.Name} {
		dst = blob.AppendString(dst, text)
	}
	exact := uint64(0)
	if s.Exact {
		exact = 1
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Labels))<<1|exact)
	for _, l := range s.Labels {
		dst = blob.AppendString(blob.AppendString(dst, l.Key), l.Value)
	}
	return dst
}

func (d *deletion) append(dst []byte) []byte {
	dst = d.appendAt(dst, d.stamp)
	if d.made != d.stamp {
		dst = binary.AppendUvarint(dst, uint64(d.made))
	}
	return dst
}

// appendShared appends what other replicas get beside the stamp.
func (d *deletion) appendShared(dst []byte) []byte { return d.appendAt(dst, d.made) }

func (d *deletion) appendAt(dst []byte, stamp int64) []byte {
	dst = d.selector.append(append(dst, documentMark))
	return blob.AppendString(binary.AppendUvarint(dst, uint64(stamp)), d.origin)
}

var errDocument = errors.New("invalid document of a deletion")

// read decodes the output of append.
func read(value []byte) (*deletion, error) {
	if !IsDocument(value) {
		return nil, errDocument
	}
	r := blob.Decoder{Rest: value[1:]}
	d := &deletion{}
	s := &d.selector
	s.Resource, s.Namespace, s.Object, s.Name = r.String(), r.String(), r.String(), r.String()
	n := r.Uvarint()
	s.Exact = n&1 != 0
	if n >>= 1; n > uint64(len(r.Rest)/2) {
		return nil, errDocument
	}
	for range n {
		l := metric.Label{Key: r.String(), Value: r.String()}
		if len(s.Labels) > 0 && l.Key <= s.Labels[len(s.Labels)-1].Key {
			r.Fail()
		}
		s.Labels = append(s.Labels, l)
	}
	d.stamp, d.origin = int64(r.Uvarint()), r.String()
	if d.made = d.stamp; len(r.Rest) > 0 {
		d.made = int64(r.Uvarint())
	}
	if r.Err != nil || len(r.Rest) > 0 || min(d.stamp, d.made) <= 0 || max(d.stamp, d.made) > latestStamp {
		return nil, errDocument
	}
	if s.wholeNamespace() {
		if s.Namespace == "" || s.Resource != "" || s.Object != "" || n > 0 || s.Exact {
			return nil, errDocument
		}
		return d, nil
	}
	if why := metric.CheckName(s.Name); why != metric.Applied {
		return nil, fmt.Errorf("%w: its metric's name is invalid", errDocument)
	}
	return d, nil
}

// latestStamp is in the far future; times beyond it would overflow.
const latestStamp = 1 << 53
