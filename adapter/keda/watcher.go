package keda

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/internal/fair"
)

// lookEvery is the time between two looks at all triggers. A look at one that nobody pushed for is two atomic
// loads for up to 64 neighbouring series, so that a sample is noticed within lookEvery, at no cost on its path.
const lookEvery = 25 * time.Millisecond

// watcher notices that triggers become active. One goroutine, run, looks at all of them; it sleeps
// while there are none.
type watcher struct {
	source   Source
	stopping chan struct{} // closed when the process stops
	stop     sync.Once
	wake     chan struct{}

	mu              sync.Mutex // guards the rest, up to the next comment
	begun, finished []*watched // since run has looked
	open            int

	// The fields below belong to run. Each trigger is in one of the two.
	queue queue                        // by time
	turns fair.Queue[string, *watched] // those whose time has come; namespaces take turns
	costs fair.Costs[string]           // of readings, by namespace
}

func newWatcher(source Source) *watcher {
	return &watcher{source: source, stopping: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// watched is the trigger of one stream.
type watched struct {
	asked        Asked
	namespace    string
	activation   float64
	absentIsZero bool
	// news holds the newest activation that the stream has not sent.
	news chan bool

	// The fields below belong to watcher.run.
	place   int // in the queue; waiting: in none, because the trigger is due
	ended   bool
	looked  bool
	active  bool
	changed bool          // since it was read
	next    time.Time     // when the trigger is looked at
	repeat  time.Time     // when the next true is due
	pause   time.Duration // the time from that one to the one after it
	due     time.Time     // when the value is read again without a change
	read    time.Time     // when the last reading began
	cost    time.Duration // of the last reading; see rest
}

// waiting is the place of a trigger that is due.
const waiting = -1

// The value of a trigger is read without a change, too: a mean or a minimum may rise as old samples
// leave the window, and objects may get labels that a selector selects.
const (
	readActive = time.Second
	readIdle   = 15 * time.Second
)

// A true is sent again, because the operator loses one that comes before it has written the status of the
// ScaledObject, before it has noticed that the last replica has gone, or while another controller writes
// the workload. The first repetition follows repeatSoon after the crossing, each later one after twice the
// pause before it, up to repeatEvery.
const (
	repeatSoon  = 250 * time.Millisecond
	repeatEvery = 5 * time.Second
)

func (w *watcher) add(t *trigger.Trigger, asked Asked) *watched {
	watched := &watched{asked: asked, namespace: t.Question.Namespace, activation: t.Activation,
		absentIsZero: t.AbsentIsZero, news: make(chan bool, 1)}
	w.mu.Lock()
	w.begun = append(w.begun, watched)
	w.open++
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return watched
}

func (w *watcher) remove(watched *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = append(w.finished, watched)
	w.open--
}

func (w *watcher) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}

// run looks at all triggers until ctx ends, then ends all streams.
func (w *watcher) run(ctx context.Context) {
	defer w.stop.Do(func() { close(w.stopping) })
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		w.follow()
		tick, wake := every.C, w.wake
		if done := w.lookAtDue(); !done {
			wake = nil // many streams that begin don't keep the goroutine busy either
		}
		if len(w.queue)+w.turns.Len() == 0 {
			tick = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick:
			w.source.Look()
		}
	}
}

// follow adopts streams that began, and forgets those that ended.
func (w *watcher) follow() {
	w.mu.Lock()
	begun, finished := w.begun, w.finished
	w.begun, w.finished = nil, nil
	w.mu.Unlock()
	for _, watched := range begun {
		watched.asked.Watch(func() { w.told(watched) })
		heap.Push(&w.queue, watched)
	}
	for _, watched := range finished {
		watched.asked.Unwatch()
		if watched.ended = true; watched.place != waiting {
			heap.Remove(&w.queue, watched.place)
		}
	}
}

// told has a trigger read soon, since its value may have changed. While it is active, only the next reading,
// a second later, may say otherwise. A trigger that takes long to read waits for longer, so that it leaves
// time for the others.
func (w *watcher) told(watched *watched) {
	if watched.active || watched.changed {
		return
	}
	watched.changed = true
	if at := watched.read.Add(watched.rest()); watched.place != waiting && at.Before(watched.next) {
		watched.next = at
		heap.Fix(&w.queue, watched.place)
	}
}

const (
	restFactor = 10 // so a trigger's readings take a tenth of a processor at most
	// mostReading bounds the time of the readings that follow one look: a fifth of a processor.
	mostReading = lookEvery / 5
)

// rest is the time between two readings that leaves time for other triggers.
func (o *watched) rest() time.Duration { return restFactor * o.cost }

// lookAtDue looks at the triggers that are due, those first whose namespace has taken the least time. It returns false if
// there are too many for one look. A namespace is charged what its readings cost, and of time that may have been another
// process's, that of one look at most.
func (w *watcher) lookAtDue() (done bool) {
	began := time.Now()
	for now := began; ; now = time.Now() {
		for len(w.queue) > 0 && !now.Before(w.queue[0].next) { // a reading may have told others
			watched := heap.Pop(&w.queue).(*watched)
			watched.place = waiting
			w.turns.Push(watched.namespace, watched)
		}
		if w.turns.Len() == 0 {
			return true
		}
		if now.Sub(began) > mostReading {
			return false
		}
		namespace, watched, _ := w.turns.Pop()
		if watched.ended {
			continue
		}
		cost := watched.look(now, &w.costs)
		w.turns.Charge(namespace, int64(max(cost, min(time.Since(now), mostReading))))
		heap.Push(&w.queue, watched)
	}
}

// look reads the value if that is due, and tells the stream of a crossing. It returns the cost of the reading.
func (o *watched) look(now time.Time, costs *fair.Costs[string]) (cost time.Duration) {
	if o.changed || !now.Before(o.due) {
		again := o.readAt(now)
		ended := time.Now()
		cost = costs.Count(o.namespace, ended.Sub(now), ended)
		o.read, o.cost = now, cost
		o.due = now.Add(max(again, o.rest()))
	} else {
		o.repeatActive(now)
	}
	switch o.next = o.due; {
	case o.changed: // during the reading
		o.next = now.Add(o.rest())
	case o.active && o.repeat.Before(o.due):
		o.next = o.repeat
	}
	return cost
}

// readAt reads the value. It returns the time after which that is done again without a change.
func (o *watched) readAt(now time.Time) (again time.Duration) {
	o.changed = false
	sum, err := valueOf(o.asked, o.absentIsZero)
	if err != nil { // unknown, which is neither true nor false
		o.looked, o.active = true, false
		return readIdle
	}
	value := finite(sum.Float64())
	crossed, active := !o.looked || o.active != (value > o.activation), value > o.activation
	o.looked, o.active = true, active
	switch {
	case crossed && active:
		o.repeat, o.pause = now, repeatSoon
		o.repeatActive(now)
	case crossed:
		o.tell(false)
	case active:
		o.repeatActive(now)
	}
	if active {
		return readActive
	}
	return readIdle
}

// repeatActive says true if that is due.
func (o *watched) repeatActive(now time.Time) {
	if now.Before(o.repeat) {
		return
	}
	o.tell(true)
	o.repeat = now.Add(o.pause)
	o.pause = min(2*o.pause, repeatEvery)
}

// tell replaces what the stream has not sent yet.
func (o *watched) tell(active bool) {
	select {
	case <-o.news:
	default:
	}
	o.news <- active
}

// queue is a heap of triggers, ordered by the time of the next look (container/heap).
type queue []*watched

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(one any) {
	w := one.(*watched)
	w.place = len(*q)
	*q = append(*q, w)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return w
}
