package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stream is a stream to a server, with its connection. One goroutine owns it.
type stream struct {
	link *Link
	conn *grpc.ClientConn
	grpc grpc.BidiStreamingClient[agentwire.FromAgent, agentwire.FromServer]
	run  *run
	// rest: the agent reports to another server, and this one gets the rest of its run.
	rest     bool
	patience time.Duration // with a question; 0: none is asked
	end      func()
	said     *answers

	sent      uint64 // number of the last frame that was sent on the stream
	defined   uint32 // number of the last series that was defined on it
	numbers   map[*series]uint32
	series    map[uint32]*series
	forgotten []uint32           // numbers that the server does not know yet to be used no more
	handing   *agentwire.History // has no answer yet
	told      uint64             // number of the usage that was sent
	names     bool               // the server says names of containers, and takes seconds
}

// open opens a stream within some time.
func (l *Link) open(until context.Context, to address, within time.Duration, rest bool) (s *stream, err error) {
	own, end := context.WithCancel(until)
	opening := time.AfterFunc(within, end) // until the welcome
	s = &stream{link: l, rest: rest, end: end, numbers: map[*series]uint32{}, series: map[uint32]*series{},
		said: &answers{come: make(chan struct{}, 1), ended: make(chan error, 1), rejected: map[uint32]*agentwire.FromServer{}}}
	defer func() {
		if !opening.Stop() && until.Err() == nil && err != nil {
			err = fmt.Errorf("%w for %v", errSilent, within)
		}
		if err != nil {
			s.close()
		}
	}()
	if s.conn, err = grpc.NewClient("passthrough:///"+to.dial, append(slices.Clone(l.options), grpc.WithAuthority(to.host))...); err != nil {
		return s, err
	}
	said, err := l.token(own)
	if err != nil {
		return s, err
	}
	if s.grpc, err = agentwire.NewAgentsClient(s.conn).Report(said); err != nil {
		return s, err
	}
	hello := &agentwire.Hello{Protocol: agentwire.Protocol, Version: l.version, Node: l.cfg.Node, Run: l.run, Rest: rest, Scrapes: l.scrape != nil && !rest,
		KeepsUsage: l.usage != nil && !rest}
	if err := s.grpc.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: hello}}); err != nil {
		if _, why := s.grpc.Recv(); why != nil { // it says more
			err = why
		}
		return s, err
	}
	answer, err := s.grpc.Recv()
	if err != nil {
		return s, err
	}
	welcome := answer.GetWelcome()
	if welcome == nil {
		return s, errors.New("the server did not begin with a welcome: it speaks another protocol")
	}
	if theirs := max(welcome.Protocol, 1); !agentwire.Speaks(theirs) {
		return s, status.Errorf(codes.FailedPrecondition,
			"the server speaks version %d of the protocol, this agent (sluice %s) %d: update the older one",
			theirs, l.version, agentwire.Protocol)
	}
	s.sent, s.names = welcome.Applied, welcome.NamesContainers
	s.run = l.collector.enter(welcome.Name, welcome.Epoch, !rest)
	return s, nil
}

// close ends the stream and its connection.
func (s *stream) close() {
	s.end()
	if s.link.scrape != nil && !s.rest {
		s.link.scrape.end()
	}
	if s.run != nil {
		s.link.collector.leave(s.run, !s.rest)
	}
	if s.conn != nil {
		s.conn.Close()
	}
}

