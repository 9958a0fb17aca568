package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// lookEvery is the time between two looks at what was received.
const lookEvery = 100 * time.Millisecond

// afterTraffic returns a context that ends after ctx, once nothing has been received for the shutdown delay, or the
// shutdown limit is over. In a cluster, the next agent of the node runs by then: Services lead there once this one is
// not ready, but kube-proxy moves an open flow late, and a connection never. part asks for the connections' end, once
// the delay is over.
func (c *agentConfig) afterTraffic(ctx context.Context, accounts *ledger.Ledger, part func(),
	log *slog.Logger) (later context.Context, release func()) {
	if c.shutdownDelay == 0 {
		return ctx, func() {}
	}
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		log.Info("stopping once nothing comes any more", "delay", c.shutdownDelay, "limit", c.shutdownLimit)
		packets := func() uint64 { return accounts.Sum((*ledger.Account).Packets) }
		if !awaitSilence(later, c.shutdownDelay, c.shutdownLimit, packets, part) {
			log.Warn("stopping although something came lately: what comes now is lost", "limit", c.shutdownLimit)
		}
	})
	return later, func() {
		stop()
		cancel()
	}
}

// awaitSilence waits for the delay, then calls part, and waits until nothing has been received for the delay. It
// returns false if the limit is over before.
func awaitSilence(ctx context.Context, delay, limit time.Duration, received func() uint64, part func()) bool {
	each := time.NewTicker(lookEvery)
	defer each.Stop()
	began, parted := time.Now(), false
	latest, silentSince := received(), began
	for {
		select {
		case <-ctx.Done():
			return true
		case <-each.C:
		}
		now := time.Now()
		if n := received(); n != latest {
			latest, silentSince = n, now
		}
		if !parted && now.Sub(began) >= delay {
			parted = true
			part()
		}
		switch {
		case parted && now.Sub(silentSince) >= delay:
			return true
		case now.Sub(began) >= limit:
			return false
		}
	}
}
