package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
)

// UsedPods lists the live pods of a namespace (empty: of all), of a name (empty: any), whose labels the
// selector matches.
func (v *View) UsedPods(namespace, name string, selector labels.Selector) []usage.Pod {
	some := v.pods.selected(namespace, name, selector)
	all := make([]usage.Pod, len(some))
	for i, p := range some {
		all[i] = p.used()
		all[i].Labels, all[i].LabelBytes = p.labels.asMap, len(p.labels.String())
	}
	return all
}

// UsedPod returns the live pod of a name, without its labels; not ok: there is none.
func (v *View) UsedPod(namespace, name string) (one usage.Pod, ok bool) {
	if p := v.pods.byName(namespace, name); p != nil {
		return p.used(), true
	}
	return one, false
}

func (p *pod) used() usage.Pod {
	one := usage.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Node: p.node.Value(), Created: time.Unix(p.Created, 0)}
	if p.started != 0 {
		one.Started = time.Unix(p.started, 0)
	}
	return one
}

// ContainerNamed returns the name of a live pod's container, by its ID, and the pod's node.
func (v *View) ContainerNamed(id string) (c metric.Container, node string, ok bool) {
	p := v.pods.byContainer(id)
	if p == nil {
		return c, "", false
	}
	key := newContainerID(id)
	at := slices.IndexFunc(p.containers, func(one container) bool { return one.id == key })
	return metric.Container{Namespace: p.Namespace, Pod: p.Name, Name: p.containers[at].name.Value()}, p.node.Value(), true
}

// selected lists the live pods of a namespace (empty: of all), of a name (empty: any), whose labels the selector matches.
func (p *pods) selected(namespace, name string, selector labels.Selector) []*pod {
	if namespace != "" && name == "" {
		if all, ok := p.matching(namespace, selector, noBound-1); ok {
			return all
		}
	}
	all := p.listed(namespace, name) // the selector names no values
	return slices.DeleteFunc(all, func(one *pod) bool { return !selector.Matches(&one.labels) })
}

// listed lists pods. They are immutable, so callers look at them without the lock.
func (p *pods) listed(namespace, name string) (all []*pod) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if name != "" {
		if one := p.byKey[namespace][name]; one != nil {
			all = append(all, one)
		}
		return all
	}
	if namespace != "" {
		return slices.AppendSeq(make([]*pod, 0, len(p.byKey[namespace])), maps.Values(p.byKey[namespace]))
	}
	return slices.AppendSeq(make([]*pod, 0, len(p.uidIndex)), maps.Values(p.uidIndex))
}

// nodeResource is the canonical resource of nodes.
const nodeResource = "nodes"

// NodeCreated returns when a node was created, to the second; zero: it does not exist, or nodes are
// not watched.
func (v *View) NodeCreated(name string) time.Time {
	if k := v.kind(nodeResource); k != nil && k.reliable() {
		if o := k.objects.find("", name); o != nil {
			return time.Unix(o.created, 0)
		}
	}
	return time.Time{}
}

// NodeLabels returns the labels of a node, and whether it exists. If nodes are not watched, the error is
// metric.ErrInvalidQuery.
func (v *View) NodeLabels(name string) (own map[string]string, exists bool, err error) {
	k := v.kind(nodeResource)
	if k == nil || !k.reliable() {
		return nil, false, metric.InvalidQueryf("the labels of nodes are not known; add %s to object-kinds", nodeResource)
	}
	if o := k.objects.find("", name); o != nil {
		return o.labels.asMap(), true, nil
	}
	return nil, false, nil
}
