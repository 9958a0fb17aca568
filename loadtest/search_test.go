package loadtest

import (
	"errors"
	"testing"
	"time"
)

func TestHighestLossless(t *testing.T) {
	for name, c := range map[string]struct {
		guess, most, limit float64
		bySender           bool
	}{
		"below the guess":     {1e6, 1e7, 437_000, false},
		"far below the guess": {1e6, 1e7, 60_000, false},
		"above the guess":     {1e6, 1e7, 3.3e6, false},
		"more than is sent":   {1e6, 2e6, 1e9, true},
		"guess above most":    {3e6, 2e6, 1.9e6, false},
	} {
		t.Run(name, func(t *testing.T) {
			hiccups := 0
			found, err := highestLossless(c.guess, c.most, func(rate float64) (outcome, error) {
				hiccups++
				if rate <= c.limit && hiccups%3 != 0 { // now and then something else is in the way
					return allTaken, nil
				}
				return someLost, nil
			})
			want := min(c.limit, c.most)
			if err != nil || found.bySender != c.bySender || found.unheld || found.rate > want || found.rate < want*(1-2*searchResolution) {
				t.Errorf("%+v, %v: want some %v by the sender %v", found, err, want, c.bySender)
			}
			if found.steps > searchSteps+1 {
				t.Errorf("%d steps: want at most %d", found.steps, searchSteps)
			}
		})
	}
	failure := errors.New("no server")
	if _, err := highestLossless(1, 2, func(float64) (outcome, error) { return someLost, failure }); !errors.Is(err, failure) {
		t.Errorf("error %v, want %v", err, failure)
	}
	if found, err := highestLossless(1, 2, func(float64) (outcome, error) { return someLost, nil }); err != nil || found.rate != 0 || found.unheld {
		t.Errorf("%+v, %v: want none where everything loses", found, err)
	}
}

// A rate that the sender does not hold says nothing about the server.
func TestSearchTellsTheSendersLimit(t *testing.T) {
	for name, c := range map[string]struct {
		held, taken, want float64
		unheld            bool
	}{
		"the sender is the limit": {held: 700_000, taken: 1e9, want: 700_000, unheld: true},
		"the server is the limit": {held: 700_000, taken: 500_000, want: 500_000},
		"no rate is held":         {held: 0, taken: 1e9, want: 0, unheld: true},
	} {
		t.Run(name, func(t *testing.T) {
			tries, hiccups := map[float64]int{}, 0
			found, err := highestLossless(1e6, 2e6, func(rate float64) (outcome, error) {
				hiccups++
				switch tries[rate]++; {
				case rate > c.held || hiccups%5 == 0: // now and then the sender is held up
					return notHeld, nil
				case rate > c.taken:
					return someLost, nil
				}
				return allTaken, nil
			})
			if err != nil || found.unheld != c.unheld || found.bySender || found.rate > c.want || found.rate < c.want*(1-2*searchResolution) {
				t.Errorf("%+v, %v: want some %v, the sender the limit: %v", found, err, c.want, c.unheld)
			}
			for rate, n := range tries {
				if n > rateTries {
					t.Errorf("%v was tried %d times, want at most %d", rate, n, rateTries)
				}
			}
		})
	}
}

func TestOutcomeOfAPace(t *testing.T) {
	for want, load := range map[outcome]Taken{
		allTaken: {Sent: 1000, Sending: time.Second},
		someLost: {Sent: 1000, Sending: time.Second, DroppedDatagrams: 1},
		notHeld:  {Sent: 900, Sending: time.Second, DroppedDatagrams: 1},
	} {
		if got := load.outcomeAt(1000); got != want {
			t.Errorf("%+v: %d, want %d", load, got, want)
		}
	}
}
