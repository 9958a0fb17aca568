package cluster

import (
	"sync"

	"github.com/sluice-metrics/sluice/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// object is the part of an object of a watched kind that is kept.
type object struct {
	namespace, name, uid string
	created              int64 // Unix seconds
	labels               labelSet
}

func newObject(from any) (*object, bool) {
	of, ok := from.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, false
	}
	return &object{namespace: of.Namespace, name: of.Name, uid: string(of.UID),
		created: of.CreationTimestamp.Unix(), labels: newLabelSet(of.Labels)}, true
}

type objectName struct{ namespace, name string }

// objects indexes the objects of one kind. One goroutine writes.
type objects struct {
	observer *Observer
	resource string

	mu    sync.RWMutex
	named map[objectName]*object
}

func newObjects(resource string, observer *Observer) *objects {
	return &objects{resource: resource, observer: observer, named: map[objectName]*object{}}
}

func (o *objects) put(now *object) {
	key := objectName{now.namespace, now.name}
	o.mu.Lock()
	was := o.named[key]
	o.named[key] = now
	o.mu.Unlock()
	if was == nil || was.uid != now.uid {
		o.observer.objectAdded(o.of(now))
	}
	if was != nil && was.uid != now.uid {
		o.gone(was)
	}
}

func (o *objects) drop(namespace, name string) {
	key := objectName{namespace, name}
	o.mu.Lock()
	was := o.named[key]
	delete(o.named, key)
	o.mu.Unlock()
	if was != nil {
		o.gone(was)
	}
}

func (o *objects) replace(all []*object) {
	listed := make(map[objectName]bool, len(all))
	for _, one := range all {
		listed[objectName{one.namespace, one.name}] = true
		o.put(one)
	}
	var gone []objectName
	o.mu.RLock()
	for key := range o.named {
		if !listed[key] {
			gone = append(gone, key)
		}
	}
	o.mu.RUnlock()
	for _, key := range gone {
		o.drop(key.namespace, key.name)
	}
}

func (o *objects) gone(was *object) { o.observer.objectGone(o.of(was)) }

func (o *objects) of(one *object) metric.Object {
	return metric.Object{Resource: o.resource, Namespace: one.namespace, Name: one.name, UID: one.uid}
}

// find returns the object, or nil.
func (o *objects) find(namespace, name string) *object {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.named[objectName{namespace, name}]
}
