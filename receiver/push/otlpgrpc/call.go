package otlpgrpc

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/receiver/otlp"
	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/valyala/fasthttp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	export      = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
	contentType = "application/grpc"
	// codings are those that body.Decode knows.
	codings = "identity,gzip,zstd,deflate,snappy"
)

// ServeHTTP implements http.Handler: each request is a call.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	d.metrics.inFlight.Add(1)
	code := d.serve(w, r)
	if r.Context().Err() != nil {
		code = codes.Canceled // the client has gone
	}
	d.metrics.inFlight.Add(-1)
	d.metrics.requests.WithLabelValues(code.String()).Inc()
	d.metrics.duration.Observe(time.Since(began).Seconds())
	connlimit.DropHeaders(r)
}

// serve answers a request, and returns the code of the answer.
func (d *Door) serve(w http.ResponseWriter, r *http.Request) codes.Code {
	from := r.Context().Value(connKey{}).(*conn)
	share := d.push.Share(&from.Peer)
	if err := d.admit(from.Member.From, share); err != nil {
		return refuse(w, codes.ResourceExhausted, "too many calls are open ("+err.Error()+"): send it again in a moment",
			retryDelay())
	}
	defer d.release(from.Member.From, share)
	if !isGRPC(r) {
		return mistaken(w, r)
	}
	if why := unimplemented(r); why != "" {
		return refuse(w, codes.Unimplemented, why, 0)
	}
	if !d.begin() {
		return refuse(w, codes.Unavailable, "the server stops: send it again in a moment", retryDelay())
	}
	defer d.inFlight.Done()
	return d.call(w, r, from)
}

// admit takes a place for a call until release: of its address, and of its share of all places.
func (d *Door) admit(from netip.Prefix, share body.Share) error {
	if err := d.each.Acquire(from); err != nil {
		return err
	}
	if !d.calls.Take(share, 1) {
		d.each.Release(from)
		return errShare
	}
	return nil
}

func (d *Door) release(from netip.Prefix, share body.Share) {
	d.calls.Give(share, 1)
	d.each.Release(from)
}

// isGRPC reports whether a request is a call of gRPC, of any codec.
func isGRPC(r *http.Request) bool {
	media := r.Header.Get("Content-Type")
	rest, ok := strings.CutPrefix(media, contentType)
	return r.ProtoMajor == 2 && r.Method == http.MethodPost && ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// mistaken answers a request that is no call. gRPC's protocol asks for status 415. Over HTTP/2 the answer is headers alone:
// a client could leave a body unread.
func mistaken(w http.ResponseWriter, r *http.Request) codes.Code {
	why := fmt.Sprintf("this port speaks gRPC: POST over HTTP/2 with the Content-Type %s; this is a %s over %s with %q. "+
		"OTLP over HTTP has another port (http-address, otlp-http-address)", contentType, httpserver.Clip([]byte(r.Method)), r.Proto,
		httpserver.Clip([]byte(r.Header.Get("Content-Type"))))
	w.Header().Set("Connection", "close")
	if r.ProtoMajor == 2 {
		w.Header().Set("Grpc-Message", percentEncode(why))
		w.WriteHeader(http.StatusUnsupportedMediaType)
	} else {
		http.Error(w, why, http.StatusUnsupportedMediaType)
	}
	return codes.InvalidArgument
}

// unimplemented says why a call is of no method that is served.
func unimplemented(r *http.Request) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	signal, isOTLP := strings.CutPrefix(service, "opentelemetry.proto.collector.")
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch codec := strings.TrimPrefix(media, contentType); {
	case isOTLP && !strings.HasPrefix(signal, "metrics."):
		signal, _, _ = strings.Cut(signal, ".")
		return fmt.Sprintf("Sluice takes metrics only: send %s elsewhere", httpserver.Clip([]byte(signal)))
	case r.URL.Path != export:
		return fmt.Sprintf("unknown method %q; must be %s", httpserver.Clip([]byte(r.URL.Path)), export)
	case codec != "" && codec != "+proto":
		return fmt.Sprintf("Content-Type %q is not supported; must be %s or %s+proto", httpserver.Clip([]byte(media)),
			contentType, contentType)
	}
	return ""
}

// call has HTTP push answer a call of Export.
func (d *Door) call(w http.ResponseWriter, r *http.Request, from *conn) codes.Code {
	within, arrived := callPatience, false
	if d.awaited.Add(1) > mostAwaited {
		within = hurriedPatience
	}
	arrive := func() {
		if !arrived {
			arrived = true
			d.awaited.Add(-1)
		}
	}
	defer arrive()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // HTTP/2 can
	m := message{from: r.Body, coding: r.Header.Get("Grpc-Encoding")}
	f, answer, warning := d.push.Call(&httpserver.Call{
		Context: r.Context(), Peer: &from.Peer, Near: from.near, Path: "/v1/metrics", Host: r.Host,
		ContentType: otlp.Protobuf.ContentType(), Authorization: r.Header["Authorization"],
		Head: m.head, Body: &m, CodingHeader: "grpc-encoding", Max: MaxMessage, Within: within, Arrived: arrive,
	})
	if warning != "" {
		w.Header().Set("Warning", warning)
	}
	if f != nil {
		return fail(w, f)
	}
	return succeed(w, answer)
}

