package wake

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
)

const (
	// predictionsPerSecond bounds the cost of predicting: with many busy autoscalers each is predicted
	// less often. A prediction of one value takes some ten microseconds.
	predictionsPerSecond = 2_000
	// patienceOfController is how long an answer to a nudge is waited for. It is the controller's interval
	// between two syncs: after that it has looked in any case.
	patienceOfController = 15 * time.Second
)

// NudgeParts are the dependencies of a Nudger. All are required.
type NudgeParts struct {
	// Look calls the functions of the watches whose metrics may have got a sample since the last call. It
	// is cheap.
	Look func()
	// Watch has Look call a function. The error is for people to read.
	Watch func(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, changed func()) (Watched, error)
	// Predict predicts what the autoscaler's controller would set now.
	Predict func(*inspect.Autoscaler, *explain.Memory) explain.Prediction
	// Nudge changes the spec of an autoscaler without changing what it means, and returns its new
	// generation. TakeBack removes what nudges have left. The error, of an outcome that is a failure, is
	// for people to read.
	Nudge    func(context.Context, *inspect.Autoscaler) (generation int64, outcome Outcome, err error)
	TakeBack func(context.Context, *inspect.Autoscaler) (Outcome, error)
	// Ready reports whether a value would be complete; if not, why.
	Ready  func() (bool, string)
	Events EventRecorder
	Logger *slog.Logger
}

// Watched is a watch of a metric.
type Watched interface {
	// Follow is called before each reading.
	Follow()
	End()
}

// Nudger has the controllers of autoscalers look at a push. Run does; any goroutine may call the other
// methods.
type Nudger struct {
	cfg   NudgeConfig
	parts NudgeParts
	count *nudgeCounters
	news  chan struct{} // autoscalers changed; its capacity is one

	mu      sync.Mutex // held by Run for changes of what it guards, and by others
	known   map[name]*inspect.Autoscaler
	changed map[name]bool // since Run has looked
	shown   map[name]*inspect.Instant

	// The fields below belong to Run.
	followed map[name]*followed
	line     line[*followed] // of nudges
	share    share
	pace     pace
	flights  int
	landed   chan landing
}

// followed is an autoscaler with the annotation, or with what nudges have left. It belongs to Run.
type followed struct {
	key      name
	document *inspect.Autoscaler
	watches  []Watched
	fault    string // of a watch
	memory   explain.Memory

	changed bool      // since the last prediction
	due     time.Time // when it is predicted without a change
	next    time.Time // not before
	busy    bool      // queued, or in flight
	told    Outcome   // the failure that people know of
	// respecified is when the spec last changed, perhaps by another replica's nudge. The controller then looks by
	// itself, at values that may be a second newer than those that this replica has of the other.
	respecified time.Time

	last   *inspect.Nudge
	vain   int                // answers in a row that were not the expected ones
	wanted explain.Prediction // of the attempt
}

func (f *followed) namespace() string { return f.key.namespace }

// landing is the answer of the API server to an attempt.
type landing struct {
	of         *followed
	document   *inspect.Autoscaler
	wanted     explain.Prediction
	generation int64
	outcome    Outcome
	err        error
}

// NewNudger makes a Nudger. Run has to run for anything to be nudged.
func NewNudger(cfg NudgeConfig, parts NudgeParts) *Nudger {
	return &Nudger{
		cfg: cfg, parts: parts, count: newNudgeCounters(), news: make(chan struct{}, 1),
		known: map[name]*inspect.Autoscaler{}, changed: map[name]bool{}, shown: map[name]*inspect.Instant{},
		followed: map[name]*followed{}, line: newLine[*followed](), share: newShare(),
		landed: make(chan landing, mostInFlight),
	}
}

