package agent

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc"
)

// toldServer is a server as an agent sees it: a table that takes each frame of its run once, also after a kill.
type toldServer struct {
	name      string
	epoch     uint64
	applied   uint64 // since it started
	sum       uint64 // what the table has
	numbers   map[uint64]uint64
	durable   uint64 // number of the last frame on disk
	published uint64
}

func (s *toldServer) take(f *frame) {
	if s.applied != 0 && f.number != s.applied+1 {
		panic("a number jumps")
	}
	if s.applied = f.number; f.number > s.durable {
		s.numbers[f.number] = f.samples
		s.sum += f.samples
	}
}

func (s *toldServer) flush() {
	s.durable = max(s.durable, s.applied)
	s.published = s.durable
}

// undo takes frames after a number out of the table.
func (s *toldServer) undo(number uint64) {
	for n, samples := range s.numbers {
		if n > number {
			s.sum -= samples
			delete(s.numbers, n)
		}
	}
}

// Whatever becomes of the servers, each sample counts at one of them, once.
func TestEachSampleCountsAtOneServer(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		c, pushed, shadows := collector(64<<20), uint64(0), uint64(0)
		epochs := uint64(0)
		fresh := func(name string) *toldServer {
			epochs++
			return &toldServer{name: name, epoch: epochs, numbers: map[uint64]uint64{}}
		}
		all := []*toldServer{fresh("a"), fresh("b"), fresh("c")}
		visit := func(s *toldServer, main bool, frames int) {
			run := c.enter(s.name, s.epoch, main)
			if !main && c.waits(run) {
				c.greet(run, time.Now())
			}
			sent := s.applied
			for _, f := range c.next(run, sent, main) {
				if frames--; frames < 0 {
					break
				}
				s.take(f)
			}
			if r.IntN(2) == 0 {
				s.flush()
			}
			if r.IntN(2) == 0 {
				c.forget(run, min(s.durable, s.applied), s.published, false)
			}
			if r.IntN(10) == 0 && s.applied >= s.durable { // a clean end, and a start
				s.flush()
				c.forget(run, min(s.durable, s.applied), s.published, true)
				s.applied = 0
			}
			c.leave(run, main)
			if !main {
				c.told(run)
			}
		}
		for range 300 {
			for range r.IntN(4) {
				c.apply(named("jobs", metric.Counter, metric.Add, 1))
				pushed++
			}
			c.cut(time.Now())
			i := r.IntN(len(all))
			s := all[i]
			switch r.IntN(8) {
			case 0: // killed, and back
				s.undo(s.durable)
				s.applied = 0
			case 1: // its disk is lost; what was published is in shadows, and the agent has heard of it
				if run := c.enter(s.name, s.epoch, false); true {
					c.forget(run, 0, s.published, false)
					c.leave(run, false)
				}
				s.undo(s.published)
				shadows += s.sum
				all[i] = fresh(s.name)
			case 2:
				visit(s, false, 1000)
			default:
				visit(s, true, r.IntN(4))
			}
		}
		for range 3 {
			for _, s := range all {
				visit(s, true, 1000)
				s.flush()
				run := c.enter(s.name, s.epoch, true)
				c.forget(run, min(s.durable, s.applied), s.published, false)
				c.leave(run, true)
			}
		}
		sum := shadows
		for _, s := range all {
			sum += s.sum
		}
		if sum != pushed || c.Held() != 0 || c.acknowledged.Load() != pushed || c.lost.Load() != 0 {
			t.Fatalf("seed %d: %d count, %d were pushed, %d are held, %d acknowledged", seed, sum, pushed, c.Held(), c.acknowledged.Load())
		}
	}
}

// A server that does not come back is given up after an hour, or for memory; but not what others were told of, and not the only server.
func TestGivenUpServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := collector(64 << 20)
		push := func(n int) {
			for range n {
				c.apply(named("jobs", metric.Counter, metric.Add, 1))
			}
			c.cut(time.Now())
		}
		first := c.enter("a", 1, true)
		push(3)
		c.next(first, 0, true)
		push(5)
		c.next(first, 1, true)
		c.forget(first, 0, 1, false)
		c.leave(first, true)
		time.Sleep(2 * loseAfter)
		if c.owed(time.Now()); c.lost.Load() != 0 {
			t.Errorf("%d samples of the only server are lost", c.lost.Load())
		}
		second := c.enter("b", 2, true)
		c.leave(second, true)
		if !c.owed(time.Now()) && c.lost.Load() != 5 {
			t.Errorf("%d samples are lost, want 5", c.lost.Load())
		}
		if c.acknowledged.Load() != 3 || c.Held() != 0 {
			t.Errorf("%d acknowledged, %d held", c.acknowledged.Load(), c.Held())
		}
		// It comes back all the same: its numbers go on.
		again := c.enter("a", 1, false)
		push(1)
		if left := c.next(again, 2, false); len(left) != 0 || again.last != 2 {
			t.Errorf("%d frames, the last is %d", len(left), again.last)
		}
	})
	c := collector(50_000)
	first := c.enter("a", 1, true)
	for i := 0; c.bytes < c.maxBytes/2; i++ {
		c.apply(named("took", metric.Timer, metric.Observe, float64(i)))
	}
	c.cut(time.Now())
	c.next(first, 0, true)
	c.leave(first, true)
	c.leave(c.enter("b", 2, true), true)
	rejected := false
	for i := 0; i < 10_000 && !rejected && c.lost.Load() == 0; i++ {
		rejected = c.apply(named("took", metric.Timer, metric.Observe, float64(i))) != metric.Applied
	}
	if c.lost.Load() == 0 || rejected {
		t.Errorf("%d samples of a server that is away are lost for memory; rejected: %t", c.lost.Load(), rejected)
	}
}

