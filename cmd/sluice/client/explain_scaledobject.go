package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scaledObject is the part of a ScaledObject of KEDA that an explanation needs. KEDA's types would
// bring 300 modules.
type scaledObject struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		ScaleTargetRef  struct{ Kind, Name string } `json:"scaleTargetRef"`
		MinReplicaCount *int32                      `json:"minReplicaCount"`
		MaxReplicaCount *int32                      `json:"maxReplicaCount"`
		Advanced        struct {
			ScalingModifiers struct{ Formula string } `json:"scalingModifiers"`
		} `json:"advanced"`
		Triggers []scaledObjectTrigger `json:"triggers"`
	} `json:"spec"`
	Status struct {
		HPAName    string                        `json:"hpaName"`
		Conditions []inspect.AutoscalerCondition `json:"conditions"`
	} `json:"status"`
}

type scaledObjectTrigger struct {
	Type              string                      `json:"type"`
	Name              string                      `json:"name"`
	Metadata          map[string]string           `json:"metadata"`
	UseCachedMetrics  bool                        `json:"useCachedMetrics"`
	AuthenticationRef struct{ Kind, Name string } `json:"authenticationRef"`
}

// Kinds of KEDA, and the defaults of its replica counts.
const (
	kedaAPI               = "/apis/keda.sh/v1alpha1"
	kedaMaxReplicas int32 = 100
)

func (o *explainOptions) explainScaledObject(cmd *cobra.Command, g *gatherer, name string) error {
	facts, err := g.scaledObject(name)
	if err != nil {
		return err
	}
	facts.Unknown = append(facts.Unknown, g.api.warnings...)
	report := explain.ScaledObject(facts)
	if err := o.print(cmd, report, report.WriteText); err != nil {
		return err
	}
	if report.Broken() {
		return errors.New("the ScaledObject doesn't work: see the faults above")
	}
	return nil
}

// scaledObject gathers all that is known about a ScaledObject.
func (g *gatherer) scaledObject(name string) (*explain.ScaledObjectFacts, error) {
	object, err := fetch[scaledObject](g.ctx, g.api, scaledObjects(g.namespace)+url.PathEscape(name))
	if err != nil {
		return nil, err
	}
	f := &explain.ScaledObjectFacts{
		Now: g.now, Namespace: g.namespace, Name: name,
		TargetKind: cmp.Or(object.Spec.ScaleTargetRef.Kind, "Deployment"), TargetName: object.Spec.ScaleTargetRef.Name,
		MaxReplicas: kedaMaxReplicas, Paused: paused(object.Metadata.Annotations),
		Formula: object.Spec.Advanced.ScalingModifiers.Formula, Conditions: object.Status.Conditions,
		AutoscalerName: object.Status.HPAName,
	}
	if n := object.Spec.MinReplicaCount; n != nil {
		f.MinReplicas = *n
	}
	if n := object.Spec.MaxReplicaCount; n != nil {
		f.MaxReplicas = *n
	}
	g.autoscalerOfKEDA(f)
	for i := range object.Spec.Triggers {
		f.Triggers = append(f.Triggers, g.trigger(&object.Spec.Triggers[i]))
	}
	f.Events = g.events("ScaledObject", name)
	g.metricsOf(f)
	f.Unknown = g.facts.Unknown
	return f, nil
}

func paused(annotations map[string]string) bool {
	if _, is := annotations["autoscaling.keda.sh/paused-replicas"]; is {
		return true
	}
	value, is := annotations["autoscaling.keda.sh/paused"]
	off, err := strconv.ParseBool(value)
	return is && (err != nil || off)
}

// autoscalerOfKEDA gathers what is known about the autoscaler that KEDA made, and about the API that
// answers it.
func (g *gatherer) autoscalerOfKEDA(f *explain.ScaledObjectFacts) {
	if f.AutoscalerName == "" {
		g.registrations()
	} else if facts, err := g.autoscaler(f.AutoscalerName); err != nil {
		g.unknown("hpa/"+f.AutoscalerName, err)
		g.registrations()
	} else {
		f.Autoscaler = facts
	}
	if api, is := g.facts.APIs[explain.ExternalGroup]; is {
		f.External = &api
	}
	if f.Autoscaler != nil { // Unknown is printed once
		copied := *f.Autoscaler
		copied.Unknown = nil
		f.Autoscaler = &copied
	}
}

