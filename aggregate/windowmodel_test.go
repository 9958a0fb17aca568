package aggregate

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// The model of windows: what a count may be, in exact fractions, from the list of pushes alone. It knows
// the length of a tick, and the receiving time of each push, and nothing of histories.

// modelPush is one push, at a position in receiving time.
type modelPush struct {
	at     time.Duration
	amount int64
	// late: it came in the tick of a restart, so it may count in the next tick too. loose: in one of both.
	late, loose bool
	life        int // the number of restarts before it
}

// unmeasured reports whether the time between two pushes is unknown, because of a restart.
func (p modelPush) unmeasured(before modelPush) bool { return p.life != before.life || before.loose }

// modelRange is the least and the most that a count may be.
type modelRange struct{ least, most *big.Rat }

const modelTick = time.Second

// plainWindow is the sum of the pushes in [now-w, now] and the share of those in the tick that now-w divides.
func plainWindow(all []modelPush, now, w time.Duration) (r modelRange) {
	r = modelRange{new(big.Rat), new(big.Rat)}
	for _, p := range all {
		first := shareOf(p.at.Truncate(modelTick), now-w)
		later := first
		if p.late {
			later = shareOf(p.at.Truncate(modelTick)+modelTick, now-w)
		}
		amount := new(big.Rat).SetInt64(p.amount)
		r.least.Add(r.least, first.Mul(first, amount))
		if p.late {
			first = later.Mul(later, amount)
		}
		r.most.Add(r.most, first)
	}
	return r
}

// shareOf is the part of a tick after a position.
func shareOf(tick, from time.Duration) *big.Rat {
	in := min(max(tick+modelTick-from, 0), modelTick)
	return big.NewRat(int64(in), int64(modelTick))
}

// widened is a range with so many pushes more or less.
func (r modelRange) widened(pushes *big.Rat) modelRange {
	return modelRange{new(big.Rat).Sub(r.least, pushes), new(big.Rat).Add(r.most, pushes)}
}

// has reports whether a value is in the range, up to the rounding to whole samples.
func (r modelRange) has(v *big.Rat) bool {
	r = r.widened(big.NewRat(1, 2))
	return v.Cmp(r.least) >= 0 && v.Cmp(r.most) <= 0
}

// ticksOf adds up the pushes of each tick.
func ticksOf(all []modelPush) (ticks []modelPush) {
	for _, p := range all {
		if n := len(ticks); n > 0 && ticks[n-1].at.Truncate(modelTick) == p.at.Truncate(modelTick) {
			ticks[n-1].amount += p.amount
		} else {
			ticks = append(ticks, p)
		}
	}
	return ticks
}

// mayMeasure reports whether the stream may be regular: the pushes of the window, and five at least, may
// have come at moments within their ticks at intervals that are within 10 % of one of them, and the next one
// is late by a quarter of it at most. An interval in which the process was down is at most two. most is the largest
// push in sight, and before it.
func mayMeasure(all []modelPush, resumed, now, w time.Duration) (may bool, pushes int, most int64) {
	ticks := ticksOf(all)
	sight := len(ticks) - 1
	for n := 0; sight > 0 && (n < 4 || ticks[sight].at.Truncate(modelTick)+modelTick > now-w); sight-- {
		if !ticks[sight].unmeasured(ticks[sight-1]) {
			n++
		}
	}
	for _, p := range ticks[max(sight-1, 0):] {
		most = max(most, p.amount)
	}
	ticks = ticks[sight:]
	if len(ticks) < 5 {
		return false, 0, 0
	}
	newest := ticks[len(ticks)-1].at
	quiet := now - newest
	if resumed > newest { // the next push is due within an interval
		quiet = max(resumed-newest, now-resumed)
	}
	for interval := modelTick / 2; 3*interval <= w+w/20; interval += modelTick / 64 {
		if quiet <= interval+interval/4+modelTick && fits(ticks, interval) {
			may, pushes = true, int(w/interval)
		}
	}
	return may, pushes, most
}

// fits reports whether there are moments within the ticks that are an interval apart, within 10 %.
func fits(ticks []modelPush, interval time.Duration) bool {
	least := interval - interval/10
	most := interval + interval/10
	var from, to time.Duration
	for i, p := range ticks {
		begin := p.at.Truncate(modelTick)
		end := begin + modelTick
		if p.late {
			end += modelTick
		}
		switch {
		case i == 0:
			from, to = begin, end
		case p.unmeasured(ticks[i-1]):
			if begin-ticks[i-1].at > 2*most+modelTick {
				return false
			}
			from, to = begin, end
		default:
			from, to = max(begin, from+least), min(end, to+most)
		}
		if from > to {
			return false
		}
	}
	return true
}

// modelStream is one client's pushes.
type modelStream struct {
	form     string
	kind     string
	interval time.Duration // of a constant stream; 0: it is none
	amount   int64
	pushes   []modelPush // at their times since the beginning
}

