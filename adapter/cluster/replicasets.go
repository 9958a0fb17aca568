package cluster

import (
	"crypto/sha256"
	"strings"
	"sync"
	"unique"

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
	of, ok := from.(*metav1.PartialObjectMetadata)
	if !ok {
		return replicaSet{}, false
	}
	return replicaSet{newUIDKey(string(of.UID)), controllerOf(of)}, true
}

// controllerOf returns the controller of an object; the zero Handle: none.
func controllerOf(object metav1.Object) (none unique.Handle[metric.Workload]) {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return none
	}
	// Without the clones, the Handle would keep the whole decoded message alive.
	return unique.Make(metric.Workload{Kind: strings.Clone(owner.Kind), Name: strings.Clone(owner.Name),
		UID: strings.Clone(string(owner.UID))})
}

// replicaSets indexes the owners of ReplicaSets. One goroutine writes.
type replicaSets struct {
	mu     sync.RWMutex
	owners map[uidKey]unique.Handle[metric.Workload]
}

func newReplicaSets() *replicaSets {
	return &replicaSets{owners: map[uidKey]unique.Handle[metric.Workload]{}}
}

func (r *replicaSets) put(one replicaSet) {
	r.mu.Lock()
	r.owners[one.uid] = one.owner
	r.mu.Unlock()
}

func (r *replicaSets) replace(all []replicaSet) {
	owners := make(map[uidKey]unique.Handle[metric.Workload], len(all))
	for _, one := range all {
		owners[one.uid] = one.owner
	}
	r.mu.Lock()
	r.owners = owners
	r.mu.Unlock()
}

// drop implements index. It does nothing: replicaSetStore removes by UID.
func (r *replicaSets) drop(string, string) {}

func (r *replicaSets) dropUID(uid uidKey) {
	r.mu.Lock()
	delete(r.owners, uid)
	r.mu.Unlock()
}

// owner returns the workload that owns a controller, or the controller itself. Not resolved: the
// ReplicaSet is not known yet.
func (r *replicaSets) owner(of metric.Workload) (owner metric.Workload, resolved bool) {
	if of.Kind != replicaSetKind {
		return of, true
	}
	r.mu.RLock()
	held, known := r.owners[newUIDKey(of.UID)]
	r.mu.RUnlock()
	if !known || held == (unique.Handle[metric.Workload]{}) {
		return of, known
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
	of, err := meta.Accessor(object)
	if err == nil {
		m.held.dropUID(newUIDKey(string(of.GetUID())))
	}
	return err
}
