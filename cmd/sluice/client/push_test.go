package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/cmd/sluice/command/commandtest"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

// inbox is a UDP socket that tells what came: the next datagram, which it waits for.
func inbox(t *testing.T) (address string, next func() string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().String(), nextOf(conn)
}

// nextOf returns the next datagram, which it waits for.
func nextOf(conn net.PacketConn) func() string {
	return func() string {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		packet := make([]byte, 64<<10)
		n, _, err := conn.ReadFrom(packet)
		if err != nil {
			return ""
		}
		return string(packet[:n])
	}
}

// theEnd is a datagram of the test itself: those that were sent before it come before it.
const theEnd = "the end"

func sendTheEnd(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("udp", address)
	must(t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, theEnd); err != nil {
		t.Fatal(err)
	}
}

func TestPushSendsLinesInOneDatagram(t *testing.T) {
	address, next := inbox(t)
	code, out, errs := called("push", "--statsd", address, "a:1|c", "temp:-5|g|#zone:x")
	if code != command.ExitOK || !strings.Contains(out, "sent 2 lines") {
		t.Errorf("exit code %d, %q %q: want 0 and two lines sent", code, out, errs)
	}
	if got := next(); got != "a:1|c\ntemp:-5|g|#zone:x" {
		t.Errorf("came %q", got)
	}
}

func TestPushTellsATypoAndSendsNothing(t *testing.T) {
	address, next := inbox(t)
	code, _, errs := called("push", "--statsd", address, "good:1|c", "depth:|g", "rate:1|c|@2")
	if code != command.ExitUsage {
		t.Errorf("exit code %d, want %d", code, command.ExitUsage)
	}
	commandtest.WantLines(t, errs, `"depth:|g": the value is empty; must be name:value|type (malformed, at byte 6)`, `"rate:1|c|@2": `, "nothing was sent: 2 lines of 3")
	sendTheEnd(t, address)
	if got := next(); got != theEnd {
		t.Errorf("came %q, want nothing: a line was bad", got)
	}
}

// reopened is a UDP socket at the address of a closed one, which tells what came, as inbox.
func reopened(t *testing.T, address string) (next func() string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return nextOf(conn)
}

// The report of a closed port comes with the next write, which sends nothing: that packet is not lost.
func TestPushGoesOnAfterARestartOfTheServer(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	address := server.LocalAddr().String()
	out, err := dialLines(address)
	must(t, err)
	defer out.conn.Close()
	send := func(lines ...string) {
		for _, line := range lines {
			out.add([]byte(line))
		}
		out.flush()
	}
	send("before:1|c")
	must(t, server.Close())
	send("lost:1|c", "lost:2|c")
	next := reopened(t, address)
	send("after:1|c")
	sendTheEnd(t, address)
	if got := next(); got != "after:1|c" {
		t.Errorf("came %q, want the packet after the restart", got)
	}
	err = out.finish(io.Discard)
	if err == nil || !strings.Contains(err.Error(), "lost about 2 lines of 4: nothing listened on "+address) {
		t.Errorf("%v: want that lines are lost, and how many", err)
	}
}

// The scanner takes these names; the server does not.
func TestPushRefusesNamesThatTheServerRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"a%b:1|c":           `must be without "%"`,
		"status:1|c":        `must be without "%"`,
		"depth.:p95:1|g|#a": "malformed",
		strings.Repeat("x", metric.MaxNameLength+1) + ":1|c": "too_long",
	} {
		if got := newChecker(statsd.StatsD).line([]byte(line)); got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("%.40s: %v, want an error with %s", line, got, want)
		}
	}
	if err := checkName([]byte("a:p95:1|c"), "a:p95"); err == nil || !strings.Contains(err.Error(), `ask for "a"`) {
		t.Errorf("%v: want that the name ends in a stat", err)
	}
	address, next := inbox(t)
	code, _, errs := calledWith("a%b:1|c\ngood:1|c\n", "push", "--statsd", address, "-")
	if code != command.ExitFailed || !strings.Contains(errs, "line 1: ") || next() != "good:1|c" {
		t.Errorf("exit code %d, %q: want %d, line 1 named and the good line sent", code, errs, command.ExitFailed)
	}
}

func TestPushFromInputSkipsBadLinesAndNamesThem(t *testing.T) {
	address, next := inbox(t)
	code, out, errs := calledWith("a:1|c\r\n\nbad\nb:2|c", "push", "--statsd", address, "-")
	if code != command.ExitFailed || !strings.Contains(out, "sent 2 lines") {
		t.Errorf("exit code %d, output %q: want %d and two lines sent", code, out, command.ExitFailed)
	}
	if !strings.Contains(errs, `line 3: "bad"`) || !strings.Contains(errs, "1 line not sent") {
		t.Errorf("errors %q: want line 3 named", errs)
	}
	if got := next(); got != "a:1|c\nb:2|c" {
		t.Errorf("came %q", got)
	}
}

