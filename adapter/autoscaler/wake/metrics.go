package wake

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/collect"
)

// cooldownResult is the label of a positive value during the cooldown. It is no attempt.
const cooldownResult = "cooldown"

var armedDesc = prometheus.NewDesc("sluice_wake_armed",
	"Autoscalers with the annotation sluice.dev/wake whose target stands at zero, and is woken by a positive value.",
	nil, nil)

// counters count attempts.
type counters struct {
	wakes *prometheus.CounterVec
	armed atomic.Int64
}

func newCounters() *counters {
	c := &counters{wakes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_wakes_total",
		Help: "Positive values of autoscalers at zero, by result: woken, awake (it had replicas already), cooldown (not tried), forbidden, gone, refused, conflict, failed (at this change alone, as by an admission webhook that is down), silent (no answer).",
	}, []string{"result"})}
	for _, outcome := range outcomes {
		c.wakes.WithLabelValues(string(outcome))
	}
	c.wakes.WithLabelValues(cooldownResult)
	return c
}

func (c *counters) outcome(o Outcome) { c.wakes.WithLabelValues(string(o)).Inc() }

func (c *counters) cooldown() { c.wakes.WithLabelValues(cooldownResult).Inc() }

// Describe implements prometheus.Collector.
func (c *counters) Describe(ch chan<- *prometheus.Desc) {
	ch <- armedDesc
	c.wakes.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *counters) Collect(ch chan<- prometheus.Metric) {
	collect.Gauge(ch, armedDesc, c.armed.Load())
	c.wakes.Collect(ch)
}

// Collector returns the metrics of the Waker.
func (w *Waker) Collector() prometheus.Collector { return w.count }

var followedDesc = prometheus.NewDesc("sluice_instant_autoscalers",
	"Autoscalers with the annotation sluice.dev/instant.", nil, nil)

var nudgeOutcomes = []Outcome{Nudged, Ineffective, Forbidden, Gone, Refused, Conflict, Failed, Silent}

// nudgeCounters count nudges, and what the controller made of them.
type nudgeCounters struct {
	nudges   *prometheus.CounterVec
	answers  *prometheus.CounterVec
	latency  prometheus.Histogram
	followed atomic.Int64
}

func newNudgeCounters() *nudgeCounters {
	c := &nudgeCounters{
		nudges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_nudges_total",
			Help: "Nudges of autoscalers' controllers, by result: nudged, ineffective (the API server counts no generations), forbidden, gone, refused, conflict (another replica was first), failed (at this change alone, as by an admission webhook that is down), silent (no answer).",
		}, []string{"result"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_nudge_answers_total",
			Help: "What controllers made of nudges: scaled as expected, or otherwise.",
		}, []string{"answer"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "sluice_nudge_answer_seconds",
			Help:    "Time from a nudge to the status of the autoscaler that has seen it.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15},
		}),
	}
	for _, nudgeOutcome := range nudgeOutcomes {
		c.nudges.WithLabelValues(string(nudgeOutcome))
	}
	for _, answer := range []string{"scaled", "otherwise"} {
		c.answers.WithLabelValues(answer)
	}
	return c
}

func (c *nudgeCounters) attempted(o Outcome) { c.nudges.WithLabelValues(string(o)).Inc() }

func (c *nudgeCounters) answered(asExpected bool, after time.Duration) {
	answer := "otherwise"
	if asExpected {
		answer = "scaled"
	}
	c.answers.WithLabelValues(answer).Inc()
	c.latency.Observe(after.Seconds())
}

// Describe implements prometheus.Collector.
func (c *nudgeCounters) Describe(ch chan<- *prometheus.Desc) {
	ch <- followedDesc
	c.nudges.Describe(ch)
	c.answers.Describe(ch)
	c.latency.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *nudgeCounters) Collect(ch chan<- prometheus.Metric) {
	collect.Gauge(ch, followedDesc, c.followed.Load())
	c.nudges.Collect(ch)
	c.answers.Collect(ch)
	c.latency.Collect(ch)
}

// Collector returns the metrics of the Nudger.
func (n *Nudger) Collector() prometheus.Collector { return n.count }
