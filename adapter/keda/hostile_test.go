package keda

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/sluice-metrics/sluice/adapter/keda/externalscaler"
	"github.com/sluice-metrics/sluice/adapter/keda/trigger"
	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	headers "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
)

// wantAnswers checks that another client is served.
func (s *served) wantAnswers(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), late)
	defer cancel()
	if _, err := s.IsActive(ctx, ref("absent", "0")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// Metadata and headers beyond their limits are refused, and cost no more than that.
func TestLargeRequestsAreRefused(t *testing.T) {
	s := serve(t)
	_, err := s.IsActive(t.Context(), ref("selector", strings.Repeat("x", 1<<20)))
	wantCode(t, err, codes.ResourceExhausted, "larger than max")
	stream, err := s.StreamIsActive(t.Context(), ref("selector", strings.Repeat("x", 1<<20)))
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.ResourceExhausted, "larger than max")
	_, err = s.IsActive(t.Context(), ref("selector", "a in ("+strings.Repeat("x,", trigger.MaxText/2)+"x)"))
	wantCode(t, err, codes.InvalidArgument, "selector has 4104 bytes; must have 4096 at most")
	ctx := headers.AppendToOutgoingContext(t.Context(), "x-long", strings.Repeat("x", 2*maxHeader))
	if _, err := s.IsActive(ctx, ref("absent", "0")); err == nil {
		t.Error("a header of 64 KiB was accepted")
	}
	s.wantAnswers(t)
}

// The message about wrong metadata is short, and shows control characters.
func TestMessagesAreBounded(t *testing.T) {
	s := serve(t)
	wrong := map[string]string{"ev\nil\x1b[2J": "", strings.Repeat("k", 2000): ""}
	for i := range 3000 {
		wrong[fmt.Sprint("key", i)] = ""
	}
	_, err := s.IsActive(t.Context(), &externalscaler.ScaledObjectRef{Namespace: "shop", ScalerMetadata: wrong})
	wantCode(t, err, codes.InvalidArgument, "and 2995 more")
	_, err = s.IsActive(t.Context(), ref("ev\nil\x1b[2J", "", "object", strings.Repeat("\x00", 4000), "target", "\r\n"))
	wantCode(t, err, codes.InvalidArgument, `ev\nil\x1b[2J is unknown`)
	if text := err.Error(); len(text) > 4096 || strings.ContainsFunc(text, unicode.IsControl) {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}

func FuzzTrigger(f *testing.F) {
	f.Add("shop", "metric", "jobs:last", "target", "10")
	f.Add("", "object", "a/b", "podSelector", "\x00")
	f.Fuzz(func(t *testing.T, namespace, key1, value1, key2, value2 string) {
		one, err := trigger.Parse(namespace, map[string]string{key1: value1, key2: value2})
		if err != nil && len(err.Error()) > 16<<10 {
			t.Errorf("a message of %d bytes", len(err.Error()))
		}
		if name := one.MetricName(); len(name) > 200 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
			t.Errorf("name %q", name)
		}
	})
}

// A metric without a letter that KEDA takes has a name all the same: "s0-" would be none.
func TestEveryMetricHasAName(t *testing.T) {
	s := serve(t)
	spec, err := s.GetMetricSpec(t.Context(), ref("metric", "___"))
	if err != nil || spec.GetMetricSpecs()[0].GetMetricName() == "" {
		t.Errorf("%v %v", spec, err)
	}
}

// Of the connections that never send anything, the oldest of an address goes, and all after two seconds.
func TestSilentConnectionsAreBounded(t *testing.T) {
	s := serve(t)
	address := s.conn.Target()
	var silent []net.Conn
	defer func() {
		for _, conn := range silent {
			_ = conn.Close()
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", address)
		must(t, err)
		silent = append(silent, conn)
		return conn
	}
	for range maxConnectionsEach {
		dial()
	}
	dial()
	wantClosed(t, silent[0])
	wantClosed(t, silent[maxConnectionsEach])
	s.wantAnswers(t)
}

// wantClosed reads until the other end closes the connection.
func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(late))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection is open after %s", late)
	}
}

// Calls whose callers have gone leave nothing behind, and keep nobody waiting.
func TestCancelledCallsLeaveNothing(t *testing.T) {
	s := serve(t)
	var calls sync.WaitGroup
	for range 32 {
		calls.Go(func() {
			for range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				go cancel()
				_, _ = s.IsActive(ctx, ref())
				stream, err := s.StreamIsActive(ctx, ref())
				if err == nil {
					_, _ = stream.Recv()
				}
			}
		})
	}
	calls.Wait()
	s.wantAnswers(t)
	for deadline := time.Now().Add(late); s.open.Load() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d triggers are watched", s.open.Load())
		}
	}
}

