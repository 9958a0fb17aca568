package kind

import "github.com/sluice-metrics/sluice/metric"

// Twins are series of one identity at several origins. A client that moves to another origin goes
// on with its running total there. That origin counts the growth since the newest total that it
// knows of its twins: it adopts that total, without counting it.

// UnstartedLocked reports whether the series, of a kind with running totals, has none yet. Its
// first one continues from a twin's.
func UnstartedLocked(h Series) bool {
	switch body := h.body(); {
	case body == nil:
		return true
	case body.Timer != nil:
		return body.Timer.pushed == nil || body.Timer.pushed.last == nil
	default:
		return body.running == nil
	}
}

// HasNews reports whether the series' state may concern its twin in the table of e. k is the kind.
// Only the goroutine that changes the series may call it without the history lock.
func HasNews(e *Env, h Series, k metric.Kind) bool {
	switch body := h.body(); {
	case k == metric.Gauge:
		return e.Moved.Load()
	case body == nil:
		return false
	case k == metric.Timer:
		return body.Timer.pushed != nil && body.Timer.pushed.last != nil
	default:
		return k == metric.Counter && body.running != nil
	}
}

// News is the part of a series' state that its twins adopt. Its content is immutable.
type News struct {
	kind    metric.Kind
	running running
	pushed  *pushed // only last and origin
	gauge   *absolute
}

// Elsewhere describes another origin, as seen from the table that adopts its news.
type Elsewhere struct {
	Ahead int64 // milliseconds to add to its stamps
	First bool  // its name sorts before the own one
}

// NewsLocked returns the news of a series of another origin's table.
func NewsLocked(h Series, k metric.Kind, from Elsewhere) (n News, some bool) {
	n.kind = k
	body := h.body()
	switch {
	case k == metric.Gauge:
		n.gauge = h.absoluteLocked(from)
		return n, n.gauge != nil
	case body == nil:
	case k == metric.Timer && body.Timer.pushed != nil && body.Timer.pushed.last != nil:
		n.pushed = &pushed{last: body.Timer.pushed.last, progress: body.Timer.pushed.progress.ahead(from.Ahead)}
		return n, true
	case k == metric.Counter && body.running != nil:
		n.running = *body.running
		n.running.progress = n.running.progress.ahead(from.Ahead)
		return n, true
	}
	return n, false
}

// AdoptLocked makes a series continue from the news of a twin, if they are newer than its state. If
// begin is set, the series has no running total yet and its first one is about to come.
func AdoptLocked(e *Env, h Series, n *News, begin bool) {
	body := h.body()
	switch n.kind {
	case metric.Gauge:
		if body != nil && h.Cell.Value.Load() == GaugeMoved {
			body.stamped.hear(n.gauge)
		}
	case metric.Counter:
		if begin {
			body = h.makeBody(newFraction)
		}
		adoptTotal(e, body, &n.running, begin)
	case metric.Timer:
		if adoptHistogram(e, body, n.pushed, begin) {
			timerKind{}.Weigh(e, h)
		}
	}
}

func adoptTotal(e *Env, body *Body, twin *running, begin bool) {
	switch {
	case body == nil:
		return
	case body.running == nil:
		if !begin || !(Budget{e, body}).take(RunningBytes) {
			return
		}
		body.running = &running{client: twin.client, elsewhere: twin.client, progress: twin.progress}
		return
	}
	r := body.running
	if later, equal := twin.after(&r.progress); !later && !(equal && r.client.below(twin.client)) {
		return
	}
	r.elsewhere = r.elsewhere.plus(twin.client.minus(r.client))
	r.client = twin.client
	r.join(&twin.progress)
}

// adoptHistogram reports whether the series has the twin's total now. One that replaces another takes
// memory without asking: the twin's table holds it. Without it, the client's next total here would
// count again what was counted there.
func adoptHistogram(e *Env, body *Body, twin *pushed, begin bool) bool {
	if body == nil || body.Timer == nil {
		return false
	}
	p := body.Timer.pushed
	if begun := p != nil && p.last != nil; begun {
		later, equal := twin.after(&p.progress)
		if !later && !(equal && p.last.count < twin.last.count) {
			return false
		}
	} else {
		held := p.weight()
		if p == nil && begin {
			p = newPushed(e.Spans)
		}
		if !begin || !p.grow(held, twin.last.bounds, len(p.quantiles), false, Budget{e, body}) {
			return false
		}
	}
	body.Timer.pushed = p
	last := *twin.last
	p.share(&last.part)
	p.last = &last
	p.join(&twin.progress)
	return true
}

// TotalPart is the state of a counter's stat total at one origin, as the merge with other origins
// needs it.
type TotalPart struct {
	Total   metric.Number // the stat total at the origin
	added   metric.Number // by others than the client of the running total
	client  Sum
	running bool
	progress
}

// TotalPartLocked returns the state of a counter's total. ahead is added to its stamps, in
// milliseconds.
func TotalPartLocked(h Series, ahead int64) TotalPart {
	p := TotalPart{Total: totalLocked(h)}
	p.added = p.Total
	if body := h.body(); body != nil && body.running != nil {
		r := body.running
		own := r.client.minus(r.elsewhere)
		p.added = p.added.Plus(metric.Decimal(-own.Whole, -int64(own.Fraction)))
		p.client, p.progress, p.running = r.client, r.progress.ahead(ahead), true
	}
	return p
}

// MergeTotals returns the stat total of one counter from its states at several origins: the
// client's newest running total, and all other additions. Unlike the sum of the origins' totals, it
// is right even if a client moved before the news of its total.
func MergeTotals(parts []TotalPart) metric.Number {
	sum, newest := metric.Number{}, (*TotalPart)(nil)
	for i := range parts {
		p := &parts[i]
		sum = sum.Plus(p.added)
		if !p.running {
			continue
		}
		if newest == nil {
			newest = p
		} else if later, equal := p.after(&newest.progress); later || equal && newest.client.below(p.client) {
			newest = p
		}
	}
	if newest == nil {
		return sum
	}
	return sum.Plus(metric.Decimal(newest.client.Whole, int64(newest.client.Fraction)))
}
