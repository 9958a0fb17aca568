package pushgateway

import (
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
)

// groupOf finds the owner of the group that a path names, and checks that the sender may do so. It
// waits for a sender that is not known yet: a batch job pushes once, seconds after its pod has got
// its address.
func (h *Handler) groupOf(x *httpserver.Request, to *groupPush, verb metric.Verb) *httpserver.Fault {
	f := h.tryGroup(x, to, verb)
	if f == nil || !f.Waits() {
		return f
	}
	from := x.From()
	if h.Waiting.Acquire(from) != nil {
		return f
	}
	defer h.Waiting.Release(from)
	tick := time.NewTicker(pendingPoll)
	defer tick.Stop()
	for end := time.Now().Add(h.config.PendingTimeout); time.Now().Before(end); {
		select {
		case <-x.Stopping():
			return f
		case <-tick.C:
		}
		x.ForgetSender()
		if f := x.CheckSender(); f != nil {
			return f
		}
		if f = h.tryGroup(x, to, verb); f == nil || !f.Waits() {
			return f
		}
	}
	return f
}

// maxWaiting bounds the pushes that wait for their sender, and maxWaitingEach those from one address, which may have none.
const maxWaiting, maxWaitingEach = 256, 32

const pendingPoll = 50 * time.Millisecond

func (h *Handler) tryGroup(x *httpserver.Request, to *groupPush, verb metric.Verb) *httpserver.Fault {
	if waitsForNamespace(x) {
		return httpserver.NotYet("%s is not known yet, and so its namespace is not: try again in a moment, "+
			"or name one: /metrics/job/{job}/namespace/{namespace}", x.SenderName())
	}
	key, about, f := h.groupKey(x, x.Path.Grouping)
	if f != nil {
		return f
	}
	to.key, to.about = key, about
	if f := x.May(verb, about); f != nil || verb == metric.Delete {
		return f
	}
	if named, _ := key.Labels.Get(group.NamespaceLabel); named != "" && named != about.InNamespace() {
		return x.May(verb, metric.Object{Namespace: named}) // readers see the group as one of this namespace
	}
	return nil
}

// waitsForNamespace reports whether the group's namespace is that of a sender which is not known yet.
// A group that was filed without it would be another group than that of the sender's next push.
func waitsForNamespace(x *httpserver.Request) bool {
	named, _ := x.Path.Grouping.Get(group.NamespaceLabel)
	return named == "" && x.ChecksTrust() && x.MayBecomeKnown()
}

// groupKey returns the key of a group and its object. The group is external, in the namespace that
// a label names or otherwise that of the sender; a label may name an object.
func (h *Handler) groupKey(x *httpserver.Request, labels metric.Labels) (group.Key, metric.Object, *httpserver.Fault) {
	key := group.Key{Labels: labels}
	if namespace, _ := labels.Get(group.NamespaceLabel); namespace != "" {
		if f := httpserver.CheckNamespace(namespace); f != nil {
			return key, metric.Object{}, f
		}
		key.Namespace = namespace
	} else {
		key.Namespace = x.Sender().Namespace()
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
		return key, about, httpserver.CheckNamespace(name)
	case !named || resource == "":
		return key, about, httpserver.BadRequest(`%s is %q: want resource/name, like "pods/web-1", external or external/{namespace}`, group.ObjectLabel, httpserver.Clip([]byte(claim)))
	}
	_, namespaced, err := x.Canonical(resource)
	at := httpserver.Path{Resource: resource, Name: name}
	if err == nil && namespaced {
		at.Namespace = key.Namespace
	}
	if f := at.Check(false); f != nil {
		return key, about, f
	}
	about, f := x.Target(at.Namespace, at.Resource, at.Name)
	return key, about, f
}
