package agent

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
)

// Fetcher fetches the pages of targets, and hands them to Scrape.Fetched.
type Fetcher interface {
	Start(metric.ScrapeTarget)
	Stop(number uint64)
}

// MaxUnsent bounds the bytes of pages that were not sent yet. Totals are cumulative: the next page repairs a lost one.
const MaxUnsent = 4 << 20

// Scrape scrapes what a server tells, while one is connected. A Link tells the server. Make one with NewScrape, and
// give it a Fetcher before the link runs.
type Scrape struct {
	fetcher Fetcher
	changed chan struct{} // there are pages

	mu      sync.Mutex // guards the fields below
	targets map[uint64]bool
	pages   []*agentwire.Page
	bytes   int // of the lines of pages
}

// NewScrape scrapes nothing yet.
func NewScrape() *Scrape { return &Scrape{changed: make(chan struct{}, 1), targets: map[uint64]bool{}} }

// By sets the fetcher.
func (s *Scrape) By(f Fetcher) { s.fetcher = f }

// Fetched takes what became of a scrape.
func (s *Scrape) Fetched(p *metric.ScrapedPage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.targets[p.Target] || s.bytes+len(p.Lines) > MaxUnsent {
		return
	}
	s.bytes += len(p.Lines)
	s.pages = append(s.pages, &agentwire.Page{Target: p.Target, Result: p.Result, Fault: strings.ToValidUTF8(p.Fault, "?"),
		Missing: p.Missing, TookNanos: int64(p.Took), Bytes: p.Bytes, Lines: append([]byte(nil), p.Lines...)})
	wake(s.changed)
}

// take returns the pages that were not sent yet.
func (s *Scrape) take() []*agentwire.Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	pages := s.pages
	s.pages, s.bytes = nil, 0
	return pages
}

// number is that of the targets.
func (s *Scrape) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.targets)
}

// follow does what a server has told.
func (s *Scrape) follow(told *agentwire.Targets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range told.Drop {
		s.dropLocked(number)
	}
	for _, t := range told.Add {
		address, ok := netip.AddrFromSlice(t.Address)
		if !ok || s.targets[t.Number] || t.Port == 0 || t.Port > 0xffff || t.IntervalNanos <= 0 {
			continue
		}
		s.targets[t.Number] = true
		s.fetcher.Start(metric.ScrapeTarget{Number: t.Number, UID: t.Pod, Address: address, Soon: t.Soon,
			Endpoint: metric.Endpoint{Port: uint16(t.Port), Path: t.Path, Names: t.Names,
				Interval: time.Duration(t.IntervalNanos)}})
	}
}

func (s *Scrape) dropLocked(number uint64) {
	if s.targets[number] {
		delete(s.targets, number)
		s.fetcher.Stop(number)
	}
}

// end ends all targets: the server is not connected any more, and scrapes itself.
func (s *Scrape) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number := range s.targets {
		s.dropLocked(number)
	}
	s.pages, s.bytes = nil, 0
}
