package agents

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// ackEvery is the time between two acknowledgements, and between two looks at what waits.
	ackEvery = 500 * time.Millisecond
	// maxDefined bounds the series of a stream, maxDefinedBytes their strings, maxAgain the bytes of the frames that are collected
	// to be applied at once.
	maxDefined      = 1 << 20
	maxDefinedBytes = 256 << 20
	maxAgain        = 256 << 20
	// rejectFor is how long an agent keeps samples of a rejected series.
	rejectFor = 10 * time.Second
)

// run is one run of an agent: what it has told since this process started, on one stream after the other.
type run struct {
	stream *stream   // nil: the agent is not connected; guarded by the server's lock
	left   time.Time // when its last stream ended; guarded by the server's lock

	// The stream's goroutine owns the fields below.
	applied  uint64        // number of the last frame
	acked    uint64        // number of the last acknowledged one
	marks    []appliedMark // of frames that are not acknowledged
	waiting  []*waiting    // in the order of their frames
	waits    int           // their bytes
	restored uint64        // number of the last frame that restored series may include
	recorded time.Time     // when the table has recorded the last frame that counted as of now
}

// appliedMark says when frames up to a number had been applied, with what had waited: a flush that began later includes them.
type appliedMark struct {
	number uint64
	at     time.Time
}

// stream is one connection of an agent. The goroutine of its request owns it.
type stream struct {
	*run
	server  *Server
	grpc    grpc.BidiStreamingServer[agentwire.FromAgent, agentwire.FromServer]
	node    string
	version string
	feed    uint64        // the run's number
	end     chan struct{} // closed for a newer stream of the run
	ended   chan struct{}

	series  map[uint32]*definition
	defined int // bytes of their strings
	// again are frames that come again after a restore: they are applied at once.
	again      []frame
	againBytes int
	whole      time.Time       // when the last of them had come
	said       map[uint32]bool // series whose rejection was told since the last tick
}

func newStream(s *Server, g grpc.BidiStreamingServer[agentwire.FromAgent, agentwire.FromServer], node string, hello *agentwire.Hello) *stream {
	return &stream{server: s, grpc: g, node: node, version: hello.Version, feed: hello.Run, end: make(chan struct{}),
		ended: make(chan struct{}), series: map[uint32]*definition{}, said: map[uint32]bool{}}
}

// forgetRun is the time after its last stream for which a run is remembered.
const forgetRun = time.Hour

// enter makes a stream that of its run and node. An older stream of the run ends first: its connection may be lost without
// this side's knowledge. It returns false if that does not end.
func (s *Server) enter(t *stream) bool {
	for range 2 {
		s.mu.Lock()
		s.sweep()
		r := s.runs[t.feed]
		if r == nil {
			r = &run{restored: s.parts.Restored(t.feed)}
			s.runs[t.feed] = r
		}
		before := r.stream
		if before == nil {
			t.run, r.stream = r, t
			s.agents[t.node]++
			s.count.streams.Add(1)
			s.mu.Unlock()
			s.log.Info("an agent has connected", "node", t.node, "version", t.version)
			return true
		}
		s.mu.Unlock()
		before.endOnce()
		select {
		case <-before.ended:
		case <-time.After(answerPatience):
			return false
		case <-t.grpc.Context().Done():
			return false
		}
	}
	return false
}

// endOnce ends a stream for a newer one.
func (t *stream) endOnce() {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	select {
	case <-t.end:
	default:
		close(t.end)
	}
}

// sweep forgets runs that ended long ago, once a minute. The lock is held.
func (s *Server) sweep() {
	now := time.Now()
	if now.Sub(s.swept) < time.Minute {
		return
	}
	s.swept = now
	for id, r := range s.runs {
		if r.stream == nil && now.Sub(r.left) > forgetRun {
			for _, w := range r.waiting {
				s.parts.Account.Settle(metric.Identity, w.change.Samples)
			}
			delete(s.runs, id)
		}
	}
}