// A server that refuses its run at each visit is given up after an hour, as one that is away is.
// One that takes a frame now and then is not.
func TestAServerThatRefusesItsRunIsGivenUp(t *testing.T) {
	for _, takes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := collector(64 << 20)
			refusing := c.enter("a", 1, true)
			for range 5 {
				c.apply(named("jobs", metric.Counter, metric.Add, 1))
				c.cut(time.Now())
			}
			c.next(refusing, 0, true)
			c.leave(refusing, true)
			c.enter("b", 2, true)
			visits := 0
			for begin := time.Now(); time.Since(begin) < 2*loseAfter && c.owed(time.Now()); visits++ {
				c.enter("a", 1, false)
				c.greet(refusing, time.Now())
				if takes && visits%10 == 0 {
					c.forget(refusing, refusing.frames[0].number, 0, false)
				}
				c.leave(refusing, false)
				c.told(refusing)
				time.Sleep(4 * time.Minute)
			}
			want := uint64(5)
			if takes {
				want = 0
			}
			if c.lost.Load() != want || c.Held() != 0 && !takes {
				t.Errorf("%d samples are lost after %d visits, want %d; %d are held", c.lost.Load(), visits, want, c.Held())
			}
		})
	}
}

// The log of a rejection has no secret that a client sent by mistake.
func TestSecretsOfRejections(t *testing.T) {
	var log bytes.Buffer
	link := &Link{collector: NewCollector(DefaultConfig()), log: slog.New(slog.NewTextHandler(&log, nil))}
	s := &stream{link: link, series: map[uint32]*series{1: {definition: &agentwire.Series{
		Name: []byte("login?password=hunter2"), Tags: []byte("token:hunter2")}}}}
	s.hear(&agentwire.FromServer{Message: &agentwire.FromServer_Rejection{Rejection: &agentwire.Rejection{
		Series: 1, Reason: "limit", Words: `metric "login?password=hunter2" is rejected`}}})
	if text := log.String(); !strings.Contains(text, "login") || strings.Contains(text, "hunter2") {
		t.Error(text)
	}
}

// A series that the server has rejected for some time is defined again, by another number. One of a single bad moment is not.
func TestRejectedSeriesAreDefinedAgain(t *testing.T) {
	for hold, want := range map[time.Duration]uint32{0: 1, 10 * time.Second: 2} {
		synctest.Test(t, func(t *testing.T) {
			c, wire := collector(64<<20), &sentFrames{}
			link := &Link{collector: c, log: slog.New(slog.DiscardHandler)}
			s := &stream{link: link, grpc: wire, run: c.enter("", 1, true), numbers: map[*series]uint32{}, series: map[uint32]*series{}}
			for range 2 {
				if r := c.apply(named("requests", metric.Counter, metric.Add, 1)); r != metric.Applied {
					t.Fatal(r)
				}
				c.cut(time.Now())
				if err := s.send(); err != nil {
					t.Fatal(err)
				}
				s.hear(&agentwire.FromServer{Message: &agentwire.FromServer_Rejection{Rejection: &agentwire.Rejection{
					Series: 1, Reason: "limit", ForNanos: int64(hold)}}})
				time.Sleep(hold)
			}
			last := wire.all[1]
			if last.Changes[0].Series != want || len(last.Series) != int(want-1) || len(last.Forgotten) != int(want-1) {
				t.Errorf("after %v: %v", hold, last)
			}
		})
	}
}

// sentFrames is a stream to a server that keeps the frames.
type sentFrames struct {
	grpc.BidiStreamingClient[agentwire.FromAgent, agentwire.FromServer]
	all []*agentwire.Frame
}

func (s *sentFrames) Send(m *agentwire.FromAgent) error {
	s.all = append(s.all, m.GetFrame())
	return nil
}

// An agent ends while a stream takes its frames: the last one says that it is.
func TestTheLastFrameIsTakenAsSuch(t *testing.T) {
	for range 1000 {
		c := NewCollector(DefaultConfig())
		var r run
		var end sync.WaitGroup
		end.Go(func() { c.end(time.Now()) })
		frames := c.next(&r, 0, true)
		for len(frames) == 0 {
			frames = c.next(&r, 0, true)
		}
		if last := frames[len(frames)-1].last; !last {
			t.Fatal("a frame was taken that was to be the last one")
		}
		end.Wait()
	}
}
