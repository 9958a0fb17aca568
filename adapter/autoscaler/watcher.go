package autoscaler

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

const (
	// interval between two rounds. The autoscaler's controller asks every 15 s.
	interval = 5 * time.Second
	// readsPerSecond lengthens the interval of large clusters: a value is a read, and a metric is as
	// costly as metricReads of them. It keeps a watcher below a hundredth of a core.
	readsPerSecond = 10_000
	metricReads    = 10
	// namespaceReads bounds what the autoscalers of a namespace cost in a round. Those beyond keep their former answers
	// until it is paid for, so they lengthen the interval of no other namespace.
	namespaceReads = readsPerSecond * int(interval/time.Second)
	// readTime is the time for which a read is charged at least, so the reads of a namespace take a tenth of the time.
	readTime = interval / 10 / time.Duration(namespaceReads)
	// idle is the interval while no autoscaler names a pushed metric.
	idle = time.Minute
	// shortest time between two rounds: a change of an autoscaler begins one.
	shortest = time.Second
)

// Parts are the dependencies of a Watcher. All but Hint are required.
type Parts struct {
	// List returns the autoscalers of a namespace (empty: of all), sorted by namespace and name.
	// They are never changed.
	List func(namespace string) []*inspect.Autoscaler
	// Begin returns the reader of a round.
	Begin func() Reader
	// Ready reports whether an answer would be complete.
	Ready func() bool
	// Quantity writes a number as Kubernetes does ("1500m").
	Quantity func(metric.Number) string
	// Hint returns a sentence on what the name of a missing metric may have meant; empty: nothing is
	// near.
	Hint func(*inspect.Autoscaler, *inspect.AutoscalerMetric) string
	// Provider names the other provider that Sluice forwards a metric to, and why it fails; nil, or empty: none.
	Provider func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (name, fault string)
	Events   EventRecorder
	Logger   *slog.Logger

	// NotAsked says why no controller asks Sluice for metrics of a source (Pods, Object, External); nil: it is asked.
	NotAsked func(source string) error
}

// Reader reads metrics of autoscalers, of Pods, Object and External metrics.
type Reader interface {
	// Read returns the answer that the autoscaler would get. The error is for people to read.
	Read(*inspect.Autoscaler, *inspect.AutoscalerMetric) (Reading, error)
	// HeldBack says for each metric what pods without a value, or with rejected series, do. Asked is set in
	// the document.
	HeldBack(*inspect.Autoscaler) []explain.Held
}

// Reading is what an autoscaler gets of one metric.
type Reading struct {
	Sum    metric.Number
	Values int // number of series or pods
	// Pods is the number of the target's pods (Pods metrics), with and without a value. 0: none is
	// known to be the target's, and Values are of all pods of the namespace. Of an Object metric, the
	// pods that its value is rolled up from, of which Values have one; 0: it is no roll-up.
	Pods int
	// Rejected is set if a limit lately rejected series of the metric, of any sender of the namespace.
	Rejected bool
}

// Watcher evaluates the metrics of autoscalers. Run evaluates; any goroutine may call the other
// methods.
type Watcher struct {
	parts Parts
	wake  chan struct{}

	mu       sync.Mutex // held by Run for changes, and by readers
	held     map[name]*held
	notified map[logged]time.Time // when the log last had the warning; Run's own

	// The fields below are Run's own.
	rounds int
	debts  fair.Debts[string, int] // reads that are not paid for, by namespace
	costs  fair.Costs[string]
}

// name is the name of an autoscaler.
type name struct{ namespace, name string }

func (n name) compare(other name) int {
	return cmp.Or(cmp.Compare(n.namespace, other.namespace), cmp.Compare(n.name, other.name))
}

// held is an autoscaler with the answers to its metrics, in the order of its document.
type held struct {
	document *inspect.Autoscaler
	metrics  []state
	round    int // of the answers
}

// New makes a Watcher. Run has to run for anything to be known.
func New(parts Parts) *Watcher {
	return &Watcher{parts: parts, wake: make(chan struct{}, 1), held: map[name]*held{},
		notified: map[logged]time.Time{}}
}

// Changed says that autoscalers name other metrics. It never waits.
func (w *Watcher) Changed() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run evaluates all autoscalers every few seconds until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	var paid time.Time // when the last round's reads are paid for
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-w.wake:
			if !pause(ctx, max(shortest, time.Until(paid))) {
				return nil
			}
		}
		next := interval
		if w.parts.Ready() {
			reads := w.round(time.Now())
			next, paid = intervalAfter(reads), time.Now().Add(timeOf(reads))
		}
		timer.Reset(next)
	}
}

