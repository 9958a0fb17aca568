package main

import (
	"strings"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/internal/operations"
)

// progress is the state of the start, for /readyz.
type progress struct {
	waiting atomic.Pointer[string]
	ready   atomic.Bool
	ending  atomic.Bool
	deaf    atomic.Bool
}

func (p *progress) wait(what string) { p.waiting.Store(&what) }

// done publishes the path: its fields may be read once ready is seen.
func (p *progress) done() { p.ready.Store(true) }

// stop makes /readyz fail, so that no new requests are routed here.
func (p *progress) stop() { p.ending.Store(true) }

// deafen ends the answers to queries: nothing is received any more, so rates would fall.
func (p *progress) deafen() { p.deaf.Store(true) }

func (p *progress) state() (bool, string) {
	if p.ending.Load() {
		return false, "stopping"
	}
	if p.ready.Load() {
		return true, ""
	}
	if what := p.waiting.Load(); what != nil {
		return false, *what
	}
	return false, "starting"
}

// checks are the lines of /readyz. The store is ready once it has restored: a disk that fails later
// costs persistence only, so it is reported and does not take Sluice out of service.
func (p *dataPath) checks() []operations.Check {
	checks := []operations.Check{
		{Name: "start", State: p.progress.state},
		{Name: "store", State: func() (bool, string) {
			if !p.progress.ready.Load() {
				return false, ""
			}
			_, detail := p.store.Detail()
			return true, detail
		}, Impaired: func() bool {
			persists, _ := p.store.Detail()
			return !persists
		}},
		{Name: "listeners", State: func() (bool, string) {
			if !p.progress.ready.Load() {
				return false, ""
			}
			return true, strings.Join(p.listening(), ", ")
		}},
	}
	if !p.cfg.standalone {
		checks = append(checks, operations.Check{Name: "cluster", State: func() (bool, string) {
			if !p.progress.ready.Load() {
				return false, ""
			}
			return p.cluster.state()
		}})
	}
	if p.cfg.natsbus.Enabled() {
		checks = append(checks, operations.Check{Name: "replicas", State: func() (bool, string) {
			if !p.progress.ready.Load() {
				return false, ""
			}
			return p.replication.replica.Ready()
		}})
	}
	return checks
}

// listening lists every open port.
func (p *dataPath) listening() []string {
	var all []string
	for i, addr := range p.statsd.Addrs() {
		all = append(all, p.cfg.receiver.Listeners[i].Network+" "+addr.String())
	}
	all = append(all, "http "+p.push.Addr().String(), "api "+p.api.Addr().String())
	if p.console != nil {
		all = append(all, "console "+p.console.Addr().String())
	}
	return all
}
