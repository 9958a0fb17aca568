package metric

import (
	"net/netip"
	"slices"
	"time"
)

// Endpoint is a page of a pod with metrics in Prometheus' text format.
type Endpoint struct {
	Port uint16
	Path string // from "/" on, with a query if the pod announced one
	// Names are the metrics that are taken from the page, each once. No other endpoint of the pod has
	// one of them.
	Names    []string
	Interval time.Duration
}

// Announcement is what a pod announces: endpoints, or a fault. It is immutable.
type Announcement struct {
	Endpoints []Endpoint
	// Fault says what is wrong with the announcement and where; it has no endpoints then.
	Fault string
}

// Equal compares two announcements; nil: none.
func (a *Announcement) Equal(b *Announcement) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Fault == b.Fault && slices.EqualFunc(a.Endpoints, b.Endpoints, func(x, y Endpoint) bool {
		return x.Port == y.Port && x.Path == y.Path && x.Interval == y.Interval && slices.Equal(x.Names, y.Names)
	})
}

// AnnouncedPod is a live pod with its announcement.
type AnnouncedPod struct {
	*Pod
	*Announcement
	Address netip.Addr // not valid: the pod has none yet
}