// A call whose caller has gone doesn't wait for a reading that hangs.
func TestACancelledCallEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		began, hangs := time.Now(), make(chan struct{})
		_, err := newPatience().unary(ctx, nil, nil, func(context.Context, any) (any, error) { <-hangs; return nil, nil })
		wantCode(t, err, codes.Canceled, "")
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("the call took %s", took)
		}
		close(hangs)
	})
}

// A stream beyond the limit is an error, so the operator doesn't wait for it.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCounters()
	opened := 0
	open := func(any, grpc.ServerStream) error { opened++; return nil }
	c.open.Store(mostStreams - 1)
	if err := c.bounded(nil, nil, open); err != nil || opened != 1 {
		t.Errorf("the last stream: %v", err)
	}
	c.open.Store(mostStreams)
	wantCode(t, c.bounded(nil, nil, open), codes.ResourceExhausted, "streams are open (the limit)")
	if opened != 1 || c.open.Load() != mostStreams {
		t.Errorf("%d streams were opened, %d are counted", opened, c.open.Load())
	}
}

// rawClient speaks frames.
type rawClient struct {
	*http2.Framer
	conn    net.Conn
	streams uint32
}

func dialRaw(t *testing.T, address string, settings ...http2.Setting) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c := &rawClient{Framer: http2.NewFramer(conn, conn), conn: conn}
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	must(t, c.WriteSettings(settings...))
	return c
}

// open sends the headers of a call, and the given bytes of its message.
func (c *rawClient) open(t *testing.T, method string, body []byte, end bool) (id uint32) {
	t.Helper()
	var block strings.Builder
	header := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method},
		{":authority", "sluice"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		_ = header.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	id = 2*c.streams + 1
	c.streams++
	err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(block.String()), EndHeaders: true})
	if len(body) > 0 {
		err = errors.Join(err, c.WriteData(id, end, body))
	}
	must(t, err)
	return id
}

// ended reads until so many calls have ended, and returns their gRPC status codes.
func (c *rawClient) ended(t *testing.T, calls int, within time.Duration) map[uint32]string {
	t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(within))
	got := map[uint32]string{}
	for len(got) < calls {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatalf("%d of %d calls have ended after %s: %v", len(got), calls, within, err)
		}
		if headers, is := frame.(*http2.MetaHeadersFrame); is && headers.StreamEnded() {
			for _, field := range headers.RegularFields() {
				if field.Name == "grpc-status" {
					got[headers.StreamID] = field.Value
				}
			}
		}
	}
	return got
}

// message is a request on the wire.
func message(t *testing.T) []byte {
	t.Helper()
	text, err := proto.Marshal(ref())
	must(t, err)
	return append([]byte{0, 0, 0, 0, byte(len(text))}, text...)
}

// deafClient opens streams, and takes nothing that the server sends on them.
func deafClient(t *testing.T, address string, streams int) {
	t.Helper()
	c := dialRaw(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for range streams {
		c.open(t, externalscaler.ExternalScaler_StreamIsActive_FullMethodName, message(t), true)
	}
}

// A client that seems to be far away, because it answers pings late, has no larger window than others: gRPC keeps what it sends of
// streams that nobody reads.
func TestWindowsDoNotGrow(t *testing.T) {
	s := serve(t)
	c := dialRaw(t, s.conn.Target())
	_ = c.conn.SetDeadline(time.Now().Add(late))
	var pings [][8]byte
	heard := func() { // all up to the answer to what was sent
		for {
			frame, err := c.ReadFrame()
			must(t, err)
			switch frame := frame.(type) {
			case *http2.PingFrame:
				pings = append(pings, frame.Data)
			case *http2.SettingsFrame:
				if size, is := frame.Value(http2.SettingInitialWindowSize); is && size > window {
					t.Fatalf("streams have a window of %d bytes; want %d", size, window)
				}
				if frame.IsAck() {
					return
				}
			}
		}
	}
	heard()
	for range 512 {
		must(t, c.WriteData(1, false, make([]byte, 16<<10))) // of no stream
	}
	must(t, c.WriteSettings())
	heard()
	for _, ping := range pings {
		must(t, c.WritePing(true, ping))
	}
	must(t, c.WriteSettings())
	heard()
}

// A client that sends on and reads nothing is not found by pings, but its streams stay until it reads their end.
func TestDeafClientsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Listen(Config{Address: "127.0.0.1:0", Insecure: true},
			Parts{Source: &oneMetric{}, Ready: func() (bool, string) { return true, "" }, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		crowd.EndsDeafClients(t, &s.listener.Listener, s.Run, 2*pingPatience)
	})
}