// intervalAfter is the interval after a round of some reads.
func intervalAfter(reads int) time.Duration {
	if reads == 0 {
		return idle
	}
	return max(interval, timeOf(reads))
}

// timeOf is the time in which the watcher may have some reads.
func timeOf(reads int) time.Duration { return time.Duration(reads) * time.Second / readsPerSecond }

// pause waits, and reports whether ctx is still there.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// round evaluates all autoscalers once, and returns its cost.
func (w *Watcher) round(now time.Time) (reads int) {
	documents := w.oldestFirst(w.parts.List(""))
	reader := w.parts.Begin()
	here := make(map[name]string, len(documents)) // UIDs
	budget := heldBudget{heldReads, map[string]int{}}
	var notices []notice
	for _, document := range documents {
		if !slices.ContainsFunc(document.Metrics, inspect.AutoscalerMetric.Pushed) {
			continue
		}
		here[name{document.Namespace, document.Name}] = document.UID
		if w.debts.Of(document.Namespace) >= namespaceReads {
			continue
		}
		began := time.Now()
		answers := w.answers(document, reader)
		w.hold(document, answers, reader, now, &budget)
		w.charge(document.Namespace, answers, began)
		notices = w.keep(document, answers, now, notices)
		runtime.Gosched() // writers of samples come first
	}
	w.mu.Lock()
	for key, h := range w.held {
		if uid, is := here[key]; !is || uid != h.document.UID { // another one may have the name of a former one
			delete(w.held, key)
		}
	}
	w.mu.Unlock()
	w.tell(notices, now)
	return w.debts.Pay(namespaceReads)
}

// charge charges a namespace for the answers to an autoscaler, or for a notice: for their reads, or for their time if that is
// more.
func (w *Watcher) charge(namespace string, answers []answer, began time.Time) {
	reads := 0
	for i := range answers {
		reads += metricReads + max(answers[i].values, answers[i].pods)
	}
	now := time.Now()
	cost := w.costs.Count(namespace, now.Sub(began), now)
	w.debts.Add(namespace, max(reads, int(cost/readTime)))
}

// oldestFirst sorts autoscalers by the age of their answers.
func (w *Watcher) oldestFirst(documents []*inspect.Autoscaler) []*inspect.Autoscaler {
	w.rounds++
	documents = slices.Clone(documents)
	slices.SortStableFunc(documents, func(a, b *inspect.Autoscaler) int {
		return cmp.Compare(w.roundOf(a), w.roundOf(b))
	})
	return documents
}

// roundOf is the round of an autoscaler's answers; 0: it has none.
func (w *Watcher) roundOf(a *inspect.Autoscaler) int {
	if h := w.held[name{a.Namespace, a.Name}]; h != nil { // this goroutine alone writes
		return h.round
	}
	return 0
}

// answers reads the metrics of an autoscaler.
func (w *Watcher) answers(document *inspect.Autoscaler, reader Reader) []answer {
	answers := make([]answer, len(document.Metrics))
	for i := range answers {
		answers[i] = w.answer(document, &document.Metrics[i], reader)
	}
	return answers
}

// keep keeps the answers to the metrics of an autoscaler, and appends what is to be told.
func (w *Watcher) keep(document *inspect.Autoscaler, answers []answer, now time.Time, notices []notice) []notice {
	key := name{document.Namespace, document.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.held[key]
	if h == nil || h.document.UID != document.UID {
		h = &held{}
		w.held[key] = h
	}
	h.follow(document)
	h.round = w.rounds
	for i := range answers {
		s := &h.metrics[i]
		s.set(answers[i], now)
		for _, fault := range s.due(now) {
			notices = append(notices, notice{document, &document.Metrics[i], s, fault})
		}
	}
	return notices
}

// follow adopts a new document. The state of a metric that is still named stays.
func (h *held) follow(document *inspect.Autoscaler) {
	before := h.document
	h.document = document
	if before == document {
		return
	}
	if before != nil && slices.EqualFunc(before.Metrics, document.Metrics, inspect.SameMetric) {
		return
	}
	metrics := make([]state, len(document.Metrics))
	if before != nil {
		for i := range metrics {
			for j := range before.Metrics {
				if inspect.SameMetric(document.Metrics[i], before.Metrics[j]) {
					metrics[i] = h.metrics[j]
				}
			}
		}
	}
	h.metrics = metrics
}
