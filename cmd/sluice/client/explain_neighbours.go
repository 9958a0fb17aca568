package client

import (
	"net/url"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mostScales bounds the targets whose selector is read one by one.
const mostScales = 20

// neighbours reads the other autoscalers of the namespace, and whether they select the same pods.
func (g *gatherer) neighbours(path, own string) {
	list, err := fetch[autoscalingv2.HorizontalPodAutoscalerList](g.ctx, g.api, path)
	if err != nil {
		g.unknown("other autoscalers of the namespace", err)
		return
	}
	target := g.facts.Autoscaler
	selectors := selectors{g: g}
	for i := range list.Items {
		one := &list.Items[i]
		if one.Name == own {
			continue
		}
		ref := one.Spec.ScaleTargetRef
		n := explain.Neighbour{Name: one.Name, TargetKind: ref.Kind, TargetName: ref.Name}
		if ref.Kind != target.TargetKind || ref.Name != target.TargetName {
			n.SharedPods = g.sharedPods(selectors.of(ref))
		}
		g.facts.Neighbours = append(g.facts.Neighbours, n)
	}
}

// sharedPods counts the pods of the target that another target selects too.
func (g *gatherer) sharedPods(selector labels.Selector) (n int) {
	if selector == nil {
		return 0
	}
	for _, p := range g.facts.Pods {
		if selector.Matches(labels.Set(p.Labels)) {
			n++
		}
	}
	return n
}

// selectors finds the pod selectors of targets. Of workloads of the API group apps one list has all, so
// a namespace with hundreds of autoscalers costs a few requests.
type selectors struct {
	g      *gatherer
	listed map[string]map[string]labels.Selector // by kind and name
	single int
}

// of returns nil if the selector is unknown.
func (s *selectors) of(ref autoscalingv2.CrossVersionObjectReference) labels.Selector {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || len(s.g.facts.Pods) == 0 {
		return nil
	}
	if version.Group == "apps" {
		return s.list(version, ref.Kind)[ref.Name]
	}
	if s.single++; s.single > mostScales {
		return nil
	}
	path, err := s.g.objectPath(ref.APIVersion, ref.Kind, ref.Name)
	if err != nil {
		return nil
	}
	scale, err := fetch[autoscalingv1.Scale](s.g.ctx, s.g.api, path+"/scale")
	if err != nil || scale.Status.Selector == "" {
		return nil
	}
	selector, err := labels.Parse(scale.Status.Selector)
	if err != nil {
		return nil
	}
	return selector
}

// list reads the selectors of all workloads of a kind. What cannot be read has none.
func (s *selectors) list(version schema.GroupVersion, kind string) map[string]labels.Selector {
	if all, is := s.listed[kind]; is {
		return all
	}
	all := map[string]labels.Selector{}
	if s.listed == nil {
		s.listed = map[string]map[string]labels.Selector{}
	}
	s.listed[kind] = all
	resource, err := s.g.resourceOf(version, kind)
	if err != nil {
		return all
	}
	list, err := fetch[struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ Selector *metav1.LabelSelector }
		}
	}](s.g.ctx, s.g.api, versionPath(version)+"/namespaces/"+url.PathEscape(s.g.namespace)+"/"+resource)
	if err != nil {
		s.g.unknown("whether other autoscalers select the same pods", err)
		return all
	}
	for _, one := range list.Items {
		if selector, err := metav1.LabelSelectorAsSelector(one.Spec.Selector); err == nil {
			all[one.Metadata.Name] = selector
		}
	}
	return all
}

// triggers reads what a ScaledObject asks Sluice for.
func (g *gatherer) triggers() {
	name := g.facts.Autoscaler.ScaledObject
	if name == "" {
		return
	}
	object, err := fetch[struct {
		Spec struct {
			Triggers []struct {
				Type     string
				Metadata map[string]string
			}
		}
	}](g.ctx, g.api, scaledObjects(g.namespace)+url.PathEscape(name))
	if err != nil {
		g.unknown("the triggers of scaledobject/"+name, err)
		return
	}
	for _, one := range object.Spec.Triggers {
		var t explain.Trigger
		if one.Type == "external" || one.Type == "external-push" {
			t = explain.Trigger{Metric: one.Metadata["metric"]}
		}
		g.facts.Triggers = append(g.facts.Triggers, t)
	}
}

func scaledObjects(namespace string) string {
	return "/apis/keda.sh/v1alpha1/namespaces/" + url.PathEscape(namespace) + "/scaledobjects/"
}
