package cluster

import (
	"iter"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// isReady reports whether a pod is ready and not being deleted.
func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Workload returns the workload of a pod. Not ok: no such pod lives, or it has no controller. Not
// resolved: the workload is a ReplicaSet whose owner is not known yet.
func (v *View) Workload(o metric.Object) (workload metric.Workload, resolved, ok bool) {
	p := v.pods.byName(o.Namespace, o.Name)
	if p == nil || p.UID != o.UID {
		return metric.Workload{}, false, false
	}
	return v.workloadOf(p)
}

func (v *View) workloadOf(p *pod) (workload metric.Workload, resolved, ok bool) {
	if !p.controlled() {
		return metric.Workload{}, false, false
	}
	workload, resolved = v.replicaSets.owner(p.controller.Value())
	return workload, resolved, true
}

// Owner returns the workload that owns a controller: a ReplicaSet's Deployment, else the
// controller. Not resolved: the ReplicaSet is not known yet.
func (v *View) Owner(workload metric.Workload) (owner metric.Workload, resolved bool) {
	return v.replicaSets.owner(workload)
}

// Workloads yields the workloads of all live pods, possibly more than once.
func (v *View) Workloads() iter.Seq[metric.Workload] {
	return func(yield func(metric.Workload) bool) {
		for controller := range v.pods.controllers() {
			if workload, _ := v.replicaSets.owner(controller.Value()); !yield(workload) {
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
		for p := range pods {
			workload, known := workloads[p.controller]
			if !known {
				workload, _, _ = v.workloadOf(p)
				workloads[p.controller] = workload
			}
			if workload != (metric.Workload{}) && !yield(p.Object(), workload) {
				return
			}
		}
	}
}

// ReadyPod returns a pod with its workload. Not ok: no such pod lives, it is not ready, or it has
// no controller.
func (v *View) ReadyPod(namespace, name string) (o metric.Object, workload metric.Workload, ok bool) {
	p := v.pods.byName(namespace, name)
	if p == nil || !p.ready {
		return metric.Object{}, metric.Workload{}, false
	}
	workload, _, ok = v.workloadOf(p)
	return p.Object(), workload, ok
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
	all = p.selected(namespace, "", selector)
	live = len(all)
	return slices.DeleteFunc(all, func(one *pod) bool { return !one.ready }), live
}

// Autoscalers returns the autoscalers of a namespace (empty: of all), sorted by namespace and name,
// without Sluice's answers. Nobody may change them.
func (v *View) Autoscalers(namespace string) []*inspect.Autoscaler {
	return v.autoscalers.list(namespace)
}

// Targets finds the pods of scaled objects, as of the first question about each namespace. One
// goroutine uses it, for a short time.
type Targets struct {
	view *View
	pods map[string]map[target][]*pod // by namespace
}

// target is a scaled object of a namespace.
type target struct{ kind, name string }

// Targets returns the pods as of now.
func (v *View) Targets() *Targets {
	return &Targets{view: v, pods: map[string]map[target][]*pod{}}
}

// TargetPods yields the live pods that a workload of the namespace controls, directly or through a
// ReplicaSet; and those of them that are ready, with their workload. n is the number of live pods.
// An autoscaler selects pods by the selector of the scale subresource, which is not watched.
func (t *Targets) TargetPods(namespace, kind, name string) (all iter.Seq[metric.Object],
	ready iter.Seq2[metric.Object, metric.Workload], n int) {
	set := t.view.podSet(t.podsOf(namespace, kind, name))
	return set.All, set.Ready, set.Len
}

func (t *Targets) podsOf(namespace, kind, name string) []*pod {
	grouped, known := t.pods[namespace]
	if !known {
		grouped = t.view.podsByTarget(namespace)
		t.pods[namespace] = grouped
	}
	return grouped[target{kind, name}]
}

// PodStates returns the pods of TargetPods, sorted by name.
func (t *Targets) PodStates(namespace, kind, name string) []inspect.TargetPod {
	pods := t.podsOf(namespace, kind, name)
	all := make([]inspect.TargetPod, len(pods))
	for i, pod := range pods {
		all[i] = inspect.TargetPod{Name: pod.Name, Phase: "Running", Ready: pod.ready, Deleting: pod.deleting,
			Started: time.Unix(pod.Created, 0), Node: pod.node.Value()}
		if pod.pending {
			all[i].Phase = "Pending"
		}
	}
	slices.SortFunc(all, func(a, b inspect.TargetPod) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// podsByTarget groups the pods of a namespace by the workload that controls them.
func (v *View) podsByTarget(namespace string) map[target][]*pod {
	grouped := map[target][]*pod{}
	for _, pods := range v.pods.byControllers(namespace) {
		direct := pods[0].controller.Value()
		workload, _ := v.replicaSets.owner(direct)
		key := target{workload.Kind, workload.Name}
		grouped[key] = append(grouped[key], pods...)
		if direct != workload { // a ReplicaSet may be scaled itself
			grouped[target{direct.Kind, direct.Name}] = pods
		}
	}
	return grouped
}

// byControllers returns the pods of a namespace, grouped by their controllers.
func (p *pods) byControllers(namespace string) (all [][]*pod) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, list := range p.byController[namespace] {
		all = append(all, slices.Clone(list))
	}
	return all
}
