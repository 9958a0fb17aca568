package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/document"
	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// gatherer reads the facts of an explanation, with the rights of its user. A fact that cannot be
// read becomes a sentence of Unknown, and nothing else fails.
type gatherer struct {
	ctx       context.Context
	api       *metricsAPI
	namespace string
	now       time.Time
	facts     explain.Facts
	selector  labels.Selector // of the target's pods; nil: unknown
	resources map[schema.GroupVersion]map[string]string
	// rightsNeeded are those to read each metric; of a metric that isn't Sluice's: the zero Right.
	rightsNeeded []explain.Right
}

// unknown notes a fact that could not be read.
func (g *gatherer) unknown(what string, err error) {
	why := err.Error()
	if is(err, http.StatusForbidden) {
		why = "you lack the right: " + lacked(why)
	}
	g.facts.Unknown = append(g.facts.Unknown, what+": "+why)
}

// refusedRight finds verb, resource, group and scope in the API server's message about a missing right.
var refusedRight = regexp.MustCompile(`cannot (\w+) resource "([^"]*)" in API group "([^"]*)" (?:at the (cluster) scope|in the (namespace) )`)

// lacked shortens the API server's message.
func lacked(message string) string {
	m := refusedRight.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	right := m[1] + " " + m[2]
	if m[3] != "" {
		right += "." + m[3]
	}
	if m[4] != "" {
		right += " in the whole cluster"
	}
	return right
}

func is(err error, code int) bool {
	var refused *refusal
	return errors.As(err, &refused) && refused.code == code
}

// autoscaler gathers all that is known about an autoscaler.
func (g *gatherer) autoscaler(name string) (*explain.Facts, error) {
	path := "/apis/autoscaling/v2" + g.inNamespace() + "horizontalpodautoscalers"
	hpa, err := fetch[autoscalingv2.HorizontalPodAutoscaler](g.ctx, g.api, path+"/"+url.PathEscape(name))
	if err != nil {
		if isAbsent(err) && g.standalone() {
			return nil, errors.New("a standalone Sluice has no autoscalers; explain a METRIC, or use the kubeconfig of a cluster")
		}
		if isAbsent(err) {
			return nil, g.noAutoscaler(name)
		}
		return nil, err
	}
	g.facts.Now = g.now
	g.facts.Autoscaler = *document.Of(hpa)
	g.scale(hpa)
	g.pods()
	g.readings(hpa)
	g.rulesOfMetrics(hpa)
	g.registrations()
	g.providers()
	g.rights()
	g.pushed()
	g.agents()
	g.neighbours(path, name)
	g.triggers()
	g.wake()
	return &g.facts, nil
}

// agents reads the agents of nodes, where a pod has no value. Who may not list them, which takes a right in the whole
// cluster, is not told so: most clusters have none.
func (g *gatherer) agents() {
	without := func(i int) bool {
		return g.facts.Autoscaler.Metrics[i].Source == inspect.SourcePods && g.facts.Readings[i].Asked &&
			len(g.facts.Readings[i].Values) < len(g.facts.Pods)
	}
	for i := range g.facts.Autoscaler.Metrics {
		if !without(i) {
			continue
		}
		all, err := pages[inspect.Agent](g, "agents", "")
		if err != nil || len(all) == 0 || all[0].Elsewhere {
			return
		}
		byNode := make(map[string]inspect.Agent, len(all))
		for _, agent := range all {
			byNode[agent.Node] = agent
		}
		g.facts.AgentOf = func(node string) (inspect.Agent, bool) {
			agent, known := byNode[node]
			return agent, known
		}
		return
	}
}

// standalone reports whether the server is a standalone Sluice, which has no autoscaling API.
func (g *gatherer) standalone() bool {
	_, err := g.api.get(g.ctx, "/apis/autoscaling/v2")
	return isAbsent(err)
}

