//go:build !race

// The race detector's own memory would count, and it takes the time of thousands of connections.

package push

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/sluice-metrics/sluice/receiver/push/otlpgrpc"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
)

const patience = 5 * time.Minute

// frameClient speaks frames.
type frameClient struct {
	*http2.Framer
	net.Conn
	calls  uint32
	block  bytes.Buffer
	header *hpack.Encoder
}

func (h *harness) frameClient(from string, settings ...http2.Setting) *frameClient {
	h.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.Dial("tcp", h.server.grpc.Addr().String())
	must(h, err)
	h.Cleanup(func() { _ = conn.Close() })
	c := &frameClient{Framer: http2.NewFramer(conn, conn), Conn: conn}
	c.header = hpack.NewEncoder(&c.block)
	if _, err = io.WriteString(conn, http2.ClientPreface); err == nil {
		err = c.WriteSettings(settings...)
	}
	must(h, err)
	return c
}

// headers is the block of a call's headers.
func (c *frameClient) headers(more ...hpack.HeaderField) []byte {
	c.block.Reset()
	for _, f := range append([]hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: exportMethod}, {Name: ":authority", Value: "127.0.0.1"}, {Name: "content-type", Value: "application/grpc"}}, more...) {
		_ = c.header.WriteField(f)
	}
	return c.block.Bytes()
}

// begin sends the headers of a call, and some of its message.
func (c *frameClient) begin(message []byte, end bool) (id uint32, err error) {
	id = 2*c.calls + 1
	c.calls++
	err = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers(), EndHeaders: true})
	if len(message) > 0 {
		err = errors.Join(err, c.WriteData(id, end, message))
	}
	return id, err
}

// drain takes what the server sends, until the connection ends.
func (c *frameClient) drain() { _, _ = io.Copy(io.Discard, c.Conn) }

// serves exports as a client of another address does.
func (h *harness) serves(when string) {
	h.Helper()
	client := h.grpcClient(insecure.NewCredentials(), grpc.WithContextDialer(func(_ context.Context, address string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 99)}}).Dial("tcp", address)
	}))
	if _, err := client.Export(h.Context(), pmetricotlp.NewExportRequestFromMetrics(gauges("served"))); err != nil {
		h.Errorf("%s: %v", when, err)
	}
}

// answered waits until so many calls had a code.
func (h *harness) answered(code string, calls float64) {
	h.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(h.server.grpc)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		families, err := registry.Gather()
		must(h, err)
		got := 0.0
		for _, family := range families {
			for _, m := range family.Metric {
				if family.GetName() == "sluice_otlp_grpc_requests_total" && m.Label[0].GetValue() == code {
					got = m.Counter.GetValue()
				}
			}
		}
		if got >= calls {
			return
		}
		if time.Now().After(deadline) {
			h.Fatalf("%v calls had %s, want %v", got, code, calls)
		}
	}
}

// heap is the memory in use, in MiB.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse+m.StackInuse) >> 20
}

// Messages that are not complete have the budget of all bodies, from their first byte on, and no more.
func TestGRPCIncompleteMessages(t *testing.T) {
	h := start(t, overGRPC)
	var small []*frameClient
	for range 8 {
		client := h.frameClient("127.0.0.1")
		small = append(small, client)
		for range 32 { // which take more together than what is free of an address
			if _, err := client.begin([]byte{0, 0, 0, 1, 0, 'x'}, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	for deadline := time.Now().Add(patience); h.server.Reserved() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first byte of a message is not charged")
		}
	}
	for _, client := range small {
		_ = client.Close()
	}
	before := heap()
	client, ctx := h.rawClient(), t.Context()
	ctx, cancel := context.WithCancel(ctx)
	const calls, each = 64, 3 << 20
	unfinished := append([]byte{0, 1, 0, 0, 0}, make([]byte, each)...) // of 16 MiB
	refused := make(chan rawAnswer, calls)
	var all sync.WaitGroup
	for range calls {
		r, w := io.Pipe()
		go func() {
			_, _ = w.Write(unfinished)
			<-ctx.Done()
			_ = w.CloseWithError(ctx.Err())
		}()
		all.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+h.server.grpc.Addr().String()+exportMethod, r)
			req.Header.Set("Content-Type", "application/grpc")
			res, err := client.Do(req)
			if err != nil {
				return // the call ended with the test
			}
			_ = res.Body.Close()
			refused <- rawAnswer{message: res.Header.Get("Grpc-Status"), retry: h.retryInfo(res.Header.Get("Grpc-Status-Details-Bin"))}
		})
	}
	for range calls / 2 { // 24 of them fill the budget: 4 MiB of memory for 3 MiB
		select {
		case a := <-refused:
			if a.message != fmt.Sprint(int(codes.ResourceExhausted)) && a.message != fmt.Sprint(int(codes.DeadlineExceeded)) || a.message == fmt.Sprint(int(codes.ResourceExhausted)) && a.retry == 0 {
				t.Errorf("%+v", a)
			}
		case <-time.After(patience):
			t.Fatal("the calls wait")
		}
	}
	if n := h.server.Reserved(); n > otlpgrpc.MaxBuffered {
		t.Errorf("%d MiB are reserved", n>>20)
	}
	if grown := heap() - before; grown > 2*otlpgrpc.MaxBuffered>>20 { // the clients' messages are in the same process
		t.Errorf("the heap grew by %d MiB", grown)
	}
	cancel()
	all.Wait()
	for deadline := time.Now().Add(patience); h.server.Reserved() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes stay reserved", h.server.Reserved())
		}
	}
	h.serves("afterwards")
}

