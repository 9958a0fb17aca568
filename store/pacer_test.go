package store

import (
	"testing"
	"time"
)

// TestPaceSpreads: a flush lasts as long as the work of the last one suggests, a longer flush
// takes the rest of its time, and an urgent one has the shortest rests. Time that a slice had to
// wait doesn't lengthen its rest.
func TestPaceSpreads(t *testing.T) {
	const spread = 200 * time.Millisecond
	for name, test := range map[string]struct {
		before, into time.Duration // worked in the last flush; how long this one lasts already
		urgent       bool
		want         time.Duration // after a millisecond of work
	}{
		"the first one":          {0, 0, false, maxRatio * time.Millisecond},
		"hardly anything":        {time.Millisecond, 0, false, maxRatio * time.Millisecond},
		"a fifth of the time":    {40 * time.Millisecond, 0, false, 4 * time.Millisecond},
		"more than the time":     {300 * time.Millisecond, 0, false, shortestRest},
		"no longer than it has":  {40 * time.Millisecond, spread - 2*time.Millisecond, false, 2 * time.Millisecond},
		"later than it should":   {40 * time.Millisecond, spread + time.Millisecond, false, shortestRest},
		"somebody waits for it":  {40 * time.Millisecond, 0, true, urgentRest},
		"nobody, and just begun": {100 * time.Millisecond, 0, false, time.Millisecond},
	} {
		p := pacer{spread: spread, worked: test.before, urgent: func() bool { return test.urgent }}
		p.begin()
		if got := p.rest(time.Millisecond, p.begun.Add(test.into)); got != test.want {
			t.Errorf("%s: rests %v, want %v", name, got, test.want)
		}
	}
	p := pacer{spread: spread, worked: time.Millisecond, urgent: func() bool { return false }}
	p.begin()
	if got, want := p.rest(25*time.Millisecond, p.begun), maxRatio*maxCounted; got != want {
		t.Errorf("after a slice that had to wait: rests %v, want %v", got, want)
	}
}