// randomStream pushes for some minutes.
func randomStream(r *rand.Rand, length time.Duration) *modelStream {
	s := &modelStream{kind: []string{"c", "ms"}[r.IntN(2)], amount: 1 << r.IntN(7)}
	amount := func() int64 { return s.amount }
	if r.IntN(2) == 0 {
		amount = func() int64 { return 1 << r.IntN(7) }
	}
	between := func(least, most time.Duration) time.Duration {
		return (least + time.Duration(r.Int64N(int64(most-least)))).Truncate(time.Microsecond)
	}
	var next func() time.Duration
	first, least := between(0, 20*time.Second), between(200*time.Millisecond, 12*time.Second)
	switch s.form = []string{"regular", "jitter", "irregular", "bursts", "pauses", "one push", "changes", "edges"}[r.IntN(8)]; s.form {
	case "regular":
		every := between(1500*time.Millisecond, 20*time.Second)
		if r.IntN(4) == 0 {
			every = time.Duration(1+r.IntN(20)) * time.Second
		}
		amount = func() int64 { return s.amount }
		s.interval, next = every, func() time.Duration { return every }
	case "jitter":
		every := between(time.Second, 18*time.Second)
		next = func() time.Duration { return between(every-every/20, every+every/20) }
	case "irregular":
		next = func() time.Duration { return between(least, 3*least) }
	case "bursts":
		next = func() time.Duration {
			if r.IntN(3) > 0 {
				return between(10*time.Millisecond, 300*time.Millisecond)
			}
			return between(least, 3*least)
		}
	case "pauses": // of one length, but for some
		next = func() time.Duration {
			if r.IntN(4) > 0 {
				return least
			}
			return between(least/2, 2*least)
		}
	case "one push":
		next = func() time.Duration { return length }
	case "changes": // its interval
		n := 0
		next = func() time.Duration {
			if n++; n%8 == 0 {
				least = between(time.Second, 12*time.Second)
			}
			return least
		}
	case "edges": // one push a second as the ticks change, a little early or late
		amount = func() int64 { return s.amount }
		late := between(time.Millisecond, 5*time.Millisecond)
		first = first.Truncate(modelTick) + modelTick + late
		s.interval = modelTick
		next = func() time.Duration {
			before := late
			if late = between(time.Millisecond, 5*time.Millisecond); r.IntN(2) == 0 {
				late = -late
			}
			return modelTick + late - before
		}
	}
	for at := first; at < length; at += next() {
		s.pushes = append(s.pushes, modelPush{at: at, amount: amount()})
	}
	return s
}

func (s *modelStream) line(i int, amount int64) *metric.Sample {
	p := &metric.Sample{Name: fmt.Appendf(nil, "x%d", i), Separator: ':', Tags: []byte("pod:a,ns:ns"), Whole: 1, Rate: 1 / float64(amount)}
	if p.Kind, p.Op = metric.Counter, metric.Add; s.kind == "ms" {
		p.Kind, p.Op = metric.Timer, metric.Observe
	} else {
		p.Whole, p.Rate = amount, 0
	}
	return p
}

// modelEvent is a push, or something else that happens at a time since the beginning.
type modelEvent struct {
	at time.Duration
	do func()
}

// modelRun plays streams against a table.
type modelRun struct {
	t       *testing.T
	f       *fixture
	disk    *saved
	streams []*modelStream
	came    [][]modelPush // by stream, in receiving time
	flushed []int         // pushes of a stream that are on disk
	life    int           // number of restarts after a tick or more
	short   bool          // the last one took less than a tick, so it hides no interval
	resumed time.Duration // receiving time at which the table was restored; 0: never

	reads, measured, outside int
}

const modelLength = 4 * time.Minute

// modelOf plays some streams from a seed; with restarts, the table is killed.
func modelOf(t *testing.T, seed uint64, streams int, restarts bool) (m *modelRun) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 24))
		m = &modelRun{t: t, f: newFixture(t).running(), disk: newSaved(), came: make([][]modelPush, streams), flushed: make([]int, streams)}
		m.f.push("other:1|c|#pod:a,ns:ns")
		time.Sleep(time.Minute)
		var events []modelEvent
		for i := range streams {
			s := randomStream(r, modelLength)
			m.streams = append(m.streams, s)
			for _, p := range s.pushes {
				events = append(events, modelEvent{p.at, func() { m.push(i, p.amount) }})
			}
			for range 4 {
				at := (modelLength/4 + time.Duration(r.Int64N(int64(modelLength*3/4)))).Truncate(time.Microsecond)
				events = append(events, modelEvent{at + 500*time.Nanosecond, func() { m.read(i) }})
			}
		}
		if restarts {
			for at := 100 * time.Millisecond; at < modelLength; at += 500 * time.Millisecond {
				events = append(events, modelEvent{at + 300*time.Nanosecond, m.flush})
			}
			for range 1 + r.IntN(2) {
				at := modelLength/4 + time.Duration(r.Int64N(int64(modelLength*3/4)))
				down := time.Duration(r.Int64N(int64(20 * time.Second)))
				events = append(events, modelEvent{at, m.kill}, modelEvent{at + down, m.restore})
			}
		}
		slices.SortStableFunc(events, func(a, b modelEvent) int { return cmp.Compare(a.at, b.at) })
		begun := time.Now()
		for _, e := range events {
			time.Sleep(time.Until(begun.Add(e.at)))
			e.do()
		}
	})
	return m
}

