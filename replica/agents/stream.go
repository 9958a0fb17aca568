package agents

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
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
	// ackEvery is the time between two looks at what waits and what is on disk, beatEvery that between two acknowledgements,
	// also if they say nothing new.
	ackEvery  = 500 * time.Millisecond
	beatEvery = 2 * time.Second
	// maxDefinedBytes bounds the series of a stream.
	maxDefinedBytes = 64 << 20
	// maxNodeBytes bounds the series of a node's streams and what waits of its runs: that of two agents, as during an update.
	maxNodeBytes = 2 * (maxDefinedBytes + maxWaitingBytes)
	// againWait is how long frames that come again wait for senders that are not known. Streams begin once the cluster is read,
	// so those are of pods that are gone, or very new.
	againWait = 2 * time.Second
	// rejectFor is how long an agent keeps samples of a rejected series.
	rejectFor = 10 * time.Second
)

// run is one run of an agent: what it has told since this process started, on one stream after the other.
type run struct {
	node   string
	stream *stream   // nil: the agent is not connected; guarded by the server's lock
	left   time.Time // when its last stream ended; guarded by the server's lock
	came   bool      // it had a stream; guarded by the server's lock

	// The stream's goroutine owns the fields below.
	applied   uint64        // number of the last frame
	acked     uint64        // number of the last acknowledged one
	marks     []appliedMark // of frames that are not acknowledged
	waiting   []*waiting    // in the order of their frames
	waits     int           // their bytes
	blind     time.Time     // when the API server was last seen to be away
	published uint64        // number of the last one that other replicas were told of
	restored  uint64        // number of the last frame that restored series may include
	recorded  time.Time     // when the table has recorded the last frame that counted as of now
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
	pod     string    // UID of the agent's pod; empty: it is not known
	podAt   time.Time // when the pod was there last, or the stream began
	version string
	of      *node         // what is counted for the node
	stopped bool          // the agent has said that it ends, by its last frame or by the end of the stream
	feed    uint64        // the run's number
	rest    bool          // the agent reports to another server
	takes   bool          // the agent scrapes targets that it is told
	end     chan struct{} // closed for a newer stream of the run
	ended   chan struct{}
	began   time.Time
	// histories are those of the node's former agent, for this one.
	histories chan *agentwire.History
	keeps     bool // the agent answers questions for points
	questions chan pointsQuestion
	asked     map[uint64]pointsQuestion // those without an answer, by number
	lastAsked uint64

	series     map[uint32]*definition
	defined    int    // their bytes
	last       uint32 // the greatest number that was defined
	mostSeries int    // most series at once since their map was made
	// again are frames that come again after a restore: they are applied at once.
	again       []frame
	againBytes  int
	againBeyond int       // bytes of these that are in no room
	whole       time.Time // when the last of them had come
	fresh       bool      // the frame that is applied does not come again
	caughtUp    bool      // a frame of now has come
	ackAt       time.Time // of the last acknowledgement
	offSince    time.Time // since when nothing is persisted
	// said and saidBefore are why series were rejected, by number: those that were told since the last tick, and before it.
	said, saidBefore map[uint32]metric.Reason
	scrapes          Scrapes // nil: the agent scrapes nothing
	pages            pages
}

func newStream(s *Server, g grpc.BidiStreamingServer[agentwire.FromAgent, agentwire.FromServer], node, pod string, hello *agentwire.Hello) *stream {
	return &stream{server: s, grpc: g, node: node, pod: pod, podAt: time.Now(), version: hello.Version[:min(len(hello.Version), maxVersion)],
		feed: hello.Run, rest: hello.Rest, takes: hello.Scrapes && !hello.Rest, end: make(chan struct{}),
		ended: make(chan struct{}), began: time.Now(), histories: make(chan *agentwire.History, maxHistories),
		keeps: hello.KeepsUsage, questions: make(chan pointsQuestion), asked: map[uint64]pointsQuestion{},
		series: map[uint32]*definition{}, said: map[uint32]metric.Reason{}}
}

const (
	// forgetRun is the time after its last stream for which a run is remembered, maxRuns how many of one node are.
	forgetRun = time.Hour
	maxRuns   = 8
	// maxStreams is the number of streams of one node: two agents during an update, and some whose connection was lost.
	maxStreams = 8
	// formerFor is the time for which a node counts as one with an agent after that has gone: it may come back.
	formerFor = 10 * time.Minute
	// gather is the time after the start in which it is not known yet which nodes have agents.
	gather = 20 * time.Second
	// showAgain is the time after which an agent shows its token again.
	showAgain = 30 * time.Minute
	// podPatience is the time without the agent's pod after which its stream ends: a new pod may not be known yet, and the API server
	// may take the token of one that has ended for valid for ten seconds.
	podPatience = 30 * time.Second
	// standstill is the time between two turns of a stream, which come every ackEvery, after which the process stood still: what the
	// agent sent meanwhile is older than it says. The agent, which heard nothing, gives the stream up as well.
	standstill = 5 * time.Second
	// offFor is the time without persistence after which frames are acknowledged as soon as they are applied.
	offFor = time.Minute
)