// leave is the end of a stream.
func (s *Server) leave(t *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.run.stream, t.left = nil, time.Now()
	if s.agents[t.node]--; s.agents[t.node] == 0 {
		delete(s.agents, t.node)
	}
	close(t.ended)
	s.log.Info("an agent has gone", "node", t.node)
}

// serve serves a stream until it ends.
func (t *stream) serve() error {
	if err := t.welcome(); err != nil {
		return err
	}
	frames, failed := make(chan *agentwire.Frame), make(chan error, 1)
	go t.receive(frames, failed)
	each := time.NewTicker(ackEvery)
	defer each.Stop()
	for {
		var err error
		select {
		case f := <-frames:
			err = t.frame(f)
		case now := <-each.C:
			err = t.tick(now)
		case <-t.end:
			return status.Error(codes.Aborted, "the agent has connected again")
		case err = <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

func (t *stream) welcome() error {
	return t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_Welcome{Welcome: &agentwire.Welcome{Applied: t.applied}}})
}

func (t *stream) receive(frames chan<- *agentwire.Frame, failed chan<- error) {
	for {
		message, err := t.grpc.Recv()
		if err != nil {
			failed <- err
			return
		}
		f := message.GetFrame()
		if f == nil {
			failed <- status.Error(codes.InvalidArgument, "a message is no frame")
			return
		}
		select {
		case frames <- f:
		case <-t.grpc.Context().Done():
			failed <- t.grpc.Context().Err()
			return
		}
	}
}

// frame takes a frame. Frames that a restored table may include wait for the last of them.
func (t *stream) frame(f *agentwire.Frame) error {
	last := t.applied
	if n := len(t.again); n > 0 {
		last = t.again[n-1].Number
	}
	if last != 0 && f.Number != last+1 || f.Number == 0 {
		return status.Errorf(codes.InvalidArgument, "frame %d came after frame %d; must be %d", f.Number, last, last+1)
	}
	came := frame{Frame: f}
	if err := t.define(&came); err != nil {
		return err
	}
	bytes := proto.Size(f)
	t.server.count.frames.Add(1)
	t.server.parts.Account.AddPackets(1, uint64(bytes))
	if f.Number > t.restored && len(t.again) == 0 {
		return t.apply([]frame{came})
	}
	if t.again, t.againBytes = append(t.again, came), t.againBytes+bytes; t.againBytes > maxAgain {
		return status.Errorf(codes.ResourceExhausted, "more than %d bytes of frames come again", maxAgain)
	}
	return t.applyAgain(time.Now())
}

// applyAgain applies the frames that come again, once the last of them has come and their senders are known: a block may include
// their changes, so none of these may wait longer than others.
func (t *stream) applyAgain(now time.Time) error {
	n := len(t.again)
	if n == 0 || t.again[n-1].Number < t.restored {
		return nil
	}
	if t.whole.IsZero() {
		t.whole = now
	}
	if now.Sub(t.whole) < maxWait && slices.ContainsFunc(t.again, t.waitsFor) {
		return nil
	}
	all := t.again
	t.again, t.againBytes = nil, 0
	return t.apply(all)
}

// waitsFor reports whether a frame that comes again has a sender that is not known.
func (t *stream) waitsFor(f frame) bool {
	senders := t.server.parts.Senders
	return senders != nil && f.Number <= t.restored && slices.ContainsFunc(f.of, func(d *definition) bool {
		return d.address.IsValid() && senders.Sender(d.address) == nil
	})
}

// tick acknowledges, and looks at what waits.
func (t *stream) tick(now time.Time) error {
	clear(t.said)
	if err := t.applyAgain(now); err != nil {
		return err
	}
	if err := t.settle(now); err != nil {
		return err
	}
	durable, ok := t.server.parts.Durable()
	for len(t.marks) > 0 && (!ok || t.marks[0].at.Before(durable)) && !t.holds(t.marks[0].number) {
		t.acked, t.marks = t.marks[0].number, t.marks[1:]
	}
	return t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_Ack{Ack: &agentwire.Ack{Number: t.acked}}})
}

// holds reports whether samples of a frame up to a number wait.
func (t *stream) holds(number uint64) bool {
	return len(t.waiting) > 0 && t.waiting[0].number <= number
}
