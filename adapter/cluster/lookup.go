package cluster

import (
	"iter"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PodNamed returns the live pod of that name, or nil.
func (v *View) PodNamed(namespace, name string) *metric.Pod {
	return podOf(v.pods.byName(namespace, name))
}

// PodWithUID returns the live pod of that UID, or nil.
func (v *View) PodWithUID(uid string) *metric.Pod { return podOf(v.pods.byUID(uid)) }

// PodWithContainer returns the live pod that has the container, or nil. The container may be of any
// sort, with or without "containerd://".
func (v *View) PodWithContainer(id string) *metric.Pod { return podOf(v.pods.byContainer(id)) }

func podOf(p *pod) *metric.Pod {
	if p == nil {
		return nil
	}
	return p.Pod
}

// Object looks up an object by its canonical resource. Not watched: objects of that kind are
// unknown, so the object may exist.
func (v *View) Object(resource, namespace, name string) (uid string, exists, watched bool) {
	if resource == podResource {
		if p := v.pods.byName(namespace, name); p != nil {
			return p.UID, true, true
		}
		return "", false, true
	}
	k := v.kind(resource)
	if k == nil || !k.reliable() {
		return "", false, false
	}
	if o := k.objects.find(namespace, name); o != nil {
		return o.uid, true, true
	}
	return "", false, true
}

// Namespace returns the UID of a namespace and the time of its creation; an empty UID: there is none.
// It is not known if namespaces are not watched, or not listed yet.
func (v *View) Namespace(name string) (uid string, created time.Time, known bool) {
	k := v.kind("namespaces")
	if k == nil || !k.reliable() {
		return "", time.Time{}, false
	}
	if o := k.objects.find("", name); o != nil {
		return o.uid, time.Unix(o.created, 0), true
	}
	return "", time.Time{}, true
}

// NamespacesRead reports whether the namespaces were read, or are not watched.
func (v *View) NamespacesRead() bool {
	k := v.kind("namespaces")
	return k == nil || !k.pending()
}

// kind returns the watch of a resource, or nil.
func (v *View) kind(resource string) *kindWatch {
	for _, k := range v.kinds {
		if k.resource == resource {
			return k
		}
	}
	return nil
}

// Alive reports whether an object's values may be answered: a live pod or an existing object of a
// watched kind, both with the same UID. An object of an unwatched kind counts as alive if it has no
// UID. One with a UID dates from a time when its kind was watched, and new samples go to a series
// without UID. Answering both would be two values of one object, which an autoscaler rejects.
func (v *View) Alive(o metric.Object) bool {
	own, known := v.labelsOf(o)
	if !known {
		return o.UID == ""
	}
	return own != nil
}

// MayExist reports whether an object is alive, or of a kind that is not listed yet because the right is missing. That
// may be so for a moment only, as at an installation, and nobody knows meanwhile which objects of the kind there are.
func (v *View) MayExist(o metric.Object) bool {
	k := v.kind(o.Resource)
	return k != nil && !k.listed() && !k.missing.Load() || v.Alive(o)
}

// SelectObjects returns a Pick of the live objects of a kind, in a namespace or (empty) in all,
// whose own labels the selector matches. If the kind is not watched, the error is
// metric.ErrInvalidQuery.
func (v *View) SelectObjects(resource, namespace string, selector labels.Selector) (metric.ObjectFilter, error) {
	if k := v.kind(resource); resource != podResource && (k == nil || !k.reliable()) {
		return metric.ObjectFilter{}, metric.InvalidQueryf("labelSelector %q is for the labels of %s, which are not watched; add the kind to object-kinds",
			selector, resource)
	}
	pick := metric.ObjectFilter{Match: func(o metric.Object) bool {
		if o.Resource != resource || namespace != "" && o.Namespace != namespace {
			return false
		}
		own, known := v.labelsOf(o)
		return known && own != nil && selector.Matches(*own)
	}}
	if resource == podResource && namespace != "" {
		pick.List = func(limit int) (iter.Seq[metric.Object], int, bool) {
			return v.podsMatching(namespace, selector, limit)
		}
		pick.ReadyPods = func() (iter.Seq2[metric.Object, metric.Workload], int) { return v.readyPods(namespace, selector) }
	}
	return pick, nil
}

func (v *View) podsMatching(namespace string, selector labels.Selector,
	limit int) (all iter.Seq[metric.Object], n int, ok bool) {
	found, ok := v.pods.matching(namespace, selector, limit)
	if !ok {
		return nil, 0, false
	}
	return func(yield func(metric.Object) bool) {
		for _, p := range found {
			if !yield(p.Object()) {
				return
			}
		}
	}, len(found), true
}

// labelsOf returns the labels of an object; nil: it does not exist. Not known: its kind is not
// watched.
func (v *View) labelsOf(o metric.Object) (own *labelSet, known bool) {
	if o.Resource == podResource {
		p := v.pods.byName(o.Namespace, o.Name)
		if p == nil || o.UID != p.UID {
			return nil, true
		}
		return &p.labels, true
	}
	k := v.kind(o.Resource)
	if k == nil || !k.reliable() {
		return nil, false
	}
	object := k.objects.find(o.Namespace, o.Name)
	if object == nil || o.UID != object.uid {
		return nil, true
	}
	return &object.labels, true
}

// Canonical turns any spelling of a resource ("pods", "pod", "deployments.apps",
// "ingress.extensions") into plural[.group], and says whether its objects are in namespaces. An
// unknown resource is metric.ErrNotFound, an ambiguous one metric.ErrInvalidQuery. Canonical itself
// never asks the API server. It has the view look for an unknown resource, and
// Observer.ResourcesChanged reports when the answer may have changed.
func (v *View) Canonical(resource string) (canonical string, namespaced bool, err error) {
	r, err := v.resources.find(resource)
	if err != nil {
		return "", false, err
	}
	return r.resource.String(), r.namespaced, nil
}

// FindResource is Canonical with the resource's kind, in the version that the API server prefers.
func (v *View) FindResource(resource string) (kind schema.GroupVersionKind, gr schema.GroupResource,
	namespaced bool, err error) {
	r, err := v.resources.find(resource)
	return r.kind, r.resource, r.namespaced, err
}
