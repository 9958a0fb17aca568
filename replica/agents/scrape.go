package agents

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Scrapes are the scrapes of one agent. Any goroutine may call Take and Namespace, and the stream's the others.
type Scrapes interface {
	// Heard notes that the agent lives.
	Heard()
	// News returns the targets that the agent gets and the numbers of those that it loses, since the last call.
	News() (add []metric.ScrapeTarget, drop []uint64)
	// Namespace is that of a target's pod; empty: the agent has no such target.
	Namespace(target uint64) string
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

// room is what pages that wait share, by the namespaces of their pods.
type room = fair.Room[string, int64]

// pages are those of an agent that wait to be taken. Frames don't wait for them: a page waits for those of other agents. One that
// does not fit is dropped, and the next one of the endpoint repairs that.
type pages struct {
	small, large queue
	ended        atomic.Bool
	taking       sync.WaitGroup
}

// queue is the pages of one size.
type queue struct {
	all    chan waitingPage
	places *room
	lines  *room // bytes, of all agents; nil: they are not limited
}

type waitingPage struct {
	*metric.ScrapedPage
	namespace string
}

// take begins to take pages, by one goroutine for each size.
func (p *pages) take(lines *room, take func(*metric.ScrapedPage)) {
	for of, lines := range map[*queue]*room{&p.small: nil, &p.large: lines} {
		of.all, of.places, of.lines = make(chan waitingPage, maxPages), fair.NewRoom[string](int64(maxPages)), lines
		p.taking.Go(func() {
			for one := range of.all {
				if !p.ended.Load() {
					take(one.ScrapedPage)
				}
				of.leave(one)
			}
		})
	}
}

// end drops the pages that wait.
func (p *pages) end() {
	p.ended.Store(true)
	close(p.small.all)
	close(p.large.all)
	p.taking.Wait()
}

// add adds a page of a pod of a namespace, if there is room.
func (p *pages) add(one *metric.ScrapedPage, namespace string) {
	to := &p.small
	if len(one.Lines) > smallPage {
		to = &p.large
	}
	if !to.places.Take(namespace, 1) {
		return
	}
	if to.lines != nil && !to.lines.Take(namespace, int64(len(one.Lines))) {
		to.places.Give(namespace, 1)
		return
	}
	to.all <- waitingPage{one, namespace} // there is a place
}

func (q *queue) leave(one waitingPage) {
	q.places.Give(one.namespace, 1)
	if q.lines != nil {
		q.lines.Give(one.namespace, int64(len(one.Lines)))
	}
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
			Took: min(max(time.Duration(p.TookNanos), 0), time.Minute), Bytes: max(p.Bytes, 0), Lines: p.Lines},
			t.scrapes.Namespace(p.Target))
	}
	return nil
}
