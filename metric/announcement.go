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

// ScrapeTarget is an endpoint of a pod, at the address that the pod holds, for one scraper.
type ScrapeTarget struct {
	Endpoint
	Number  uint64 // distinguishes targets: of another pod, address, endpoint or scraper it is another one
	UID     string // of the pod
	Address netip.Addr
	Soon    bool // another scraper had the endpoint until now: the first scrape is due
}

// ScrapedPage is what became of one scrape.
type ScrapedPage struct {
	Target  uint64 // the number
	Result  string // as in the label "result" of sluice_scrapes_total
	Fault   string
	Missing []string // the names that the page does not have
	Took    time.Duration
	Bytes   int64  // as received
	Lines   []byte // of the named metrics
}
