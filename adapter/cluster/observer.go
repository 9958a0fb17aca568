package cluster

import (
	"net/netip"

	"github.com/sluice-metrics/sluice/metric"
)

// Observer is told what changed, after it can be read. Its functions are called without a lock held, from the
// goroutines that watch, so they must be quick; one that is nil is not called.
type Observer struct {
	// PodKnown: these addresses have another Sender now, a pod's or nobody's. None: a pod became known by name, UID or
	// container that has no new address.
	SendersChanged func([]netip.Addr)
	// ObjectGone: a pod was deleted or has finished, or an object of a watched kind was deleted. With its UID.
	ObjectGone func(metric.Object)
	// ObjectKnown: there is an object of a watched kind that was not there before.
	ObjectAdded func()
	// LimitsChanged: the namespace's LimitRanges say something else.
	LimitsChanged func(namespace string)
	// AskedChanged: the autoscalers of the namespace name other metrics.
	AutoscalersChanged func(namespace string)
	// ResourcesChanged: Canonical and Find may answer otherwise for some resource.
	ResourcesChanged func()
}

func (o *Observer) podKnown(addresses []netip.Addr) {
	if o.SendersChanged != nil {
		o.SendersChanged(addresses)
	}
}

func (o *Observer) objectGone(gone metric.Object) {
	if o.ObjectGone != nil {
		o.ObjectGone(gone)
	}
}

func (o *Observer) objectKnown() {
	if o.ObjectAdded != nil {
		o.ObjectAdded()
	}
}

func (o *Observer) limitsChanged(namespace string) {
	if o.LimitsChanged != nil {
		o.LimitsChanged(namespace)
	}
}

func (o *Observer) askedChanged(namespace string) {
	if o.AutoscalersChanged != nil {
		o.AutoscalersChanged(namespace)
	}
}

func (o *Observer) resourcesChanged() {
	if o.ResourcesChanged != nil {
		o.ResourcesChanged()
	}
}
