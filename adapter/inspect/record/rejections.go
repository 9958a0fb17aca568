package record

import (
	"container/list"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
)

// maxRejections bounds the remembered rejections. Each takes up to 1 kB: 200 bytes of the metric's
// name, 120 of the line, 600 of the message.
const (
	maxRejections = 1024
	maxMetric     = 200
	maxMessage    = 600
)

// Rejections remembers rejected samples by sender, receiver, reason and metric. Any goroutine may
// call its methods. The nil Rejections remembers nothing.
type Rejections struct {
	senders *Senders
	max     int

	mu      sync.Mutex
	entries map[string]*list.Element // of *rejection, by its key
	recent  list.List                // the newest first
	count   fair.Shares[string, int] // of entries, by namespace
	key     []byte                   // scratch
}

// rejection is an entry.
type rejection struct {
	key string
	inspect.Rejection
}

// NewRejections returns an empty record. It adds the samples of each sender to the senders, which may
// be nil.
func NewRejections(senders *Senders) *Rejections {
	return &Rejections{senders: senders, max: maxRejections, entries: map[string]*list.Element{}}
}

// Sample is a rejected sample. Its bytes are borrowed.
type Sample struct {
	Receiver string
	Sender   *metric.Sender
	Reason   metric.Reason
	Metric   []byte // the name, as far as it is known
	Line     []byte // may be empty
	At       int    // offset of the fault in the line; 0: unknown
	// Why says what was wrong. It is called at most once, and for one sample a second of each entry.
	Why func() string
}

// messageAge is how long an entry keeps a message and an example before a newer sample replaces them:
// wording a message costs more than counting a sample.
const messageAge = time.Second

// Add counts n samples like s.
func (r *Rejections) Add(s *Sample, n uint64) {
	if r == nil || s.Reason == metric.Ignored {
		return
	}
	who, now := nameOf(s.Sender), time.Now()
	r.senders.reject(s.Sender, n)
	// Masking takes far longer than the rest, so it is done without the lock.
	name, shown := shownMetric(s.Metric)
	r.mu.Lock()
	e := r.entryLocked(s, &who, name, shown)
	stale := now.Sub(e.Last) >= messageAge
	e.Count += n
	if stale {
		e.Last = now
	}
	r.mu.Unlock()
	if !stale {
		return
	}
	// Why may ask the cluster view, so it is called without the lock.
	message, example := metric.Truncate(metric.MaskAbout(s.Why(), s.Line, s.At), maxMessage), ""
	if len(s.Line) > 0 {
		example = metric.Excerpt(s.Line)
	}
	r.mu.Lock()
	e.Message, e.Example = message, example
	r.mu.Unlock()
}

// shownMetric returns the name of a metric for an entry's key, and as an entry shows it.
func shownMetric(name []byte) (key, shown string) {
	key = metric.MaskBeginning(name, maxMetric)
	return key, metric.Excerpt([]byte(key))
}

// ShownMetric is the name of a metric as entries show it: masked and shortened. It is for comparisons.
func ShownMetric(name string) string {
	_, shown := shownMetric([]byte(name))
	return shown
}

// entryLocked returns the entry of a sample, as the most recent one. The masked name is its key. A new entry may replace
// the oldest of the namespace with most, so that nobody's many hide those of others.
func (r *Rejections) entryLocked(s *Sample, who *name, name, shown string) *rejection {
	r.key = append(append(r.key[:0], who.namespace...), 0)
	r.key = append(append(r.key, who.name...), 0)
	r.key = append(append(r.key, s.Receiver...), 0, byte(s.Reason))
	r.key = append(r.key, name...)
	if at := r.entries[string(r.key)]; at != nil {
		r.recent.MoveToFront(at)
		return at.Value.(*rejection)
	}
	if r.recent.Len() >= r.max {
		r.forgetLocked(r.oldestLocked())
	}
	e := &rejection{key: string(r.key), Rejection: inspect.Rejection{
		Namespace: who.namespace, Sender: who.name, Receiver: s.Receiver, Reason: s.Reason.String(),
		Metric: shown, First: time.Now(),
	}}
	r.entries[e.key] = r.recent.PushFront(e)
	r.count.Add(e.Namespace, 1)
	return e
}

// oldestLocked is the oldest entry of the namespace with most.
func (r *Rejections) oldestLocked() *list.Element {
	largest, at := fair.Largest(&r.count), r.recent.Back()
	for at.Value.(*rejection).Namespace != largest {
		at = at.Prev()
	}
	return at
}

func (r *Rejections) forgetLocked(at *list.Element) {
	gone := r.recent.Remove(at).(*rejection)
	delete(r.entries, gone.key)
	r.count.Add(gone.Namespace, -1)
}

// All returns the remembered rejections, the newest first.
func (r *Rejections) All() []inspect.Rejection {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]inspect.Rejection, 0, r.recent.Len())
	for at := r.recent.Front(); at != nil; at = at.Next() {
		all = append(all, at.Value.(*rejection).Rejection)
	}
	return all
}

// EndNamespace forgets the rejections of a namespace's senders.
func (r *Rejections) EndNamespace(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.entries {
		if at.Value.(*rejection).Namespace == namespace {
			r.forgetLocked(at)
		}
	}
}
