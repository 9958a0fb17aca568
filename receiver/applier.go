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

// LineApplier is an Applier with a cache of lines: it maps the raw bytes of known lines to their series.
type LineApplier interface {
	Applier
	// LookupLines looks lines up for the other methods. The lines, and the memory that they borrow,
	// must not change until Quiesce, Offline or the next LookupLines.
	LookupLines([]metric.Line)
	// ApplyKnown applies known lines, starting at index from, up to the first unknown line. It
	// returns their number.
	ApplyKnown(from int) int
	// UnknownLines is the number of consecutive lines from index from on that were never seen, at
	// most limit.
	UnknownLines(from, limit int) int
	// PrefetchNew announces that these samples, of the lines from index from on, are applied next.
	// The samples, and the memory that they borrow, must not change until the next PrefetchNew,
	// Quiesce or Offline.
	PrefetchNew(from int, next []metric.Sample)
}
