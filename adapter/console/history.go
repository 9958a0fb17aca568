package console

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

const (
	// span is the number of seconds that are kept.
	span = 600
	// maxRows bounds the recorded values: 4.8 kB each, 4.8 MB in all. pageRows of them are for pages.
	maxRows, pageRows = 1000, 200
	// maxAutoscalers bounds the autoscalers that are recorded though no page shows them.
	maxAutoscalers = 300
	// maxNamed bounds the metrics whose series are recorded because an autoscaler names them.
	maxNamed = 50
	// plottedSeries are the series of a metric in a plot.
	plottedSeries = 8
	// maxSubjectRows bounds the rows of one subject: an autoscaler may name a hundred metrics, and the
	// series of a metric come and go.
	maxSubjectRows = 32
	// maxWatched bounds the subjects of pages.
	maxWatched = 128
	// linger is how long a metric is recorded after the last look at it.
	linger = time.Minute
	// duty bounds the share of a core that recording takes: a round of t is followed by a pause of
	// duty × t, at least a second.
	duty = 50
	// look is the interval of looks for autoscalers while nothing is recorded.
	look = 10 * time.Second
)

// subject is what is recorded together: the metrics and replicas of an autoscaler, or some series of
// a metric.
type subject struct {
	autoscaler                bool
	namespace, resource, name string
}

// Rows of an autoscaler beside its metrics, which have their index as ID.
const (
	rowReplicas = "replicas"
	rowWanted   = "wanted"
)

// begin returns a reader of autoscalers' metrics for a short time.
type begin func() func(*inspect.Autoscaler, *inspect.AutoscalerMetric) (value float64, ok bool)

// row is one value over time: a ring by Unix second.
type row struct {
	id     string
	values [span]float64
}

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

// history records values once a second: what autoscalers name and what pages show. run writes, any
// goroutine may call the other methods.
type history struct {
	source inspect.Source
	begin  begin
	wake   chan struct{}
	past   func(namespace, resource, name string) []Past // nil: none is known

	mu   sync.Mutex
	held map[subject]*recording
	rows int
}

func newHistory(source inspect.Source, begin begin) *history {
	return &history{source: source, begin: begin, wake: make(chan struct{}, 1), held: map[subject]*recording{}}
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
		took := time.Since(began)
		switch {
		case recorded > 0:
			timer.Reset(max(time.Second-took, duty*took))
		case h.begin != nil:
			timer.Reset(look)
		}
	}
}

