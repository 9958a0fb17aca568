package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// An agent that is to stop goes on until nothing has come for the delay: not before the delay is over, nor after the
// limit. It asks the clients of connections to go once the delay is over.
func TestAwaitSilence(t *testing.T) {
	const delay, limit = 10 * time.Second, 30 * time.Second
	for name, c := range map[string]struct {
		until  time.Duration // samples come
		ends   time.Duration
		silent bool
	}{
		"nothing comes":             {0, delay, true},
		"the flows move":            {4 * time.Second, 14 * time.Second, true},
		"a client goes when asked":  {11 * time.Second, 21 * time.Second, true},
		"a client does not ever go": {time.Minute, limit, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var parted []time.Duration
				received := func() uint64 { return uint64(min(time.Since(began), c.until) / lookEvery) }
				silent := awaitSilence(t.Context(), delay, limit, received, func() { parted = append(parted, time.Since(began)) })
				if took := time.Since(began); silent != c.silent || took < c.ends || took > c.ends+lookEvery {
					t.Errorf("it is silent: %v, after %v; want %v, %v", silent, took, c.silent, c.ends)
				}
				if len(parted) != 1 || parted[0] != delay {
					t.Errorf("clients were asked to go after %v", parted)
				}
			})
		})
	}
}
