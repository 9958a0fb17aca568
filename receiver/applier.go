package receiver

import "github.com/sluice-metrics/sluice/metric"

// Applier is one goroutine's way into the table. It is not safe for use by two goroutines at once.
//
// The table reuses memory only after every Applier passed a batch boundary, so one that neither passes
// nor parks holds memory up for all.
type Applier interface {
	// Apply takes one sample, or says why not. It neither blocks nor allocates for a known series, and
	// keeps nothing of the sample's bytes.
	Apply(*metric.Sample) metric.Reason
	// Quiesce marks a batch boundary. Call it after each batch of datagrams or lines.
	Quiesce()
	// Offline must be called before blocking for longer than a few milliseconds, Online before the next Apply.
	// A new Applier is not parked.
	Offline()
	Online()
	// Close gives the Applier up, parked or not.
	Close()
}
