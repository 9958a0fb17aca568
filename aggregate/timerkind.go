package aggregate

import (
	"maps"
	"math"
	"slices"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// timerKind is the behaviour of timers. Writers observe into a live part (timerlive.go); what they observed is moved to records
// by units of each window (timerslots.go), and the weight of all observations has a history.
type timerKind struct{}

func (timerKind) coding() window.Coding { return window.WeightCoding }

func (timerKind) check(s *metric.Sample) metric.Reason {
	if v := s.Float(); math.IsNaN(v) || math.IsInf(v, 0) {
		return metric.BadValue
	}
	if weight := s.Weight(); !(weight >= 1 && weight <= maxWeight) {
		return metric.BadRate
	}
	return metric.Applied
}

func (timerKind) checkPreAggregated(s *metric.Sample) metric.Reason {
	if s.Histogram == nil {
		return metric.Malformed
	}
	return s.Histogram.Check()
}

func (timerKind) create(e *env, h handle) {
	body := h.makeBody(func() *body { return &body{timer: new(timer)} })
	e.weigh(body, body.timer.weight(nil))
}

func (k timerKind) apply(a *applier, h handle, s *metric.Sample) metric.Reason {
	if refused := k.check(s); refused != metric.Applied {
		return refused
	}
	body := h.body()
	room := budget{a.env, body}
	c := h.cell
	live := a.timers.make(c, room)
	a.slot.Enter()
	defer a.slot.Exit()
	if live == nil || !body.timer.observe(live, uint32(c.value.Load()&hotHalf), s.Float(), s.Weight(), room) {
		return metric.OverLimit
	}
	return metric.Applied
}

func (k timerKind) applyDatedLocked(a *applier, h handle, tick uint32, s *metric.Sample) metric.Reason {
	if refused := k.check(s); refused != metric.Applied {
		return refused
	}
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	d.reset()
	weight := uint64(math.RoundToEven(s.Weight() * weightUnits))
	d.add(binOf(s.Float()), weight)
	d.extend(s.Float()*s.Weight(), s.Float(), s.Float())
	body, history := h.body(), &h.cell.history
	body.timer.enterLocked(a.spans, tick, d)
	history.ShiftWeight(a.logs, tick, float64(weight)/weightUnits, *h.born)
	body.rewritten = true
	a.weigh(body, body.timer.weight(a.timers.of(h.cell)))
	history.Stamp = max(history.Stamp, tick)
	return metric.Applied
}

// applyPreAggregatedLocked takes a histogram in under a tick.
func (timerKind) applyPreAggregatedLocked(a *applier, h handle, tick uint32, s *metric.Sample) metric.Reason {
	body := h.body()
	p := body.timer.pushed
	if p == nil {
		p = &pushed{units: make([][]pushedSlot, len(a.spans))}
	}
	if need := p.needs(len(s.Histogram.Bounds), len(s.Histogram.Quantiles)) - p.reserved; need > 0 {
		if !(budget{a.env, body}).take(need) {
			return metric.OverLimit
		}
		p.reserved += need
	}
	body.timer.pushed = p
	g, buckets := p.takeLocked(s, a.now)
	if g.count > 0 {
		for i := range a.spans {
			sp := &a.spans[i]
			if !sp.Keeps(tick, a.now.Tick) {
				continue
			}
			slot := p.slotLocked(i, sp, sp.Unit(tick))
			slot.gain = slot.gain.plus(g)
			slot.parts = appendPart(slot.parts, buckets, maxParts)
		}
	}
	if past := &h.cell.history; tick < past.Stamp {
		past.ShiftWeight(a.logs, tick, g.count, *h.born)
		body.rewritten = true
	} else {
		past.AddWeight(a.logs, tick, g.count)
	}
	return metric.Applied
}

func (k timerKind) recordLocked(e *env, h handle, tick uint32) {
	weight := h.body().timer.rollLocked(&e.timers, h.cell, e.spans, tick)
	h.cell.history.AddWeight(e.logs, tick, float64(weight)/weightUnits)
	k.weigh(e, h)
}

func (timerKind) shrinkLocked(e *env, h handle, now uint32) {
	if body, idle := h.body(), e.idleLocked(h, now); idle && !body.rewritten {
		body.timer.forgetLocked()
	}
	h.cell.history.Shrink(e.logs, window.WeightCoding, now)
}

func (timerKind) weigh(e *env, h handle) {
	body := h.body()
	e.weigh(body, body.timer.weight(e.timers.of(h.cell)))
}

func (timerKind) inherit(e *env, from, to handle, _ remains) bool {
	to.body().timer.takeOverLocked(&e.timers, to.cell, from.body().timer, from.cell, budget{e, to.body()})
	return true
}

func (timerKind) timestampLocked(h handle) int64 {
	if p := h.body().timer.pushed; p != nil {
		return p.at
	}
	return 0
}

func (timerKind) begin(r *reader) {
	if r.spread == nil {
		r.spread = distributions.Get().(*distribution)
	}
	r.spread.reset()
}

// readLocked reads a timer: what adds up by its notes, as a counter's; the rest by its bins.
func (timerKind) readLocked(r *reader, h handle) {
	timer := h.body().timer
	if !r.stat.Additive() {
		timer.readLocked(r.spread, r.spans, r.view)
		if timer.pushed != nil && len(timer.pushed.quantiles) > 0 {
			r.summaries++
			r.quantiles = timer.pushed.quantiles
		}
		return
	}
	s, before, some := r.Read(&h.cell.history, window.WeightCoding, *h.born)
	count := 0.0
	if some {
		since := func(from float64) float64 {
			weight, part := window.IncreaseSince(r.Entries, from, before, math.Float64frombits)
			if weight == math.Trunc(weight) {
				part = math.Round(part)
			}
			return weight + part
		}
		count = s.Scaled(metric.Float(since(s.From)), r.stat == metric.Count, since).Float64()
	}
	switch r.stat {
	case metric.Count:
		r.plus(metric.Computed(count))
	case metric.Rate:
		r.plus(metric.Computed(count / s.Seconds))
	case metric.Sum:
		r.addSumLocked(timer, count)
	default:
		r.unread = true
	}
}

// addSumLocked adds the sum of so many observations of a timer: their mean is that of its bins.
func (r *reader) addSumLocked(timer *timer, count float64) {
	r.spread.reset()
	timer.readLocked(r.spread, r.spans, r.view)
	if count > 0 && r.spread.size() == 0 { // it lies in the unit that the window divides
		wider := r.view
		wider.FirstUnit--
		timer.readLocked(r.spread, r.spans, wider)
	}
	size, sum := r.spread.size(), r.spread.sum
	switch {
	case count == 0 && size == 0:
	case size == 0 || math.IsNaN(sum):
		r.lacks, r.partial = untold, true
		return
	case math.Abs(count/size-1) > 1e-9:
		sum *= count / size
	}
	r.plus(metric.Computed(sum))
}

// untold says why a timer lacks a value although something came.
const untold = "what was pushed does not tell it"

// value is a timer's value, or notes why it has none. Percentiles of a summary are those of its last push: there is
// nothing that they could be merged with.
func (timerKind) value(r *reader) (v float64, ok bool) {
	if q := r.stat.Quantile(); !math.IsNaN(q) && r.summaries > 0 {
		if r.series > 1 {
			r.unmergeable = true
			return 0, false
		}
		v, ok = quantileOf(r.quantiles, q)
		if !ok {
			r.lacks = "its last push had " + percentilesOf(r.quantiles)
		}
		return v, ok
	}
	v, ok, read := r.spread.stat(r.stat)
	if !read {
		r.unread = true
		return 0, false
	}
	if !ok && r.spread.size() > 0 {
		r.lacks = untold
	}
	return v, ok
}

// quantileOf finds exactly this quantile.
func quantileOf(all []metric.Quantile, q float64) (v float64, ok bool) {
	for _, one := range all {
		if one.Q == q {
			return one.Value, known(one.Value)
		}
	}
	return 0, false
}

// percentilesOf names those that can be asked for.
func percentilesOf(all []metric.Quantile) string {
	var has []metric.Stat
	for _, s := range metric.Timer.Stats() {
		if _, ok := quantileOf(all, s.Quantile()); ok {
			has = append(has, s)
		}
	}
	if len(has) == 0 {
		return "no percentile that can be asked for"
	}
	return metric.StatNames(has)
}

func (timerKind) saveLocked(e *env, dst []byte, h handle, since, sinceUnits uint32) []byte {
	timer := h.body().timer
	dst = h.cell.history.Append(append(dst, timerCounted), e.logs, window.WeightCoding, since)
	return timer.pushed.appendLocked(timer.appendLocked(dst, e.spans, sinceUnits), e.spans, sinceUnits)
}

func (timerKind) restore(r *restoring, d *blob.Decoder, h handle, stamp uint32) {
	timer, history := h.body().timer, &h.cell.history
	counted := len(d.Rest) > 0 && d.Rest[0] == timerCounted
	if counted {
		d.Byte()
		r.History(d, window.WeightCoding, history, stamp)
	}
	if r.timer(d, timer); !counted && d.Err == nil {
		r.weightsOfUnits(timer, history)
	}
	history.Stamp = max(r.CurrentTick(stamp), timer.folded, history.Stamp) // what was folded does not change any more
}

func (timerKind) restoreNumber(d *blob.Decoder, _ handle) { d.Fail() }

func (r *restoring) timer(d *blob.Decoder, t *timer) {
	t.restore(d, r)
	if !d.More() {
		return
	}
	if t.pushed == nil {
		t.pushed = &pushed{units: make([][]pushedSlot, len(r.spans))}
	}
	r.pushed(d, t.pushed)
}

// weightsOfUnits makes the notes of a timer's weight from its records, which is all that there was.
func (r *restoring) weightsOfUnits(t *timer, p *window.History) {
	p.FreeLog(r.logs)
	*p = window.History{}
	weights := map[uint32]float64{}
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	size := func(rec timerRecord) float64 {
		d.reset()
		d.merge(rec)
		return d.size()
	}
	fine, long := &r.spans[0], &r.spans[len(r.spans)-1]
	if t.units != nil && fine != long {
		t.units[len(t.units)-1].each(0, func(rec timerRecord) { weights[long.FirstTick(rec.unit)] += size(rec) })
	}
	if t.units != nil {
		t.units[0].each(0, func(rec timerRecord) {
			tick := fine.FirstTick(rec.unit)
			if weights[tick] += size(rec); fine != long && rec.unit <= t.folded {
				weights[long.FirstTick(long.Unit(tick))] -= size(rec) // the longest window has it, too
			}
		})
	}
	if t.pushed != nil {
		for _, slot := range t.pushed.units[len(r.spans)-1] {
			weights[long.FirstTick(slot.unit)] += slot.count
		}
	}
	for _, tick := range slices.Sorted(maps.Keys(weights)) {
		p.AddWeight(r.logs, tick, weights[tick])
	}
}
