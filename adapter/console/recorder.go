package console

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-metrics/sluice/adapter/autoscaler/explain"
	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/internal/fair"
)

// This file reads what a round of the history records: receivers, metrics and autoscalers.

// recordReceivers records the samples per second since the last round.
func (h *history) recordReceivers(now time.Time) {
	before, seconds := h.counted, now.Sub(h.countedAt).Seconds()
	h.counted, h.countedAt = map[string][2]uint64{}, now
	values := map[string]float64{}
	var ids []string
	for _, receiver := range h.receivers() {
		counts := [2]uint64{receiver.Received, lawOf(receiver).Refused}
		was, known := before[receiver.Name]
		if h.counted[receiver.Name] = counts; !known || seconds <= 0 || seconds > 60 {
			continue
		}
		for i, prefix := range []string{rowReceived, rowRejected} {
			id := prefix + receiver.Name
			values[id], ids = float64(counts[i]-was[i])/seconds, append(ids, id)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recordLocked(process, now.Unix(), ids, func(id string) float64 { return values[id] }, maxRows)
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
	add := func(id string, v float64) { values[id], ids = v, append(ids, id) }
	if wanted == nil || wanted[rowTotal] {
		if v, objects := h.source.Value(s.namespace, s.resource, s.name); objects > 0 {
			add(rowTotal, v)
		}
	}
	if wanted == nil || len(wanted) > 1 || !wanted[rowTotal] {
		for i, sery := range h.source.Series(s.namespace, s.resource, s.name, inspect.DetailSeries) {
			id := seriesKey(&sery)
			if v, err := strconv.ParseFloat(sery.Value, 64); err == nil && (wanted[id] || wanted == nil && i < plottedSeries) {
				add(id, v)
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recordLocked(s, second, ids, func(id string) float64 { return values[id] }, limit)
	if r := h.held[s]; h.past != nil && r != nil && r.rounds == 1 {
		h.addPastLocked(r, second, h.past(s.namespace, s.resource, s.name))
	}
}

// addPastLocked puts the values before the first recorded second into the rows of a subject.
func (h *history) addPastLocked(r *recording, second int64, all []Past) {
	for _, p := range all {
		row := r.row(seriesKey(&p.Series))
		for n := 1; row != nil && n <= min(len(p.Values), fineSeconds-1); n++ {
			row.putPast(second-int64(n), p.Values[len(p.Values)-n])
		}
	}
}

// rowOfMetric is the row of an autoscaler's metric. Another metric in its place has another row: not who may have the one
// may have the other.
func rowOfMetric(i int, m *inspect.AutoscalerMetric) string {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%q", []string{m.Source, m.Name, m.Selector, m.TargetType, m.ObjectKind, m.ObjectName}) //nolint:errcheck // a hash never fails
	return strconv.Itoa(i) + "-" + strconv.FormatUint(sum.Sum64(), 36)
}

// reads are the reads of autoscalers' metrics, of which each namespace has its part of a round.
type reads struct {
	debts  fair.Debts[string, time.Duration]
	costs  fair.Costs[string]
	took   time.Duration // in this round
	unpaid time.Duration // of the last round, what later ones pay for; negative: what it has paid for former ones

	// The first autoscaler to be read of a namespace that had no time for all of them, in this round and in the next one.
	from, next map[string]string
}

// due reports whether an autoscaler is read: not while its namespace owes as much as a round pays for.
func (r *reads) due(a *inspect.Autoscaler) bool {
	if a.Name < r.from[a.Namespace] {
		return false
	}
	if r.debts.Of(a.Namespace) < namespaceTime {
		return true
	}
	if r.next[a.Namespace] == "" {
		r.next[a.Namespace] = a.Name
	}
	return false
}

// charge charges a namespace for the reads that began then.
func (r *reads) charge(namespace string, began time.Time) {
	now := time.Now()
	r.took += now.Sub(began)
	r.debts.Add(namespace, r.costs.Count(namespace, now.Sub(began), now))
}

// pay ends the reads of a round.
func (r *reads) pay() {
	r.unpaid, r.took = r.took-r.debts.Pay(namespaceTime), 0
	r.from, r.next = r.next, map[string]string{}
}

// recordAutoscalers records the first autoscalers, and those that pages show. It returns some of the metrics
// that they name.
func (h *history) recordAutoscalers(second int64) (named []subject) {
	read := h.begin()
	n := 0
	inspect.All(inspect.Query{Most: inspect.MaxMost}, h.source.Autoscalers, func(a *inspect.Autoscaler) bool {
		s := subject{of: ofAutoscaler, namespace: a.Namespace, name: a.Name}
		held, looked := h.isHeld(s)
		if !slices.ContainsFunc(a.Metrics, func(m inspect.AutoscalerMetric) bool { return m.Asked }) && !held {
			return true
		}
		if n++; n > maxAutoscalers && !looked {
			return true
		}
		limit := maxRows - pageRows
		if looked {
			limit = maxRows
		}
		values := map[string]float64{rowReplicas: float64(a.CurrentReplicas), rowWanted: float64(a.DesiredReplicas)}
		ids := []string{rowReplicas, rowWanted}
		due, began := h.reads.due(a), time.Now()
		for i := range a.Metrics {
			if m := &a.Metrics[i]; m.Asked {
				of := subject{namespace: a.Namespace, resource: resourceOf(m), name: bareName(m)}
				if of.resource != anyResource && len(named) < maxNamed && !slices.Contains(named, of) {
					named = append(named, of)
				}
				if !due {
					continue
				}
				if v, ok := read(a, m); ok {
					id := rowOfMetric(i, m)
					values[id], ids = explain.Compared(a, m, v), append(ids, id)
				}
			}
		}
		if due {
			h.reads.charge(a.Namespace, began)
		}
		h.mu.Lock()
		h.recordLocked(s, second, ids, func(id string) float64 { return values[id] }, limit)
		h.mu.Unlock()
		return true
	})
	return named
}