// 8,000 calls of which no message comes, from one address, take little memory, keep no other out, and end.
func TestGRPCManyStreams(t *testing.T) {
	h := start(t, overGRPC)
	before := heap()
	var clients []*frameClient
	for range 250 {
		c := h.frameClient("127.0.0.7")
		clients = append(clients, c)
		for range 32 {
			if _, err := c.begin([]byte{0, 0, 0, 1, 0, 'x'}, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.answered("ResourceExhausted", 5000) // all but 1,024, and as many more every 10 s
	h.serves("beside 8,000 calls")
	if grown := heap() - before; grown > 300 {
		t.Errorf("the heap grew by %d MiB", grown)
	} else {
		t.Logf("the heap grew by %d MiB", grown)
	}
	for _, c := range clients {
		_ = c.Close()
	}
}

// Calls of one namespace, of however many of its pods, leave some to others.
func TestGRPCCallsOfANamespaceLeaveRoom(t *testing.T) {
	h := start(t, overGRPC, func(_ *Config, p *Parts) { p.Senders, p.Trust = podsOfNamespaces{}, trusting{} })
	h.table.slow = make(chan struct{})
	end := sync.OnceFunc(func() { close(h.table.slow) })
	defer end()
	one := framed(0, encodeOTLP(t, gauges("g"), otlp.Protobuf))
	const pods, connections, streams, most = 4, 32, 32, 3072 // of 4,096 calls
	for i := range pods * connections {
		c := h.frameClient(fmt.Sprint("127.0.1.", 1+i%pods))
		go c.drain()
		for range streams {
			if _, err := c.begin(one, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitFor(t, func() bool { return h.table.waiting.Load() >= most })
	other := make(chan error, 1)
	go func() { other <- h.exportGRPC("127.0.2.1", gauges("g"))() }()
	waitFor(t, func() bool { return h.table.waiting.Load() > most || len(other) > 0 })
	if n := h.table.waiting.Load(); n != most+1 {
		t.Fatalf("%d calls are at work, want %d of one namespace and one of another", n, most)
	}
	h.answered("ResourceExhausted", pods*connections*streams-most)
	end()
	must(t, <-other)
}

// Answers that nobody reads to requests that are no calls keep no headers.
func TestGRPCUnreadAnswers(t *testing.T) {
	h := start(t, overGRPC)
	before := heap()
	const connections, streams = 64, 32
	for range connections {
		c := h.frameClient("127.0.0.7", http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for range streams {
			c.block.Reset()
			for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/x"}} {
				_ = c.header.WriteField(f)
			}
			for name := range 200 {
				_ = c.header.WriteField(hpack.HeaderField{Name: strconv.Itoa(name), Sensitive: true})
			}
			id := 2*c.calls + 1
			c.calls++
			must(t, c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: true}))
		}
	}
	h.answered("InvalidArgument", connections)
	if grown := heap() - before; grown > 20 {
		t.Errorf("the heap grew by %d MiB", grown)
	}
}

// A connection that opens more streams than it may, or opens and resets them, ends or is answered, and harms no other.
func TestGRPCStreamFloods(t *testing.T) {
	for name, flood := range map[string]func(c *frameClient) error{
		"10,000 streams": func(c *frameClient) error { _, err := c.begin(nil, false); return err },
		"rapid reset": func(c *frameClient) error {
			id, err := c.begin([]byte{0, 0, 0}, false)
			return errors.Join(err, c.WriteRSTStream(id, http2.ErrCodeCancel))
		},
		"headers without an end": func(c *frameClient) error {
			if c.calls++; c.calls == 1 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.headers()})
			}
			c.block.Reset()
			_ = c.header.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d", c.calls), Value: strings.Repeat("y", 1000), Sensitive: true})
			return c.WriteContinuation(1, false, c.block.Bytes())
		},
		"settings": func(c *frameClient) error {
			return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
		},
		"pings": func(c *frameClient) error { return c.WritePing(false, [8]byte{}) },
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, overGRPC)
			before := heap()
			c := h.frameClient("127.0.0.1")
			ended := make(chan struct{})
			go func() { c.drain(); close(ended) }()
			for range 10_000 {
				if flood(c) != nil {
					break // the server has ended the connection
				}
			}
			h.serves(name)
			if name == "pings" || name == "settings" {
				select {
				case <-ended:
				case <-time.After(patience):
					t.Error("the connection goes on")
				}
				if h.metric("sluice_otlp_grpc_pinging_connections_total") != 1 {
					t.Error("the connection is not counted")
				}
			}
			if grown := heap() - before; grown > 64 {
				t.Errorf("the heap grew by %d MiB", grown)
			}
		})
	}
}

