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

// replicaSetResource is watched always, by metadata: a pod names its ReplicaSet, and that one its Deployment.
const replicaSetResource = "replicasets.apps"

const replicaSetKind = "ReplicaSet"

// uidKey is a UID in the 16 bytes that it stands for; another text's hash.
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

// hexDigit is a digit's value; above 15: it is none.
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

// replicaSet is what is kept of one. A large cluster has ten for each Deployment: so its owner, and nothing else.
type replicaSet struct {
	uid   uidKey
	owner unique.Handle[metric.Workload] // the zero Handle: it has none
}

func newReplicaSet(from any) (replicaSet, bool) {
	of, ok := from.(*metav1.PartialObjectMetadata)
	if !ok {
		return replicaSet{}, false
	}
	return replicaSet{newUIDKey(string(of.UID)), controllerOf(of)}, true
}

// controllerOf returns the controller of an object; the zero Handle: it has none.
func controllerOf(object metav1.Object) (none unique.Handle[metric.Workload]) {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return none
	}
	// Cloned, or the Handle would keep alive all of the message that the strings were read from.
	return unique.Make(metric.Workload{Kind: strings.Clone(owner.Kind), Name: strings.Clone(owner.Name), UID: strings.Clone(string(owner.UID))})
}

// replicaSets holds who owns which ReplicaSet. One goroutine writes.
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

// drop implements filed. A ReplicaSet is filed by its UID, see replicaSetMirror.
func (r *replicaSets) drop(string, string) {}

func (r *replicaSets) dropUID(uid uidKey) {
	r.mu.Lock()
	delete(r.owners, uid)
	r.mu.Unlock()
}

// owner returns the workload that a controller is a part of: its own, if it is no ReplicaSet, or one of no other. Not
// settled: the cluster has not told of the ReplicaSet.
func (r *replicaSets) owner(of metric.Workload) (owner metric.Workload, settled bool) {
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

// replicaSetMirror is a mirror that takes ReplicaSets out by their UID.
type replicaSetStore struct {
	reflectorStore[replicaSet]
	held *replicaSets
}

func newReplicaSetStore(held *replicaSets) *replicaSetStore {
	return &replicaSetStore{reflectorStore: reflectorStore[replicaSet]{index: held, convert: newReplicaSet}, held: held}
}

// Delete implements cache.ReflectorStore.
func (m *replicaSetStore) Delete(object any) error {
	of, err := meta.Accessor(object)
	if err == nil {
		m.held.dropUID(newUIDKey(string(of.GetUID())))
	}
	return err
}