// trigger gathers what is known about a trigger.
func (g *gatherer) trigger(t *scaledObjectTrigger) explain.TriggerFacts {
	f := explain.TriggerFacts{Type: t.Type, Name: t.Name, Cached: t.UseCachedMetrics, Address: t.Metadata["scalerAddress"]}
	if t.Type != "external" && t.Type != "external-push" {
		return f
	}
	asks, err := trigger.Parse(g.namespace, t.Metadata)
	if err != nil {
		f.Faults = strings.Split(err.Error(), "\n")
	}
	f.Asks = explain.TriggerQuestion{
		Metric: asks.Metric, Object: asks.Object, PodSelector: asks.PodSelector, Selector: asks.Selector,
		Target: asks.Target, Activation: asks.Activation, AbsentIsZero: asks.AbsentIsZero,
	}
	f.AddressFault, f.OfAnother = g.scaler(f.Address, t.Metadata["metric"] != "")
	if name := t.AuthenticationRef.Name; name != "" {
		kind := cmp.Or(t.AuthenticationRef.Kind, "TriggerAuthentication")
		f.Authentication = kind + "/" + name
		f.AuthenticationMissing = g.authenticationMissing(kind, name)
	}
	return f
}

// scaler looks where an address leads. The fault says why it leads to no Service; empty: it leads to one,
// or that is unknown. A trigger that names no metric, at a Service that is not of Sluice's chart, is for
// another product's scaler.
func (g *gatherer) scaler(address string, namesMetric bool) (fault string, ofAnother bool) {
	if address == "" {
		return "scalerAddress is missing; must be like dns:///sluice-keda.sluice.svc:9095", false
	}
	s, ok := explain.ServiceOf(address)
	if !ok {
		return "", false
	}
	service, err := fetch[corev1.Service](g.ctx, g.api, "/api/v1/namespaces/"+url.PathEscape(s.Namespace)+"/services/"+
		url.PathEscape(s.Name))
	switch {
	case isAbsent(err):
		return fmt.Sprintf("scalerAddress is %s; there is no Service %s in namespace %s", address,
			s.Name, s.Namespace), false
	case err != nil:
		g.unknown("where "+address+" leads", err)
		return "", false
	case !namesMetric && service.Labels["app.kubernetes.io/component"] != chartComponent:
		return "", true
	}
	var ports []string
	for _, p := range service.Spec.Ports {
		ports = append(ports, strconv.Itoa(int(p.Port)))
	}
	if !slices.Contains(ports, s.Port) {
		return fmt.Sprintf("scalerAddress is %s; Service %s/%s has the port %s", address, s.Namespace, s.Name,
			strings.Join(ports, ", ")), false
	}
	return "", false
}

// chartComponent labels the Services of the chart for KEDA.
const chartComponent = "keda"

func (g *gatherer) authenticationMissing(kind, name string) bool {
	path := kedaAPI + "/clustertriggerauthentications/"
	if kind == "TriggerAuthentication" {
		path = kedaAPI + g.inNamespace() + "triggerauthentications/"
	}
	_, err := g.api.get(g.ctx, path+url.PathEscape(name))
	if err != nil && !isAbsent(err) {
		g.unknown(kind+"/"+name, err)
	}
	return isAbsent(err)
}

// events are those on an object, the newest first.
func (g *gatherer) events(kind, name string) (all []explain.ObjectEvent) {
	path := "/api/v1" + g.inNamespace() + "events" + query("fieldSelector",
		"involvedObject.kind="+kind+",involvedObject.name="+name)
	list, err := fetch[corev1.EventList](g.ctx, g.api, path)
	if err != nil {
		g.unknown("Events on "+strings.ToLower(kind)+"/"+name, err)
		return nil
	}
	for i := range list.Items {
		all = append(all, eventFact(&list.Items[i]))
	}
	slices.SortStableFunc(all, func(a, b explain.ObjectEvent) int { return b.Last.Compare(a.Last) })
	return all
}

func eventFact(e *corev1.Event) explain.ObjectEvent {
	fact := explain.ObjectEvent{Reason: e.Reason, Message: e.Message, Warning: e.Type == corev1.EventTypeWarning,
		Count: int(e.Count)}
	times := []time.Time{e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
		fact.Count = int(e.Series.Count)
	}
	fact.Last = slices.MaxFunc(times, time.Time.Compare)
	return fact
}

// metricsOf reads what Sluice has of the metrics that triggers ask for, and which other names there are.
func (g *gatherer) metricsOf(f *explain.ScaledObjectFacts) {
	var names []string
	for i := range f.Triggers {
		if name := metric.ParseExpression(f.Triggers[i].Asks.Metric).Name; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	here, err := pages[inspect.Metric](g, "metrics", g.namespace)
	if err != nil {
		g.unknown("which metrics there are", err)
		return
	}
	f.Metrics = []inspect.Metric{}
	for _, name := range names {
		for _, m := range g.named(name, nil) {
			if m.Name == name {
				f.Metrics = append(f.Metrics, m)
			}
		}
	}
	for i := range here {
		if !slices.Contains(names, here[i].Name) {
			f.Metrics = append(f.Metrics, here[i])
		}
	}
}