// scale reads the target's scale subresource.
func (g *gatherer) scale(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	target := hpa.Spec.ScaleTargetRef
	path, err := g.objectPath(target.APIVersion, target.Kind, target.Name)
	if err == nil {
		var scale *autoscalingv1.Scale
		if scale, err = fetch[autoscalingv1.Scale](g.ctx, g.api, path+"/scale"); err == nil {
			g.facts.Scale = &explain.Scale{
				SpecReplicas: scale.Spec.Replicas, StatusReplicas: scale.Status.Replicas,
			}
			g.selector, err = labels.Parse(scale.Status.Selector)
		}
	}
	var refused *refusal
	if errors.As(err, &refused) && refused.code == http.StatusNotFound {
		g.facts.TargetAbsent = refused.message
	} else if err != nil {
		g.unknown("the target's replicas and pods", err)
	}
}

// objectPath is the path of an object of a kind, as discovery has it.
func (g *gatherer) objectPath(apiVersion, kind, name string) (string, error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return "", err
	}
	resource, err := g.resourceOf(version, kind)
	if err != nil {
		return "", err
	}
	return versionPath(version) + g.inNamespace() + resource + "/" + url.PathEscape(name), nil
}

// inNamespace is the middle of paths.
func (g *gatherer) inNamespace() string { return "/namespaces/" + url.PathEscape(g.namespace) + "/" }

func versionPath(v schema.GroupVersion) string {
	if v.Group == "" {
		return "/api/" + v.Version
	}
	return "/apis/" + v.String()
}

// resourceOf is the plural of a kind.
func (g *gatherer) resourceOf(version schema.GroupVersion, kind string) (string, error) {
	if g.resources == nil {
		g.resources = map[schema.GroupVersion]map[string]string{}
	}
	byKind := g.resources[version]
	if byKind == nil {
		list, err := fetch[metav1.APIResourceList](g.ctx, g.api, versionPath(version))
		if err != nil {
			return "", err
		}
		byKind = map[string]string{}
		for _, apiResource := range list.APIResources {
			if !strings.Contains(apiResource.Name, "/") {
				byKind[apiResource.Kind] = apiResource.Name
			}
		}
		g.resources[version] = byKind
	}
	if resource := byKind[kind]; resource != "" {
		return resource, nil
	}
	return "", fmt.Errorf("%s has no kind %s", version, kind)
}

// pods reads the target's pods.
func (g *gatherer) pods() {
	if g.selector == nil {
		return
	}
	path := "/api/v1" + g.inNamespace() + "pods" + query("labelSelector", g.selector.String())
	list, err := fetch[corev1.PodList](g.ctx, g.api, path)
	if err != nil {
		g.unknown("the target's pods", err)
		return
	}
	g.facts.Pods = []inspect.TargetPod{}
	for i := range list.Items {
		g.facts.Pods = append(g.facts.Pods, podFact(&list.Items[i]))
	}
}

func podFact(p *corev1.Pod) inspect.TargetPod {
	fact := inspect.TargetPod{Name: p.Name, Phase: string(p.Status.Phase), Deleting: p.DeletionTimestamp != nil,
		Labels: p.Labels, Node: p.Spec.NodeName}
	if p.Status.StartTime != nil {
		fact.Started = p.Status.StartTime.Time
	}
	for _, c := range p.Status.Conditions {
		fact.Ready = fact.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	return fact
}

// wake reads what Sluice makes of the annotations sluice.dev/wake and sluice.dev/instant, if the autoscaler has
// them.
func (g *gatherer) wake() {
	a := &g.facts.Autoscaler
	if a.Wake == nil && a.Instant == nil {
		return
	}
	is, err := fetch[inspect.Autoscaler](g.ctx, g.api, inspectPath("autoscalers", g.namespace)+"/"+url.PathEscape(a.Name))
	if err != nil {
		g.unknown("whether the target is woken, or the controller nudged", err)
		return
	}
	if is.Wake != nil {
		a.Wake = is.Wake
	}
	if is.Instant != nil {
		a.Instant = is.Instant
	}
}
