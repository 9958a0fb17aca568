package route

import (
	"context"
	"slices"
	"time"
)

// look reads the provider's discovery, which tells whether it is there, what it lists, and whether it is a Sluice
// that routes itself.
func (p *Provider) look(ctx context.Context) {
	body, header, f := p.get(ctx, groupVersion, nil, nil)
	if f == nil && header.Get(RoutesHeader) != "" {
		f = newFault(loop, "%s", loopText)
	}
	var names []string
	if f == nil {
		names, f = readNames(body, p.listLimit)
	}
	if f == nil {
		names = p.routed(names)
		p.listed.Store(&names)
	}
	p.notice(f)
}

// routed keeps the names that Sluice asks the provider for in some namespace. Those of ScaledObjects may be any.
func (p *Provider) routed(names []string) []string {
	if p.spec.ScaledObjects {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool { return !p.names.MatchString(name) })
}

// notice remembers and logs whether the provider answers. What it says about one metric is an answer.
func (p *Provider) notice(f *fault) {
	if f != nil && (f.result == busy || f.result == canceled) {
		return
	}
	if f != nil && !f.whole() {
		f = nil
	}
	before := p.fault.Load()
	switch {
	case f == nil && before == nil:
		p.metrics.up.Set(1)
	case f != nil && before != nil && before.result == f.result:
		// as before
	case !p.fault.CompareAndSwap(before, f):
		// another request has noticed something else
	case f == nil:
		p.metrics.up.Set(1)
		p.log.Info("a provider of external metrics answers again", "after", time.Since(before.since).Round(time.Millisecond))
	default:
		p.metrics.up.Set(0)
		p.log.Warn("a provider of external metrics fails, so its metrics have no values", "url", p.base, "why", f.text())
	}
}
