package agents

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agent"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc/codes"
)

// scrapes are those of an agent that connects: news to tell, and what it says.
type scrapes struct {
	add   chan []metric.ScrapeTarget
	drop  chan []uint64
	pages chan metric.ScrapedPage
	left  chan string
	node  string
}

func newScrapes() *scrapes {
	return &scrapes{make(chan []metric.ScrapeTarget, 1), make(chan []uint64, 1), make(chan metric.ScrapedPage, 10), make(chan string, 10), ""}
}

func (s *scrapes) Heard()                     {}
func (s *scrapes) Namespace(uint64) string    { return "shop" }
func (s *scrapes) Take(p *metric.ScrapedPage) { s.pages <- *p }
func (s *scrapes) Leave()                     { s.left <- s.node }
func (s *scrapes) News() (add []metric.ScrapeTarget, drop []uint64) {
	select {
	case add = <-s.add:
	default:
	}
	select {
	case drop = <-s.drop:
	default:
	}
	return add, drop
}

// fetches are what an agent is told.
type fetches struct {
	started chan metric.ScrapeTarget
	stopped chan uint64
}

func (f fetches) Start(t metric.ScrapeTarget) { f.started <- t }
func (f fetches) Stop(number uint64)          { f.stopped <- number }

// Targets go to the agent and pages come back, whole; with the stream, all targets end.
func TestScrapes(t *testing.T) {
	told, parts := newScrapes(), newTable().parts()
	parts.Scrapes = func(node string) Scrapes { told.node = node; return told }
	s := serve(t, "127.0.0.1:0", parts)
	_, link := newLink(t, s.Addr().String())
	const number = 2*maxTargets + 3
	scrape, fetcher := agent.NewScrape(), fetches{make(chan metric.ScrapeTarget, number), make(chan uint64, number)}
	scrape.By(fetcher)
	link.Scrape(scrape)
	end := runLink(t, link)

	var want []metric.ScrapeTarget
	for i := range number {
		target := metric.ScrapeTarget{Number: uint64(i) + 1<<63, UID: fmt.Sprint("uid", i), Address: netip.MustParseAddr("fd00::1"), Soon: i%2 == 0,
			Endpoint: metric.Endpoint{Port: 65535, Path: "/m?x=1", Names: []string{"a", "vllm:b"}, Interval: time.Second}}
		if i == 0 {
			target.Address = netip.MustParseAddr("10.0.0.1")
		}
		want = append(want, target)
	}
	told.add <- want
	for i := range want {
		if got := <-fetcher.started; !reflect.DeepEqual(got, want[i]) {
			t.Fatalf("target %+v, want %+v", got, want[i])
		}
	}
	page := metric.ScrapedPage{Target: want[0].Number, Result: "missing", Fault: "a fault", Missing: []string{"a"}, Took: time.Second, Bytes: 9, Lines: []byte("b 1\n")}
	scrape.Fetched(&page)
	if got := <-told.pages; !reflect.DeepEqual(got, page) {
		t.Errorf("page %+v, want %+v", got, page)
	}
	told.drop <- []uint64{want[1].Number}
	if got := <-fetcher.stopped; got != want[1].Number {
		t.Errorf("target %d ends, want %d", got, want[1].Number)
	}
	end()
	if node := <-told.left; node != "a" {
		t.Errorf("the agent of %q has left", node)
	}
	close(fetcher.stopped)
	var ended []uint64
	for n := range fetcher.stopped {
		ended = append(ended, n)
	}
	if slices.Sort(ended); len(ended) != number-1 || ended[0] != want[0].Number || ended[1] != want[2].Number {
		t.Errorf("%d targets ended with the stream, want %d", len(ended), number-1)
	}
}

