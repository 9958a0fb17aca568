package wake

import (
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// armed is an autoscaler whose target stands at zero. It belongs to Run; its record is guarded by
// Waker.mu.
type armed struct {
	key      name
	record   *record
	document *inspect.Autoscaler // as of the last look at the record
	metrics  []armedMetric

	looked  bool
	changed bool      // since the values were read
	due     time.Time // when the values are read without a change
	next    time.Time // when the autoscaler is looked at again
	busy    bool      // queued, or in flight

	// positive is the metric that was positive at the last read, with its value.
	positive *inspect.AutoscalerMetric
	value    metric.Number
}

// armedMetric is a metric that the autoscaler reads at zero.
type armedMetric struct {
	of    inspect.AutoscalerMetric
	asked Asked // nil: err says why not
	err   error // of the last read
}

func arm(key name, is *record) *armed {
	one := &armed{key: key, record: is, document: is.document}
	for _, m := range is.document.Metrics {
		if m.Wakes() {
			one.metrics = append(one.metrics, armedMetric{of: m})
		}
	}
	return one
}

// asksAs reports whether a new document of the autoscaler asks for the same metrics.
func (o *armed) asksAs(now *inspect.Autoscaler) bool {
	return slices.EqualFunc(o.document.Metrics, now.Metrics, inspect.SameMetric)
}

func (o *armed) namespace() string { return o.key.namespace }

func (o *armed) target() target {
	return target{o.document.Namespace, o.document.TargetKind, o.document.TargetName}
}

// forget ends the watches.
func (o *armed) forget() {
	for i := range o.metrics {
		if asked := o.metrics[i].asked; asked != nil {
			asked.Unwatch()
		}
	}
}

// read reads the metrics, and reports whether one of them is positive: the controller takes the largest
// of its proposals, and a positive value is at least one replica. A metric without a value proposes none.
func (o *armed) read(source Source) bool {
	o.positive, o.changed = nil, false
	for i := range o.metrics {
		m := &o.metrics[i]
		if m.asked == nil {
			if m.asked, m.err = source.Ask(o.document, &m.of); m.err != nil {
				m.asked = nil
				continue
			}
			m.asked.Watch(func() { o.changed = true })
		}
		var value metric.Number
		if value, m.err = m.asked.Value(); m.err == nil && value.Float64() > 0 && o.positive == nil {
			o.positive, o.value = &m.of, value
		}
	}
	return o.positive != nil
}

// fault says why a metric has no value; empty: all have one.
func (o *armed) fault() string {
	for i := range o.metrics {
		if m := &o.metrics[i]; m.err != nil {
			return m.of.Source + " metric " + m.of.Name + " has no value: " + m.err.Error()
		}
	}
	return ""
}

// wait has the autoscaler looked at again at a time, whether or not its metrics change.
func (o *armed) wait(until time.Time) { o.next, o.looked = until, false }
