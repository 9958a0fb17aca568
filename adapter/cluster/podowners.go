package cluster

import (
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// allNames selects objects of any name.
const allNames = "*"

// PodOwners returns the objects of a resource and namespace that have live pods, of one name or
// ("*") all, sorted by name. A workload's pods are those whose controller it is, directly or
// through a ReplicaSet, never those that its selector matches (KEP-5325). A Service's pods are the
// targets of its EndpointSlices. If the pods cannot be known, the error is metric.ErrNotReady.
func (v *View) PodOwners(resource, namespace, name string) ([]metric.PodOwner, error) {
	r, err := v.resources.find(resource)
	if err != nil || !r.namespaced {
		return nil, nil
	}
	var found []ownedPods
	if resource == serviceResource {
		found, err = v.servicePods(namespace, name)
	} else {
		found, err = v.workloadPods(r, namespace, name)
	}
	if err != nil {
		return nil, err
	}
	owners := make([]metric.PodOwner, 0, len(found))
	for _, o := range v.current(resource, namespace, found) {
		owners = append(owners, metric.PodOwner{Pods: v.podSet(o.pods),
			Object: metric.Object{Resource: resource, Namespace: namespace, Name: o.name, UID: o.uid}})
	}
	return owners, nil
}

// ownedPods are the pods of an object.
type ownedPods struct {
	name, uid string // uid empty: not known
	pods      []*pod
}

// current drops objects that are gone, though pods of them still live, and sorts by name. UIDs
// remain only of kinds that are watched, as in Alive. Of the others, the object with the youngest
// pod is the current one of its name.
func (v *View) current(resource, namespace string, all []ownedPods) []ownedPods {
	slices.SortFunc(all, func(a, b ownedPods) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return int(youngest(b.pods) - youngest(a.pods))
	})
	kept := all[:0]
	for _, o := range all {
		uid, exists, watched := v.Object(resource, namespace, o.name)
		if watched && (!exists || o.uid != "" && o.uid != uid) {
			continue
		}
		if o.uid = uid; len(kept) == 0 || kept[len(kept)-1].name != o.name {
			kept = append(kept, o)
		}
	}
	return kept
}

// youngest is the creation time of the youngest pod.
func youngest(pods []*pod) (created int64) {
	for _, p := range pods {
		created = max(created, p.Created)
	}
	return created
}

// workloadPods returns the pods of the controllers of a kind. An object of a watched kind is known
// by its UID, so its pods are looked up. For others, the controllers of the namespace are searched:
// 2 ms for 3,000.
func (v *View) workloadPods(r resource, namespace, name string) ([]ownedPods, error) {
	if uid, exists, watched := v.Object(r.resource.String(), namespace, name); watched && name != allNames {
		if !exists {
			return nil, nil
		}
		if pods := v.podsControlledBy(namespace, uid); len(pods) > 0 {
			return []ownedPods{{name, uid, pods}}, nil
		}
		if v.replicaSetWatch.reliable() {
			return nil, nil
		}
	}
	is := func(w metric.Workload) bool {
		return w.Kind == r.kind.Kind && w.Group == r.kind.Group && (name == allNames || w.Name == name)
	}
	unknown := false
	grouped := v.pods.grouped(namespace, func(direct metric.Workload, uid uidKey) (metric.Workload, bool) {
		if is(direct) {
			return direct, true
		}
		if direct.Kind != replicaSetKind {
			return direct, false
		}
		owner, resolved := v.replicaSets.ownerOf(direct, uid)
		unknown = unknown || !resolved
		return owner, is(owner)
	})
	if len(grouped) == 0 && unknown && !v.replicaSetWatch.reliable() {
		return nil, metric.NotReadyf("the pods of %s in %q are not known, because ReplicaSets are not watched; %s",
			r.resource, namespace, v.replicaSetWatch.health.remedy)
	}
	found := make([]ownedPods, 0, len(grouped))
	for owner, pods := range grouped {
		found = append(found, ownedPods{owner.Name, owner.UID, pods})
	}
	return found, nil
}

// podsControlledBy returns the pods of a controller, directly or through ReplicaSets.
func (v *View) podsControlledBy(namespace, uid string) (all []*pod) {
	key := newUIDKey(uid)
	controllers := append(v.replicaSets.ownedBy(key), key)
	v.pods.mu.RLock()
	defer v.pods.mu.RUnlock()
	for _, controller := range controllers {
		all = append(all, v.pods.byController[namespace][controller]...)
	}
	return all
}

// grouped returns the pods of a namespace by workload. choose returns the workload of a controller,
// and whether it is wanted.
func (p *pods) grouped(namespace string,
	choose func(direct metric.Workload, uid uidKey) (metric.Workload, bool)) map[metric.Workload][]*pod {
	grouped := map[metric.Workload][]*pod{}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for uid, list := range p.byController[namespace] {
		if workload, wanted := choose(list[0].controller.Value(), uid); wanted {
			grouped[workload] = append(grouped[workload], list...)
		}
	}
	return grouped
}

// podSet is what readers need of some pods.
func (v *View) podSet(pods []*pod) metric.PodSet {
	return metric.PodSet{
		All: func(yield func(metric.Object) bool) {
			for _, p := range pods {
				if !yield(p.Object()) {
					return
				}
			}
		},
		Ready: v.withWorkloads(func(yield func(*pod) bool) {
			for _, p := range pods {
				if p.ready && !yield(p) {
					return
				}
			}
		}),
		Len: len(pods),
	}
}