// message reads the one message of a call: five bytes, which say whether it is compressed and how long it is, and the
// message, at whose end the call ends, too.
type message struct {
	from   io.Reader
	coding string // of compressed messages
	left   int    // bytes to come
}

// head is httpserver.Call.Head.
func (m *message) head() (size int, coding string, err error) {
	var prefix [5]byte
	switch n, err := io.ReadFull(m.from, prefix[:]); {
	case err == io.EOF:
		return 0, "", httpserver.BadRequest("the call has no message; must have one")
	case err == io.ErrUnexpectedEOF:
		return 0, "", httpserver.BadRequest("the call ends after %d bytes, of the 5 that precede a message", n)
	case err != nil:
		return 0, "", err
	}
	size = int(binary.BigEndian.Uint32(prefix[1:]))
	m.left = size
	switch prefix[0] {
	case 0:
		return size, "", nil
	case 1:
		if m.coding == "" || m.coding == "identity" {
			return 0, "", httpserver.BadRequest("the message is said to be compressed, but grpc-encoding is %q; must name its compression", m.coding)
		}
		return size, m.coding, nil
	}
	return 0, "", httpserver.BadRequest("the message begins with the byte %d; must be 0 (plain) or 1 (compressed)", prefix[0])
}

// Read implements io.Reader.
func (m *message) Read(b []byte) (int, error) {
	if m.left == 0 {
		n, err := m.from.Read(b[:1])
		if n > 0 {
			return 0, httpserver.BadRequest("the call has more bytes than those of its message; must have one message")
		}
		return 0, err
	}
	n, err := m.from.Read(b[:min(len(b), m.left)])
	if m.left -= n; err == io.EOF && m.left > 0 {
		err = fmt.Errorf("it ends %d bytes before its announced end: %w", m.left, io.ErrUnexpectedEOF)
	}
	return n, err
}

// fail answers with a fault.
//
// Without RetryInfo, the Collector and the Go SDK drop what was answered RESOURCE_EXHAUSTED: so it is there
// if, and only if, it helps to send the same again (open-telemetry/opentelemetry-collector#15126).
func fail(w http.ResponseWriter, f *httpserver.Fault) codes.Code {
	code, again := codeOf(f), time.Duration(0)
	if f.Retry() {
		again = retryDelay()
	}
	if f.Ends() {
		w.Header().Set("Connection", "close") // which is GOAWAY in HTTP/2: the next connection may be another sender's
	}
	if code == codes.Unimplemented {
		w.Header().Set("Grpc-Accept-Encoding", codings)
	}
	return refuse(w, code, f.Message, again)
}

// codeOf is the code of a fault. Overload is RESOURCE_EXHAUSTED, a sender or rights that are not known yet UNAVAILABLE.
func codeOf(f *httpserver.Fault) codes.Code {
	switch {
	case f.Busy():
		return codes.ResourceExhausted
	case f.Retry():
		return codes.Unavailable
	}
	switch f.Status {
	case fasthttp.StatusUnauthorized:
		return codes.Unauthenticated
	case fasthttp.StatusForbidden:
		return codes.PermissionDenied
	case fasthttp.StatusRequestEntityTooLarge:
		return codes.ResourceExhausted
	case fasthttp.StatusRequestTimeout:
		return codes.DeadlineExceeded
	case fasthttp.StatusUnsupportedMediaType:
		return codes.Unimplemented
	}
	return codes.InvalidArgument
}

// retryDelay is one to two seconds: clients that were refused together come apart.
func retryDelay() time.Duration { return time.Second + rand.N(time.Second) }

// succeed answers with a message.
func succeed(w http.ResponseWriter, answer []byte) codes.Code {
	header := w.Header()
	header["Date"], header["Content-Type"] = nil, []string{contentType}
	var prefix [5]byte
	binary.BigEndian.PutUint32(prefix[1:], uint32(len(answer)))
	_, err := w.Write(prefix[:])
	if len(answer) > 0 {
		_, again := w.Write(answer)
		err = errors.Join(err, again)
	}
	if err == nil { // otherwise the client has gone
		header.Set(http.TrailerPrefix+"Grpc-Status", "0")
	}
	return codes.OK
}

// refuse answers with a code alone, in headers that end the call. again is when the client may send the same again; 0:
// never.
func refuse(w http.ResponseWriter, code codes.Code, why string, again time.Duration) codes.Code {
	header := w.Header()
	header["Date"], header["Content-Length"], header["Content-Type"] = nil, nil, []string{contentType}
	header.Set("Grpc-Status", strconv.Itoa(int(code)))
	header.Set("Grpc-Message", percentEncode(why))
	if again > 0 {
		s, err := status.New(code, strings.ToValidUTF8(why, "?")).WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(again)})
		var details []byte
		if err == nil {
			details, err = proto.Marshal(s.Proto())
		}
		if err != nil { // impossible: the text is UTF-8
			panic("push: a status cannot be encoded: " + err.Error())
		}
		header.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	}
	return code
}

// percentEncode encodes a text for the header grpc-message.
func percentEncode(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
