package kind

import (
	"maps"
	"math"
	"slices"

	"github.com/sluice-metrics/sluice/aggregate/blob"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
)

// timerKind is the behaviour of timers. Writers observe into a live part (timer_live.go). A roll
// moves its contents into one record per unit of each window (timer_records.go). The weight of all
// observations has a history.
type timerKind struct{}

func (timerKind) Coding() window.Coding { return window.WeightCoding }

func (timerKind) check(s *metric.Sample) metric.Reason {
	if v := s.Float(); math.IsNaN(v) || math.IsInf(v, 0) {
		return metric.BadValue
	}
	if weight := s.Weight(); !(weight >= 1 && weight <= metric.MaxWeight) {
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

func (timerKind) Create(e *Env, h Series) {
	body := h.makeBody(func() *Body { return &Body{Timer: new(timer)} })
	e.Weigh(body, body.Timer.Weight(nil))
}

func (k timerKind) apply(a *Applier, h Series, s *metric.Sample) metric.Reason {
	if rejected := k.check(s); rejected != metric.Applied {
		return rejected
	}
	body := h.body()
	budget := Budget{a.Env, body}
	c := h.Cell
	live := a.Timers.make(c, budget)
	a.Slot.Enter()
	defer a.Slot.Exit()
	if live == nil || !body.Timer.observe(live, uint32(c.Value.Load()&HotHalf), s.Float(), s.Weight(), budget) {
		return metric.OverLimit
	}
	return metric.Applied
}

func (k timerKind) ApplyDatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason {
	if rejected := k.check(s); rejected != metric.Applied {
		return rejected
	}
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	d.reset()
	weight := uint64(math.RoundToEven(s.Weight() * WeightUnits))
	d.add(BinOf(s.Float()), weight)
	d.extend(s.Float()*s.Weight(), s.Float(), s.Float())
	body, history := h.body(), &h.Cell.History
	body.Timer.countLocked(a.Env, d)
	body.Timer.enterLocked(a.Spans, tick, d)
	history.ShiftWeight(a.Logs, tick, float64(weight)/WeightUnits, *h.Born)
	body.Rewritten = true
	a.Weigh(body, body.Timer.Weight(a.Timers.Of(h.Cell)))
	history.Stamp = max(history.Stamp, tick)
	return metric.Applied
}

// ApplyPreAggregatedLocked adds a histogram to a tick.
func (timerKind) ApplyPreAggregatedLocked(a *Applier, h Series, tick uint32, s *metric.Sample) metric.Reason {
	tick = h.Cell.History.TickOf(a.Logs, tick) // of the bins as of their weight
	body := h.body()
	p, held := body.Timer.pushed, body.Timer.pushed.weight()
	if p == nil {
		p = newPushed(a.Spans)
	}
	dated := tick < h.Cell.History.Stamp
	if !p.grow(held, s.Histogram.Bounds, len(s.Histogram.Quantiles), dated, Budget{a.Env, body}) {
		return metric.OverLimit
	}
	body.Timer.pushed = p
	g, buckets := p.takeLocked(s, a.Now)
	if g.count > 0 {
		body.Timer.countPushedLocked(a.Env, g, buckets)
		for i := range a.Spans {
			sp := &a.Spans[i]
			if !sp.Keeps(tick, a.Now.Tick) {
				continue
			}
			slot := p.slotLocked(i, sp, sp.Unit(tick))
			slot.gain = slot.gain.plus(g)
			slot.parts = appendPart(slot.parts, buckets, maxParts)
			slot.unsaved = true
		}
	}
	if history := &h.Cell.History; dated {
		history.ShiftWeight(a.Logs, tick, g.count, *h.Born)
	} else {
		history.AddWeight(a.Logs, tick, g.count)
	}
	return metric.Applied
}

func (k timerKind) RecordLocked(e *Env, h Series, tick uint32) {
	tick = h.Cell.History.TickOf(e.Logs, tick) // of the bins as of their weight
	weight := h.body().Timer.rollLocked(e, h.Cell, tick)
	h.Cell.History.AddWeight(e.Logs, tick, float64(weight)/WeightUnits)
	k.Weigh(e, h)
}

func (timerKind) ShrinkLocked(e *Env, h Series, now uint32) {
	if body, idle := h.body(), e.idleLocked(h, now); idle && !body.Rewritten {
		body.Timer.forgetLocked()
	}
	h.Cell.History.Shrink(e.Logs, window.WeightCoding, now)
}

func (timerKind) Weigh(e *Env, h Series) {
	body := h.body()
	e.Weigh(body, body.Timer.Weight(e.Timers.Of(h.Cell)))
}

func (timerKind) Inherit(e *Env, from, to Series, _ Remains) bool {
	to.body().Timer.takeOverLocked(&e.Timers, to.Cell, from.body().Timer, from.Cell, Budget{e, to.body()})
	return true
}

func (timerKind) DateLocked(h Series) int64 {
	if p := h.body().Timer.pushed; p != nil {
		return p.at
	}
	return 0
}

func (timerKind) begin(r *Reader) {
	if r.Distribution == nil {
		r.Distribution = distributions.Get().(*distribution)
	}
	r.Distribution.reset()
	r.buckets.reset()
}

// ReadLocked reads additive stats from the history, as for a counter, and other stats from the
// bins.
func (timerKind) ReadLocked(r *Reader, h Series) {
	timer := h.body().Timer
	if !r.Stat.Additive() {
		r.observed += math.Float64frombits(h.Cell.History.Newest)
		r.sum += timer.sum
		if r.WithBuckets && timer.buckets != nil {
			r.buckets.merge(timer.buckets)
		}
		timer.readLocked(r.Distribution, r.Spans, r.View)
		if timer.pushed != nil && len(timer.pushed.quantiles) > 0 {
			r.summaries++
			r.quantiles = timer.pushed.quantiles
		}
		return
	}
	s, before, some := r.Read(&h.Cell.History, window.WeightCoding, h.Cell.History.Singles(r.Env.Logs), *h.Born)
	count := 0.0
	if some {
		count = s.Increase(func(from float64) float64 {
			weight, part := window.IncreaseSince(r.Entries, from, before, math.Float64frombits)
			if !s.Regular() && weight == math.Trunc(weight) {
				part = math.Round(part)
			}
			return weight + part
		})
	}
	switch r.Stat {
	case metric.Count:
		r.plus(metric.Computed(math.Round(count)))
	case metric.Rate:
		r.plusRate(metric.Float(count), &s)
	case metric.Sum:
		r.addSumLocked(timer, count)
	default:
		r.unsupportedStat = true
	}
}

// addSumLocked adds the sum of count observations.
func (r *Reader) addSumLocked(timer *timer, count float64) {
	r.Distribution.reset()
	if count > 0 {
		r.readBinsLocked(timer)
	} else {
		timer.readLocked(r.Distribution, r.Spans, r.View)
	}
	r.addSum(count)
}

// readBinsLocked reads the bins of the window for a sum.
func (r *Reader) readBinsLocked(timer *timer) {
	before := r.Distribution.Size()
	if timer.readLocked(r.Distribution, r.Spans, r.View); r.Distribution.Size() > before {
		return
	}
	// The observations may be in the unit that contains the window's start.
	wider := r.View
	wider.FirstUnit--
	timer.readLocked(r.Distribution, r.Spans, wider)
}

// addSum adds the sum of count observations. It scales the sum of the bins, because the bins cover
// whole units while count covers the window.
func (r *Reader) addSum(count float64) {
	size, sum := r.Distribution.Size(), r.Distribution.Sum
	switch {
	case count == 0 && size == 0:
	case size == 0 || math.IsNaN(sum):
		r.MissingReason, r.partial = notInPush, true
		return
	case math.Abs(count/size-1) > 1e-9:
		sum *= count / size
	}
	r.plus(metric.Computed(sum))
}

// notInPush is the MissingReason for values that pushed histograms and summaries lack.
const notInPush = "the pushed data does not contain it"

// value computes a stat over the bins. Percentiles of a summary are those of its last push, which
// cannot be merged.
func (timerKind) value(r *Reader) (v float64, ok bool) {
	if q := r.Stat.Quantile(); !math.IsNaN(q) && r.summaries > 0 {
		if r.Series > 1 {
			r.unmergeable = true
			return 0, false
		}
		v, ok = quantileOf(r.quantiles, q)
		if !ok {
			r.MissingReason = "the last push had " + percentilesOf(r.quantiles)
		}
		return v, ok
	}
	v, ok, supported := r.Distribution.stat(r.Stat)
	if !supported {
		r.unsupportedStat = true
		return 0, false
	}
	if !ok && r.Distribution.Size() > 0 {
		r.MissingReason = notInPush
	}
	return v, ok
}

// quantileOf returns the value of the quantile q, without interpolation.
func quantileOf(all []metric.Quantile, q float64) (v float64, ok bool) {
	for _, quantile := range all {
		if quantile.Q == q {
			return quantile.Value, known(quantile.Value)
		}
	}
	return 0, false
}

// percentilesOf lists the quantiles that queries can ask for by a stat.
func percentilesOf(all []metric.Quantile) string {
	var has []metric.Stat
	for _, s := range metric.Timer.Stats() {
		if _, ok := quantileOf(all, s.Quantile()); ok {
			has = append(has, s)
		}
	}
	if len(has) == 0 {
		return "no supported percentile"
	}
	return metric.StatNames(has)
}

func (timerKind) SaveLocked(e *Env, dst []byte, h Series, since, sinceUnits uint32) []byte {
	timer := h.body().Timer
	if timer.buckets != nil {
		dst = timer.buckets.append(append(dst, timerBucketed))
	}
	dst = blob.AppendFloat(append(dst, timerSummed), timer.sum)
	dst = h.Cell.History.Append(append(dst, TimerCounted), e.Logs, window.WeightCoding, since)
	return timer.pushed.appendLocked(timer.AppendLocked(dst, e.Spans, sinceUnits), e, since, sinceUnits)
}

func (timerKind) Restore(r *Restorer, d *blob.Decoder, h Series, stamp uint32) {
	timer, history := h.body().Timer, &h.Cell.History
	timer.restoreTotals(d, r.Histograms)
	counted := len(d.Rest) > 0 && d.Rest[0] == TimerCounted
	if counted {
		d.Byte()
		r.History(d, window.WeightCoding, history, stamp)
	}
	if r.timer(d, timer); !counted && d.Err == nil {
		r.weightsOfUnits(timer, history)
	}
	// Folded units are complete, so the next record must be later.
	history.Stamp = max(r.CurrentTick(stamp), timer.folded, history.Stamp)
}

func (timerKind) RestoreNumber(d *blob.Decoder, _ Series) { d.Fail() }

// timer restores the records and, if there are any, the pushed histograms.
func (r *Restorer) timer(d *blob.Decoder, t *timer) {
	t.restore(d, r)
	if !d.More() {
		return
	}
	before := t.pushed.weight()
	if t.pushed == nil {
		t.pushed = newPushed(r.Spans)
	}
	r.pushed(d, t.pushed)
	if t.pushed.weight() > before && !r.MayGrow() {
		t.pushed.dropBuckets()
	}
}

// weightsOfUnits computes the history of the weight from the records. Older formats saved no
// history.
func (r *Restorer) weightsOfUnits(t *timer, history *window.History) {
	history.FreeLog(r.Env.Logs)
	*history = window.History{}
	weights := map[uint32]float64{}
	d := distributions.Get().(*distribution)
	defer distributions.Put(d)
	size := func(rec timerRecord) float64 {
		d.reset()
		d.merge(rec)
		return d.Size()
	}
	fine, long := &r.Spans[0], &r.Spans[len(r.Spans)-1]
	if t.units != nil && fine != long {
		t.units[len(t.units)-1].each(0, func(rec timerRecord) { weights[long.FirstTick(rec.unit)] += size(rec) })
	}
	if t.units != nil {
		t.units[0].each(0, func(rec timerRecord) {
			tick := fine.FirstTick(rec.unit)
			if weights[tick] += size(rec); fine != long && rec.unit <= t.folded {
				weights[long.FirstTick(long.Unit(tick))] -= size(rec) // included there
			}
		})
	}
	if t.pushed != nil {
		for _, slot := range t.pushed.units[len(r.Spans)-1] {
			weights[long.FirstTick(slot.unit)] += slot.count
		}
	}
	for _, tick := range slices.Sorted(maps.Keys(weights)) {
		history.AddWeight(r.Env.Logs, tick, weights[tick])
	}
}
