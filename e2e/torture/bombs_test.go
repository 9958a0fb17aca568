package torture

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// bombMemory is the memory that all bombs together may add to the server: the limit of bodies in
// flight, the windows of decompressors, and the collector's garbage.
const bombMemory = 320 * mebibyte

// TestBombs sends requests that are small on the wire and large, deep or endless inside, several
// at a time. The server rejects each, or closes the connection. It stays the same process and
// within its memory, and accepts the next good push.
func TestBombs(t *testing.T) {
	s := server.New(t)
	s.Start()
	s.PutSynced("e2e", "depth", 1)
	pid, before := s.PID(), peakMemory(t, s)
	bombs := append(append(httpBombs(t), compressedBombs(t)...), lineBombs()...)
	var good int64
	for _, b := range bombs {
		var senders sync.WaitGroup
		for range server.ShortOrLong(4, 64) {
			senders.Go(func() {
				if fault := b.send(s); fault != "" {
					t.Errorf("%s: %s", b.name, fault)
				}
			})
		}
		senders.Wait()
		good++
		if err := push(s, http.MethodPost, "good", 1); err != nil {
			t.Fatalf("a good push after %s: %v", b.name, err)
		}
	}
	server.Within(t, func() string {
		if got := s.Sum("good:total"); got != float64(good) {
			return fmt.Sprintf("good:total is %v, want %d", got, good)
		}
		return ""
	})
	for _, receiver := range []string{"http", "statsd_tcp", "statsd_udp", "statsd_unix"} {
		s.Metrics().CheckLaw(t, receiver)
	}
	grown := peakMemory(t, s) - before
	if grown > bombMemory {
		t.Errorf("the bombs made the server take %d MiB more; must be at most %d MiB", grown/mebibyte, bombMemory/mebibyte)
	}
	if s.PID() != pid || s.Sum("depth") != 1 {
		t.Error("the server is another one, or has forgotten what it held")
	}
	figure(t, "%d bombs, %d at a time: each refused, at most %d MiB more memory, each good push after one taken", len(bombs), server.ShortOrLong(4, 64), grown/mebibyte)
}

// A bomb sends one request and returns what was wrong with the answer, empty for nothing.
type bomb struct {
	name string
	send func(*server.Server) (fault string)
}