// An agent of a version that takes no targets gets none, nor does a stream for the rest of a run; a page over the limit ends
// a stream.
func TestWhoScrapes(t *testing.T) {
	told, parts := newScrapes(), newTable().parts()
	parts.Scrapes = func(string) Scrapes { return told }
	s := serve(t, "127.0.0.1:0", parts)
	for i, hello := range []*agentwire.Hello{{}, {Scrapes: true, Rest: true}, {Scrapes: true}} {
		hello.Protocol, hello.Node, hello.Run = 1, "a", uint64(i+1)
		c := s.dial(context.Background())
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: hello}})
		c.next(func(a *agentwire.FromServer) bool { return a.GetWelcome() != nil })
		send := func(p *agentwire.Page) {
			c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Page{Page: p}})
			c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Ping{Ping: &agentwire.Ping{}}})
		}
		send(&agentwire.Page{Target: 1, TookNanos: -1, Bytes: -1})
		c.next(func(a *agentwire.FromServer) bool { return a.GetAck() != nil })
		if hello.Scrapes && !hello.Rest {
			if p := <-told.pages; p.Took != 0 || p.Bytes != 0 {
				t.Errorf("a page that took %v and has %d bytes", p.Took, p.Bytes)
			}
		}
		if len(told.pages) > 0 {
			t.Errorf("%+v: a page is taken", hello)
		}
		send(&agentwire.Page{Lines: make([]byte, maxLines+1)})
		c.fails(codes.InvalidArgument, "bytes of named metrics; must have at most")
	}
}

// A page that is taken slowly, as a large one of another agent is parsed, delays neither frames nor small pages, and those that wait
// behind it are bounded.
func TestPagesDelayNoFrames(t *testing.T) {
	told, table := newScrapes(), newTable()
	parts, slow, large := table.parts(), make(chan struct{}), make(chan struct{}, 1000)
	parts.Scrapes = func(string) Scrapes { return slowly{told, slow, large} }
	s := serve(t, "127.0.0.1:0", parts)
	c := s.dial(context.Background())
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Node: "a", Run: 7, Scrapes: true}}})
	page := func(lines int) {
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Page{Page: &agentwire.Page{Lines: make([]byte, lines)}}})
	}
	const each = 1 << 20
	for range maxLarge/each + 20 {
		page(each)
	}
	page(10)
	c.frame(1, add(1, 5))
	if p := <-told.pages; len(p.Lines) != 10 {
		t.Errorf("a page of %d bytes is taken first", len(p.Lines))
	}
	for table.sum("c1") != 5 {
		time.Sleep(time.Millisecond)
	}
	if n := s.largePages.Held(); n != maxLarge/4*3 {
		t.Errorf("%d bytes wait", n)
	}
	_ = c.CloseSend()
	close(slow)
	<-told.left
	if n := s.largePages.Held(); n != 0 || len(large) == 0 || len(large) > maxLarge/each {
		t.Errorf("%d bytes wait after the end, and %d pages were taken", n, len(large))
	}
}

// Pages of one namespace that come faster than they are taken leave room for those of others, whether they are as large as a page may
// be, or many.
func TestPagesOfANamespaceLeaveRoom(t *testing.T) {
	for _, size := range []int{10, smallPage + 1, 1 << 20} {
		lines := fair.NewRoom[string](int64(maxLarge))
		var p pages
		slow, taken := make(chan struct{}), make(chan uint64, 2000)
		p.take(lines, func(one *metric.ScrapedPage) { <-slow; taken <- one.Target })
		for range 1000 {
			p.add(&metric.ScrapedPage{Target: 1, Lines: make([]byte, size)}, "hostile")
		}
		p.add(&metric.ScrapedPage{Target: 2, Lines: make([]byte, size)}, "shop")
		p.add(&metric.ScrapedPage{Target: 3, Lines: make([]byte, size)}, "bank")
		close(slow)
		for p.small.places.Held()+p.large.places.Held() > 0 {
			time.Sleep(time.Millisecond)
		}
		p.end()
		close(taken)
		var others []uint64
		for target := range taken {
			if target != 1 {
				others = append(others, target)
			}
		}
		if !slices.Equal(others, []uint64{2, 3}) || lines.Held() != 0 {
			t.Errorf("%d bytes: pages of %d were taken beside the flood; %d bytes wait at the end", size, others, lines.Held())
		}
	}
}

// slowly takes large pages once slow is closed.
type slowly struct {
	*scrapes
	slow  <-chan struct{}
	large chan<- struct{}
}

func (s slowly) Take(p *metric.ScrapedPage) {
	if len(p.Lines) > smallPage {
		<-s.slow
		s.large <- struct{}{}
		return
	}
	s.scrapes.Take(p)
}
