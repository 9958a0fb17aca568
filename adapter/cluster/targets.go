package cluster

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

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

// PodState is a live pod, as far as the view keeps it.
type PodState struct {
	Name              string
	Ready             bool
	Pending, Deleting bool
	Created           time.Time
}

// PodStates returns the pods of TargetPods, sorted by name.
func (t *Targets) PodStates(namespace, kind, name string) []PodState {
	pods := t.podsOf(namespace, kind, name)
	all := make([]PodState, len(pods))
	for i, one := range pods {
		all[i] = PodState{one.Name, one.ready, one.pending, one.deleting, time.Unix(one.Created, 0)}
	}
	slices.SortFunc(all, func(a, b PodState) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// podsByTarget groups the pods of a namespace by the workload that controls them.
func (v *View) podsByTarget(namespace string) map[target][]*pod {
	grouped := map[target][]*pod{}
	for _, pods := range v.pods.byControllers(namespace) {
		direct := pods[0].controller.Value()
		of, _ := v.replicaSets.owner(direct)
		key := target{of.Kind, of.Name}
		grouped[key] = append(grouped[key], pods...)
		if direct != of { // a ReplicaSet may be scaled itself
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
