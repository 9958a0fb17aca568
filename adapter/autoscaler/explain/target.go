package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/api/resource"
)

// manyTimes is the ratio from which a target in thousandths looks like a mistake.
const manyTimes = 50

// judgeTarget looks for targets that are probably not meant: thousandths, and Value where AverageValue
// fits.
func (f *Facts) judgeTarget(m *inspect.AutoscalerMetric) *Finding {
	target, err := resource.ParseQuantity(m.Target)
	reading, total := f.readingOf(m), int64(0)
	if err != nil || target.MilliValue() <= 0 || reading == nil || len(reading.Values) == 0 {
		return nil
	}
	for _, v := range reading.Values {
		total += v.Milli
	}
	if m.Source == sourcePods {
		total /= int64(len(reading.Values))
	}
	ratio := float64(total) / float64(target.MilliValue())
	switch a := &f.Autoscaler; {
	case target.MilliValue() < 1000 && strings.HasSuffix(m.Target, "m") && ratio >= manyTimes:
		return &Finding{Cause: TargetType, Metric: m.Name, Warning: true,
			Text: fmt.Sprintf("the target %s is %s (m: thousandths), and the value %s is %s times as much",
				m.Target, number(target.MilliValue()), number(total), ratioText(ratio)),
			Remedy: []string{"If " + strings.TrimSuffix(m.Target, "m") + " is meant: target: \"" +
				strings.TrimSuffix(m.Target, "m") + "\""}}
	case m.TargetType == "Value" && m.Source != sourcePods && ratio > 1+DefaultTolerance &&
		a.CurrentReplicas >= a.MaxReplicas && a.MaxReplicas > 0:
		return &Finding{Cause: TargetType, Metric: m.Name, Warning: true,
			Text: fmt.Sprintf("type Value compares the whole value (%s) with the target (%s) and multiplies the replicas by the ratio, until maxReplicas (%d). That fits a value that falls as replicas are added, as a latency; a total that the replicas share, as a queue, wants AverageValue",
				number(total), number(target.MilliValue()), a.MaxReplicas),
			Remedy: []string{"If the replicas share it: target: {type: AverageValue, averageValue: \"" + m.Target + "\"}"}}
	}
	return nil
}

func (f *Facts) readingOf(m *inspect.AutoscalerMetric) *Reading {
	for i := range f.Autoscaler.Metrics {
		if &f.Autoscaler.Metrics[i] == m {
			return f.reading(i)
		}
	}
	return nil
}

// judgeZeroReplicas looks for a target at 0 replicas. Pods without a value, and metrics without pods, follow from it.
func (f *Facts) judgeZeroReplicas() []Finding {
	a, c, rests := &f.Autoscaler, f.condition("ScalingActive"), f.condition("ScaledToZero")
	atZero := f.Scale != nil && f.Scale.SpecReplicas == 0 && a.MinReplicas > 0 && (rests == nil || rests.Status != "True")
	if said := c != nil && c.Reason == "ScalingDisabled"; !atZero &&
		(!said || f.Scale != nil && f.Scale.SpecReplicas > 0) {
		return nil
	}
	return []Finding{{Cause: NotAbleToScale, Text: "the target was set to 0 replicas, which switches the autoscaler off",
		Remedy: []string{fmt.Sprintf("kubectl scale -n %s %s/%s --replicas=%d", a.Namespace, strings.ToLower(a.TargetKind),
			a.TargetName, max(a.MinReplicas, 1))}}}
}

// judgeAutoscaler looks for causes that concern the autoscaler as a whole.
func (f *Facts) judgeAutoscaler(metrics []MetricReport) []Finding {
	var out []Finding
	a := &f.Autoscaler
	for _, n := range f.Neighbours {
		switch {
		case n.TargetKind == a.TargetKind && n.TargetName == a.TargetName:
			out = append(out, Finding{Cause: Overlap, Text: fmt.Sprintf("autoscaler %s scales %s/%s too, so Kubernetes scales by neither", n.Name, n.TargetKind, n.TargetName),
				Remedy: []string{"Put the metrics of both into one of them, and: kubectl delete hpa -n " +
					a.Namespace + " " + n.Name}})
		case n.SharedPods > 0:
			out = append(out, Finding{Cause: Overlap, Text: fmt.Sprintf("the selector of %s/%s also selects %s of autoscaler %s (%s/%s). Kubernetes then scales neither",
				a.TargetKind, a.TargetName, count(n.SharedPods, "pod"), n.Name, n.TargetKind, n.TargetName),
				Remedy: []string{"Give the two workloads' pods different labels, and select by them"}})
		}
	}
	absent := f.TargetAbsent // the controller's condition says it, too, from its next round on
	look := []string{fmt.Sprintf("kubectl get -n %s %s %s", a.Namespace, strings.ToLower(a.TargetKind), a.TargetName)}
	for _, c := range a.Conditions {
		if c.Type == "AbleToScale" && c.Status == "False" {
			absent = ""
			out = append(out, Finding{Cause: NotAbleToScale, Text: "Kubernetes cannot scale the target (" + c.Reason + "): " +
				c.Message, Remedy: look})
		}
	}
	if absent != "" {
		out = append(out, Finding{Cause: NotAbleToScale, Text: "Kubernetes cannot scale the target: " + absent, Remedy: look})
	}
	if finding := oneBroken(a, metrics); finding != nil {
		out = append(out, *finding)
	}
	return out
}

