package autoscaler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// answer is what Sluice has for one metric of an autoscaler.
type answer struct {
	asked, missing bool
	why            string
	value          metric.Number // mean of Pods metrics, else the sum
	values, pods   int
	rejected       bool // a limit rejects series
	held           explain.Held
	heldAt         time.Time // when held was found out
}

// answer reads a metric of an autoscaler.
func (w *Watcher) answer(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, reader Reader) answer {
	if why := w.whyNotAsked(a, m); why != "" {
		return answer{why: why}
	}
	reading, err := reader.Read(a, m)
	one := answer{asked: true, values: reading.Values, pods: reading.Pods, rejected: reading.Rejected}
	switch {
	case err == nil:
		one.value, one.why = reading.Sum, remark(a, m, reading)
		if m.Source == "Pods" {
			one.value = metric.Computed(reading.Sum.Float64() / float64(max(reading.Values, 1)))
		}
		return one
	case errors.Is(err, metric.ErrNotReady):
		return answer{why: err.Error()}
	case m.Source == "Pods" && reading.Pods == 0 && a.CurrentReplicas == 0:
		return answer{why: fmt.Sprintf("%s/%s has no pods", a.TargetKind, a.TargetName)}
	case m.Current != "" && condition(a, "ScalingActive", "True") != nil:
		// The autoscaler's controller keeps a value in the status only while it gets one.
		return answer{why: fmt.Sprintf("Sluice has no value, and the autoscaler gets one (%s): another server answers, or the value has just ended", m.Current)}
	}
	one.missing, one.why = true, err.Error()
	return one
}

// kedaSelector is the label by which the autoscalers of KEDA select their external metrics.
const kedaSelector = "scaledobject.keda.sh/name"

// whyNotAsked says why Sluice is not asked for a metric; empty: it is asked.
func (w *Watcher) whyNotAsked(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) string {
	switch {
	case !m.Pushed():
		return "resource metrics are answered by metrics-server"
	case w.provider(a, m) != "":
		return "the provider " + w.provider(a, m) + " answers this metric"
	case m.Source == "External" && strings.Contains(m.Selector, kedaSelector):
		return "KEDA answers this metric"
	}
	if err := w.parts.NotAsked(m.Source); err != nil {
		return err.Error()
	}
	if c := condition(a, "ScalingActive", "False"); c != nil && c.Reason == "ScalingDisabled" {
		return "autoscaling is disabled: " + c.Message
	}
	return ""
}

// provider names the other provider that Sluice forwards a metric to; empty: none.
func (w *Watcher) provider(a *inspect.Autoscaler, m *inspect.AutoscalerMetric) string {
	if w.parts.Provider == nil {
		return ""
	}
	name, _ := w.parts.Provider(a, m)
	return name
}

// condition returns a condition that has the status, or nil.
func condition(a *inspect.Autoscaler, sort, status string) *inspect.AutoscalerCondition {
	i := slices.IndexFunc(a.Conditions, func(c inspect.AutoscalerCondition) bool {
		return c.Type == sort && c.Status == status
	})
	if i < 0 {
		return nil
	}
	return &a.Conditions[i]
}

// remark says of a value what its reader should know.
func remark(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, r Reading) string {
	switch {
	case m.Source == "Object" && r.Values < r.Pods:
		return fmt.Sprintf("%d of the %d pods that the value is rolled up from have no value", r.Pods-r.Values, r.Pods)
	case m.Source != "Pods":
		return ""
	case r.Pods == 0:
		return fmt.Sprintf("the value is of all pods of the namespace: none belongs to %s/%s by its owner references",
			a.TargetKind, a.TargetName)
	case r.Values < r.Pods:
		return fmt.Sprintf("%d of %d pods have no value", r.Pods-r.Values, r.Pods)
	}
	return ""
}

// Autoscalers returns a page of the autoscalers, with Sluice's answers as of the last round. The caller owns it: no other
// documents are copied. A round waits for one of them at most.
func (w *Watcher) Autoscalers(q inspect.Query) (page inspect.Page[inspect.Autoscaler]) {
	found := inspect.Paged(q, w.parts.List(q.Namespace), func(a **inspect.Autoscaler) (namespace, name string, key inspect.Key) {
		return (*a).Namespace, (*a).Name, (*a).Key()
	})
	page.Items, page.Next = make([]inspect.Autoscaler, len(found.Items)), found.Next
	for i, document := range found.Items {
		page.Items[i] = w.answered(document)
	}
	return page
}

// answered is a copy of a document, with Sluice's answers.
func (w *Watcher) answered(document *inspect.Autoscaler) inspect.Autoscaler {
	a := *document
	a.Metrics = slices.Clone(document.Metrics)
	if w.parts.Provider != nil {
		for i := range a.Metrics {
			m := &a.Metrics[i]
			m.Provider, m.ProviderFault = w.parts.Provider(document, m)
		}
	}
	w.withStates(document, func(states []state) {
		for i := range states {
			w.fill(&a.Metrics[i], &states[i])
		}
	})
	return a
}

// EachMetric calls f for each metric of the autoscalers of a namespace (empty: of all), in the order of Autoscalers,
// with the pods that its value comes from. It copies no document, and f changes none.
func (w *Watcher) EachMetric(namespace string, f func(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, pods int)) {
	var pods []int
	for _, document := range w.parts.List(namespace) {
		pods = append(pods[:0], make([]int, len(document.Metrics))...)
		w.withStates(document, func(states []state) {
			for j := range states {
				pods[j] = states[j].pods
			}
		})
		for j := range document.Metrics {
			f(document, &document.Metrics[j], pods[j])
		}
	}
}

// withStates calls f with the states of an autoscaler's metrics, if they were evaluated, and holds the lock meanwhile.
func (w *Watcher) withStates(document *inspect.Autoscaler, f func([]state)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.held[name{document.Namespace, document.Name}]
	if h != nil && h.document.UID == document.UID && slices.EqualFunc(h.document.Metrics, document.Metrics, inspect.SameMetric) {
		f(h.metrics)
	}
}

// fill adds Sluice's answer to a metric.
func (w *Watcher) fill(m *inspect.AutoscalerMetric, s *state) {
	m.Asked, m.Missing, m.Why, m.Since = s.asked, s.missing, s.why, s.lack.since.UTC()
	m.HeldBack, m.Without = s.held.Why, slices.Clone(s.held.Without)
	if m.Values, m.Pods = s.values, s.pods; s.asked && !s.missing {
		m.Value = w.parts.Quantity(s.value)
	}
}