// Large headers end a call, and not the connection's others. A library's client that has heard of the limit would send
// nothing.
func TestGRPCLargeHeaders(t *testing.T) {
	h := start(t, overGRPC)
	c := h.frameClient("127.0.0.1")
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	one := framed(0, encodeOTLP(t, gauges("g"), otlp.Protobuf))
	call := func(names ...string) (answer map[string]string) {
		t.Helper()
		var large []hpack.HeaderField
		for _, name := range names {
			large = append(large, hpack.HeaderField{Name: name, Value: strings.Repeat("x", 3<<10)})
		}
		id := 2*c.calls + 1
		c.calls++
		must(t, c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers(large...), EndHeaders: true}))
		must(t, c.WriteData(id, true, one))
		for answer = map[string]string{}; ; {
			frame, err := c.ReadFrame()
			must(t, err)
			if headers, is := frame.(*http2.MetaHeadersFrame); is && headers.StreamID == id {
				for _, f := range headers.Fields {
					answer[f.Name] = f.Value
				}
			}
			if frame.Header().StreamID == id && frame.Header().Flags.Has(http2.FlagDataEndStream) {
				return answer
			}
		}
	}
	if a := call("x-a", "x-b", "x-c"); a[":status"] != "431" {
		t.Errorf("%v", a)
	}
	if a := call("x-a"); a[":status"] != "200" || a["grpc-status"] != "0" || a["grpc-message"] != "" {
		t.Errorf("%v", a)
	}
}

// A client that reads no answer keeps neither memory nor the end of the process waiting.
func TestGRPCNeverReads(t *testing.T) {
	h := start(t, overGRPC, func(c *Config, _ *Parts) { c.ShutdownTimeout = time.Second })
	c := h.frameClient("127.0.0.1", http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	one := framed(0, encodeOTLP(t, gauges("g"), otlp.Protobuf))
	for range 32 {
		if _, err := c.begin(one, true); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(patience); h.server.Account().Applied() < 32; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d are applied", h.server.Account().Applied())
		}
	}
	for h.server.Reserved() > 0 {
		time.Sleep(time.Millisecond)
	}
	h.serves("beside a client that reads nothing")
	h.stop()
}

// Strangers keep a client out neither with silent connections nor with idle or unfinished ones.
func TestGRPCCrowd(t *testing.T) {
	settings := http2.ClientPreface + string([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})
	address := crowd.Address(t)
	for name, says := range map[string]string{"silent": "", "idle": settings} {
		t.Run(name, func(t *testing.T) {
			crowd.KeepsNoneOut(t, address, 1000, says, func() (stop func()) {
				return start(t, func(c *Config, _ *Parts) {
					c.OTLPGRPCAddress, c.ShutdownTimeout = address, time.Millisecond
				}).stop
			}, func(conn net.Conn) error {
				client, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return conn, nil }))
				if err != nil {
					return err
				}
				defer client.Close()
				_, err = pmetricotlp.NewGRPCClient(client).Export(t.Context(), pmetricotlp.NewExportRequestFromMetrics(gauges("g")))
				return err
			})
		})
	}
}

// A usual export of 16 MiB fits the budget.
func TestGRPCLargestMessage(t *testing.T) {
	h := start(t, overGRPC)
	all := gauges("requests")
	points := all.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Gauge().DataPoints()
	for i := range 143_000 {
		p := points.AppendEmpty()
		p.SetTimestamp(1)
		p.SetIntValue(int64(i))
		p.Attributes().PutStr("http.request.method", "GET")
		p.Attributes().PutStr("http.route", fmt.Sprintf("/carts/%d/items", i%100))
		p.Attributes().PutInt("http.response.status_code", 200)
	}
	body := framed(0, encodeOTLP(t, all, otlp.Protobuf))
	if len(body) < 15<<20 || len(body) > otlpgrpc.MaxMessage {
		t.Fatalf("the message has %d bytes", binary.BigEndian.Uint32(body[1:]))
	}
	if a := h.call(h.rawClient(), exportMethod, bytes.NewReader(body)); a.code != codes.OK {
		t.Errorf("%+v", a)
	}
}