// enter makes a stream that of its run and node. An older stream of the run ends first, unless the new one is for its rest: its
// connection may be lost without this side's knowledge.
func (s *Server) enter(t *stream) error {
	defer s.forgetGone()
	for range 2 {
		s.mu.Lock()
		s.sweep()
		r := s.runs[t.feed]
		switch {
		case r != nil && r.node != t.node:
			s.mu.Unlock()
			return status.Error(codes.PermissionDenied, "the run is of an agent of another node")
		case (r == nil || r.stream == nil) && s.isFullLocked(t.node):
			s.mu.Unlock()
			return status.Errorf(codes.ResourceExhausted, "the node has %d streams; must have fewer", maxStreams)
		case r == nil:
			s.makeRoom(t.node)
			r = &run{node: t.node, restored: s.parts.Restored(t.feed)}
			s.runs[t.feed] = r
		}
		before := r.stream
		if before == nil {
			first := !r.came
			t.run, r.stream, r.came = r, t, true
			if t.of = s.nodes[t.node]; t.of == nil {
				t.of = &node{}
				s.nodes[t.node] = t.of
			}
			t.of.enter(t.version, time.Now())
			s.count.streams.Add(1)
			if s.parts.Nodes != nil && !t.rest { // the agent's other stream is to the replica that it reports to
				s.parts.Nodes.Came(t.node)
			}
			s.mu.Unlock()
			s.log.Info("an agent has connected", "node", t.node, "version", t.version)
			if first && s.parts.Came != nil {
				s.parts.Came(t.node)
			}
			return nil
		}
		s.mu.Unlock()
		if t.rest {
			break
		}
		before.endOnce()
		select {
		case <-before.ended:
			continue
		case <-time.After(answerPatience):
		case <-t.grpc.Context().Done():
		}
		break
	}
	return status.Error(codes.Aborted, "the run has another stream, which does not end")
}