func (m *modelRun) push(i int, amount int64) {
	if m.f == nil {
		return
	}
	m.f.w.Online()
	m.f.w.Apply(m.streams[i].line(i, amount))
	m.f.w.Offline()
	at := m.f.Clock.Now().At
	since := at.Truncate(modelTick) - m.resumed.Truncate(modelTick)
	m.came[i] = append(m.came[i], modelPush{at, amount, m.life > 0 && since == 0, m.life > 0 && since <= modelTick, m.life})
}

func (m *modelRun) flush() {
	if m.f == nil {
		return
	}
	m.disk.flush(m.f.Table, func(int) bool { return false })
	for i := range m.came {
		m.flushed[i] = len(m.came[i])
	}
}

func (m *modelRun) kill() { m.f = nil }

func (m *modelRun) restore() {
	if m.f != nil {
		return
	}
	m.f = m.disk.restore(m.t).running()
	m.resumed = m.f.Clock.Now().At
	m.life++
	all := m.f.Clock.Pauses()
	m.short = all[len(all)-1].Down < modelTick
	for i := range m.came {
		m.came[i] = m.came[i][:m.flushed[i]]
	}
}

// read compares the windows of a stream with the model.
func (m *modelRun) read(i int) {
	if m.f == nil || len(m.came[i]) == 0 {
		return
	}
	now := m.f.Clock.Now().At
	for _, w := range []time.Duration{10 * time.Second, time.Minute} {
		got := m.f.value(fmt.Sprintf("x%d:count:%s", i, metric.FormatWindow(w)))
		m.compare(m.streams[i], m.came[i], now, w, got, fmt.Sprintf("x%d", i))
		if rate := m.f.value(fmt.Sprintf("x%d:rate:%s", i, metric.FormatWindow(w))); now-m.came[i][0].at > w+2*modelTick &&
			math.Abs(rate*w.Seconds()-got) > 0.5+1e-9*got {
			m.t.Errorf("rate %v, count %v over %s", rate, got, w)
		}
	}
}

func (m *modelRun) compare(s *modelStream, came []modelPush, now, w time.Duration, got float64, name string) {
	m.reads++
	v := new(big.Rat).SetFloat64(got)
	came = slices.Clone(came)
	for i := range came { // a table remembers how long the last restart took
		if p := &came[i]; m.short || p.life < m.life {
			p.life, p.loose = 0, false
		}
	}
	allowed := plainWindow(came, now, w)
	may, pushes, most := mayMeasure(came, m.resumed, now, w)
	if may {
		m.measured++
		by := big.NewRat(most, 2)
		if pushes < 25 {
			by = big.NewRat(most, 1)
		}
		if m.resumed > 0 && m.resumed > now-w-w/3-2*modelTick {
			by.Add(by, big.NewRat(most, 1))
		}
		allowed = allowed.widened(by)
	}
	if got != math.Trunc(got) || !allowed.has(v) {
		m.outside++
		if m.outside < 5 {
			least, _ := allowed.least.Float64()
			most, _ := allowed.most.Float64()
			m.t.Errorf("%s, %s (%s, every %s): count:%s %v, want %v to %v, measured %v; now %v ages %v", name, s.form, s.kind, s.interval, metric.FormatWindow(w), got, least, most, may, now, agesOf(came, now, 2*w))
		}
	}
	steady := now-came[0].at > time.Minute+2*s.interval+2*modelTick && m.resumed == 0
	if s.interval == 0 || !steady || 3*s.interval > w {
		return
	}
	want := w.Seconds() / s.interval.Seconds() * float64(s.amount)
	if off := math.Abs(got-want) - 0.02*want - 0.5; off > 0 && (s.interval > time.Second || off > float64(s.amount)) {
		m.outside++
		if m.outside < 5 {
			m.t.Errorf("%s, every %s: count:%s %v, want %v; ages %v", name, s.interval, metric.FormatWindow(w), got, want, agesOf(came, now, 2*w))
		}
	}
}

func agesOf(all []modelPush, now, most time.Duration) (ages []string) {
	for _, p := range slices.Backward(all) {
		if now-p.at < most {
			ages = append(ages, fmt.Sprintf("%.2f:%d(%d)", (now-p.at).Seconds(), p.amount, p.life))
		}
	}
	return ages
}

// Windows of random streams hold to the model: regular, irregular, bursts, one push, with restarts.
func TestWindowsHoldToAModel(t *testing.T) {
	const each = 50
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarts %v", restarts), func(t *testing.T) {
			var reads, measured, outside int
			for seed := range uint64(size(1000, 12, 2)) {
				m := modelOf(t, seed, each, restarts)
				reads, measured, outside = reads+m.reads, measured+m.measured, outside+m.outside
			}
			t.Logf("%d reads, %d of streams that may be regular, %d outside", reads, measured, outside)
		})
	}
}
