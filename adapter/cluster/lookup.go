package cluster

import (
	"iter"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PodNamed returns the pod of that name; nil: none that lives.
func (v *View) PodNamed(namespace, name string) *metric.Pod {
	return podOf(v.pods.byName(namespace, name))
}

// PodWithUID returns the pod of that UID; nil: none that lives.
func (v *View) PodWithUID(uid string) *metric.Pod { return podOf(v.pods.byUID(uid)) }

// PodWithContainer returns the pod that has the container, of whatever sort, with or without its "containerd://"; nil:
// none that lives.
func (v *View) PodWithContainer(id string) *metric.Pod { return podOf(v.pods.byContainer(id)) }

func podOf(p *pod) *metric.Pod {
	if p == nil {
		return nil
	}
	return p.Pod
}

// Object looks for an object by its canonical resource. Not watched: objects of that kind are not known, and whether it
// exists cannot be said.
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
	if one := k.objects.find(namespace, name); one != nil {
		return one.uid, true, true
	}
	return "", false, true
}

// kind returns who watches a resource; nil: nobody.
func (v *View) kind(resource string) *kindWatch {
	for _, k := range v.kinds {
		if k.resource == resource {
			return k
		}
	}
	return nil
}

// Alive reports whether an object's values may be answered: a pod that lives, an object of a watched kind that exists,
// either by its UID. Of anything else nobody knows that it is gone, if it has no UID: one that has is from when its kind was
// watched, and what comes now is entered without, as one without comes from when a kind was not watched that is now.
// Answered together they would be two values of one object, which an autoscaler refuses.
func (v *View) Alive(o metric.Object) bool {
	own, known := v.labelsOf(o)
	if !known {
		return o.UID == ""
	}
	return own != nil
}

// Matching returns what picks the objects of a kind, in a namespace or (empty) wherever, whose own labels the selector
// matches and that are alive. Objects of a kind that is not watched cannot be picked: metric.ErrAsked.
func (v *View) SelectObjects(resource, namespace string, selector labels.Selector) (metric.Pick, error) {
	if k := v.kind(resource); resource != podResource && (k == nil || !k.reliable()) {
		return metric.Pick{}, metric.CannotAskf("labelSelector %q picks %s by their labels, but only those of pods and of the kinds in object-kinds are known",
			selector, resource)
	}
	pick := metric.Pick{Takes: func(o metric.Object) bool {
		if o.Resource != resource || namespace != "" && o.Namespace != namespace {
			return false
		}
		own, known := v.labelsOf(o)
		return known && own != nil && selector.Matches(*own)
	}}
	if resource == podResource && namespace != "" {
		pick.List = func(most int) (iter.Seq[metric.Object], int, bool) { return v.podsMatching(namespace, selector, most) }
	}
	return pick, nil
}

func (v *View) podsMatching(namespace string, selector labels.Selector, most int) (all iter.Seq[metric.Object], n int, ok bool) {
	found, ok := v.pods.matching(namespace, selector, most)
	if !ok {
		return nil, 0, false
	}
	return func(yield func(metric.Object) bool) {
		for _, one := range found {
			if !yield(one.Object()) {
				return
			}
		}
	}, len(found), true
}

// labelsOf returns the labels of an object; nil: there is no such object. Not known: nobody can say.
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
	one := k.objects.find(o.Namespace, o.Name)
	if one == nil || o.UID != one.uid {
		return nil, true
	}
	return &one.labels, true
}

// Canonical turns a resource as people write it ("pods", "pod", "deployments.apps", "ingress.extensions") into
// plural[.group], and says whether its objects live in namespaces. An unknown resource is metric.ErrNotFound, one that
// several groups have is metric.ErrAsked. It never asks the API server itself: what is not known is asked for by the
// view, and Observer.ResourcesChanged says when there is more.
func (v *View) Canonical(resource string) (canonical string, namespaced bool, err error) {
	one, err := v.resources.find(resource)
	if err != nil {
		return "", false, err
	}
	return one.resource.String(), one.namespaced, nil
}

// Find is Canonical with the resource's kind, in the version that the API server prefers.
func (v *View) FindResource(resource string) (kind schema.GroupVersionKind, gr schema.GroupResource, namespaced bool, err error) {
	one, err := v.resources.find(resource)
	return one.kind, one.resource, one.namespaced, err
}