// Changed says how an autoscaler is now; nil: it was deleted, or has neither the annotation nor what nudges
// leave. It never waits.
func (n *Nudger) Changed(namespace, called string, now *inspect.Autoscaler) {
	key := name{namespace, called}
	n.mu.Lock()
	if now == nil {
		delete(n.known, key)
	} else {
		n.known[key] = now
	}
	n.changed[key] = true
	n.mu.Unlock()
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// Run nudges until ctx ends.
func (n *Nudger) Run(ctx context.Context) error {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		n.follow(time.Now())
		if ready, _ := n.parts.Ready(); ready {
			n.look(time.Now())
			n.dispatch(ctx, time.Now())
		}
		tick := every.C
		if len(n.followed) == 0 {
			tick = nil
		}
		select {
		case <-ctx.Done():
			for ; n.flights > 0; n.flights-- {
				<-n.landed // its context has ended
			}
			return nil
		case <-n.news:
		case l := <-n.landed:
			n.settle(&l, time.Now())
		case <-tick:
		}
	}
}

// follow adopts the autoscalers that changed.
func (n *Nudger) follow(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key := range n.changed {
		is, was := n.known[key], n.followed[key]
		if was != nil && (is == nil || is.UID != was.document.UID) {
			was.end()
			delete(n.followed, key)
			delete(n.shown, key)
			was = nil
		}
		if is == nil {
			continue
		}
		if was == nil {
			was = &followed{key: key, document: is}
			was.memory.Wanted(is.ReplicasSet(), now) // as the controller does at its start
			n.followed[key] = was
			n.watch(was)
		}
		n.adopt(was, is, now)
	}
	clear(n.changed)
	n.count.followed.Store(int64(len(n.followed)))
}

// adopt takes over a new document: what the controller did, and what it asks for.
func (n *Nudger) adopt(f *followed, is *inspect.Autoscaler, now time.Time) {
	was := f.document
	f.document, f.changed = is, true
	if is.Generation != was.Generation {
		f.respecified = now
	}
	if by := is.ReplicasSet() - was.ReplicasSet(); by != 0 && !is.LastScaleTime.Equal(was.LastScaleTime) {
		f.memory.Changed(is, by, now)
	}
	if last := f.last; last != nil && last.Answered.IsZero() && is.ObservedGeneration >= last.Generation {
		told := *last // people may be reading the old one
		told.Answered, told.Answer = now, is.ReplicasSet()
		if f.last = &told; told.Answer == told.Want {
			f.vain = 0
		} else {
			f.vain++
		}
		n.count.answered(told.Answer == told.Want, now.Sub(told.At))
	}
	if !slices.EqualFunc(was.Metrics, is.Metrics, inspect.SameMetric) {
		n.watch(f)
	}
}

// watch watches the metrics of an autoscaler, instead of those that it named before.
func (n *Nudger) watch(f *followed) {
	f.end()
	for i := range f.document.Metrics {
		if m := &f.document.Metrics[i]; m.Pushed() {
			watched, err := n.parts.Watch(f.document, m, func() { f.changed = true })
			if err != nil {
				f.fault = err.Error()
				continue
			}
			f.watches = append(f.watches, watched)
		}
	}
}

// end ends the watches.
func (f *followed) end() {
	for _, watch := range f.watches {
		watch.End()
	}
	f.watches, f.fault = nil, ""
}

// look predicts for the autoscalers whose metrics changed, and queues those whose controller would set
// other replicas.
func (n *Nudger) look(now time.Time) {
	n.parts.Look()
	pause := time.Duration(len(n.followed)) * time.Second / predictionsPerSecond
	for _, f := range n.followed {
		if f.busy || now.Before(f.next) || !f.changed && now.Before(f.due) || n.share.rests(f.namespace(), now) {
			continue
		}
		if f.changed, f.due, f.next = false, now.Add(readEvery), now.Add(pause); n.wants(f, now) {
			f.busy = true
			n.line.push(f.namespace(), f)
		}
	}
}