// talk sends frames and hears the answers.
func (s *stream) talk(ctx context.Context) error {
	l := s.link
	go s.said.receive(s.grpc, s.end)
	each := time.NewTicker(time.Second)
	defer each.Stop()
	var due, urgent <-chan time.Time
	stopping := ctx.Done()
	wake(l.collector.dirty) // something may have changed before
	var measured chan struct{}
	if l.usage != nil {
		measured = l.usage.changed
		l.usage.askAgain()
		wake(measured)
	}
	var fetched chan struct{}
	if l.scrape != nil {
		fetched = l.scrape.changed
	}
	for {
		if s.send() != nil {
			return s.failure()
		}
		if l.done(ctx) {
			s.finish()
			return nil
		}
		select {
		case <-stopping:
			stopping = nil // what is left is in frames: see Run
		case <-s.said.come:
			s.hearAll()
		case err := <-s.said.ended:
			s.hearAll() // the last answers may have come with the end
			return err
		case <-l.collector.dirty:
			due = time.After(max(l.frameEvery()-time.Since(l.frameAt), urgentAfter))
		case <-measured:
			s.tellUsage()
			s.handOver()
		case <-fetched:
			for _, page := range l.scrape.take() {
				// If it fails, the stream has ended, which the next turn hears.
				_ = s.grpc.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Page{Page: page}})
			}
		case <-l.collector.urgent:
			urgent = time.After(urgentAfter)
		case <-due:
			due = nil
			l.cut(time.Now())
		case <-urgent:
			urgent = nil
			l.cut(time.Now())
		case now := <-each.C:
			s.forget(l.collector.sweep(now))
			s.handOver()
			if now.Sub(l.frameAt) >= beatEvery {
				l.cut(now)
			}
		}
	}
}

// tellRest sends the rest of a run, until the server has it on disk. The last frame is empty: it says that all has been told.
func (s *stream) tellRest() error {
	s.link.collector.greet(s.run, time.Now())
	go s.said.receive(s.grpc, s.end)
	if s.send() != nil {
		return s.failure()
	}
	for !s.link.collector.told(s.run) {
		select {
		case <-s.said.come:
			s.hearAll()
		case err := <-s.said.ended:
			s.hearAll()
			return err
		}
	}
	s.finish()
	return nil
}

// finish says that no frame follows, and waits until the server has read all: it would take the end of the connection for that of an agent
// that was killed.
func (s *stream) finish() {
	_ = s.grpc.CloseSend()
	<-s.said.ended
	s.hearAll()
}

// failure is the error of a stream that takes no frame: it says less than the stream's end.
func (s *stream) failure() error {
	s.end() // if it has not ended
	err := <-s.said.ended
	s.hearAll()
	return err
}

// forget makes the server forget series.
func (s *stream) forget(all []*series) {
	for _, one := range all {
		if number, there := s.numbers[one]; there {
			delete(s.numbers, one)
			delete(s.series, number)
			s.forgotten = append(s.forgotten, number)
		}
	}
}

// send sends the frames that were not sent on this stream.
func (s *stream) send() error {
	for _, f := range s.link.collector.next(s.run, s.sent, !s.rest) {
		w := &agentwire.Frame{Number: f.number, AgeNanos: int64(time.Since(f.made)), FirstNanos: int64(time.Since(f.began)), Last: f.last, Forgotten: s.forgotten}
		s.forgotten = nil
		for _, changed := range f.changes {
			number := s.numbers[changed.series]
			if number == 0 {
				s.defined++
				number = s.defined
				s.numbers[changed.series], s.series[number] = number, changed.series
				w.Series = append(w.Series, changed.numbered(number))
			}
			w.Changes = append(w.Changes, changed.wire(number))
		}
		if err := s.grpc.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: w}}); err != nil {
			return err
		}
		s.sent = f.number
		if s.patience > 0 && s.said.ask(s.patience) {
			if err := s.grpc.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Ping{Ping: &agentwire.Ping{}}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// hearAll does what the server has said.
func (s *stream) hearAll() {
	for _, answer := range s.said.take() {
		s.hear(answer)
	}
}

// hear does what the server says.
func (s *stream) hear(answer *agentwire.FromServer) {
	l := s.link
	switch m := answer.Message.(type) {
	case *agentwire.FromServer_Ack:
		l.collector.forget(s.run, m.Ack.Number, m.Ack.Published, m.Ack.Final)
	case *agentwire.FromServer_Renewed:
		if l.usage != nil {
			l.usage.renew(m.Renewed)
		}
	case *agentwire.FromServer_Names:
		if l.usage != nil {
			l.usage.named(m.Names)
		}
	case *agentwire.FromServer_PointsQuestion:
		if l.usage != nil {
			// If it fails, the stream has ended, which the next turn hears.
			_ = s.grpc.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Points{Points: l.usage.points(m.PointsQuestion)}})
		}
	case *agentwire.FromServer_History:
		if l.usage == nil {
			return
		}
		if err := l.usage.take(m.History); err != nil {
			l.log.Warn("the former agent's usage is of no use in part", "error", err)
		}
	case *agentwire.FromServer_HistoryTaken:
		s.historyTaken(m.HistoryTaken.Taken)
	case *agentwire.FromServer_Targets:
		if l.scrape != nil {
			l.scrape.follow(m.Targets)
		}
	case *agentwire.FromServer_Rejection:
		r := m.Rejection
		one, reason := s.series[r.Series], metric.ReasonOf(r.Reason)
		if one == nil || reason == metric.Applied {
			return
		}
		if r.ForNanos > 0 { // the server does not keep it
			s.forget([]*series{one})
		}
		l.collector.reject(one, reason, time.Now().Add(min(max(time.Duration(r.ForNanos), 0), time.Minute)))
		if suppressed, ok := l.rejections.Allow(); ok {
			l.log.Warn("the server rejects a series", "name", metric.Excerpt(one.definition.Name), "tags", metric.Excerpt(one.definition.Tags),
				"reason", r.Reason, "why", metric.Mask(r.Words), "suppressed", suppressed)
		}
	}
}

