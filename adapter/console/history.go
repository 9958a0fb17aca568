package console

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

const (
	// maxRows bounds the recorded values: 3.84 kB each, 15.4 MB in all. pageRows of them are for pages.
	maxRows, pageRows = 4000, 1500
	// maxAutoscalers bounds the autoscalers that are recorded though no page shows them.
	maxAutoscalers = 300
	// maxNamed bounds the metrics whose series are recorded because an autoscaler names them.
	maxNamed = 50
	// plottedSeries are the series of a metric that a plot begins with; maxPlotted, that it may have.
	plottedSeries, maxPlotted = 8, 16
	// maxSubjectRows bounds the rows of one subject: an autoscaler may name a hundred metrics, and the
	// series of a metric come and go.
	maxSubjectRows = 32
	// maxWatched bounds the subjects of pages. The one that was looked at longest ago makes room.
	maxWatched = 512
	// linger is how long a metric is recorded after the last look at it.
	linger = 10 * time.Minute
	// duty bounds the share of a core that recording takes: a round of t is followed by a pause of
	// duty × t, at least a second.
	duty = 50
	// namespaceTime bounds what the autoscalers of a namespace cost in a round, so they lengthen the pause of no other
	// one: those beyond have no values until later rounds have paid for it.
	namespaceTime = time.Second / duty
	// look is the interval of looks for autoscalers while nothing is recorded.
	look = 10 * time.Second
)

// subject is what is recorded together.
type subject struct {
	of                        subjectKind
	namespace, resource, name string // of a metric, name[:stat][:window]
}

type subjectKind uint8

const (
	ofMetric     subjectKind = iota // some series, and rowTotal
	ofAutoscaler                    // its metrics and replicas
	ofProcess                       // the samples of its receivers
)

// Rows that are no series. An autoscaler's metrics have the ID of rowOfMetric, receivers a prefix and their name.
const (
	rowReplicas = "replicas"
	rowWanted   = "wanted"
	rowTotal    = "="
	rowReceived = "+"
	rowRejected = "-"
)

// process is the subject of samples per second.
var process = subject{of: ofProcess}

// begin returns a reader of autoscalers' metrics for a short time.
type begin func() func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (value float64, ok bool)

// recording is a subject over time.
type recording struct {
	rows   []*row
	last   int64 // Unix second of the newest values; 0: none
	looked time.Time
	seen   bool // in this round
	rounds int  // in which it was recorded
	// wanted are the rows of a metric that pages plot, with the last look at each. Each page chooses among
	// the series that its reader may have.
	wanted map[string]time.Time
}

func (r *recording) row(id string) *row {
	if i := slices.IndexFunc(r.rows, func(r *row) bool { return r.id == id }); i >= 0 {
		return r.rows[i]
	}
	return nil
}

// history records values once a second: what autoscalers name and what pages show. run writes, any
// goroutine may call the other methods.
type history struct {
	source    inspect.Source
	begin     begin
	receivers func() []Receiver
	answers   func() (bool, string) // see Parts; nil: always
	wake      chan struct{}
	past      func(namespace, resource, name string) []Past // nil: none is known
	began     time.Time

	mu   sync.Mutex
	held map[subject]*recording
	rows int

	// counted are the receivers' numbers of the last round, which was at countedAt; run's own.
	counted   map[string][2]uint64
	countedAt time.Time
	reads     reads // run's own, too
}

func newHistory(source inspect.Source, begin begin) *history {
	return &history{source: source, begin: begin, wake: make(chan struct{}, 1), held: map[subject]*recording{},
		began: time.Now(), reads: reads{next: map[string]string{}}}
}

func (h *history) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rows
}

// run records until ctx ends. Without anything to record it waits for a look at a page and, in a
// cluster, looks for autoscalers now and then.
func (h *history) run(ctx context.Context) {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-h.wake:
		}
		began := time.Now()
		recorded := h.round(began)
		took := time.Since(began) - h.reads.unpaid
		switch {
		case recorded > 0:
			timer.Reset(max(time.Second-took, duty*took))
		case h.begin != nil:
			timer.Reset(look)
		}
	}
}

