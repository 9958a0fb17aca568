package adapter

import (
	"context"
	"log/slog"
	"time"
)

const (
	readyPoll = time.Second
	// tellFirst is how long nothing is said: what is there by then was hardly waited for.
	firstLogAfter = 2 * time.Second
	logAgainAfter = 30 * time.Second
)

// tell looks at a state until ctx ends, and logs what is waited for: when that changes, and every so often. Whenever a
// wait is over it calls over.
func logWhileNotReady(ctx context.Context, logger *slog.Logger, state func() (bool, string), over func()) {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	waiting, since, next, said := true, time.Now(), time.Now().Add(firstLogAfter), ""
	for {
		ready, missing := state()
		now := time.Now()
		switch {
		case ready && waiting:
			over()
			said = ""
		case !ready && !waiting:
			since, next = now, now
		case said != "" && said != missing:
			next = now
		}
		if waiting = !ready; waiting && !now.Before(next) {
			logger.Warn("the metrics APIs answer no queries", "for", now.Sub(since).Round(time.Second), "reason", missing)
			next, said = now.Add(logAgainAfter), missing
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
