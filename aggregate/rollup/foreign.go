package rollup

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// A series of another replica may be born before this replica's cluster view knows its pod. It is
// kept until the pod is known, for a minute, and recorded then.
const (
	keepUnknown = time.Minute
	maxUnknown  = 10_000
)

// unknownPush is a series of a pod that is not known yet.
type unknownPush struct {
	pod    metric.Object
	name   string
	kind   metric.Kind
	labels metric.Labels
	until  time.Time
}

// Foreign observes the series of other replicas. Their pods have pushed, too.
type Foreign struct{ tracker *Tracker }

// Foreign returns the observer of other replicas' series.
func (m *Tracker) Foreign() Foreign { return Foreign{m} }

// SeriesCreated implements aggregate.Observer.
func (f Foreign) SeriesCreated(o *metric.Object, name string, kind metric.Kind, labels metric.Labels) {
	m := f.tracker
	if m.record(o, name, kind, labels) || o.Resource != "pods" || kind != metric.Counter && kind != metric.Set {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.unknown) < maxUnknown {
		m.unknown = append(m.unknown, unknownPush{*o, name, kind, labels, time.Now().Add(keepUnknown)})
	}
}

// retryUnknown records the series whose pod has become known.
func (m *Tracker) retryUnknown() {
	m.mu.Lock()
	waiting := m.unknown
	m.unknown = nil
	m.mu.Unlock()
	now := time.Now()
	var still []unknownPush
	for _, one := range waiting {
		if !m.record(&one.pod, one.name, one.kind, one.labels) && now.Before(one.until) {
			still = append(still, one)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unknown = append(still, m.unknown...)
}
