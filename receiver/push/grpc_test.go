package push

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/sluice-metrics/sluice/receiver/push/listener"
	"github.com/sluice-metrics/sluice/receiver/push/otlpgrpc"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const exportMethod = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

// overGRPC opens the port for OTLP/gRPC.
func overGRPC(c *Config, _ *Parts) { c.OTLPGRPCAddress = "127.0.0.1:0" }

// grpcClient is a client as SDKs are.
func (h *harness) grpcClient(secured credentials.TransportCredentials, options ...grpc.DialOption) pmetricotlp.GRPCClient {
	h.Helper()
	conn, err := grpc.NewClient(h.server.grpc.Addr().String(), append(options, grpc.WithTransportCredentials(secured))...)
	must(h, err)
	h.Cleanup(func() { _ = conn.Close() })
	return pmetricotlp.NewGRPCClient(conn)
}

// rawAnswer is the answer to one call.
type rawAnswer struct {
	http     int
	code     codes.Code
	message  string
	rejected int64
	retry    time.Duration // of RetryInfo; 0: there is none
}

// rawClient sends calls byte by byte, on one connection.
func (h *harness) rawClient() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	h.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// call posts a body to a method.
func (h *harness) call(client *http.Client, method string, body io.Reader, headers ...string) rawAnswer {
	h.Helper()
	req, err := http.NewRequest("POST", "http://"+h.server.grpc.Addr().String()+method, io.MultiReader(body))
	must(h, err)
	if text, is := body.(*bytes.Reader); is { // a client sends again what the server has not read of a connection that it ends
		again := *text
		req.GetBody = func() (io.ReadCloser, error) { copied := again; return io.NopCloser(io.MultiReader(&copied)), nil }
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Del(headers[i])
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	must(h, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(h, err)
	a := rawAnswer{http: res.StatusCode}
	if a.http != 200 {
		a.message = string(text) + res.Header.Get("Grpc-Message")
		return a
	}
	said := res.Header // of an answer without a message, all is in the headers
	if said.Get("Grpc-Status") == "" {
		said = res.Trailer
	}
	code, err := strconv.Atoi(said.Get("Grpc-Status"))
	if err != nil || res.Header.Get("Content-Type") != "application/grpc" {
		h.Fatalf("headers %v, trailers %v: %v", res.Header, res.Trailer, err)
	}
	a.code = codes.Code(code)
	if a.message, err = url.PathUnescape(said.Get("Grpc-Message")); err != nil {
		h.Error(err)
	}
	a.retry = h.retryInfo(said.Get("Grpc-Status-Details-Bin"))
	if code == 0 {
		if len(text) < 5 || text[0] != 0 || int(binary.BigEndian.Uint32(text[1:])) != len(text)-5 {
			h.Fatalf("the message is %q", text)
		}
		response := pmetricotlp.NewExportResponse()
		if err := response.UnmarshalProto(text[5:]); err != nil {
			h.Error(err)
		}
		a.rejected, a.message = response.PartialSuccess().RejectedDataPoints(), response.PartialSuccess().ErrorMessage()
	}
	return a
}

func (h *harness) retryInfo(details string) time.Duration {
	h.Helper()
	if details == "" {
		return 0
	}
	raw, err := base64.RawStdEncoding.DecodeString(details)
	var s spb.Status
	if err == nil {
		err = proto.Unmarshal(raw, &s)
	}
	must(h, err)
	return retryOf(status.FromProto(&s))
}

func retryOf(s *status.Status) time.Duration {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// framed is a message with what precedes it.
func framed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...)
}

// zstdCodec compresses as the Collector's zstd does.
type zstdCodec struct{}

func (zstdCodec) Name() string { return "zstd" }
func (zstdCodec) Compress(w io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
}
func (zstdCodec) Decompress(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) }

func init() { encoding.RegisterCompressor(zstdCodec{}) }

