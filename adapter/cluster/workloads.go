package cluster

import (
	"iter"
	"maps"
	"slices"
	"unique"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// isReady reports whether a pod is ready and not being deleted.
func isReady(of *corev1.Pod) bool {
	return of.DeletionTimestamp == nil && slices.ContainsFunc(of.Status.Conditions, func(one corev1.PodCondition) bool {
		return one.Type == corev1.PodReady && one.Status == corev1.ConditionTrue
	})
}

// Workload returns the workload of a pod. Not ok: no such pod lives, or it has no controller. Not
// resolved: the workload is a ReplicaSet whose owner is not known yet.
func (v *View) Workload(o metric.Object) (of metric.Workload, resolved, ok bool) {
	p := v.pods.byName(o.Namespace, o.Name)
	if p == nil || p.UID != o.UID {
		return metric.Workload{}, false, false
	}
	return v.workloadOf(p)
}

func (v *View) workloadOf(p *pod) (of metric.Workload, resolved, ok bool) {
	if !p.controlled() {
		return metric.Workload{}, false, false
	}
	of, resolved = v.replicaSets.owner(p.controller.Value())
	return of, resolved, true
}

// Owner returns the workload that owns a controller: a ReplicaSet's Deployment, else the
// controller. Not resolved: the ReplicaSet is not known yet.
func (v *View) Owner(of metric.Workload) (owner metric.Workload, resolved bool) {
	return v.replicaSets.owner(of)
}

// Workloads yields the workloads of all live pods, possibly more than once.
func (v *View) Workloads() iter.Seq[metric.Workload] {
	return func(yield func(metric.Workload) bool) {
		for controller := range v.pods.controllers() {
			if of, _ := v.replicaSets.owner(controller.Value()); !yield(of) {
				return
			}
		}
	}
}

// ReadyPods returns the ready pods of a namespace, in any order, with their workloads, without pods
// that have no controller. live is the number of pods, ready or not.
func (v *View) ReadyPods(namespace string) (all iter.Seq2[metric.Object, metric.Workload], live int) {
	return v.readyPods(namespace, labels.Everything())
}

// readyPods is ReadyPods for the pods that the selector matches.
func (v *View) readyPods(namespace string,
	selector labels.Selector) (all iter.Seq2[metric.Object, metric.Workload], live int) {
	ready, live := v.pods.ready(namespace, selector)
	return v.withWorkloads(slices.Values(ready)), live
}

// withWorkloads yields pods that have a controller, with their workloads.
func (v *View) withWorkloads(pods iter.Seq[*pod]) iter.Seq2[metric.Object, metric.Workload] {
	return func(yield func(metric.Object, metric.Workload) bool) {
		workloads := map[unique.Handle[metric.Workload]]metric.Workload{}
		for one := range pods {
			of, known := workloads[one.controller]
			if !known {
				of, _, _ = v.workloadOf(one)
				workloads[one.controller] = of
			}
			if of != (metric.Workload{}) && !yield(one.Object(), of) {
				return
			}
		}
	}
}

// ReadyPod returns a pod with its workload. Not ok: no such pod lives, it is not ready, or it has
// no controller.
func (v *View) ReadyPod(namespace, name string) (o metric.Object, of metric.Workload, ok bool) {
	p := v.pods.byName(namespace, name)
	if p == nil || !p.ready {
		return metric.Object{}, metric.Workload{}, false
	}
	of, _, ok = v.workloadOf(p)
	return p.Object(), of, ok
}

// controllers returns the controllers of all pods, each once.
func (p *pods) controllers() map[unique.Handle[metric.Workload]]struct{} {
	p.mu.RLock()
	defer p.mu.RUnlock()
	all := map[unique.Handle[metric.Workload]]struct{}{}
	for _, namespace := range p.byController {
		for _, list := range namespace {
			all[list[0].controller] = struct{}{}
		}
	}
	return all
}

// ready returns the ready pods of a namespace that the selector matches, and the number of matching
// pods, ready or not.
func (p *pods) ready(namespace string, selector labels.Selector) (all []*pod, live int) {
	all, ok := p.matching(namespace, selector, noBound-1)
	if !ok {
		p.mu.RLock()
		all = slices.Collect(maps.Values(p.byKey[namespace]))
		p.mu.RUnlock()
		if !selector.Empty() {
			all = slices.DeleteFunc(all, func(one *pod) bool { return !selector.Matches(&one.labels) })
		}
	}
	live = len(all)
	return slices.DeleteFunc(all, func(one *pod) bool { return !one.ready }), live
}