// watch has a subject recorded, of a metric these rows, from now until a minute after the last look.
func (h *history) watch(s subject, rows []string, now time.Time) {
	h.mu.Lock()
	r, known := h.held[s]
	if !known {
		if len(h.held) >= maxAutoscalers+maxWatched {
			h.mu.Unlock()
			return
		}
		r = &recording{wanted: map[string]time.Time{}}
		h.held[s] = r
	}
	r.looked = now
	if !s.autoscaler {
		for _, id := range rows {
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

// round records one value of each row, and returns the number of subjects.
func (h *history) round(now time.Time) int {
	second := now.Unix()
	h.mu.Lock()
	metrics := map[subject]map[string]bool{}
	for s, r := range h.held {
		r.seen = false
		if looked := now.Sub(r.looked) < linger; looked {
			r.seen = true
			if !s.autoscaler {
				maps.DeleteFunc(r.wanted, func(_ string, looked time.Time) bool { return now.Sub(looked) >= linger })
				metrics[s] = map[string]bool{}
				for id := range r.wanted {
					metrics[s][id] = true
				}
			}
		}
	}
	h.mu.Unlock()
	if h.begin != nil {
		for _, s := range h.recordAutoscalers(second) {
			if _, shown := metrics[s]; !shown {
				h.recordMetric(s, nil, second)
			}
		}
	}
	for metric, wanted := range metrics {
		h.recordMetric(metric, wanted, second)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s, r := range h.held {
		if !r.seen {
			h.rows -= len(r.rows)
			delete(h.held, s)
		}
	}
	return len(h.held)
}

// recordMetric records the wanted series of a metric, among those that pages list. No page shows a metric
// without any: then the first are recorded, which a page will show.
func (h *history) recordMetric(s subject, wanted map[string]bool, second int64) {
	values := map[string]float64{}
	var ids []string
	limit := maxRows
	if wanted == nil {
		limit -= pageRows
	}
	for i, sery := range h.source.Series(s.namespace, s.resource, s.name, inspect.DetailSeries) {
		id := seriesID(&sery)
		if v, err := strconv.ParseFloat(sery.Value, 64); err == nil && (wanted[id] || wanted == nil && i < plottedSeries) {
			values[id], ids = v, append(ids, id)
		}
	}
	h.record(s, second, ids, func(id string) float64 { return values[id] }, limit)
	if h.past != nil && h.isNew(s) {
		h.addPast(s, second, h.past(s.namespace, s.resource, s.name))
	}
}

// isNew reports whether a subject was recorded once.
func (h *history) isNew(s subject) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.held[s]
	return r != nil && r.rounds == 1
}

// addPast puts the values before the first recorded second into the rows of a subject.
func (h *history) addPast(s subject, second int64, all []Past) {
	h.mu.Lock()
	defer h.mu.Unlock()
	recording := h.held[s]
	if recording == nil {
		return
	}
	for _, p := range all {
		id := seriesID(&p.Series)
		i := slices.IndexFunc(recording.rows, func(r *row) bool { return r.id == id })
		for n := 1; i >= 0 && n <= min(len(p.Values), span-1); n++ {
			recording.rows[i].values[(second-int64(n))%span] = p.Values[len(p.Values)-n]
		}
	}
}

// recordAutoscalers records the first autoscalers, and those that pages show. It returns some of the metrics
// that they name.
func (h *history) recordAutoscalers(second int64) (named []subject) {
	read := h.begin()
	n := 0
	inspect.All(inspect.Query{Most: inspect.MaxMost}, h.source.Autoscalers, func(a *inspect.Autoscaler) bool {
		s := subject{autoscaler: true, namespace: a.Namespace, name: a.Name}
		if !slices.ContainsFunc(a.Metrics, func(m inspect.AutoscalerMetric) bool { return m.Asked }) && !h.isHeld(s) {
			return true
		}
		if n++; n > maxAutoscalers && !h.isLooked(s) {
			return true
		}
		limit := maxRows - pageRows
		if h.isLooked(s) {
			limit = maxRows
		}
		values := map[string]float64{rowReplicas: float64(a.CurrentReplicas), rowWanted: float64(a.DesiredReplicas)}
		ids := []string{rowReplicas, rowWanted}
		for i := range a.Metrics {
			if m := &a.Metrics[i]; m.Asked {
				of := subject{namespace: a.Namespace, resource: resourceOf(m), name: bareName(m)}
				if of.resource != anyResource && len(named) < maxNamed && !slices.Contains(named, of) {
					named = append(named, of)
				}
				if v, ok := read(a, m); ok {
					values[strconv.Itoa(i)] = compared(a, m, v)
					ids = append(ids, strconv.Itoa(i))
				}
			}
		}
		h.record(s, second, ids, func(id string) float64 { return values[id] }, limit)
		return true
	})
	return named
}

// compared is the value that is compared with a metric's target: of type AverageValue, the share of
// one replica.
func compared(a *inspect.Autoscaler, m *inspect.AutoscalerMetric, value float64) float64 {
	if m.TargetType == "AverageValue" && m.Source != "Pods" {
		return value / float64(max(a.CurrentReplicas, 1))
	}
	return value
}

// hasValue reports whether a row has a value in the span.
func (h *history) hasValue(s subject, id string) bool {
	_, rows := h.read(s, []string{id}, span)
	return len(rows) > 0 && slices.ContainsFunc(rows[0], func(v float64) bool { return !math.IsNaN(v) })
}

func (h *history) isHeld(s subject) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[s] != nil
}

func (h *history) isLooked(s subject) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.held[s]
	return r != nil && r.seen
}

// endNamespace forgets the subjects of a namespace. Those that pages show are recorded anew.
func (h *history) endNamespace(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for subject, r := range h.held {
		if subject.namespace == namespace {
			h.rows -= len(r.rows)
			delete(h.held, subject)
		}
	}
}

// record adds a value to the rows of a subject. A new row needs room.
func (h *history) record(of subject, second int64, ids []string, value func(id string) float64, limit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.held[of]
	if one == nil {
		if h.rows+len(ids) > limit {
			return
		}
		one = &recording{wanted: map[string]time.Time{}}
		h.held[of] = one
	}
	one.seen = true
	for s := max(one.last+1, second-span+1); s <= second; s++ {
		for _, r := range one.rows {
			r.values[s%span] = math.NaN()
		}
	}
	for _, id := range ids {
		i := slices.IndexFunc(one.rows, func(r *row) bool { return r.id == id })
		if i < 0 {
			if i = h.addRow(one, id, limit); i < 0 {
				continue
			}
		}
		one.rows[i].values[second%span] = value(id)
	}
	one.last = second
	one.rounds++
}

// addRow adds a row, if there is room: in the place of one that has no value in all the span, of a
// subject whose series come and go. -1: there is none.
func (h *history) addRow(one *recording, id string, limit int) int {
	fresh := &row{id: id}
	for i := range fresh.values {
		fresh.values[i] = math.NaN()
	}
	empty := func(r *row) bool {
		return !slices.ContainsFunc(r.values[:], func(v float64) bool { return !math.IsNaN(v) })
	}
	if i := slices.IndexFunc(one.rows, empty); i >= 0 {
		one.rows[i] = fresh
		return i
	}
	if h.rows >= limit || len(one.rows) >= maxSubjectRows {
		return -1
	}
	h.rows++
	one.rows = append(one.rows, fresh)
	return len(one.rows) - 1
}

// read returns the values of some rows, the oldest first, and the second of the newest. A row that
// isn't recorded has none. No rows: nothing was recorded yet.
func (h *history) read(of subject, ids []string, seconds int) (last int64, all [][]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	recording := h.held[of]
	if recording == nil || recording.last == 0 {
		return 0, nil
	}
	all = make([][]float64, len(ids))
	for n, id := range ids {
		values := make([]float64, seconds)
		i := slices.IndexFunc(recording.rows, func(r *row) bool { return r.id == id })
		for s := range values {
			if values[s] = math.NaN(); i >= 0 {
				at := recording.last - int64(seconds-1-s)
				values[s] = recording.rows[i].values[at%span]
			}
		}
		all[n] = values
	}
	return recording.last, all
}