// A client of grpc-go exports, plain and compressed; what it sends arrives as over HTTP.
func TestGRPCExports(t *testing.T) {
	h := start(t, overGRPC)
	client := h.grpcClient(insecure.NewCredentials())
	for _, coding := range []string{"", gzip.Name, "zstd"} {
		var names []string
		for i := range 3000 { // larger than a frame and than a window
			names = append(names, fmt.Sprintf("m%s.%d%s", coding, i, strings.Repeat("x", 60)))
		}
		var options []grpc.CallOption
		if coding != "" {
			options = append(options, grpc.UseCompressor(coding))
		}
		answer, err := client.Export(t.Context(), pmetricotlp.NewExportRequestFromMetrics(gauges(names...)), options...)
		if err != nil || answer.PartialSuccess().RejectedDataPoints() != 0 {
			t.Fatalf("%s: %v %v", coding, answer, err)
		}
		for _, name := range names {
			if h.table.get(metric.Object{}, name) == nil {
				t.Fatalf("%s is not there", name)
			}
		}
	}
	if n := h.metric("sluice_otlp_grpc_requests_total"); n != 3 {
		t.Errorf("%v calls are counted", n)
	}
}

// The facts of the protocol, each with the bytes that a client sends.
func TestGRPCFacts(t *testing.T) {
	h := start(t, overGRPC)
	one := encodeOTLP(t, gauges("g"), otlp.Protobuf)
	half := framed(0, one)[:8]
	for name, c := range map[string]struct {
		method  string
		body    []byte
		headers []string
		want    rawAnswer
	}{
		"a message":                     {exportMethod, framed(0, one), nil, rawAnswer{http: 200}},
		"a message of no bytes":         {exportMethod, framed(0, nil), nil, rawAnswer{http: 200}},
		"application/grpc+proto":        {exportMethod, framed(0, one), []string{"Content-Type", "application/grpc+proto"}, rawAnswer{http: 200}},
		"plain, where gzip is offered":  {exportMethod, framed(0, one), []string{"Grpc-Encoding", "gzip"}, rawAnswer{http: 200}},
		"gzip":                          {exportMethod, framed(1, []byte(compressed(t, "gzip", string(one)))), []string{"Grpc-Encoding", "gzip"}, rawAnswer{http: 200}},
		"zstd":                          {exportMethod, framed(1, []byte(compressed(t, "zstd", string(one)))), []string{"Grpc-Encoding", "zstd"}, rawAnswer{http: 200}},
		"deflate":                       {exportMethod, framed(1, []byte(compressed(t, "deflate", string(one)))), []string{"Grpc-Encoding", "deflate"}, rawAnswer{http: 200}},
		"an unknown compression":        {exportMethod, framed(1, one), []string{"Grpc-Encoding", "br"}, rawAnswer{200, codes.Unimplemented, `grpc-encoding "br" is not supported; must be one of gzip`, 0, 0}},
		"compressed by nothing":         {exportMethod, framed(1, one), nil, rawAnswer{200, codes.InvalidArgument, `grpc-encoding is ""; must name its compression`, 0, 0}},
		"not what the header says":      {exportMethod, framed(1, one), []string{"Grpc-Encoding", "gzip"}, rawAnswer{200, codes.InvalidArgument, "the body is not what grpc-encoding says", 0, 0}},
		"a flag of 2":                   {exportMethod, framed(2, one), nil, rawAnswer{200, codes.InvalidArgument, "begins with the byte 2; must be 0", 0, 0}},
		"no message":                    {exportMethod, nil, nil, rawAnswer{200, codes.InvalidArgument, "the call has no message; must have one", 0, 0}},
		"half a prefix":                 {exportMethod, half[:3], nil, rawAnswer{200, codes.InvalidArgument, "ends after 3 bytes, of the 5", 0, 0}},
		"half a message":                {exportMethod, half, nil, rawAnswer{200, codes.InvalidArgument, "it ends " + strconv.Itoa(len(one)-3) + " bytes before its announced end", 0, 0}},
		"two messages":                  {exportMethod, append(framed(0, one), framed(0, one)...), nil, rawAnswer{200, codes.InvalidArgument, "must have one message", 0, 0}},
		"not protobuf":                  {exportMethod, framed(0, []byte("\xff{")), nil, rawAnswer{200, codes.InvalidArgument, "is not protobuf", 0, 0}},
		"16 MiB":                        {exportMethod, framed(0, unknownField(otlpgrpc.MaxMessage)), nil, rawAnswer{http: 200}},
		"16 MiB and a byte":             {exportMethod, framed(0, unknownField(otlpgrpc.MaxMessage+1)), nil, rawAnswer{200, codes.ResourceExhausted, "the message has more than 16777216 bytes, which is the limit: send it in parts", 0, 0}},
		"more than 16 MiB decompressed": {exportMethod, framed(1, []byte(compressed(t, "gzip", string(unknownField(otlpgrpc.MaxMessage+1))))), []string{"Grpc-Encoding", "gzip"}, rawAnswer{200, codes.ResourceExhausted, "the decompressed body has more than 16777216 bytes", 0, 0}},
		"1 GiB is announced":            {exportMethod, []byte{0, 1 << 6, 0, 0, 0, 'x'}, nil, rawAnswer{200, codes.ResourceExhausted, "send it in parts", 0, 0}},
		"traces":                        {"/opentelemetry.proto.collector.trace.v1.TraceService/Export", framed(0, nil), nil, rawAnswer{200, codes.Unimplemented, "Sluice takes metrics only: send trace elsewhere", 0, 0}},
		"logs":                          {"/opentelemetry.proto.collector.logs.v1.LogsService/Export", framed(0, nil), nil, rawAnswer{200, codes.Unimplemented, "Sluice takes metrics only: send logs elsewhere", 0, 0}},
		"another method":                {"/opentelemetry.proto.collector.metrics.v1.MetricsService/Import", framed(0, nil), nil, rawAnswer{200, codes.Unimplemented, "must be " + exportMethod, 0, 0}},
		"reflection":                    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", framed(0, nil), nil, rawAnswer{200, codes.Unimplemented, "unknown method", 0, 0}},
		"JSON as a codec":               {exportMethod, framed(0, []byte("{}")), []string{"Content-Type", "application/grpc+json"}, rawAnswer{200, codes.Unimplemented, `"application/grpc+json" is not supported`, 0, 0}},
		"OTLP over HTTP":                {"/v1/metrics", one, []string{"Content-Type", "application/x-protobuf"}, rawAnswer{http: 415, message: "this port speaks gRPC"}},
	} {
		a := h.call(h.rawClient(), c.method, bytes.NewReader(c.body), c.headers...)
		said := a.message
		if a.message = c.want.message; a != c.want || !strings.Contains(said, c.want.message) || c.want.message == "" && said != "" {
			t.Errorf("%s: %+v %q, want %+v", name, a, said, c.want)
		}
	}
	res, err := http.Post("http://"+h.server.grpc.Addr().String()+"/v1/metrics", "application/x-protobuf", bytes.NewReader(one))
	must(t, err)
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != 415 || !strings.Contains(string(text), "POST over HTTP/1.1") {
		t.Errorf("OTLP over HTTP/1.1: %d %s", res.StatusCode, text)
	}
}

