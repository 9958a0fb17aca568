package agents

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Scrapes are the scrapes of one agent. Any goroutine may call Take, and the stream's the others.
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
	// maxPages bounds the pages of an agent that wait, of each size; maxLarge the lines of all agents' large ones.
	maxPages, maxLarge = 256, 64 << 20
	// smallPage is the length of lines up to which a page is small: it waits for no large one.
	smallPage = 16 << 10
)

// pages are those of an agent that wait to be taken. Frames don't wait for them: a page waits for those of other agents. One that
// does not fit is dropped, and the next one of the endpoint repairs that.
type pages struct {
	small, large chan *metric.ScrapedPage
	waits        *atomic.Int64 // lines of large pages, of all agents
	ended        atomic.Bool
	taking       sync.WaitGroup
}

// take begins to take pages, by one goroutine for each size.
func (p *pages) take(waits *atomic.Int64, take func(*metric.ScrapedPage)) {
	p.small, p.large, p.waits = make(chan *metric.ScrapedPage, maxPages), make(chan *metric.ScrapedPage, maxPages), waits
	takeAll := func(all <-chan *metric.ScrapedPage, waited func(*metric.ScrapedPage)) {
		p.taking.Go(func() {
			for one := range all {
				if !p.ended.Load() {
					take(one)
				}
				waited(one)
			}
		})
	}
	takeAll(p.small, func(*metric.ScrapedPage) {})
	takeAll(p.large, func(one *metric.ScrapedPage) { p.waits.Add(-int64(len(one.Lines))) })
}

// end drops the pages that wait.
func (p *pages) end() {
	p.ended.Store(true)
	close(p.small)
	close(p.large)
	p.taking.Wait()
}

// add adds a page, if there is room.
func (p *pages) add(one *metric.ScrapedPage) {
	to, bytes := p.small, int64(0)
	if len(one.Lines) > smallPage {
		to, bytes = p.large, int64(len(one.Lines))
	}
	if p.waits.Add(bytes) <= maxLarge || bytes == 0 {
		select {
		case to <- one:
			return
		default:
		}
	}
	p.waits.Add(-bytes)
}

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
		t.pages.add(&metric.ScrapedPage{Target: p.Target, Result: p.Result,
			Fault: metric.Truncate(p.Fault, maxFault), Missing: p.Missing,
			Took: min(max(time.Duration(p.TookNanos), 0), time.Minute), Bytes: max(p.Bytes, 0), Lines: p.Lines})
	}
	return nil
}