// A call of headers alone, or of half a message, ends after callPatience, and its goroutine with it.
func TestCallsWithoutAMessageEnd(t *testing.T) {
	s := serve(t)
	c := dialRaw(t, s.conn.Target())
	half := message(t)
	half = half[:len(half)/2]
	began, calls := time.Now(), 0
	for _, method := range []string{
		externalscaler.ExternalScaler_IsActive_FullMethodName, externalscaler.ExternalScaler_GetMetricSpec_FullMethodName,
		externalscaler.ExternalScaler_GetMetrics_FullMethodName, grpc_health_v1.Health_Check_FullMethodName,
	} {
		c.open(t, method, nil, false)
		c.open(t, method, half, false)
		calls += 2
	}
	for id, code := range c.ended(t, calls, callPatience+late) {
		if code != fmt.Sprint(int(codes.DeadlineExceeded)) {
			t.Errorf("the call of stream %d ended with code %s", id, code)
		}
	}
	if took := time.Since(began); took < callPatience {
		t.Errorf("the calls ended after %s", took)
	}
	s.wantAnswers(t)
	s.wantNoCalls(t)
}

// wantNoCalls waits until no unary call is counted.
func (s *served) wantNoCalls(t *testing.T) {
	t.Helper()
	awaitCount(t, "calls", &s.server.patience.awaited, 0)
}

// wantOpen waits until so many streams are counted: a stream's own goroutine counts it.
func (s *served) wantOpen(t *testing.T, want int) {
	t.Helper()
	awaitCount(t, "streams", &s.server.count.open, want)
}

func awaitCount(t *testing.T, what string, count *atomic.Int64, want int) {
	t.Helper()
	for deadline := time.Now().Add(late); count.Load() != int64(want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d %s are counted, want %d", count.Load(), what, want)
		}
	}
}

// Beyond mostAwaited, calls without a message end soon; those with one are answered.
func TestCallsWithoutAMessageAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatience()
		p.awaited.Store(mostAwaited - 1)
		for _, want := range []time.Duration{callPatience, hurriedPatience} {
			ctx, err := p.tap(t.Context(), &tap.Info{FullMethodName: externalscaler.ExternalScaler_IsActive_FullMethodName})
			must(t, err)
			if end, _ := ctx.Deadline(); time.Until(end) != want {
				t.Errorf("the call may take %s, want %s", time.Until(end), want)
			}
		}
		time.Sleep(callPatience)
		synctest.Wait()
		if n := p.awaited.Load(); n != mostAwaited-1 {
			t.Errorf("%d calls are counted, want %d", n, mostAwaited-1)
		}
	})
	s := serve(t)
	s.server.patience.awaited.Store(mostAwaited)
	defer s.server.patience.awaited.Store(0)
	c := dialRaw(t, s.conn.Target())
	silent := c.open(t, externalscaler.ExternalScaler_IsActive_FullMethodName, nil, false)
	if code := c.ended(t, 1, late)[silent]; code != fmt.Sprint(int(codes.DeadlineExceeded)) {
		t.Errorf("the call ended with code %q", code)
	}
	s.wantAnswers(t)
}

// A stream counts from its headers on. One whose message does not come ends, the others have no deadline.
func TestStreamsWithoutAMessageEnd(t *testing.T) {
	s := serve(t)
	s.set(1)
	c := dialRaw(t, s.conn.Target())
	half := message(t)
	half = half[:len(half)/2]
	methods := []string{
		externalscaler.ExternalScaler_StreamIsActive_FullMethodName, externalscaler.ExternalScaler_StreamMetricSpec_FullMethodName,
		grpc_health_v1.Health_Watch_FullMethodName,
	}
	for _, method := range methods {
		c.open(t, method, half, false)
	}
	s.wantOpen(t, len(methods))
	got, _ := s.received(t)
	for id, code := range c.ended(t, len(methods), callPatience+time.Minute) {
		if code != fmt.Sprint(int(codes.Canceled)) {
			t.Errorf("stream %d ended with code %s", id, code)
		}
	}
	wantNext(t, got, true) // repeated after the others have ended
	wantNext(t, got, true)
	s.wantNoCalls(t)
	s.wantOpen(t, 1)
}

