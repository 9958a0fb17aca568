package wake

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// lookEvery is the time between two looks at all armed autoscalers. A look is two atomic loads for up to 64
// neighbouring series, so a sample is noticed within lookEvery, at no cost on its path.
const lookEvery = 20 * time.Millisecond

// readEvery is the time after which values are read without a change, too: a series may have got an
// object, and a mean may rise as old samples leave the window.
const readEvery = 5 * time.Second

// Parts are the dependencies of a Waker. All are required.
type Parts struct {
	Source Source
	// Scale sets the first replica of a target that has none. The error, of an outcome that is a
	// failure, is for people to read.
	Scale func(context.Context, *inspect.Autoscaler) (Outcome, error)
	// Ready reports whether a value would be complete, and what is missing otherwise.
	Ready func() (bool, string)
	// Quantity writes a number as Kubernetes does ("1500m").
	Quantity func(metric.Number) string
	Events   EventRecorder
	Logger   *slog.Logger
}

// Source reads the table.
type Source interface {
	// Ask prepares the reading of an autoscaler's metric. The error is for people to read.
	Ask(*inspect.Autoscaler, *inspect.AutoscalerMetric) (Asked, error)
	// Look calls the functions of the metrics that are watched if a sample of theirs may have arrived since
	// the last call. It is cheap.
	Look()
}

// Asked is a metric that can be read repeatedly. The goroutine that looks uses it.
type Asked interface {
	// Value is what the autoscaler's controller would get. The error is for people to read.
	Value() (metric.Number, error)
	// Watch has Source.Look call a function, until Unwatch.
	Watch(changed func())
	Unwatch()
}

// EventRecorder writes Events on autoscalers, for people to read.
type EventRecorder interface {
	// WakeEvent writes an Event of this replica's own. about is its cause in short. It never blocks.
	WakeEvent(on *inspect.Autoscaler, warning bool, reason, about, message string)
}

// Waker wakes targets. Run does; any goroutine may call the other methods.
type Waker struct {
	cfg   Config
	parts Parts
	count *counters
	news  chan struct{} // autoscalers changed; its capacity is one

	mu      sync.Mutex // held by Run for changes of what it guards, and by others
	known   map[name]*record
	changed map[name]bool // since Run has looked

	// The fields below belong to Run.
	armed   map[name]*armed
	cooling map[target]time.Time // when the cooldown of a target ends
	line    line[*armed]         // of attempts
	flight  flight
	share   share
}

// name is the name of an autoscaler, target that of a scaled object.
type (
	name   struct{ namespace, name string }
	target struct{ namespace, kind, name string }
)

// record is an autoscaler with the annotation, and what lists show of it.
type record struct {
	document *inspect.Autoscaler // never changed
	state    inspect.WakeState   // of an armed autoscaler
	why      string
	last     time.Time
	told     Outcome // the failure that people know of; Run's own
}

// New makes a Waker. Run has to run for anything to be woken.
func New(cfg Config, parts Parts) *Waker {
	return &Waker{
		cfg: cfg, parts: parts, count: newCounters(), news: make(chan struct{}, 1),
		known: map[name]*record{}, changed: map[name]bool{},
		armed: map[name]*armed{}, cooling: map[target]time.Time{}, line: newLine[*armed](), flight: newFlight(),
		share: newShare(),
	}
}

// Changed says how an autoscaler is now; nil: it was deleted, or has no annotation. It never waits.
func (w *Waker) Changed(namespace, called string, now *inspect.Autoscaler) {
	key := name{namespace, called}
	w.mu.Lock()
	switch r := w.known[key]; {
	case now == nil:
		delete(w.known, key)
	case r == nil || r.document.UID != now.UID:
		w.known[key] = &record{document: now}
	default:
		r.document = now
	}
	w.changed[key] = true
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Run wakes targets until ctx ends.
func (w *Waker) Run(ctx context.Context) error {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		now := time.Now()
		w.follow()
		if ready, _ := w.parts.Ready(); ready {
			w.look(now)
			w.dispatch(ctx, now)
		}
		tick := every.C
		if len(w.armed) == 0 {
			tick = nil
		}
		select {
		case <-ctx.Done():
			w.flight.end()
			return nil
		case <-w.news:
		case a := <-w.flight.landed:
			w.settle(a, time.Now())
		case <-tick:
		}
	}
}

// follow adopts the autoscalers that changed: those at zero are armed.
func (w *Waker) follow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.changed {
		w.followOneLocked(key)
	}
	clear(w.changed)
	w.count.armed.Store(int64(len(w.armed)))
}

func (w *Waker) followOneLocked(key name) {
	is := w.known[key]
	if is == nil || is.document.WakeRefusal() != "" || !is.document.ScaledToZero() {
		w.disarm(key)
		return
	}
	if a := w.armed[key]; a == nil || a.record != is || !a.asksAs(is.document) {
		w.disarm(key)
		is.state, is.why = inspect.WakeArmed, ""
		w.armed[key] = arm(key, is)
	} else {
		a.document = is.document
	}
}

// disarm forgets an autoscaler, if it is armed.
func (w *Waker) disarm(key name) {
	if a := w.armed[key]; a != nil {
		a.forget()
		delete(w.armed, key)
	}
}

// look looks at all armed autoscalers, and queues those whose target is to be woken.
func (w *Waker) look(now time.Time) {
	if len(w.armed) > 0 {
		w.parts.Source.Look()
	}
	for _, a := range w.armed {
		if a.busy || now.Before(a.next) || a.looked && !a.changed && now.Before(a.due) || w.share.rests(a.namespace(), now) {
			continue
		}
		a.looked, a.due = true, now.Add(readEvery)
		if !w.read(a) {
			w.say(a, inspect.WakeArmed, a.fault())
			continue
		}
		if until := w.cooling[a.target()]; now.Before(until) {
			w.count.cooldown()
			w.say(a, inspect.WakeCooldown, "a positive value has woken the target before, until "+
				until.UTC().Format(time.TimeOnly)+" the autoscaler alone scales it")
			a.wait(until)
			continue
		}
		a.busy = true
		w.line.push(a.namespace(), a)
	}
}

// read reads the metrics of an autoscaler in the time of its namespace.
func (w *Waker) read(a *armed) (positive bool) {
	began := time.Now()
	defer w.share.spend(a.namespace(), began)
	return a.read(w.parts.Source)
}

// say keeps the state of an armed autoscaler for Describe.
func (w *Waker) say(a *armed, state inspect.WakeState, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.record.state, a.record.why = state, why
}

// Describe returns what the Waker makes of an autoscaler's annotation; nil: it has none.
func (w *Waker) Describe(a *inspect.Autoscaler) *inspect.Wake {
	if a.Wake == nil {
		return nil
	}
	out := &inspect.Wake{Annotation: a.Wake.Annotation}
	w.mu.Lock()
	defer w.mu.Unlock()
	is := w.known[name{a.Namespace, a.Name}]
	if is != nil {
		out.Last = is.last
	}
	switch why := a.WakeRefusal(); {
	case why != "":
		out.State, out.Why = inspect.WakeIgnored, why
	case !a.ScaledToZero():
		out.State = inspect.WakeRunning
	case is != nil:
		out.State, out.Why = is.state, is.why
	}
	return out
}

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
	a := &armed{key: key, record: is, document: is.document}
	for _, m := range is.document.Metrics {
		if m.Wakes() {
			a.metrics = append(a.metrics, armedMetric{of: m})
		}
	}
	return a
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
