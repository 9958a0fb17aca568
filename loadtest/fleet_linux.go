package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// podsPerAgent and metricsPerPod make 75 series an agent. A pod pushes every ten seconds, so a tenth of the
	// series changes each second.
	podsPerAgent, metricsPerPod = 15, 5
	podEvery                    = 10 * time.Second / podsPerAgent
	// agentRetry bounds the wait before the next connection, at random, as of a real agent.
	agentRetry = 2 * time.Second
	// fleetMetric is the first of a pod's metrics.
	fleetMetric     = "load.agents0"
	fleetNamespaces = 100
	// counter is metric.Counter, as the protocol has it.
	counter = 1
)

// reportStream is the stream of an agent.
type reportStream = grpc.BidiStreamingClient[agentwire.FromAgent, agentwire.FromServer]

// fleet is many agents, each a connection with a stream. They keep the frames that are not acknowledged, as real ones
// do.
type fleet struct {
	all     []*fleetAgent
	changes atomic.Int64 // that were made, whether sent or not
	end     context.CancelFunc
	ended   sync.WaitGroup
}

// fleetAgent is one of them. Its goroutine owns the fields but the atomic ones.
type fleetAgent struct {
	fleet   *fleet
	address string
	number  int
	frames  []*agentwire.Frame // not acknowledged
	made    []time.Time        // of each frame
	last    uint64             // number of the last frame
	pod     int                // that reports next

	heard    atomic.Bool   // has a stream, on which all frames were sent
	first    atomic.Uint64 // how often the first metric of its pods was counted
	why      atomic.Pointer[string]
	defined  bool
	acks     chan uint64
	failures chan error
}

func startFleet(ctx context.Context, address string, agents int) *fleet {
	ctx, end := context.WithCancel(ctx)
	f := &fleet{end: end}
	for i := range agents {
		a := &fleetAgent{fleet: f, address: address, number: i}
		f.all = append(f.all, a)
		f.ended.Go(func() { a.run(ctx) })
	}
	return f
}

func (f *fleet) stop() {
	f.end()
	f.ended.Wait()
}

// lost notes that no agent has a stream.
func (f *fleet) lost() {
	for _, a := range f.all {
		a.heard.Store(false)
	}
}

// await waits until each agent has a stream, and has told what it held.
func (f *fleet) await(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	for {
		missing := 0
		var last *fleetAgent
		for _, a := range f.all {
			if !a.heard.Load() {
				missing, last = missing+1, a
			}
		}
		if missing == 0 {
			return time.Since(began), nil
		}
		if err := rest(ctx, 10*time.Millisecond); err != nil {
			why := ""
			if last.why.Load() != nil {
				why = *last.why.Load()
			}
			return 0, fmt.Errorf("%d agents have no stream (%s): %w", missing, why, err)
		}
	}
}

// audit ends the agents once all that they made is on the server's disk, and compares the sum of all series of one
// metric.
func (f *fleet) audit(ctx context.Context, s *server) error {
	f.end()
	f.ended.Wait()
	var want int64
	for _, a := range f.all {
		if n := len(a.frames); n > 0 {
			return fmt.Errorf("%w:\nan agent has %d frames that are not acknowledged", ErrUnaccounted, n)
		}
		want += int64(a.first.Load())
	}
	var paths []string
	for i := range min(len(f.all), fleetNamespaces) {
		paths = append(paths, fmt.Sprintf("/v1/namespaces/load%d/pods/*/%s:total", i, fleetMetric))
	}
	got, err := total(ctx, s.client, s.http, paths)
	if err == nil && got != want {
		err = fmt.Errorf("%w:\nthe sum of %s is %d; must be %d, as agents counted", ErrUnaccounted, fleetMetric, got, want)
	}
	return err
}

// run reports until ctx ends and all is acknowledged.
func (a *fleetAgent) run(ctx context.Context) {
	until, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Minute, end) })()
	for until.Err() == nil && (ctx.Err() == nil || len(a.frames) > 0) {
		_ = rest(until, time.Duration(rand.Int64N(int64(agentRetry)))) // before the first try, too: nodes start one after the other
		err := a.report(ctx, until)
		a.heard.Store(false)
		if err != nil {
			why := err.Error()
			a.why.Store(&why)
		}
	}
}

