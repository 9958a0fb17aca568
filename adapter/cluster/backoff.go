package cluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// backoff is the wait between two attempts to list or watch: client-go's for a Reflector, with a
// shorter first step. It starts anew after two quiet minutes, and when the API server has
// recovered.
var backoff = wait.Backoff{Duration: 250 * time.Millisecond, Cap: 30 * time.Second, Factor: 2, Jitter: 0.5,
	Steps: 100}

const backoffResetAfter = 2 * time.Minute

// backoffClock is the clock of a Reflector. Its waits are as long as backoff says, whatever the
// Reflector asks for. They also end with the context, which a Reflector ignores in places, and when
// the API server has recovered.
type backoffClock struct {
	clock.RealClock
	ctx     context.Context
	probe   *healthProbe
	initial wait.Backoff

	mu         sync.Mutex
	backoff    wait.Backoff
	last       time.Time
	recoveries uint64
}

func newBackoffClock(ctx context.Context, initial wait.Backoff, p *healthProbe) *backoffClock {
	return &backoffClock{ctx: ctx, probe: p, initial: initial, backoff: initial}
}

// After implements clock.Clock.
func (p *backoffClock) After(time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	length, back := p.next()
	go func() {
		sleep(p.ctx, length, back)
		fired <- time.Now()
	}()
	return fired
}

// next returns how long to wait, and the channel that ends the wait early.
func (p *backoffClock) next() (length time.Duration, back <-chan struct{}) {
	returns, back := p.probe.recovery()
	p.mu.Lock()
	defer p.mu.Unlock()
	if returns != p.recoveries || time.Since(p.last) > backoffResetAfter {
		p.backoff, p.recoveries = p.initial, returns
	}
	p.last = time.Now()
	return p.backoff.Step(), back
}
