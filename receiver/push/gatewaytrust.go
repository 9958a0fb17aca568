package push

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
)

// groupOf finds out whose group a path leads to, and holds that to the trust in who asks. A sender that is not known yet is
// waited for: a batch job pushes once, seconds after its pod has got its address, and does not come again.
func (x *exchange) groupOf(to *groupPush, r *route, verb metric.Verb) *fault {
	f := x.tryGroup(to, r, verb)
	if f == nil || !f.waits() || !x.server.waiting.enter() {
		return f
	}
	defer x.server.waiting.leave()
	tick := time.NewTicker(pendingPoll)
	defer tick.Stop()
	for end := time.Now().Add(x.server.cfg.PendingTimeout); time.Now().Before(end); {
		select {
		case <-x.server.life.Done():
			return f
		case <-x.server.stopping:
			return f
		case <-tick.C:
		}
		x.origin.Reset()
		x.caller.sender = metric.Sender{} // made anew
		if f = x.tryGroup(to, r, verb); f == nil || !f.waits() {
			return f
		}
	}
	return f
}

// maxWaiting bounds the pushes that wait for their sender.
const maxWaiting = 256

// seats bounds who waits.
type seats struct{ free atomic.Int64 }

func (s *seats) enter() bool {
	if s.free.Add(-1) >= 0 {
		return true
	}
	s.free.Add(1)
	return false
}

func (s *seats) leave() { s.free.Add(1) }

const pendingPoll = 50 * time.Millisecond

func (x *exchange) tryGroup(to *groupPush, r *route, verb metric.Verb) *fault {
	key, about, f := x.groupKey(r.grouping)
	if f != nil {
		return f
	}
	to.key, to.about = key, about
	return x.may(verb, about)
}

// groupKey is the group of the labels and what it is about: external series of the namespace that a label names, else of
// the sender's; an object only where a label says so.
func (x *exchange) groupKey(labels metric.Labels) (group.Key, metric.Object, *fault) {
	key := group.Key{Labels: labels}
	if namespace, _ := labels.Get(group.NamespaceLabel); namespace != "" {
		if f := checkNamespace(namespace); f != nil {
			return key, metric.Object{}, f
		}
		key.Namespace = namespace
	} else {
		key.Namespace = x.sender().Namespace()
	}
	about := metric.Object{Namespace: key.Namespace}
	claim, _ := labels.Get(group.ObjectLabel)
	if claim == "" {
		return key, about, nil
	}
	resource, name, named := strings.Cut(claim, "/")
	switch {
	case resource == "external" && !named:
		return key, about, nil
	case resource == "external":
		about.Namespace = name
		return key, about, checkNamespace(name)
	case !named || resource == "":
		return key, about, badRequest(`%s is %q: want resource/name, like "pods/web-1", external or external/{namespace}`, group.ObjectLabel, clip([]byte(claim)))
	}
	_, namespaced, err := x.server.resources.Canonical(resource)
	at := route{resource: resource, name: name}
	if err == nil && namespaced {
		at.namespace = key.Namespace
	}
	if f := at.check(false); f != nil {
		return key, about, f
	}
	about, f := x.server.target(at.namespace, at.resource, at.name)
	return key, about, f
}
