package window

import (
	"slices"
	"sync"
	"time"
)

// Timeline relates the receiving time of another origin to the time of this process. Receiving time
// stands still while the origin is down, so a timeline is a list of runs. Told is called with each
// message of the origin, the other methods by any goroutine.
type Timeline struct {
	mu    sync.Mutex
	runs  []run         // the oldest first
	told  time.Duration // the origin's newest receiving time
	heard time.Time     // the local time of the newest message
	let   bool          // LetRun: the origin's clock goes on without it
	lives bool          // SetLives: it receives while nothing is heard
	// resumed is the receiving time of the newest pause that the origin told of.
	resumed time.Duration
	// late counts the messages in a row that came later than the run expects, and lateFrom is the
	// receiving time before the first of them.
	late     int
	lateFrom time.Duration
}

// run is a time in which the origin's clock advanced. zero is the local time of its receiving time
// zero, from receiving time from on.
type run struct {
	from time.Duration
	zero time.Time
	sure bool // the origin told of the pause before it
}

const (
	// surePause is the delay of a message from which the origin's clock has paused. A shorter delay
	// must last for latePause messages, and be at least leastPause.
	surePause  = 1200 * time.Millisecond
	leastPause = 100 * time.Millisecond
	latePause  = 4
	// driftShare is the part of a message's delay by which a run's zero follows it: clocks drift.
	driftShare = 64
	mostRuns   = 16
	// StandsAfter is the silence from which an origin stands still: it receives nothing.
	StandsAfter = 2 * time.Second
)

// Told takes the receiving time that the origin had just now, and its pauses.
func (t *Timeline) Told(at time.Duration, all []Pause, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.told
	if t.let {
		t.runs = t.runs[:len(t.runs)-1]
	}
	t.told, t.heard, t.let = at, now, false
	zero := now.Add(-at)
	t.takePauses(all, zero)
	for n := len(t.runs); n > 1 && !t.runs[n-1].sure && t.runs[n-1].zero.Sub(zero) > leastPause; n-- {
		t.runs = t.runs[:n-1] // that pause was none: the message was late
	}
	delay := zero.Sub(t.runs[len(t.runs)-1].zero)
	if delay <= leastPause {
		t.late = 0
		t.shift(min(delay, delay/driftShare))
		return
	}
	if t.late++; t.late == 1 {
		t.lateFrom = before
	}
	if delay >= surePause || t.late >= latePause {
		t.appendRun(run{from: t.lateFrom, zero: zero})
		t.late = 0
	}
}

// takePauses takes those pauses that the timeline doesn't know yet.
func (t *Timeline) takePauses(all []Pause, zero time.Time) {
	for len(all) > 0 && all[0].At <= t.resumed {
		all = all[1:]
	}
	for _, p := range all {
		zero = zero.Add(-p.Down)
	}
	if len(t.runs) == 0 {
		t.runs = append(t.runs, run{zero: zero})
	}
	for _, p := range all {
		zero = zero.Add(p.Down)
		t.appendRun(run{from: p.At, zero: zero, sure: true})
		t.resumed = p.At
	}
}

// shift moves all runs.
func (t *Timeline) shift(by time.Duration) {
	for i := range t.runs {
		t.runs[i].zero = t.runs[i].zero.Add(by)
	}
}

func (t *Timeline) appendRun(r run) {
	if len(t.runs) == mostRuns {
		t.runs = slices.Delete(t.runs, 0, 1)
	}
	t.runs = append(t.runs, r)
}

// LetRun ends the standstill of an origin that says nothing: its clock goes on from since.
func (t *Timeline) LetRun(since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.let || len(t.runs) == 0 {
		return
	}
	t.let = true
	t.appendRun(run{from: t.told, zero: since.Add(-t.told)})
}

// SetLives sets whether the origin receives, though nothing is heard of it.
func (t *Timeline) SetLives(lives bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lives = lives
}

// Course is a timeline as of one moment: positions in ticks, 0 is that moment.
type Course struct {
	spans []courseSpan
	// Known is the position up to which all that the origin received is known. Standing: nothing was
	// heard since then, and it receives nothing. CutOff: nothing was heard, and it goes on receiving.
	Known    float64
	Standing bool
	CutOff   bool
	let      bool // nothing was received since the last span began
}

// courseSpan is a run: the ticks from a receiving time on are at tick + shift.
type courseSpan struct{ from, shift float64 }

// course returns the timeline as of a local time.
func (t *Timeline) course(now time.Time, tick time.Duration) Course {
	t.mu.Lock()
	defer t.mu.Unlock()
	silent := !t.let && len(t.runs) > 0 && now.Sub(t.heard) >= StandsAfter
	c := Course{let: t.let, Standing: silent && !t.lives, CutOff: silent && t.lives}
	for _, r := range t.runs {
		c.spans = append(c.spans, courseSpan{float64(r.from) / float64(tick), float64(r.zero.Sub(now)) / float64(tick)})
	}
	if n := len(c.spans); n > 0 && !t.let {
		c.Known = min(float64(t.told)/float64(tick)+c.spans[n-1].shift, 0)
	}
	return c
}

// Course returns the course of a clock, as of a local time at which it reads a moment.
func (c *Clock) Course(local time.Time, now Moment) Course {
	if c.timeline != nil {
		return c.timeline.course(local, c.Tick)
	}
	at := float64(now.At) / float64(c.Tick)
	own, shift := Course{}, -at
	for _, p := range slices.Backward(c.Pauses()) {
		if now.At-p.At > c.reach {
			break
		}
		own.spans = append(own.spans, courseSpan{float64(p.At) / float64(c.Tick), shift})
		shift -= float64(p.Down) / float64(c.Tick)
	}
	own.spans = append(own.spans, courseSpan{0, shift})
	slices.Reverse(own.spans)
	return own
}

// Silence is the time since the position up to which all is known.
func (c *Course) Silence(tick time.Duration) time.Duration {
	return time.Duration(-c.Known * float64(tick))
}

// place returns the run of a receiving time in ticks.
func (c *Course) place(tick float64) int {
	at := len(c.spans) - 1
	for at > 0 && c.spans[at].from > tick {
		at--
	}
	return at
}

// extent returns the positions of the begin and the end of a tick, as far as it has passed. If the
// origin was down within the tick, it is the part before.
func (c *Course) extent(tick uint32) (from, to float64) {
	if len(c.spans) == 0 {
		return c.Known, c.Known
	}
	begin, at := float64(tick), c.place(float64(tick))
	end := begin + 1
	if at+1 < len(c.spans) {
		end = min(end, c.spans[at+1].from)
	}
	shift := c.spans[at].shift
	return min(begin+shift, c.Known), min(end+shift, c.Known)
}

// afterPause returns the positions of the part of a tick after a pause within it.
func (c *Course) afterPause(tick uint32) (from, to float64, paused bool) {
	at := c.place(float64(tick)) + 1
	if at >= len(c.spans) || c.let && at == len(c.spans)-1 || c.spans[at].from >= float64(tick)+1 {
		return 0, 0, false
	}
	shift := c.spans[at].shift
	return min(c.spans[at].from+shift, c.Known), min(float64(tick)+1+shift, c.Known), true
}

// resumedIn reports whether the origin resumed in a tick.
func (c *Course) resumedIn(tick uint32) bool {
	for _, s := range c.spans[min(1, len(c.spans)):] {
		if s.from >= float64(tick) && s.from < float64(tick)+1 {
			return true
		}
	}
	return false
}

// Middle returns the position of the middle of a tick.
func (c *Course) Middle(tick uint32) float64 {
	from, to := c.extent(tick)
	return (from + to) / 2
}
