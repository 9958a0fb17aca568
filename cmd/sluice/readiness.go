package main

import (
	"strings"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/operations"
)

// progress is how far the start has come: what is waited for, then nothing.
type progress struct {
	waiting atomic.Pointer[string]
	ready   atomic.Bool
	ending  atomic.Bool
}

func (p *progress) wait(what string) { p.waiting.Store(&what) }

// done says that everything was made. What was written before it is visible to who sees it.
func (p *progress) done() { p.ready.Store(true) }

// stop says that the end has begun: who sends requests should send them elsewhere.
func (p *progress) stop() { p.ending.Store(true) }

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

// checks are the lines of /readyz. The store is ready once it has restored, whatever the disk does later:
// a disk that fails costs persistence and nothing else, so it is told and does not take Sluice out of service.
func (p *dataPath) checks() []operations.Check {
	checks := []operations.Check{
		{Name: "start", State: p.progress.state},
		{Name: "store", State: func() (bool, string) {
			if !p.progress.ready.Load() {
				return false, ""
			}
			_, detail := p.store.Detail()
			return true, detail
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
	return checks
}

// listening names every open port.
func (p *dataPath) listening() []string {
	var all []string
	for i, addr := range p.statsd.Addrs() {
		all = append(all, p.cfg.receiver.Listeners[i].Network+" "+addr.String())
	}
	return append(all, "http "+p.push.Addr().String(), "api "+p.api.Addr().String())
}