// post is a bomb for the push port that must be answered as the client's fault. Before it has read
// everything, a server may close the connection instead.
func post(path, contentType, encoding string, body func() io.Reader) bomb {
	name := fmt.Sprintf("POST %s %s %s", path, contentType, encoding)
	return bomb{name, func(s *server.Server) string {
		req, err := http.NewRequest(http.MethodPost, "http://"+s.HTTP+path, body())
		if err != nil {
			return err.Error()
		}
		for key, value := range map[string]string{"Content-Type": contentType, "Content-Encoding": encoding} {
			if value != "" {
				req.Header.Set(key, value)
			}
		}
		resp, err := patient.Do(req)
		if err != nil {
			return closedOr(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if resp.StatusCode < 400 || resp.StatusCode >= 500 && resp.StatusCode != http.StatusServiceUnavailable || len(answer) > 64<<10 {
			return fmt.Sprintf("%s with %d bytes: %.200s", resp.Status, len(answer), answer)
		}
		return ""
	}}
}

var patient = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

func closedOr(err error) string {
	for _, said := range []string{"reset by peer", "broken pipe", "EOF", "closed"} {
		if strings.Contains(err.Error(), said) {
			return ""
		}
	}
	return err.Error()
}

func text(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

const (
	protobufFamilies = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
	protobuf         = "application/x-protobuf"
)

// httpBombs are the bombs without compression.
func httpBombs(t *testing.T) []bomb {
	t.Helper()
	endless := func() io.Reader { return io.LimitReader(repeating("jobs:1|c\n"), 1<<30) }
	lies := func(field byte, length uint64) string { // a protobuf field that says that it is so long
		return string(binary.AppendUvarint([]byte{field<<3 | 2}, length)) + "short"
	}
	var labels, tags strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&labels, `l%d="v",`, i)
		fmt.Fprintf(&tags, "l%d:v,", i)
	}
	jsonLabels := strings.NewReplacer(`=`, `":`, `l`, `"l`).Replace(strings.TrimSuffix(labels.String(), ","))
	nested := strings.Repeat("[", 4<<20)
	objects := strings.Repeat(`{"a":`, 1<<20)
	bombs := []bomb{
		post("/v1/samples", "", "", text(nested)),
		post("/v1/samples", "", "", text(objects)),
		post("/v1/samples", "", "", text(`{"name":"x","kind":"gauge","value":`+strings.Repeat("9", 5<<20)+`}`)),
		post("/v1/samples", "", "", text(`{"name":"`+strings.Repeat("x", 5<<20)+`","kind":"gauge","value":1}`)),
		post("/v1/samples", "", "", text(`{"name":"x","kind":"gauge","value":1,"labels":{`+jsonLabels+`}}`)),
		post("/v1/samples", "", "", endless),
		post("/v1/statsd", "", "", endless),
		post("/v1/statsd", "", "", text("jobs:1|c|#"+tags.String())),
		post("/metrics/job/bomb", "", "", endless),
		post("/metrics/job/bomb", "", "", text("x{"+labels.String()+"} 1\n")),
		post("/metrics/job/bomb", "", "", text("x "+strings.Repeat("9", 5<<20)+"\n")),
		post("/metrics/job/bomb", protobufFamilies, "", text("\xff\xff\xff\xff\xff\xff\xff\xff\x7fshort")),
		post("/metrics/job/bomb", protobufFamilies, "", text("\x08"+lies(1, 1<<40))),
		post("/v1/metrics", "application/json", "", text(nested)),
		post("/v1/metrics", "application/json", "", text(`{"resourceMetrics":`+objects)),
		post("/v1/metrics", protobuf, "", text(lies(1, 1<<62))),
		post("/v1/metrics", protobuf, "", text(strings.Repeat("\x0b", 4<<20))), // groups in groups
		post("/v1/metrics", protobuf, "", func() io.Reader { return io.LimitReader(repeating("\x0a\x00"), 1<<30) }),
		post("/api/v1/write", protobuf, "snappy", text(snappyLiteral(lies(1, 1<<40)))),
		post("/api/v1/write", protobuf, "snappy", text(snappyLiteral(strings.Repeat("\x0b", 1<<10)))),
		post("/api/v1/write", protobuf+";proto=io.prometheus.write.v2.Request", "snappy", text(snappyLiteral(lies(5, 1<<40)))),
	}
	for _, path := range []string{"/v1/samples", "/v1/metrics", "/metrics/job/bomb", "/api/v1/write"} {
		bombs = append(bombs, raw("a body of 4 EiB to "+path, func(s *server.Server) string { return s.HTTP },
			"POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Type: "+protobuf+"\r\nContent-Length: 4611686018427387904\r\n\r\nshort"))
	}
	for name, address := range map[string]func(*server.Server) string{
		"push": func(s *server.Server) string { return s.HTTP }, "operations": func(s *server.Server) string { return s.Ops },
	} {
		bombs = append(bombs,
			raw("a header of 4 MiB to the "+name+" port", address, "GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 4<<20)+"\r\n\r\n"),
			raw("a path of 4 MiB to the "+name+" port", address, "GET /"+strings.Repeat("x", 4<<20)+" HTTP/1.1\r\nHost: a\r\n\r\n"),
			raw("100,000 headers to the "+name+" port", address, "GET / HTTP/1.1\r\nHost: a\r\n"+strings.Repeat("X: y\r\n", 100_000)+"\r\n"))
	}
	return bombs
}

// raw is a bomb of bytes for a port that speaks HTTP. It must be answered as the client's fault,
// or the connection closed.
func raw(name string, address func(*server.Server) string, bytes string) bomb {
	return bomb{name, func(s *server.Server) string {
		conn, err := net.Dial("tcp", address(s))
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		_, _ = io.WriteString(conn, bytes) // it may be closed before all is written
		status, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			return closedOr(err)
		}
		if !strings.HasPrefix(status, "HTTP/1.1 4") {
			return fmt.Sprintf("answered %.200q", status)
		}
		return ""
	}}
}

// repeating reads as the same text again and again.
func repeating(s string) io.Reader {
	return &repeater{bytes.Repeat([]byte(s), 64<<10/len(s)), 0}
}

type repeater struct {
	text []byte
	at   int
}

func (r *repeater) Read(p []byte) (n int, err error) {
	n = copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}