// Streams that sent a part of a large message end, however many there are.
func TestUnfinishedMessagesEnd(t *testing.T) {
	s := serve(t)
	unfinished := []byte{0, 0, 1, 0, 0} // the length: 64 KiB
	unfinished = append(unfinished, make([]byte, 1<<10)...)
	const connections, each = 4, mostAwaited
	for range connections {
		c := dialRaw(t, s.conn.Target())
		go func() { // takes what the server sends
			for {
				if _, err := c.ReadFrame(); err != nil {
					return
				}
			}
		}()
		for range each {
			c.open(t, externalscaler.ExternalScaler_StreamIsActive_FullMethodName, unfinished, false)
		}
	}
	s.wantNoCalls(t)
	s.wantOpen(t, 0)
	s.wantAnswers(t)
}

// The metadata of open streams is bounded in sum.
func TestMessagesOfStreamsAreBounded(t *testing.T) {
	s := serve(t)
	kept := &s.server.patience.kept
	add := func(n int64) {
		kept.mu.Lock()
		defer kept.mu.Unlock()
		kept.bytes.Add("others", n)
	}
	add(mostKept)
	stream, err := s.StreamIsActive(t.Context(), ref())
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.ResourceExhausted, "the metadata of open streams")
	if n := kept.held(); n != mostKept {
		t.Errorf("an ended stream keeps %d bytes", n-mostKept)
	}
	add(-mostKept)
	s.set(1)
	got, _ := s.received(t)
	wantNext(t, got, true)
	if n := kept.held(); n <= 0 || n > 4096 {
		t.Errorf("%d bytes are kept for a stream", n)
	}
}

// A namespace with any number of triggers, as long as they may be, leaves streams and their metadata to others.
func TestTriggersOfANamespaceLeaveRoom(t *testing.T) {
	for what, size := range map[string]int64{"bytes": maxMessage, "streams": 300} {
		var kept keptMessages
		n := 0
		for ; n < 2*mostStreams && kept.take("flood", size) == nil; n++ {
		}
		if int64(n)*size > mostKept*3/4 || n > mostStreams*3/4 {
			t.Errorf("%s: one namespace has %d streams, with %d bytes", what, n, kept.held())
		}
		for range 100 {
			if err := kept.take("shop", size); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
}

// A namespace whose triggers are polled faster than they can be read leaves places and processors to others. A call that
// has waited too long for its turn reads no value.
func TestPolledTriggersOfANamespaceLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, over := newPatience(), make(chan struct{})
		var read, refused, late atomic.Int64
		var calls sync.WaitGroup
		for range 2 * mostAnswering {
			calls.Go(func() {
				_, err := p.unary(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: ref()}, nil,
					func(context.Context, any) (any, error) { read.Add(1); <-over; return nil, nil })
				switch text := fmt.Sprint(err); {
				case strings.Contains(text, `answers are under way in namespace "shop"`):
					refused.Add(1)
				case strings.Contains(text, "no answer within"):
					late.Add(1)
				}
			})
		}
		synctest.Wait()
		for _, namespace := range []string{"bank", "bank", "mail"} {
			answer, err := p.unary(t.Context(), &externalscaler.ScaledObjectRef{Namespace: namespace}, nil,
				func(context.Context, any) (any, error) { return namespace, nil })
			if err != nil || answer != namespace {
				t.Errorf("namespace %s: %v, %v", namespace, answer, err)
			}
		}
		if n := refused.Load(); n < 2*mostAnswering-mostAnswering*3/4 {
			t.Errorf("%d requests were refused at once", n)
		}
		calls.Wait()
		if refused.Load()+late.Load() != 2*mostAnswering {
			t.Errorf("%d requests were refused at once, %d had no answer in time", refused.Load(), late.Load())
		}
		close(over)
		synctest.Wait()
		if n := read.Load(); n != int64(runtime.GOMAXPROCS(0)) || p.answering.Held() != 0 {
			t.Errorf("%d values were read; %d requests are counted", n, p.answering.Held())
		}
	})
}

// A client that reads nothing keeps neither the watcher nor the end of the process waiting.
func TestSlowReadersDelayNobody(t *testing.T) {
	s := serve(t)
	s.set(0)
	deafClient(t, s.conn.Target(), 200)
	for deadline := time.Now().Add(late); s.open.Load() < 200; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d streams", s.open.Load())
		}
	}
	got, _ := s.received(t)
	wantNext(t, got, false)
	for range 20 {
		s.set(1)
		wantNext(t, got, true)
		s.set(0)
		wantFalseAtLast(t, got)
	}
	began := time.Now()
	s.stop()
	must(t, <-s.ended)
	s.ended = nil
	if took := time.Since(began); took > stopPatience+late {
		t.Errorf("the stop took %s", took)
	}
}