// isFullLocked reports whether a node has as many streams as it may. Without Authenticate, agents say themselves which node they are of.
func (s *Server) isFullLocked(name string) bool {
	n := s.nodes[name]
	return s.parts.Authenticate != nil && n != nil && n.streams >= maxStreams
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

// sweep forgets runs and agents that ended long ago, once a minute. The lock is held.
func (s *Server) sweep() {
	now := time.Now()
	if now.Sub(s.swept) < time.Minute {
		return
	}
	s.swept = now
	for id, r := range s.runs {
		if r.stream == nil && now.Sub(r.left) > forgetRun {
			s.forget(id)
		}
	}
	maps.DeleteFunc(s.nodes, func(_ string, n *node) bool { return n.streams == 0 && now.Sub(n.left) > forgetRun })
}

// makeRoom forgets the run of a node that ended first, if the node has too many: an agent that starts again and again has a new one
// each time. The lock is held.
func (s *Server) makeRoom(node string) {
	n, first := 0, uint64(0)
	for id, r := range s.runs {
		if r.node != node || r.stream != nil {
			continue
		}
		if n++; n == 1 || r.left.Before(s.runs[first].left) {
			first = id
		}
	}
	if n >= maxRuns {
		s.forget(first)
	}
}

// forget forgets a run without a stream. The lock is held.
func (s *Server) forget(id uint64) {
	r := s.runs[id]
	for _, w := range r.waiting {
		s.parts.Account.Settle(metric.Identity, w.change.Samples)
		s.drop(w)
	}
	if n := s.nodes[r.node]; n != nil {
		n.held.Add(-int64(r.waits))
	}
	delete(s.runs, id)
	s.gone = append(s.gone, id)
}

// forgetGone tells the table of forgotten runs. The lock is not held: the table waits for frames that are applied, which may wait
// for the lock.
func (s *Server) forgetGone() {
	s.mu.Lock()
	gone := s.gone
	s.gone = nil
	s.mu.Unlock()
	for _, id := range gone {
		s.parts.Forget(id)
	}
}

// leave is the end of a stream.
func (s *Server) leave(t *stream) {
	t.dropAgain()
	for number := range t.series {
		t.undefine(number)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.run.stream, t.left = nil, time.Now()
	t.of.leave(t.stopped, t.left)
	if s.parts.Nodes != nil && t.of.streams == 0 {
		s.parts.Nodes.Left(t.node)
	}
	close(t.ended)
	s.log.Info("an agent has gone", "node", t.node)
}

// serve serves a stream until it ends.
func (t *stream) serve() error {
	if err := t.welcome(); err != nil {
		return err
	}
	if scrapes := t.server.parts.Scrapes; scrapes != nil && t.takes {
		t.scrapes = scrapes(t.node)
		defer t.scrapes.Leave()
		t.pages.take(t.server.largePages, t.scrapes.Take)
		defer t.pages.end()
	}
	messages, failed := make(chan *agentwire.FromAgent), make(chan error, 1)
	go t.receive(messages, failed)
	each := time.NewTicker(ackEvery)
	defer each.Stop()
	expired := time.NewTimer(showAgain + time.Duration(rand.Int64N(int64(showAgain/4))))
	defer expired.Stop()
	for turn := time.Now(); ; {
		var m *agentwire.FromAgent
		var err error
		select {
		case m = <-messages:
		case <-each.C:
		case h := <-t.histories:
			if err = t.tellHistory(h); err != nil {
				return err
			}
			continue
		case q := <-t.questions:
			if err = t.askPoints(q); err != nil {
				return err
			}
			continue
		case <-expired.C:
			return status.Error(codes.Aborted, "the token must be shown again")
		case <-t.server.ending:
			return t.ends()
		case <-t.end:
			return status.Error(codes.Aborted, "the agent has connected again")
		case err = <-failed:
			if errors.Is(err, io.EOF) {
				t.stopped = true
				return nil
			}
			return err
		}
		now := time.Now()
		if now.Sub(turn) > t.server.standstill {
			return status.Error(codes.Aborted, "the server stood still; frames must come again, with their ages")
		}
		if turn = now; m != nil {
			err = t.message(m)
		} else {
			err = t.tick(now)
		}
		if err != nil {
			return err
		}
	}
}

func (t *stream) welcome() error {
	return t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_Welcome{Welcome: &agentwire.Welcome{
		Applied: t.applied, Name: t.server.parts.Name, Epoch: t.server.parts.Epoch, Protocol: agentwire.Protocol,
		NamesContainers: t.server.parts.ContainerNamed != nil}}})
}

// message takes a frame, what the node uses, or a page.
func (t *stream) message(m *agentwire.FromAgent) error {
	if t.scrapes != nil {
		t.scrapes.Heard()
	}
	switch m := m.Message.(type) {
	case *agentwire.FromAgent_Frame:
		if m.Frame != nil {
			return t.frame(m.Frame)
		}
	case *agentwire.FromAgent_Ping:
		return t.acknowledge(false)
	case *agentwire.FromAgent_Usage:
		if m.Usage != nil {
			return t.usage(m.Usage)
		}
	case *agentwire.FromAgent_Seconds:
		if seconds := m.Seconds.Newest(); seconds != nil && t.server.parts.Seconds != nil {
			t.server.parts.Seconds(t.node, m.Seconds.Number, seconds)
		}
		return nil
	case *agentwire.FromAgent_Unnamed:
		if m.Unnamed != nil {
			return t.sayNames(m.Unnamed)
		}
	case *agentwire.FromAgent_Points:
		if m.Points != nil {
			t.pointsCame(m.Points)
			return nil
		}
	case *agentwire.FromAgent_History:
		if m.History != nil {
			return t.history(m.History)
		}
	case *agentwire.FromAgent_Page:
		if m.Page != nil {
			return t.page(m.Page)
		}
	}
	return status.Error(codes.InvalidArgument, "a message is no frame, no question, no usage and no page")
}