// A line of any length is a bad line, and no end of what is read.
func TestPushFromInputSkipsLongLines(t *testing.T) {
	limit := statsd.DefaultOptions().MaxLine
	tags := "fits:1|c|#" + strings.Repeat("a", limit-len("fits:1|c|#"))
	for _, length := range []int{limit + 1, longestRead - 1, longestRead, longestRead + 1, 3*longestRead + 17} {
		address, next := inbox(t)
		input := "early:1|c\n" + strings.Repeat("a", length) + "\r\n" + tags + "\r\nlate:1|c\n" + strings.Repeat("b", length)
		code, out, errs := calledWith(input, "push", "--statsd", address, "-")
		if code != command.ExitFailed || !strings.Contains(out, "sent 3 lines") {
			t.Errorf("%d bytes: exit code %d, output %q: want %d and three lines sent", length, code, out, command.ExitFailed)
		}
		says := fmt.Sprintf("the line has %d bytes", length)
		if !strings.Contains(errs, `line 2: "aaa`) || !strings.Contains(errs, `line 5: "bbb`) || strings.Count(errs, says) != 2 ||
			!strings.Contains(errs, "2 lines not sent") || len(errs) > 1000 {
			t.Errorf("%d bytes: errors %.1500q: want lines 2 and 5 named by their beginnings", length, errs)
		}
		if got := next() + "\n" + next() + "\n" + next(); got != "early:1|c\n"+tags+"\nlate:1|c" {
			t.Errorf("%d bytes: came %.100q", length, got)
		}
	}
}

// Lines do not wait in a quiet pipe, and a signal loses none of those that were written.
func TestPushFromInputSendsWhatIsThere(t *testing.T) {
	address, next := inbox(t)
	in, pipe := io.Pipe()
	defer in.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var out, errs strings.Builder
	done := make(chan int)
	go func() {
		done <- command.Execute(ctx, command.NewRoot("", Commands()...), []string{"push", "--statsd", address, "-"}, command.Streams{In: in, Out: &out, Err: &errs})
	}()
	soon := func(want string) {
		t.Helper()
		got := ""
		for more := "-"; got != want && more != ""; { // in one datagram or in several
			more = next()
			got = strings.TrimSpace(got + "\n" + more)
		}
		if got != want {
			t.Fatalf("came %q, want %q", got, want)
		}
	}
	_, _ = io.WriteString(pipe, "a:1|c\nb:2|c\n")
	soon("a:1|c\nb:2|c")
	_, _ = io.WriteString(pipe, "c:3|c\n")
	stop()
	if code := <-done; code != command.ExitOK || !strings.Contains(out.String(), "sent 3 lines") {
		t.Errorf("exit code %d, %q %q: want 0 and three lines sent", code, out.String(), errs.String())
	}
	soon("c:3|c")
}

// Lines that were read before a read failed are sent.
func TestPushFromInputThatFails(t *testing.T) {
	address, next := inbox(t)
	in, pipe := io.Pipe()
	go func() {
		_, _ = io.WriteString(pipe, "a:1|c\n")
		_ = pipe.CloseWithError(errors.New("the disk is gone"))
	}()
	var out, errs strings.Builder
	code := command.Execute(context.Background(), command.NewRoot("", Commands()...), []string{"push", "--statsd", address, "-"}, command.Streams{In: in, Out: &out, Err: &errs})
	if code != command.ExitFailed || !strings.Contains(out.String(), "sent 1 line") || !strings.Contains(errs.String(), "standard input: the disk is gone") {
		t.Errorf("exit code %d, %q %q: want %d, one line sent and why no more", code, out.String(), errs.String(), command.ExitFailed)
	}
	if got := next(); got != "a:1|c" {
		t.Errorf("came %q", got)
	}
}

func TestPushFillsDatagramsAndNoMore(t *testing.T) {
	address, next := inbox(t)
	line := strings.Repeat("x", 100) + ":1|c"
	code, _, errs := calledWith(strings.Repeat(line+"\n", 30), "push", "--statsd", address, "-")
	if code != command.ExitOK {
		t.Fatal(errs)
	}
	lines := 0
	sendTheEnd(t, address)
	for packet := next(); packet != theEnd; packet = next() {
		if len(packet) > packetBytes {
			t.Errorf("a datagram of %d bytes, want at most %d", len(packet), packetBytes)
		}
		lines += strings.Count(packet, "|c")
	}
	if lines != 30 {
		t.Errorf("%d lines came, want 30", lines)
	}
}

func TestPushSaysThatNobodyListens(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	address := conn.LocalAddr().String()
	_ = conn.Close()
	code, _, errs := called("push", "--statsd", address, "a:1|c")
	if code != command.ExitFailed || !strings.Contains(errs, "nothing listens on "+address) {
		t.Errorf("exit code %d, %q: want %d and that nobody listens", code, errs, command.ExitFailed)
	}
}