// report is one connection.
func (a *fleetAgent) report(ctx, until context.Context) error {
	until, end := context.WithCancel(until)
	defer end()
	conn, err := grpc.NewClient("passthrough:///"+a.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(a.dial))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := agentwire.NewAgentsClient(conn).Report(until)
	if err != nil {
		return err
	}
	hello := &agentwire.Hello{Protocol: agentwire.Protocol, Version: "loadtest", Node: fmt.Sprint("node-", a.number),
		Run: uint64(a.number) + 1}
	if err := stream.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: hello}}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	a.acks, a.failures, a.defined = make(chan uint64, 16), make(chan error, 1), false
	go a.receive(until, stream)
	for i, f := range a.frames {
		if f.Number <= answer.GetWelcome().GetApplied() {
			continue
		}
		if err := a.send(stream, f, a.made[i]); err != nil {
			return err
		}
	}
	a.heard.Store(true)
	return a.talk(ctx, stream)
}

// dial connects from an address of the agent's own, as that of a node: a server takes few connections of one.
func (a *fleetAgent) dial(ctx context.Context, to string) (net.Conn, error) {
	from := net.IPv4(127, 1, byte(a.number>>8), byte(a.number))
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).DialContext(ctx, "tcp", to)
}

func (a *fleetAgent) talk(ctx context.Context, stream reportStream) error {
	first := time.NewTimer(time.Duration(rand.Int64N(int64(podEvery)))) // agents are at any phase
	defer first.Stop()
	due, stopping := first.C, ctx.Done()
	var each *time.Ticker
	for ctx.Err() == nil || len(a.frames) > 0 {
		select {
		case <-stopping:
			stopping, due = nil, nil
		case <-due:
			if each == nil {
				each = time.NewTicker(podEvery)
				defer each.Stop()
				due = each.C
			}
			if err := a.send(stream, a.next(), time.Now()); err != nil {
				return err
			}
		case number := <-a.acks:
			for len(a.frames) > 0 && a.frames[0].Number <= number {
				a.frames, a.made = a.frames[1:], a.made[1:]
			}
		case err := <-a.failures:
			return err
		}
	}
	return stream.CloseSend()
}

// next makes the frame of the next pod.
func (a *fleetAgent) next() *agentwire.Frame {
	a.last++
	f := &agentwire.Frame{Number: a.last}
	for i := range metricsPerPod {
		number := uint32(a.pod*metricsPerPod + i + 1)
		f.Changes = append(f.Changes, &agentwire.Change{Series: number, Samples: 1, Op: agentwire.Op_ADD, Whole: 1})
	}
	a.pod = (a.pod + 1) % podsPerAgent
	a.frames, a.made = append(a.frames, f), append(a.made, time.Now())
	a.first.Add(1)
	a.fleet.changes.Add(metricsPerPod)
	return f
}

// send sends a frame, the first of a stream with all definitions.
func (a *fleetAgent) send(stream reportStream, f *agentwire.Frame, made time.Time) error {
	f.AgeNanos = int64(time.Since(made))
	f.FirstNanos = f.AgeNanos
	f.Series = nil
	if !a.defined {
		a.defined, f.Series = true, a.definitions()
	}
	err := stream.Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: f}})
	f.Series = nil
	return err
}

func (a *fleetAgent) definitions() (all []*agentwire.Series) {
	for pod := range podsPerAgent {
		for i := range metricsPerPod {
			all = append(all, &agentwire.Series{Number: uint32(pod*metricsPerPod + i + 1), Kind: counter, Separator: ':',
				Name: fmt.Appendf(nil, "load.agents%d", i),
				Tags: fmt.Appendf(nil, "namespace:load%d,pod:pod-%d-%d", a.number%fleetNamespaces, a.number, pod)})
		}
	}
	return all
}

func (a *fleetAgent) receive(ctx context.Context, stream reportStream) {
	for {
		answer, err := stream.Recv()
		if err == nil && answer.GetRejection() != nil {
			err = errors.New("a series was rejected: " + answer.GetRejection().GetWords())
		}
		if err != nil {
			a.failures <- err
			return
		}
		if ack := answer.GetAck(); ack != nil {
			select {
			case a.acks <- ack.Number:
			case <-ctx.Done():
			}
		}
	}
}
