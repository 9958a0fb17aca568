package connlimit

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
)

const (
	// PageWait is how long a request for a page waits for a place: for less than the 10 s after which scrapers give up.
	PageWait = 8 * time.Second
	// maxWaiting bounds the requests that wait, and maxWaitingEach those of one share: in the second half of the places it
	// has one, so a crowd leaves places to scrapers. Each request keeps its connection.
	maxWaiting, maxWaitingEach = 256, 8
)

// A reader is slow if one write to it has stood for readPatience, or if all writes together have taken that and a second
// more for each leastRead bytes. Work between the writes doesn't count. The kernel takes up to 10 MB that nobody reads.
const (
	readPatience = 2 * time.Second
	leastRead    = 4 << 20
	lookForSlow  = 250 * time.Millisecond
	// partBytes bounds each write: fasthttp's pipe keeps five, of any size, when the page has ended.
	partBytes = 4 << 10
)

// Pages are the places at which pages are written: long answers that take memory until they are read. Where no place is
// free, requests wait, and shares take turns. A page whose reader is slow ends once a request waits for its place. Any
// goroutine may call the methods.
type Pages struct {
	turns *fair.Turns[string]

	mu      sync.Mutex // guards the rest
	open    map[*Page]struct{}
	waiting fair.Shares[string, int]
}

// NewPages makes places, of which a share may have so many at once.
func NewPages(places, each int) *Pages {
	return &Pages{turns: fair.NewTurns[string](places, each), open: map[*Page]struct{}{}}
}

// Begin waits for a place, for PageWait at most or until ctx ends. Nil: there is none. A share is whatever can't make
// itself many: a namespace if it is known, or else an address. abort ends the connection to the reader, and must not wait
// for it; it may be called until Page.End.
func (p *Pages) Begin(ctx context.Context, share string, abort func()) *Page {
	if !p.wait(ctx, share) {
		return nil
	}
	page := &Page{pages: p, share: share, abort: abort}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[page] = struct{}{}
	return page
}

func (p *Pages) wait(ctx context.Context, share string) bool {
	turn := p.turns.Queue(share)
	if turn == nil {
		return true
	}
	if !p.enter(share) {
		return !p.turns.Leave(share, turn)
	}
	defer p.leave(share)
	ctx, cancel := context.WithTimeout(ctx, PageWait)
	defer cancel()
	look := time.NewTicker(lookForSlow)
	defer look.Stop()
	for {
		p.abortSlow(share)
		select {
		case <-turn:
			return true
		case <-ctx.Done():
			return !p.turns.Leave(share, turn)
		case <-look.C:
		}
	}
}

func (p *Pages) enter(share string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	held, own := p.waiting.Held(), p.waiting.Of(share)
	if held >= maxWaiting || own >= maxWaitingEach || own > 0 && held >= maxWaiting/2 {
		return false
	}
	p.waiting.Add(share, 1)
	return true
}

func (p *Pages) leave(share string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting.Add(share, -1)
}

// abortSlow ends the pages of slow readers that a share waits for: its own, or all if no place is free.
func (p *Pages) abortSlow(share string) {
	full := p.turns.Free() == 0
	p.mu.Lock()
	defer p.mu.Unlock()
	for page := range p.open {
		if (full || page.share == share) && page.isSlow() {
			page.abort()
		}
	}
}

// A Page is one page, from Begin to End.
type Page struct {
	pages *Pages
	share string
	abort func()

	mu      sync.Mutex // guards the rest
	written int64
	waited  time.Duration // of the writes that have returned
	began   time.Time     // of the write that has not; zero: there is none
}

// End gives the place back. Further calls do nothing.
func (p *Page) End() {
	p.pages.mu.Lock()
	defer p.pages.mu.Unlock()
	if _, open := p.pages.open[p]; open {
		delete(p.pages.open, p)
		p.pages.turns.Give(p.share)
	}
}

func (p *Page) isSlow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stands time.Duration
	if !p.began.IsZero() {
		stands = time.Since(p.began)
	}
	return stands > readPatience || p.waited+stands > readPatience+time.Duration(p.written)*time.Second/leastRead
}

// Writer returns a writer to the page's reader.
func (p *Page) Writer(to io.Writer) io.Writer { return &pageWriter{p, to} }

type pageWriter struct {
	page *Page
	to   io.Writer
}

// Write implements io.Writer. It writes in parts, so a reader who takes some of a long text is not slow.
func (w *pageWriter) Write(text []byte) (n int, err error) {
	for n < len(text) && err == nil {
		var part int
		w.page.begin()
		part, err = w.to.Write(text[n:min(n+partBytes, len(text))])
		w.page.wrote(part)
		n += part
	}
	return n, err
}

func (p *Page) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = time.Now()
}

func (p *Page) wrote(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waited += time.Since(p.began)
	p.began = time.Time{}
	p.written += int64(n)
}