func (t *stream) receive(messages chan<- *agentwire.FromAgent, failed chan<- error) {
	for {
		message, err := t.grpc.Recv()
		if err != nil {
			failed <- err
			return
		}
		select {
		case messages <- message:
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
	var err error
	if f.Number > t.restored && len(t.again) == 0 {
		err = t.apply([]frame{came})
	} else {
		err = t.repeat(came)
	}
	if err != nil {
		return err
	}
	return t.lastSaid(f)
}

// repeat collects a frame that comes again, or that follows those.
func (t *stream) repeat(came frame) error {
	size := came.size()
	switch {
	case t.server.again.Take(t.share(), int64(size)):
		t.again, t.againBytes = append(t.again, came), t.againBytes+size
		return t.applyAgain(time.Now())
	case came.Number >= t.restored: // all are there: without room none waits for its sender
		all := append(t.again, came)
		t.dropAgain()
		return t.apply(all)
	case t.server.again.Held() == int64(t.againBytes) && t.againBeyond+size <= maxNodeBytes: // alone, it may send all that an agent holds
		t.again, t.againBeyond = append(t.again, came), t.againBeyond+size
		return nil
	}
	return status.Error(codes.ResourceExhausted, "agents send more frames again than there is memory for") // it tries again once the others are done
}

// lastSaid acknowledges at once if a frame is the last of an agent that ends.
func (t *stream) lastSaid(f *agentwire.Frame) error {
	t.stopped = f.Last
	if !f.Last || len(t.again) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.grpc.Context(), answerPatience)
	defer cancel()
	_ = t.server.parts.Sync(ctx) // else the acknowledgement comes once it is on disk, as ever
	err := t.tick(time.Now())
	if t.acked == f.Number {
		t.server.parts.Forget(t.feed) // nothing of it comes again
	}
	return err
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
	if now.Sub(t.whole) < t.server.againWait && slices.ContainsFunc(t.again, t.waitsFor) {
		return nil
	}
	all := t.again
	t.dropAgain()
	return t.apply(all)
}

// dropAgain forgets the frames that come again.
func (t *stream) dropAgain() {
	t.server.again.Give(t.share(), int64(t.againBytes))
	t.again, t.againBytes, t.againBeyond = nil, 0, 0
}

// waitsFor reports whether a frame that comes again has a sender that is not known.
func (t *stream) waitsFor(f frame) bool {
	return t.server.parts.Senders != nil && f.Number <= t.restored && slices.ContainsFunc(f.of, func(d *definition) bool {
		return t.server.senderOf(&d.sample, d.address) == nil
	})
}

// tick acknowledges, and looks at what waits.
func (t *stream) tick(now time.Time) error {
	if len(t.said)+len(t.saidBefore) > 0 {
		t.said, t.saidBefore = map[uint32]metric.Reason{}, t.said
	}
	t.shrink()
	switch {
	case t.pod == "":
	case t.server.parts.HasPod(t.pod):
		t.podAt = now
	case now.Sub(t.podAt) >= t.server.podPatience:
		return status.Error(codes.Unauthenticated, "the agent's pod has ended")
	}
	if err := t.tellTargets(); err != nil {
		return err
	}
	if err := t.applyAgain(now); err != nil {
		return err
	}
	if err := t.settle(now); err != nil {
		return err
	}
	acked, published := t.acked, t.published
	t.advance(now)
	if t.acked == acked && t.published == published && now.Sub(t.ackAt) < beatEvery {
		return nil
	}
	return t.acknowledge(false)
}

// advance looks at what is on disk, and at what others were told.
func (t *stream) advance(now time.Time) {
	if t.server.parts.Published != nil {
		published := t.server.parts.Published()
		for _, m := range t.marks {
			if m.number > t.published && m.at.Before(published) && !t.holds(m.number) {
				t.published = m.number
			}
		}
	}
	durable, ok := t.server.parts.Durable()
	switch {
	case ok:
		t.offSince = time.Time{}
	case t.offSince.IsZero():
		t.offSince = now
	}
	off := !ok && now.Sub(t.offSince) >= offFor
	for len(t.marks) > 0 && (off || ok && t.marks[0].at.Before(durable)) && !t.holds(t.marks[0].number) {
		t.acked, t.marks = t.marks[0].number, t.marks[1:]
	}
}

// acknowledge tells the agent how far it may forget. final: nothing after that was applied, and nothing will be.
func (t *stream) acknowledge(final bool) error {
	t.ackAt = time.Now()
	return t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_Ack{Ack: &agentwire.Ack{
		Number: t.acked, Published: t.published, Final: final}}})
}

// ends ends the stream with the server: all that was applied is acknowledged, so that the agent can tell another server the rest. If that
// fails, the agent waits for this one.
func (t *stream) ends() error {
	ctx, cancel := context.WithTimeout(t.grpc.Context(), endWithin/2)
	defer cancel()
	_ = t.server.parts.Sync(ctx)
	if err := t.settle(time.Now()); err != nil {
		return err
	}
	t.advance(time.Now())
	// Of frames up to the restored one, the table may include a part.
	if err := t.acknowledge(t.acked == t.applied && t.applied >= t.restored && len(t.again) == 0); err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "the server ends")
}

// holds reports whether samples of a frame up to a number wait.
func (t *stream) holds(number uint64) bool {
	return len(t.waiting) > 0 && t.waiting[0].number <= number
}
