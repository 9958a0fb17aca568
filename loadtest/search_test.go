package loadtest

import (
	"errors"
	"testing"
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
			found, err := highestLossless(c.guess, c.most, func(rate float64) (bool, error) {
				hiccups++
				return rate <= c.limit && hiccups%3 != 0, nil // now and then something else is in the way
			})
			want := min(c.limit, c.most)
			if err != nil || found.bySender != c.bySender || found.rate > want || found.rate < want*(1-2*searchResolution) {
				t.Errorf("%+v, %v: want some %v by the sender %v", found, err, want, c.bySender)
			}
			if found.steps > searchSteps+1 {
				t.Errorf("%d steps: want at most %d", found.steps, searchSteps)
			}
		})
	}
	failure := errors.New("no server")
	if _, err := highestLossless(1, 2, func(float64) (bool, error) { return false, failure }); !errors.Is(err, failure) {
		t.Errorf("error %v, want %v", err, failure)
	}
	if found, err := highestLossless(1, 2, func(float64) (bool, error) { return false, nil }); err != nil || found.rate != 0 {
		t.Errorf("%+v, %v: want none where everything loses", found, err)
	}
}
