package cluster

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"unique"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/document"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// replicaSetResource is always watched, by metadata: a pod names its ReplicaSet, and the ReplicaSet
// its Deployment.
const replicaSetResource = "replicasets.apps"

const replicaSetKind = "ReplicaSet"

// uidKey is the 16 bytes of a UID, or the hash of any other text.
type uidKey [16]byte

func newUIDKey(uid string) (key uidKey) {
	digits := 0
	for i := range len(uid) {
		value := hexDigit(uid[i])
		if uid[i] == '-' {
			continue
		}
		if value > 15 || digits == 2*len(key) {
			return hashedUIDKey(uid)
		}
		key[digits/2] = key[digits/2]<<4 | value
		digits++
	}
	if digits < 2*len(key) {
		return hashedUIDKey(uid)
	}
	return key
}

// hexDigit returns the value of a hexadecimal digit, or 255.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

func hashedUIDKey(uid string) (key uidKey) {
	sum := sha256.Sum256([]byte(uid))
	copy(key[:], sum[:])
	return key
}

// replicaSet is the owner of a ReplicaSet. Nothing else is kept, because a large cluster has ten
// ReplicaSets per Deployment.
type replicaSet struct {
	uid   uidKey
	owner unique.Handle[metric.Workload] // the zero Handle: none
}

func newReplicaSet(from any) (replicaSet, bool) {
	p, ok := from.(*metav1.PartialObjectMetadata)
	if !ok {
		return replicaSet{}, false
	}
	return replicaSet{newUIDKey(string(p.UID)), controllerOf(p)}, true
}

// controllerOf returns the controller of an object; the zero Handle: none.
func controllerOf(object metav1.Object) (none unique.Handle[metric.Workload]) {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || document.TooLong(owner) {
		return none
	}
	// Without the clones, the Handle would keep the whole decoded message alive.
	group := ""
	if before, _, versioned := strings.Cut(owner.APIVersion, "/"); versioned {
		group = strings.Clone(before)
	}
	return unique.Make(metric.Workload{Kind: strings.Clone(owner.Kind), Name: strings.Clone(owner.Name),
		UID: strings.Clone(string(owner.UID)), Group: group})
}

// replicaSets indexes the owners of ReplicaSets. One goroutine writes.
type replicaSets struct {
	mu     sync.RWMutex
	owners map[uidKey]unique.Handle[metric.Workload]
	// owned holds the ReplicaSets of each owner.
	owned map[uidKey][]uidKey
}

func newReplicaSets() *replicaSets {
	return &replicaSets{owners: map[uidKey]unique.Handle[metric.Workload]{}, owned: map[uidKey][]uidKey{}}
}

func (r *replicaSets) put(one replicaSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, known := r.owners[one.uid]
	if known && was == one.owner {
		return
	}
	r.disownLocked(one.uid, was)
	r.owners[one.uid] = one.owner
	if one.owner != (unique.Handle[metric.Workload]{}) {
		owner := newUIDKey(one.owner.Value().UID)
		r.owned[owner] = append(r.owned[owner], one.uid)
	}
}

// disownLocked removes a ReplicaSet from those of its owner.
func (r *replicaSets) disownLocked(uid uidKey, owner unique.Handle[metric.Workload]) {
	if owner == (unique.Handle[metric.Workload]{}) {
		return
	}
	key := newUIDKey(owner.Value().UID)
	rest := r.owned[key]
	if i := slices.Index(rest, uid); i >= 0 {
		rest = slices.Delete(rest, i, i+1)
	}
	if r.owned[key] = rest; len(rest) == 0 {
		delete(r.owned, key)
	}
}

// ownedBy returns the ReplicaSets of an owner.
func (r *replicaSets) ownedBy(owner uidKey) []uidKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.owned[owner])
}

func (r *replicaSets) replace(all []replicaSet) {
	fresh := newReplicaSets()
	for _, one := range all {
		fresh.put(one)
	}
	r.mu.Lock()
	r.owners, r.owned = fresh.owners, fresh.owned
	r.mu.Unlock()
}

// drop implements index. It does nothing: replicaSetStore removes by UID.
func (r *replicaSets) drop(string, string) {}

func (r *replicaSets) dropUID(uid uidKey) {
	r.mu.Lock()
	r.disownLocked(uid, r.owners[uid])
	delete(r.owners, uid)
	r.mu.Unlock()
}

// owner returns the workload that owns a controller, or the controller itself. Not resolved: the
// ReplicaSet is not known yet.
func (r *replicaSets) owner(workload metric.Workload) (owner metric.Workload, resolved bool) {
	if workload.Kind != replicaSetKind {
		return workload, true
	}
	return r.ownerOf(workload, newUIDKey(workload.UID))
}

// ownerOf is owner for a ReplicaSet with its key.
func (r *replicaSets) ownerOf(workload metric.Workload, uid uidKey) (owner metric.Workload, resolved bool) {
	r.mu.RLock()
	held, known := r.owners[uid]
	r.mu.RUnlock()
	if !known || held == (unique.Handle[metric.Workload]{}) {
		return workload, known
	}
	return held.Value(), true
}

// replicaSetStore is a reflectorStore that deletes by UID.
type replicaSetStore struct {
	reflectorStore[replicaSet]
	held *replicaSets
}

func newReplicaSetStore(held *replicaSets) *replicaSetStore {
	return &replicaSetStore{reflectorStore: reflectorStore[replicaSet]{index: held, convert: newReplicaSet},
		held: held}
}

// Delete implements cache.ReflectorStore.
func (m *replicaSetStore) Delete(object any) error {
	o, err := meta.Accessor(object)
	if err == nil {
		m.held.dropUID(newUIDKey(string(o.GetUID())))
	}
	return err
}