// watch has a subject recorded, of a metric these rows, from now until some time after the last look.
func (h *history) watch(s subject, rows []string, now time.Time) {
	h.mu.Lock()
	r, known := h.held[s]
	if !known {
		h.makeRoomLocked()
		r = &recording{wanted: map[string]time.Time{}}
		h.held[s] = r
	}
	r.looked = now
	if s.of == ofMetric {
		for _, id := range rows {
			if r.wanted[id].IsZero() && r.row(id) == nil {
				known = false
			}
			r.wanted[id] = now
		}
	}
	h.mu.Unlock()
	if !known {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

// makeRoomLocked drops the metric of a page that was looked at longest ago, if there are many.
func (h *history) makeRoomLocked() {
	if len(h.held) < maxAutoscalers+maxNamed+maxWatched {
		return
	}
	var oldest subject
	var at time.Time
	for s, r := range h.held {
		if s.of == ofMetric && !r.looked.IsZero() && (at.IsZero() || r.looked.Before(at)) {
			oldest, at = s, r.looked
		}
	}
	h.dropLocked(oldest)
}

func (h *history) dropLocked(s subject) {
	if r := h.held[s]; r != nil {
		h.rows -= len(r.rows)
		delete(h.held, s)
	}
}

// round records one value of each row, and returns the number of subjects. While nothing may be read, it keeps them.
func (h *history) round(now time.Time) int {
	ready := true
	if h.answers != nil {
		ready, _ = h.answers()
	}
	if ready {
		h.recordAll(now)
		h.dropUnseen()
	}
	h.mu.Lock()
	n := len(h.held)
	h.mu.Unlock()
	if n > 0 && h.receivers != nil {
		h.recordReceivers(now)
	}
	return n
}

// recordAll records metrics and autoscalers.
func (h *history) recordAll(now time.Time) {
	second := now.Unix()
	h.mu.Lock()
	metrics := map[subject]map[string]bool{}
	for s, r := range h.held {
		if r.seen = now.Sub(r.looked) < linger; !r.seen || s.of != ofMetric {
			continue
		}
		metrics[s] = map[string]bool{}
		for id, looked := range r.wanted {
			if now.Sub(looked) < linger {
				metrics[s][id] = true
			} else {
				delete(r.wanted, id)
			}
		}
	}
	h.mu.Unlock()
	if h.begin != nil {
		named := h.recordAutoscalers(second)
		h.reads.pay()
		for _, s := range named {
			if _, shown := metrics[s]; !shown {
				h.recordMetric(s, nil, second)
			}
		}
	}
	for metric, wanted := range metrics {
		h.recordMetric(metric, wanted, second)
	}
}

// dropUnseen drops what this round has not recorded. The process is recorded beside anything else.
func (h *history) dropUnseen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s, r := range h.held {
		if !r.seen && s != process {
			h.dropLocked(s)
		}
	}
	if r := h.held[process]; r != nil && !r.seen && len(h.held) == 1 {
		h.dropLocked(process)
	}
}

// hasValue reports whether a row has a value in the last ten minutes.
func (h *history) hasValue(s subject, id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.held[s]; one != nil {
		r := one.row(id)
		return r != nil && one.last-r.last < fineSeconds
	}
	return false
}

// isHeld reports whether a subject is recorded, and whether a page shows it.
func (h *history) isHeld(s subject) (held, looked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.held[s]
	return r != nil, r != nil && r.seen
}

// endNamespace forgets the subjects of a namespace. Those that pages show are recorded anew.
func (h *history) endNamespace(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for subject := range h.held {
		if subject.namespace == namespace && subject != process {
			h.dropLocked(subject)
		}
	}
}

// recordLocked adds a value to the rows of a subject. A new row needs room.
func (h *history) recordLocked(of subject, second int64, ids []string, value func(id string) float64, limit int) {
	one := h.held[of]
	if one == nil {
		if h.rows+len(ids) > limit {
			return
		}
		one = &recording{wanted: map[string]time.Time{}}
		h.held[of] = one
	}
	one.seen = true
	for _, r := range one.rows {
		r.skip(one.last, second)
	}
	for _, id := range ids {
		if r := h.rowLocked(one, id, second, limit); r != nil {
			r.put(second, value(id))
		}
	}
	one.last = second
	one.rounds++
}

// rowLocked returns a row, a new one if there is room: in the place of the one without a value for the
// longest time, of a subject whose series come and go. Nil: there is none.
func (h *history) rowLocked(one *recording, id string, second int64, limit int) *row {
	if r := one.row(id); r != nil {
		return r
	}
	if h.rows < limit && len(one.rows) < maxSubjectRows {
		h.rows++
		one.rows = append(one.rows, newRow(id))
		return one.rows[len(one.rows)-1]
	}
	oldest := -1
	for i, r := range one.rows {
		if r.last < second-fineSeconds && (oldest < 0 || r.last < one.rows[oldest].last) {
			oldest = i
		}
	}
	if oldest < 0 {
		return nil
	}
	one.rows[oldest] = newRow(id)
	return one.rows[oldest]
}

// read returns n values of some rows at distances of step (1, or coarseStep), the oldest first, and the second of
// the newest. A row that isn't recorded has none. No rows: nothing was recorded yet.
func (h *history) read(of subject, ids []string, step, n int) (last int64, all [][]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	recording := h.held[of]
	if recording == nil || recording.last == 0 {
		return 0, nil
	}
	all = make([][]float64, len(ids))
	for i, id := range ids {
		if r := recording.row(id); r != nil {
			all[i] = r.read(recording.last, step, n)
			continue
		}
		all[i] = make([]float64, n)
		for s := range all[i] {
			all[i][s] = math.NaN()
		}
	}
	return recording.last, all
}

// newest returns the newest value of a row, if it is of the last seconds.
func (h *history) newest(of subject, id string, now time.Time) (v float64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.held[of]; one != nil {
		if r := one.row(id); r != nil && r.last == one.last && now.Unix()-r.last <= freshSeconds {
			return float64(r.fine[r.last%fineSeconds]), true
		}
	}
	return 0, false
}

// freshSeconds is the age from which a recorded value is no present one.
const freshSeconds = 15
