package receiver

import "github.com/sluice-metrics/sluice/metric"

// Applier is one goroutine's path into the table. It is not safe for concurrent use.
//
// The table reuses memory only after every Applier has passed a batch boundary. An Applier that
// neither quiesces nor goes offline delays that for all.
type Applier interface {
	// Apply applies one sample, or returns the reason to reject it. For a known series it neither
	// blocks nor allocates. It retains none of the sample's bytes.
	Apply(*metric.Sample) metric.Reason
	// Quiesce marks a batch boundary. Call it after each batch of datagrams or lines.
	Quiesce()
	// Offline must be called before blocking for longer than a few milliseconds, and Online before
	// the next Apply. A new Applier is online.
	Offline()
	Online()
	// Close gives the Applier up, online or offline.
	Close()
}