// unknownField is a message of so many bytes, of which no field is known.
func unknownField(size int) []byte {
	const overhead = 6 // a tag, and a length of four bytes, of which the last is zero
	length := size - overhead
	b := []byte{0x82, 0x01, byte(length) | 0x80, byte(length>>7) | 0x80, byte(length>>14) | 0x80, byte(length >> 21)}
	return append(b, make([]byte, length)...)
}

// Bad points and limits are a partial success, as over HTTP. If no point was taken because of the sender, the
// code says so.
func TestGRPCPartialSuccess(t *testing.T) {
	h, _ := startTrusting(t, 0, overGRPC)
	for name, reason := range map[string]metric.Reason{"foreign": metric.Identity, "early": metric.Pending, "full": metric.OverLimit} {
		h.table.refuse[name] = reason
	}
	client := h.rawClient()
	for names, want := range map[string]rawAnswer{
		"good bad% full": {http: 200, rejected: 2, message: "2 of 3 data points were rejected; "},
		"full":           {http: 200, rejected: 1, message: "the series limit is reached: --max-series 7"},
		"foreign":        {http: 200, code: codes.PermissionDenied, message: "explained: foreign from 127.0.0.1"},
		"early":          {http: 200, code: codes.Unavailable, message: "no more can be held", retry: 1},
	} {
		a := h.call(client, exportMethod, bytes.NewReader(framed(0, encodeOTLP(t, gauges(strings.Fields(names)...), otlp.Protobuf))))
		if !strings.Contains(a.message, want.message) || (a.retry > 0) != (want.retry > 0) {
			t.Errorf("%s: %+v, want %+v", names, a, want)
		}
		if a.message, a.retry = want.message, want.retry; a != want {
			t.Errorf("%s: %+v, want %+v", names, a, want)
		}
	}
	if h.rejected(metric.BadName) != 1 || h.rejected(metric.OverLimit) != 2 || h.rejected(metric.Identity) != 2 {
		t.Error("the ledger has other counts than the answers")
	}
}

