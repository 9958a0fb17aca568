package agents

import (
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Scrapes are the scrapes of one agent. The stream's goroutine calls its methods.
type Scrapes interface {
	// Heard notes that the agent lives.
	Heard()
	// News returns the targets that the agent gets and the numbers of those that it loses, since the last call.
	News() (add []metric.ScrapeTarget, drop []uint64)
	// Take takes what became of a scrape.
	Take(*metric.ScrapedPage)
	// Leave ends the agent.
	Leave()
}

const (
	// maxTargets bounds the targets of a message. Names of an endpoint have 16 KiB at most.
	maxTargets = 128
	// maxLines bounds the lines of a page, and maxFault the text of a fault.
	maxLines, maxFault = 2 << 20, 400
)

// tellTargets tells the agent what has changed of its targets.
func (t *stream) tellTargets() error {
	if t.scrapes == nil {
		return nil
	}
	add, drop := t.scrapes.News()
	for len(add) > 0 || len(drop) > 0 {
		n := min(len(add), maxTargets)
		message := &agentwire.Targets{Drop: drop, Add: make([]*agentwire.Target, n)}
		for i, to := range add[:n] {
			message.Add[i] = &agentwire.Target{Number: to.Number, Pod: to.UID, Address: to.Address.AsSlice(),
				Port: uint32(to.Port), Path: to.Path, Names: to.Names, IntervalNanos: int64(to.Interval), Soon: to.Soon}
		}
		if err := t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_Targets{Targets: message}}); err != nil {
			return err
		}
		add, drop = add[n:], nil
	}
	return nil
}

// page takes what became of a scrape.
func (t *stream) page(p *agentwire.Page) error {
	if len(p.Lines) > maxLines {
		return status.Errorf(codes.InvalidArgument,
			"a page has %d bytes of named metrics; must have at most %d", len(p.Lines), maxLines)
	}
	if t.scrapes != nil {
		t.scrapes.Take(&metric.ScrapedPage{Target: p.Target, Result: p.Result,
			Fault: metric.Truncate(p.Fault, maxFault), Missing: p.Missing,
			Took: min(max(time.Duration(p.TookNanos), 0), time.Minute), Bytes: max(p.Bytes, 0), Lines: p.Lines})
	}
	return nil
}
