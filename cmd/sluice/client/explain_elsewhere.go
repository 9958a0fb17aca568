package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/suggest"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Somebody on call may not know the namespace of an autoscaler, nor how it is asked about.

const autoscalersPath = "/apis/autoscaling/v2/horizontalpodautoscalers"

// autoscalersNamed returns the namespaces that have an autoscaler of a name, as far as the user may
// list all: the gatherer's own first.
func (g *gatherer) autoscalersNamed(name string) (namespaces []string, err error) {
	list, err := fetch[metav1.PartialObjectMetadataList](g.ctx, g.api,
		autoscalersPath+query("fieldSelector", "metadata.name="+name))
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Name == name {
			namespaces = append(namespaces, p.Namespace)
		}
	}
	slices.Sort(namespaces)
	if i := slices.Index(namespaces, g.namespace); i > 0 {
		namespaces = slices.Insert(slices.Delete(namespaces, i, i+1), 0, g.namespace)
	}
	return namespaces, nil
}

// noAutoscaler is the error of an autoscaler that is not in the namespace: it says where one of the
// name is.
func (g *gatherer) noAutoscaler(name string) error {
	namespaces, err := g.autoscalersNamed(name)
	switch near := g.autoscalerNear(name); {
	case len(namespaces) > 0:
		return fmt.Errorf("there is no HorizontalPodAutoscaler %s in %s; there is one in %s: %s", name, g.namespace,
			someOf(namespaces), explainCommand(namespaces[0], "hpa/"+name))
	case near != "":
		return fmt.Errorf("there is no HorizontalPodAutoscaler %s in %s; did you mean %s? %s", name, g.namespace, near,
			explainCommand(g.namespace, "hpa/"+near))
	case is(err, http.StatusForbidden):
		return fmt.Errorf("there is no HorizontalPodAutoscaler %s in %s; you may not list those of all namespaces. Name another: %s",
			name, g.namespace, explainCommand("NAMESPACE", "hpa/"+name))
	case err != nil:
		return fmt.Errorf("there is no HorizontalPodAutoscaler %s in %s: %w", name, g.namespace, err)
	}
	return fmt.Errorf("there is no HorizontalPodAutoscaler %s in any namespace: kubectl get hpa -A", name)
}

// autoscalerNear is the name of an autoscaler of the namespace that is spelt alike; empty: none is.
func (g *gatherer) autoscalerNear(name string) string {
	list, err := fetch[metav1.PartialObjectMetadataList](g.ctx, g.api,
		"/apis/autoscaling/v2"+g.inNamespace()+"horizontalpodautoscalers")
	if err != nil {
		return ""
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return suggest.Nearest(name, names)
}

// hintAtAutoscaler says that a name which is no metric is that of an autoscaler; empty: it isn't.
func (g *gatherer) hintAtAutoscaler(name string) string {
	var namespaces []string
	if _, err := g.api.get(g.ctx, "/apis/autoscaling/v2"+g.inNamespace()+"horizontalpodautoscalers/"+
		escaped(name)); err == nil {
		namespaces = []string{g.namespace}
	} else if namespaces, err = g.autoscalersNamed(name); err != nil || len(namespaces) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is a HorizontalPodAutoscaler in %s: %s", name, someOf(namespaces),
		explainCommand(namespaces[0], "hpa/"+name))
}

// someOf joins some of the names.
func someOf(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	if n := len(names) - 1; n > 0 {
		return strings.Join(names[:n], ", ") + " and " + names[n]
	}
	return strings.Join(names, "")
}

func explainCommand(namespace, what string) string {
	if namespace == "" {
		return "sluice explain " + explain.Word(what)
	}
	return "sluice explain -n " + namespace + " " + explain.Word(what)
}

// checkSubject returns a fault of the arguments of explain. kubectl's "hpa web" is written hpa/web.
func (o *explainOptions) checkSubject(args []string) error {
	if len(args) == 1 {
		return nil
	}
	if len(args) == 2 {
		if kind := subjectKind(args[0]); kind != "" {
			return fmt.Errorf("%s; must be one, as in: %s", command.CountArguments(2),
				explainCommand(o.namespace, kind+"/"+args[1]))
		}
	}
	return errors.New(command.CountArguments(len(args)) + "; must be one: hpa/NAME, scaledobject/NAME or METRIC")
}

// subjectKind is "hpa", "scaledobject" or "scaledjob", by any name that kubectl knows; empty: none of them.
func subjectKind(text string) string {
	switch strings.ToLower(text) {
	case "hpa", "hpas", "horizontalpodautoscaler", "horizontalpodautoscalers", "horizontalpodautoscalers.autoscaling":
		return "hpa"
	case "scaledobject", "scaledobjects", "so", "scaledobjects.keda.sh":
		return "scaledobject"
	case "scaledjob", "scaledjobs", "sj", "scaledjobs.keda.sh":
		return "scaledjob"
	}
	return ""
}

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
		h := &list.Items[i]
		if h.Name == own {
			continue
		}
		ref := h.Spec.ScaleTargetRef
		n := explain.Neighbour{Name: h.Name, TargetKind: ref.Kind, TargetName: ref.Name}
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
	for _, trigger := range object.Spec.Triggers {
		var t explain.Trigger
		if trigger.Type == "external" || trigger.Type == "external-push" {
			t = explain.Trigger{Metric: trigger.Metadata["metric"]}
		}
		g.facts.Triggers = append(g.facts.Triggers, t)
	}
}

func scaledObjects(namespace string) string {
	return "/apis/keda.sh/v1alpha1/namespaces/" + url.PathEscape(namespace) + "/scaledobjects/"
}
