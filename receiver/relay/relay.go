package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
)

// Relay forwards lines to all targets.
type Relay struct {
	targets []*target
}

// New makes a Relay of a valid Config. Lines wait until Run runs.
func New(c Config, log *slog.Logger) (*Relay, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	r, dialer := &Relay{}, net.Dialer{Timeout: dialTimeout}
	for _, name := range c.Targets {
		network, address, _ := parseTarget(name)
		r.targets = append(r.targets, &target{
			name: network + "://" + address, network: network, address: address,
			queue: newQueue(c.QueueBytes), log: log, dial: dialer.DialContext,
		})
	}
	return r, nil
}

// Relay takes whole lines, separated by newlines, and copies them. It never waits for a target. Any
// goroutine may call it.
func (r *Relay) Relay(lines []byte) {
	if len(lines) == 0 {
		return
	}
	for _, t := range r.targets {
		t.add(lines)
	}
}

// Run sends until ctx ends, and then the lines that wait, for at most a second.
func (r *Relay) Run(ctx context.Context) error {
	var sending sync.WaitGroup
	for _, t := range r.targets {
		sending.Go(func() { t.run(ctx) })
	}
	sending.Wait()
	return nil
}