func TestPushFaults(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"nothing":    {nil, []string{"nothing to push"}},
		"line flags": {[]string{"a:1|c", "-n", "shop", "--sync", "--dialect", "x", "--statsd", "y"}, []string{"--namespace", "--sync", "--dialect", "--statsd"}},
		"two kinds":  {[]string{"--gauge", "--set", "m", "1", "--label", "a", "--ttl=-1s", "--http", "localhost"}, []string{"--gauge and --set", "--label", "--ttl", "--http"}},
		"no value":   {[]string{"--gauge", "m"}, []string{"1 argument; must be METRIC and VALUE"}},
		"typo":       {[]string{"--guage", "x", "1"}, []string{"unknown flag --guage"}},
		"days":       {[]string{"--gauge", "m", "1", "--ttl", "1d"}, []string{`--ttl is "1d"; must be a duration of at least 1s, as in 90s, 10m or 24h, or forever`}},
		"no life":    {[]string{"--gauge", "m", "1", "--ttl", "0", "--timeout", "0"}, []string{`--ttl is "0"; must be a duration of at least 1s`, "--timeout is 0s; must be above 0"}},
		"too short":  {[]string{"--gauge", "m", "1", "--ttl", "999ms", "--timeout", "-1s"}, []string{`--ttl is "999ms"; must`, "--timeout is -1s; must be above 0"}},
		"object":     {[]string{"--gauge", "m", "1", "--object", "web"}, []string{"--object"}},
		"no -n":      {[]string{"--gauge", "q:rate", "1", "--object", "pods/x"}, []string{`"q:rate": the name ends in a stat`, "--object is \"pods/x\", which is in a namespace; must have --namespace (-n)"}},
		"node":       {[]string{"--gauge", "m", "1", "--object", "nodes/x", "-nshop"}, []string{"--object is \"nodes/x\", which is in no namespace; must be without --namespace"}},
		"singular":   {[]string{"--gauge", "m", "1", "--object", "namespace/x", "-nshop"}, []string{"--object is \"namespace/x\", which is in no namespace"}},
		"scope":      {[]string{"--gauge", "m", "1", "--object", "namespaces/shop", "-nshop"}, []string{"in no namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errs := called(append([]string{"push"}, c.args...)...)
			if code != command.ExitUsage {
				t.Errorf("exit code %d, want %d", code, command.ExitUsage)
			}
			commandtest.WantLines(t, errs, c.want...)
		})
	}
}

// A redirected PUT would become a GET, so a push follows no redirect: it tells where to.
func TestPushFollowsNoRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var asked []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method)
			http.Redirect(w, r, "/elsewhere"+r.URL.Path, status)
		}))
		code, out, errs := called("push", "--gauge", "m", "5", "--http", server.URL)
		server.Close()
		if code != command.ExitFailed || out != "" || len(asked) != 1 || asked[0] != http.MethodPut {
			t.Errorf("%d: exit code %d, %q, asked %v: want %d and one PUT", status, code, out, asked, command.ExitFailed)
		}
		if !strings.Contains(errs, "redirects to /elsewhere/v1/external/m") || !strings.Contains(errs, "--http") {
			t.Errorf("%d: %q: want the place that it redirects to", status, errs)
		}
	}
}

// An address that is no URL is named without its password.
func TestAddressesThatAreNoURLsAreMasked(t *testing.T) {
	for _, base := range []string{"https://u:hunter2%zz@api:6443", "https://u:hunter2/x@api:6443"} {
		if _, err := (&metricsAPI{base: base}).get(t.Context(), "/"); err == nil || strings.Contains(err.Error(), "hunter2") ||
			!strings.Contains(err.Error(), "address ***@api:6443 is not a URL") {
			t.Errorf("%v", err)
		}
	}
}

// A user in an address may be a token.
func TestUsersInAddressesAreMasked(t *testing.T) {
	for base, want := range map[string]string{
		"https://hunter2@api:6443/x": "https://xxxxx@api:6443/x", "https://hunter2:hunter2@api": "https://xxxxx@api", "https://api:6443": "https://api:6443",
	} {
		if got := redacted(base); got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
}

// A certificate out of date is named as such, and a token that no header can have is told before a request.
func TestPushNamesWhatIsWrongWithACertificateOrToken(t *testing.T) {
	err := fmt.Errorf("Post: %w", &tls.CertificateVerificationError{
		Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "it is late"}})
	got := noAnswer("https://a:9091", "http-address", err).Error()
	if !strings.Contains(got, "https://a:9091 shows an invalid certificate: x509: certificate has expired") || strings.Contains(got, "must be the port") {
		t.Errorf("%q: want that the certificate has expired", got)
	}
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("se\x00cret\n"), 0o600))
	code, _, errs := called("push", "--gauge", "m", "5", "--http", "http://127.0.0.1:1", "--token-file", file)
	if code != command.ExitFailed || !strings.Contains(errs, "--token-file "+file+": must be") || strings.Contains(errs, "cret") {
		t.Errorf("exit code %d, %q: want that the file holds no token", code, errs)
	}
}
