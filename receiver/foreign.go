package receiver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/metric"
)

// A foreign is a protocol that clients speak to the StatsD port by mistake. Its text may hold
// credentials, so nothing of it is applied, relayed, logged or remembered.
type foreign int

const (
	statsdLines foreign = iota
	undecided           // too few bytes have arrived
	httpRequest
	tlsHello
	proxyHeader
	redisCommand
	binaryBytes // such as MQTT, LDAP and PostgreSQL
)

var (
	// A request line is a method, a target and a version. Any word of letters may be a method.
	requestLine  = regexp.MustCompile(`^[A-Za-z]{1,20} .* HTTP/[0-9.]+[ \r]*$`)
	requestStart = regexp.MustCompile(`^[A-Za-z]{1,20}(?: |$)`)
	usualStart   = regexp.MustCompile(`^(?:GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS|CONNECT|TRACE) `)
	// otherStarts are the first bytes of a TLS record of a handshake, and of both versions of the
	// PROXY protocol. No StatsD line has a name with control characters.
	otherStarts = map[string]foreign{
		"\x16\x03": tlsHello, "\r\n\r\n\x00\r\nQUIT\n": proxyHeader,
		"PROXY TCP4 ": proxyHeader, "PROXY TCP6 ": proxyHeader, "PROXY UNKNOWN\r\n": proxyHeader,
		"PROXY UNKNOWN ": proxyHeader,
	}
	// A command of Redis is an array: its size, and the length of its first word.
	redisStart = regexp.MustCompile(`^\*[0-9]{1,9}\r\n\$`)
	redisBegun = regexp.MustCompile(`^\*(?:[0-9]{1,9}(?:\r\n?)?)?$`)
)

// binaryWithin is within how many bytes a binary protocol has a control character: of a type, a length or a version.
const binaryWithin = 8

// protocolOf decides by the first bytes of a connection. A metric may be named "GET /orders", so
// only a whole first line shows that it is one of HTTP, or one of a usual method that is too long for
// StatsD. Empty lines may precede it, as HTTP servers allow.
func protocolOf(start []byte, maxLine int) foreign {
	for other, is := range otherStarts {
		switch {
		case bytes.HasPrefix(start, []byte(other)):
			return is
		case bytes.HasPrefix([]byte(other), start):
			return undecided
		}
	}
	line, _, whole := bytes.Cut(bytes.TrimLeft(start, "\r\n"), []byte{'\n'})
	name, _, named := bytes.Cut(line[:min(len(line), binaryWithin)], []byte{':'})
	switch {
	case redisStart.Match(start):
		return redisCommand
	case !isText(name):
		return binaryBytes
	case redisBegun.Match(start):
		return undecided
	case whole && requestLine.Match(line), len(line) > maxLine && usualStart.Match(line):
		return httpRequest
	case whole, len(start) > maxLine: // start has to leave room in the buffer
		return statsdLines
	case !requestStart.Match(line) && (named || len(line) >= binaryWithin):
		return statsdLines
	}
	return undecided
}

// foreignError ends a connection on which the client speaks another protocol.
type foreignError struct {
	protocol foreign
	port     string // of HTTP push; empty: there is none
}

func (e *foreignError) Error() string {
	is, remedy := "HTTP", "HTTP push is off (http-address)"
	if e.port != "" {
		remedy = "HTTP push has the address " + e.port + " (http-address)"
	}
	switch e.protocol {
	case tlsHello:
		is = "TLS"
	case proxyHeader:
		is, remedy = "the PROXY protocol", "the load balancer must not send that header"
	case redisCommand:
		is, remedy = "Redis", "the client must have another address"
	case binaryBytes:
		is, remedy = "a binary protocol", "the client must have another address"
	}
	return fmt.Sprintf("the client speaks %s; this is the StatsD port, which takes lines of plain text: %s", is, remedy)
}

// refuse counts one refusal, remembers the message alone, and answers an HTTP client.
func (e *foreignError) refuse(conn *connlimit.Member, in *ingester) {
	in.account.Count(metric.Malformed)
	in.rejections.record.Add(&record.Sample{
		Receiver: in.rejections.receiver, Sender: in.sender, Reason: metric.Malformed, Why: e.Error,
	}, 1)
	if e.protocol != httpRequest {
		return
	}
	var body struct {
		Error struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body.Error.Reason, body.Error.Message = "request", e.Error()
	text, _ := json.Marshal(body)
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 400 Bad Request\r\nServer: sluice\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s\n", len(text)+1, text)
	// A socket that is closed with unread bytes is reset, and the client may lose the answer.
	_ = conn.CloseWrite()
	_, _ = io.CopyN(io.Discard, conn, answerBytes)
}

// Limits of a client that still sends after its answer.
const (
	answerTime  = 500 * time.Millisecond
	answerBytes = 1 << 20
)