// oneBroken looks for a metric without a value among others that have one, and for a status that
// still shows former values.
func oneBroken(a *inspect.Autoscaler, metrics []MetricReport) *Finding {
	var broken []string
	asked, stale := 0, ""
	for i := range metrics {
		if metrics[i].Foreign || metrics[i].Unreadable {
			continue
		}
		asked++
		if metrics[i].Fault != "" {
			broken = append(broken, metrics[i].Name)
			if a.Metrics[i].Current != "" {
				stale = " The status still shows a former value."
			}
		}
	}
	if len(broken) == 0 || asked+foreign(metrics) < 2 || len(broken) == len(metrics) {
		if stale != "" {
			return &Finding{Cause: OneBroken, Warning: true,
				Text: "the autoscaler's status still shows former values: kubectl get hpa prints them as if they were current"}
		}
		return nil
	}
	return &Finding{Cause: OneBroken, Warning: true,
		Text: fmt.Sprintf("%d of %s without a value: the controller still scales up by the others, and never down.%s",
			len(broken), count(len(metrics), "metric"), stale)}
}

func foreign(metrics []MetricReport) int {
	n := 0
	for i := range metrics {
		if metrics[i].Foreign {
			n++
		}
	}
	return n
}

// resourceOf is what a metric of a spec asks for: "pods", "" (external), or the lower-case kind of an
// object.
func resourceOf(m *inspect.AutoscalerMetric) string {
	switch m.Source {
	case sourcePods:
		return "pods"
	case sourceObject:
		return strings.ToLower(m.ObjectKind)
	}
	return ""
}

// sameResource compares a group-resource, as "deployments.apps", with a kind, as "deployment".
func sameResource(resource, wanted string) bool {
	if resource == wanted {
		return true
	}
	if resource == "" || wanted == "" {
		return false
	}
	plural, _, _ := strings.Cut(resource, ".")
	return plural == wanted || plural == wanted+"s" || plural == wanted+"es" ||
		plural == strings.TrimSuffix(wanted, "y")+"ies"
}

func onResource(resource string) string {
	if resource == "" {
		return "as an external metric"
	}
	return "on " + resource
}

func metricType(resource string) string {
	switch resource {
	case "":
		return "type: External"
	case "pods":
		return "type: Pods"
	}
	return "type: Object, with describedObject of " + resource
}

func namespaces(all []inspect.Metric) string {
	var names []string
	for _, m := range all {
		if !slices.Contains(names, m.Namespace) {
			names = append(names, m.Namespace)
		}
	}
	const most = 3
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func labelText(labels map[string]string) string {
	if len(labels) == 0 {
		return NoLabels
	}
	var pairs, selecting []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
		selecting = append(selecting, key+"="+metric.SelectorValue(labels[key]))
	}
	text := strings.Join(pairs, ",")
	if written := strings.Join(selecting, ","); written != text {
		text += " (select by " + written + ")"
	}
	return text
}

// selectorValues are labels as a selector writes them.
func selectorValues(labels map[string]string) map[string]string {
	values := map[string]string{}
	for key, value := range labels {
		values[key] = metric.SelectorValue(value)
	}
	return values
}

// patch is the command that replaces a field of metric i: "name" or "selector". KEDA writes its
// autoscalers itself, so there it is the change to make.
func (f *Facts) patch(i int, field string, value any) string {
	a := &f.Autoscaler
	source := strings.ToLower(a.Metrics[i].Source)
	if a.ScaledObject != "" {
		return fmt.Sprintf("In the ScaledObject: a trigger with the metric's %s %v", field, value)
	}
	return fmt.Sprintf("kubectl patch hpa -n %s %s --type=json -p %s", a.Namespace, a.Name, quoted([]map[string]any{{
		"op": "replace", "path": fmt.Sprintf("/spec/metrics/%d/%s/metric/%s", i, source, field), "value": value,
	}}))
}
