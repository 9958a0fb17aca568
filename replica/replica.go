package replica

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Replica publishes the own table and follows those of other origins.
type Replica struct {
	cfg       Config
	parts     Parts
	log       *slog.Logger
	subjects  subjects
	me        sender
	started   time.Time
	publisher publisher
	server    server
	origins   origins
	relay     relay
	syncs     syncs
	count     counters
	namesake  namesake
	ready     atomic.Bool // the states of all origins have arrived, see Answers
	pulse     pulse
	notes     notes
	usage     usageRelay
	asks      asks

	peersHold, othersHold budget

	// inline is set in simulations: no goroutine runs, and all work is done by receive and step.
	inline bool
	now    func() time.Time
	wall   func() time.Time
}

// stepEvery is the time between two looks at what is overdue.
const stepEvery = 100 * time.Millisecond

// New joins the parts. The table must have been restored.
func New(cfg Config, parts Parts) (*Replica, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	epoch, incarnation := parts.Epoch.numbers()
	r := &Replica{
		cfg: cfg, parts: parts, log: parts.Logger, subjects: newSubjects(cfg.Cluster),
		me:  sender{cfg.Name, epoch, incarnation},
		now: time.Now, wall: parts.Wall,
	}
	r.started = r.now()
	r.peersHold.most, r.othersHold.most = maxPeersHold, maxOthersHold
	r.publisher.r, r.publisher.flushed = r, make(chan struct{})
	r.server.r, r.server.wake = r, make(chan struct{}, 1)
	r.origins.init(r)
	r.syncs.init(r)
	r.usage.init()
	r.asks.init()
	r.count.init()
	return r, nil
}

// Run follows other origins until ctx ends. Then it waits until they have the newest flush, for a
// few seconds at most, and says that this origin leaves.
func (r *Replica) Run(ctx context.Context) error {
	cancel, err := r.subscribe()
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { r.server.run(loops) })
	running.Go(func() { r.stepLoop(loops) })
	running.Go(func() { r.pulseLoop(loops) })
	<-ctx.Done()
	r.handOver()
	cancel()
	stop()
	running.Wait()
	r.origins.stop()
	return nil
}

// stepLoop looks twice in the time of a heartbeat: each look wakes an idle process.
func (r *Replica) stepLoop(ctx context.Context) {
	every := time.NewTicker(beatEvery / 2)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			r.publisher.step(r.now())
			r.relayStep(r.now())
			r.usageStep(r.now())
		}
	}
}

const (
	// handOverTimeout bounds the wait for other replicas at the end.
	handOverTimeout = 2 * time.Second
	// handOverFlush is the time between flushes meanwhile.
	handOverFlush = 200 * time.Millisecond
)

// handOver waits until all live replicas have the newest state, then leaves. The store flushes no
// more, so handOver does: a whole block that was asked for is applied with the flush after it.
func (r *Replica) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
	defer cancel()
	newest, _ := r.publisher.flushes()
	for {
		c, end := context.WithTimeout(ctx, handOverFlush)
		err := r.syncs.confirm(c, question{flush: newest})
		end()
		if err != nil && ctx.Err() == nil {
			r.publisher.flush()
			continue
		}
		if err != nil {
			r.log.Warn("the last changes may not have reached all replicas", "error", err)
		}
		r.publisher.leave()
		return
	}
}

// subscribe subscribes to all subjects of the cluster that are meant for this replica.
func (r *Replica) subscribe() (cancel func(), err error) {
	var cancels []func()
	cancel = func() {
		for _, c := range cancels {
			c()
		}
	}
	handlers := map[string]func(string, []byte){
		r.subjects.of(flowOf, ">"):              r.receive,
		r.subjects.of(stateOf, "*", r.me.name):  r.receive,
		r.subjects.of(wantOf, r.me.name):        r.receive,
		r.subjects.of(syncedOf, r.me.name, "*"): r.receive,
	}
	if r.parts.Usage != nil {
		handlers[r.subjects.of(usageOf, "*")] = r.receiveUsage
	}
	for _, subject := range slices.Sorted(maps.Keys(handlers)) {
		one, err := r.parts.Bus.Subscribe(subject, handlers[subject])
		if err != nil {
			cancel()
			return nil, err
		}
		cancels = append(cancels, one)
	}
	return cancel, nil
}

// send sends a body, in pieces if it is large. The buffer is scratch space, which it returns.
func (r *Replica) send(subject string, kind messageType, body, buffer []byte) []byte {
	return r.sendPieces(subject, kind, body, buffer, func() bool { return true })
}

// sendPieces is send that calls more before each piece, and gives the rest up if it returns false. It
// gives up after a piece that the bus has dropped too: the others would be of no use.
func (r *Replica) sendPieces(subject string, kind messageType, body, buffer []byte, more func() bool) []byte {
	pieces := max((len(body)+maxPiece-1)/maxPiece, 1)
	h := header{kind: kind, sender: r.me, letter: r.publisher.letters.Add(1), pieces: pieces}
	if h.pieces > maxPieces {
		r.reject(reasonSize, r.me.name, "a block exceeds 64 MiB and cannot be replicated")
		return buffer
	}
	for ; h.piece < h.pieces && more(); h.piece++ {
		piece := body[h.piece*maxPiece:]
		buffer = append(h.append(buffer[:0]), piece[:min(len(piece), maxPiece)]...)
		if r.parts.Bus.Publish(subject, buffer) != nil {
			break
		}
		r.count.sent.Add(uint64(len(buffer)))
	}
	return buffer
}

// receive takes a message from the bus.
func (r *Replica) receive(subject string, message []byte) {
	h, piece, err := readHeader(message)
	if err != nil {
		r.rejectError(err, r.subjects.originOf(subject))
		return
	}
	if h.name == r.me.name && h.epoch == r.me.epoch {
		if h.kind == typeBeat {
			r.namesake.hearSame(r, &h, piece)
		}
		return
	}
	switch h.kind {
	case typeWant:
		r.receiveWant(&h, piece)
	case typeWantRelay:
		r.receiveWantRelay(&h, piece)
	case typeWantUsage:
		r.wantUsage()
	case typeAsk:
		r.receiveAsk(&h, piece)
	case typeAnswer:
		if err := r.asks.answered(&h, slices.Clone(piece)); err != nil {
			r.rejectError(err, h.name)
		}
	case typeSynced:
		if m, err := readSync(piece); err == nil {
			r.syncs.answer(&h, &m)
		} else {
			r.rejectError(err, h.name)
		}
	default:
		if h.name != r.subjects.originOf(subject) {
			r.reject(reasonName, h.name, "the message has the subject of another origin")
			return
		}
		r.origins.deliver(&h, piece)
	}
}

func (r *Replica) receiveWant(h *header, piece []byte) {
	m, err := readWant(piece)
	if err != nil {
		r.rejectError(err, h.name)
		return
	}
	if m.of.epoch == r.me.epoch && m.of.incarnation == r.me.incarnation {
		if m.silent {
			r.origins.succeed(originKey{h.name, h.epoch})
		}
		if m.documents {
			r.origins.noteAsker(h, r.now())
		}
		r.server.ask(h.name, &m)
	}
}