// errSilent: nothing came from the server.
var errSilent = errors.New("the server said nothing")

// answers are what the server has said and the link has not heard yet. They take no more than the series of the stream: there is
// one acknowledgement, the last, and one rejection of each series.
type answers struct {
	come  chan struct{}
	ended chan error // why there are no more

	mu       sync.Mutex // guards the fields below
	acked    *agentwire.FromServer
	rejected map[uint32]*agentwire.FromServer
	inOrder  []*agentwire.FromServer // all others
	silence  *time.Timer             // nil: not yet
	answered time.Time               // when the last answer came
	asked    bool                    // a question has no answer yet
}

// receive takes answers until the stream ends. It never waits for the link: the server reads no frame while nobody takes its answers.
// The stream ends if there is no answer for silentAfter, or to a question for the patience of that.
func (a *answers) receive(stream grpc.BidiStreamingClient[agentwire.FromAgent, agentwire.FromServer], end func()) {
	var silent atomic.Bool
	a.mu.Lock()
	a.silence = time.AfterFunc(silentAfter, func() { silent.Store(true); end() })
	a.mu.Unlock()
	defer a.silence.Stop()
	for {
		answer, err := stream.Recv()
		if err != nil {
			if silent.Load() {
				err = errSilent
			}
			a.ended <- err
			return
		}
		a.put(answer)
		wake(a.come)
	}
}

func (a *answers) put(answer *agentwire.FromServer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.answered = false, time.Now()
	a.silence.Reset(silentAfter)
	switch m := answer.Message.(type) {
	case *agentwire.FromServer_Ack:
		a.acked = answer
	case *agentwire.FromServer_Rejection:
		if len(a.rejected) < maxUnheard {
			a.rejected[m.Rejection.Series] = answer
		}
	case *agentwire.FromServer_Renewed, *agentwire.FromServer_History, *agentwire.FromServer_HistoryTaken, *agentwire.FromServer_Targets,
		*agentwire.FromServer_Names, *agentwire.FromServer_PointsQuestion:
		if len(a.inOrder) < maxUnheard {
			a.inOrder = append(a.inOrder, answer)
		}
	}
}

// ask reports whether the server is to be asked for an answer, which must come within some time.
func (a *answers) ask(within time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked || a.silence == nil || time.Since(a.answered) < askEvery {
		return false
	}
	a.asked = true
	a.silence.Reset(within)
	return true
}

// maxUnheard bounds the rejections that the link has not heard. The server repeats those of series that go on.
const maxUnheard = 1 << 17

// take returns what has come since the last call.
func (a *answers) take() (all []*agentwire.FromServer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.acked != nil {
		all = append(all, a.acked)
	}
	all = slices.AppendSeq(all, maps.Values(a.rejected))
	all = append(all, a.inOrder...)
	a.acked, a.inOrder = nil, nil
	clear(a.rejected)
	return all
}
