package cluster

import (
	"net/netip"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// Observer receives changes of the view, after the view shows them. The goroutines that watch call
// its functions without a lock, so they must be quick. A nil function is not called.
type Observer struct {
	// SendersChanged: these addresses have another Sender, a pod or nobody. Empty: a pod became
	// known by name, UID or container, without a new address.
	SendersChanged func([]netip.Addr)
	// ObjectGone: a pod was deleted or has finished, or an object of a watched kind was deleted.
	// The object has its UID.
	ObjectGone func(metric.Object)
	// ObjectAdded: a new object of a watched kind exists. It has its UID.
	ObjectAdded func(metric.Object)
	// LimitsChanged: the limits of the namespace changed.
	LimitsChanged func(namespace string)
	// AutoscalersChanged: the autoscalers of the namespace name other metrics.
	AutoscalersChanged func(namespace string)
	// WakeChanged: an autoscaler with the annotation sluice.dev/wake appeared or changed; now nil:
	// it was deleted, or has the annotation no longer.
	WakeChanged func(namespace, name string, now *inspect.Autoscaler)
	// InstantChanged: an autoscaler with the annotation sluice.dev/instant, or with what nudges leave,
	// appeared or changed; now nil: it was deleted, or has neither any longer.
	InstantChanged func(namespace, name string, now *inspect.Autoscaler)
	// ResourcesChanged: the answers of Canonical and FindResource may have changed.
	ResourcesChanged func()
}

func (o *Observer) sendersChanged(addresses []netip.Addr) {
	if o.SendersChanged != nil {
		o.SendersChanged(addresses)
	}
}

func (o *Observer) objectGone(gone metric.Object) {
	if o.ObjectGone != nil {
		o.ObjectGone(gone)
	}
}

func (o *Observer) objectAdded(added metric.Object) {
	if o.ObjectAdded != nil {
		o.ObjectAdded(added)
	}
}

func (o *Observer) limitsChanged(namespace string) {
	if o.LimitsChanged != nil {
		o.LimitsChanged(namespace)
	}
}

func (o *Observer) autoscalersChanged(namespace string) {
	if o.AutoscalersChanged != nil {
		o.AutoscalersChanged(namespace)
	}
}

// autoscalerChanged is told of the documents of an autoscaler before and after; nil: there is none.
func (o *Observer) autoscalerChanged(namespace, name string, before, after *inspect.Autoscaler) {
	of := func(call func(namespace, name string, now *inspect.Autoscaler), concerns func(*inspect.Autoscaler) bool) {
		switch {
		case call == nil:
		case after != nil && concerns(after):
			call(namespace, name, after)
		case before != nil && concerns(before):
			call(namespace, name, nil)
		}
	}
	of(o.WakeChanged, func(a *inspect.Autoscaler) bool { return a.Wake != nil })
	of(o.InstantChanged, func(a *inspect.Autoscaler) bool { return a.Instant != nil || a.Mark != inspect.Unmarked })
}

func (o *Observer) resourcesChanged() {
	if o.ResourcesChanged != nil {
		o.ResourcesChanged()
	}
}