// An account is what metadata or a certificate say, as over HTTP.
func TestGRPCAccounts(t *testing.T) {
	a, believed := newAuthority(t), newAuthority(t)
	h, town := startTown(t, overGRPC, func(c *Config, p *Parts) {
		p.Listener = nil // in memory
		c.TLSCertFile, c.TLSKeyFile = a.serving("sluice")
		c.TLSClientCAFile, c.TLSClientAuth = believed.path, listener.ClientAuthRequest
		c.BasicAuthFile = passwordFile(t, "bob", "open sesame")
	})
	town.rights[metric.Right{Verb: metric.Create, Namespace: "bank"}] = true
	secured := func(certificates ...tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{RootCAs: a.pool(), Certificates: certificates})
	}
	plain, anna := h.grpcClient(secured()), h.grpcClient(secured(believed.client("anna", time.Hour)))
	for name, c := range map[string]struct {
		client pmetricotlp.GRPCClient
		header []string
		code   codes.Code
		says   string
	}{
		"a token":              {plain, []string{"Bearer shops"}, codes.OK, ""},
		"a password":           {plain, []string{"Basic Ym9iOm9wZW4gc2VzYW1l"}, codes.OK, ""},
		"a certificate":        {anna, nil, codes.OK, ""},
		"a token that is over": {plain, []string{"Bearer old"}, codes.Unauthenticated, "the token is over"},
		"a wrong password":     {plain, []string{"Basic Ym9iOm9wZW4="}, codes.Unauthenticated, "name or password is wrong"},
		"two credentials":      {plain, []string{"Bearer shops", "Bearer bound"}, codes.InvalidArgument, "there are 2 Authorization headers"},
		"nobody":               {plain, nil, codes.Unauthenticated, "no credential was sent; want a bearer token"},
	} {
		ctx := t.Context()
		for _, value := range c.header {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", value)
		}
		_, err := c.client.Export(ctx, pmetricotlp.NewExportRequestFromMetrics(gauges("x")))
		if s := status.Convert(err); s.Code() != c.code || !strings.Contains(s.Message(), c.says) {
			t.Errorf("%s: %v, want %s %q", name, err, c.code, c.says)
		}
	}
	town.set(func() { town.away = true })
	_, err := plain.Export(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer bound"), pmetricotlp.NewExportRequest())
	if s := status.Convert(err); s.Code() != codes.Unavailable || retryOf(s) == 0 {
		t.Errorf("nobody can be asked: %v", err)
	}
	if _, err := h.grpcClient(insecure.NewCredentials()).Export(t.Context(), pmetricotlp.NewExportRequest()); status.Code(err) != codes.Unavailable {
		t.Errorf("without TLS: %v", err)
	}
}

