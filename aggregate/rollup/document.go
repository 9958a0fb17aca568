package rollup

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/metric"
)

// Key identifies a workload's document.
type Key [16]byte

// Every document begins with documentMark, which no other document begins with, and
// documentVersion.
const (
	documentMark    = 'W'
	documentVersion = 1
)

func keyOf(id recordID) Key { return hashed(id.namespace + "\x00" + id.uid) }

// formerKeyOf is the key that a document had before it depended on the namespace.
func formerKeyOf(uid string) Key { return hashed(uid) }

func hashed(text string) (key Key) {
	sum := sha256.Sum256([]byte("workload\x00" + text))
	copy(key[:], sum[:])
	return key
}

// IsDocument reports whether a document is a workload's.
func IsDocument(value []byte) bool { return len(value) > 0 && value[0] == documentMark }

func (m *Tracker) changedLocked(id recordID) {
	key := keyOf(id)
	m.keys[key] = id
	m.changed[key] = struct{}{}
}

// Changed returns the keys of the documents that changed since the last call, or of all documents.
func (m *Tracker) Changed(all bool) []Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.Collect(maps.Keys(m.changed))
	if all {
		keys = slices.Collect(maps.Keys(m.keys))
	}
	clear(m.changed)
	return keys
}

// AppendDocument appends a workload's document; false: the workload does not exist or was removed.
func (m *Tracker) AppendDocument(dst []byte, key Key) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, known := m.keys[key]
	r := m.records[id]
	if !known || r == nil {
		delete(m.keys, key)
		return dst, false
	}
	dst = append(dst, documentMark, documentVersion)
	for _, s := range []string{r.workload.Kind, r.workload.Name, r.workload.UID, r.namespace} {
		dst = blob.AppendString(dst, s)
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.metrics)))
	for name, p := range r.metrics {
		dst = append(blob.AppendString(dst, name), byte(p.kind))
		dst = binary.AppendUvarint(dst, uint64(len(p.labelSets)))
		for _, set := range p.labelSets {
			dst = blob.AppendString(dst, set.Packed())
		}
	}
	return dst, true
}

// RestoreDocument restores a workload from its document. Unless a pod of it appears, it expires
// after keepWithoutPods.
func (m *Tracker) RestoreDocument(key Key, value []byte) error {
	r, err := readDocument(value)
	if err != nil {
		return err
	}
	id := recordID{r.namespace, r.workload.UID}
	former := key == formerKeyOf(id.uid)
	if keyOf(id) != key && !former {
		return fmt.Errorf("the document of workload %s %s has the key of another workload", r.workload.Kind,
			r.workload.Name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[id] != nil {
		return fmt.Errorf("workload %s %s has two documents", r.workload.Kind, r.workload.Name)
	}
	m.records[id], m.keys[key] = r, id
	if former { // the next save replaces it
		m.keys[key], m.changed[key] = recordID{}, struct{}{}
		m.changedLocked(id)
	}
	m.unresolved[id] = struct{}{} // it may be a ReplicaSet; ResolveOwners decides
	m.countLocked(r, r.size())
	for name, p := range r.metrics {
		m.countLocked(r, p.size(name))
		m.pusherCount[metricName{r.namespace, name}]++
	}
	return nil
}

// errDocument reports a document that is truncated or invalid.
var errDocument = errors.New("a workload's document is damaged")

func readDocument(value []byte) (*record, error) {
	if len(value) < 2 || value[0] != documentMark || value[1] != documentVersion {
		return nil, fmt.Errorf("%w: its version is unknown", errDocument)
	}
	d := blob.Decoder{Rest: value[2:]}
	r := &record{metrics: map[string]*pushedMetric{}, lastPod: time.Now()}
	r.workload = metric.Workload{Kind: d.String(), Name: d.String(), UID: d.String()}
	r.namespace = d.String()
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		name := d.String()
		p := &pushedMetric{kind: metric.Kind(d.Byte())}
		for sets := d.Uvarint(); sets > 0 && d.Err == nil; sets-- {
			set, ok := metric.UnpackLabels(d.String())
			if !ok {
				d.Fail()
			}
			p.labelSets = append(p.labelSets, set)
		}
		if p.kind != metric.Counter && p.kind != metric.Set || len(p.labelSets) == 0 ||
			len(p.labelSets) > maxLabelSets || r.metrics[name] != nil {
			d.Fail()
		}
		r.metrics[name] = p
	}
	if d.Err != nil || len(d.Rest) > 0 {
		return nil, errDocument
	}
	return r, nil
}