// wants reports whether an autoscaler is to be nudged, or what nudges have left is to be taken back; and
// shows why not.
func (n *Nudger) wants(f *followed, now time.Time) bool {
	a := f.document
	if a.Instant == nil {
		return a.Mark != inspect.Unmarked
	}
	if why := a.InstantRefusal(); why != "" {
		n.ignore(f, why)
		return false
	}
	began := time.Now()
	for _, watch := range f.watches {
		watch.Follow()
	}
	p := n.parts.Predict(a, &f.memory)
	n.share.spend(f.namespace(), began)
	if f.wanted = p; !p.Until.IsZero() && p.Until.Before(f.due) {
		f.due = p.Until
	}
	switch {
	case f.fault != "":
		n.say(f, inspect.InstantUnknown, f.fault)
	case p.Unknown != "":
		n.say(f, inspect.InstantUnknown, p.Unknown)
	case p.Replicas == a.ReplicasSet() && p.Held != "":
		n.say(f, inspect.InstantHeld, p.Held)
	case p.Replicas == a.ReplicasSet():
		n.say(f, inspect.InstantWatching, "")
	default:
		return !n.waits(f, now)
	}
	return false
}

// waits reports whether a controller that would set other replicas is not to be nudged yet, and shows why.
func (n *Nudger) waits(f *followed, now time.Time) bool {
	a, last, nudged := f.document, f.last, f.respecified
	if a.ObservedGeneration < a.Generation && now.Before(f.respecified.Add(patienceOfController)) {
		n.say(f, inspect.InstantWatching, "the controller has not looked at the newest spec yet")
		f.due = minTime(f.due, f.respecified.Add(patienceOfController))
		return true
	}
	if last != nil {
		rested := last.At.Add(f.rest(n.cfg.Interval))
		switch {
		case last.Answered.IsZero() && now.Before(last.At.Add(patienceOfController)):
			n.say(f, inspect.InstantWatching, "the controller has not answered the last nudge yet")
			f.due = minTime(f.due, last.At.Add(patienceOfController))
			return true
		case last.Want == f.wanted.Replicas && last.Answer == a.ReplicasSet() && now.Before(rested):
			n.say(f, inspect.InstantHeld, "the controller was nudged for these values and decided otherwise")
			f.due = minTime(f.due, rested)
			return true
		}
		if last.At.After(nudged) {
			nudged = last.At
		}
	}
	if now.Before(nudged.Add(n.cfg.Interval)) {
		f.changed, f.next = true, nudged.Add(n.cfg.Interval)
		return true
	}
	return false
}

// rest is the time after a nudge in which the same values don't nudge again. It doubles with each answer that
// was not the expected one.
func (f *followed) rest(interval time.Duration) time.Duration {
	return min(interval<<min(f.vain, 16), patienceOfController)
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// say keeps the state of an autoscaler for Describe. One that is gone has none, though its nudge was in flight.
func (n *Nudger) say(f *followed, state inspect.InstantState, why string) {
	if n.followed[f.key] != f {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shown[f.key] = &inspect.Instant{State: state, Why: why, Last: f.last}
}

// ignore shows why an annotation has no effect, and tells of one that is not understood.
func (n *Nudger) ignore(f *followed, why string) {
	n.say(f, inspect.InstantIgnored, why)
	if f.document.Instant.Annotation != "true" && f.told != Refused {
		f.told = Refused
		n.parts.Events.WakeEvent(f.document, true, "CannotNudge", "annotation", "The controller is not nudged: "+why+".")
	}
}

// Describe returns what the Nudger makes of an autoscaler's annotation; nil: it has none.
func (n *Nudger) Describe(a *inspect.Autoscaler) *inspect.Instant {
	if a.Instant == nil {
		return nil
	}
	out := inspect.Instant{Annotation: a.Instant.Annotation}
	n.mu.Lock()
	defer n.mu.Unlock()
	if is := n.shown[name{a.Namespace, a.Name}]; is != nil {
		out.State, out.Why, out.Last = is.State, is.Why, is.Last
	}
	return &out
}