// Overload is RESOURCE_EXHAUSTED with RetryInfo, without which clients drop the batch, and not at one moment for all.
func TestGRPCOverload(t *testing.T) {
	h := start(t, overGRPC)
	if !h.server.Reserve(otlpgrpc.MaxBuffered) {
		t.Fatal("the budget is taken")
	}
	client, seen := h.grpcClient(insecure.NewCredentials()), map[time.Duration]bool{}
	export := pmetricotlp.NewExportRequestFromMetrics(gauges(manyNames()...))
	for range 10 {
		_, err := client.Export(t.Context(), export)
		s := status.Convert(err)
		if retry := retryOf(s); s.Code() != codes.ResourceExhausted || retry < time.Second || retry > 2*time.Second {
			t.Fatalf("%v, again in %v", err, retry)
		}
		seen[retryOf(s)] = true
	}
	if len(seen) < 2 {
		t.Error("all shall come again at one moment")
	}
	_ = h.server.Reserve(-otlpgrpc.MaxBuffered)
	if _, err := client.Export(t.Context(), export); err != nil {
		t.Error(err)
	}
}

// The calls in flight have their answers when the server stops; others get UNAVAILABLE.
func TestGRPCStops(t *testing.T) {
	h := start(t, overGRPC)
	h.table.slow = make(chan struct{})
	client := h.grpcClient(insecure.NewCredentials())
	export := func() error {
		_, err := client.Export(context.Background(), pmetricotlp.NewExportRequestFromMetrics(gauges("g")))
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- export() }()
	for h.table.waiting.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); h.stop() }()
	for { // at first it is served, and waits
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		_, err := client.Export(ctx, pmetricotlp.NewExportRequest())
		cancel()
		if status.Code(err) == codes.Unavailable {
			break
		}
		if err != nil && status.Code(err) != codes.DeadlineExceeded {
			t.Fatal(err)
		}
	}
	close(h.table.slow)
	if err := <-ended; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	<-stopped
}

// A connection does not outlive its sender, and the client's next one is served.
func TestGRPCConnectionsDoNotChangeHands(t *testing.T) {
	s := &tenants{}
	s.moveIn("former", 1)
	h := start(t, overGRPC, func(_ *Config, p *Parts) { p.Senders, p.Trust = s, trusting{} })
	client := h.rawClient()
	export := func() rawAnswer {
		return h.call(client, exportMethod, bytes.NewReader(framed(0, encodeOTLP(t, gauges("g"), otlp.Protobuf))))
	}
	if a := export(); a.code != codes.OK {
		t.Fatalf("%+v", a)
	}
	s.moveIn("next", 2)
	if a := export(); a.code != codes.Unavailable || a.retry == 0 || !strings.Contains(a.message, "the sender ended while the connection was open") {
		t.Errorf("%+v", a)
	}
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
		a := export()
		if a.code == codes.OK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the client has no other connection: %+v", a)
		}
	}
}

// The second address takes what the first takes.
func TestOTLPHasAnAddress(t *testing.T) {
	h := start(t, func(c *Config, _ *Parts) { c.OTLPAddress = "127.0.0.1:0" })
	url := "http://" + h.server.OTLPAddr().String() + "/v1/metrics"
	res, err := http.Post(url, "application/x-protobuf", bytes.NewReader(encodeOTLP(t, gauges("g"), otlp.Protobuf)))
	must(t, err)
	_ = res.Body.Close()
	if res.StatusCode != 200 || h.table.get(metric.Object{}, "g") == nil {
		t.Errorf("%d", res.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
}
