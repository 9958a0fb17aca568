package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A gauge that a client sends to a socket, and then sets by HTTP, keeps the later value.
func TestAPushFollowsWhatSocketsHold(t *testing.T) {
	t.Parallel()
	sockets := t.TempDir()
	p := started(t, t.TempDir(), "--statsd-unixgram", filepath.Join(sockets, "d"), "--statsd-unix", filepath.Join(sockets, "s"))
	pushes := map[string]func(name string) (method, path, body, contentType string){
		"/v1": func(name string) (_, _, _, _ string) { return "PUT", "/v1/external/" + name, "-1", "text/plain" },
		"/v1/statsd": func(name string) (_, _, _, _ string) {
			return "POST", "/v1/statsd", name + ":1|g\n" + name + ":-2|g", "text/plain"
		},
		"OTLP": func(name string) (_, _, _, _ string) {
			return "POST", "/v1/metrics", fmt.Sprintf(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":%q,"gauge":{"dataPoints":[`+
				`{"asInt":"-1"}]}}]}]}]}`, name), "application/json"
		},
	}
	for i, address := range p.statsd.Addrs() { // the sockets are being read
		conn, err := net.Dial(address.Network(), address.String())
		must(t, err)
		defer conn.Close()
		name := fmt.Sprint("first", i)
		if _, err := fmt.Fprintf(conn, "%s:1|g\n", name); err != nil {
			t.Fatal(err)
		}
		for status := 0; status != 200; {
			status, _ = spoken(t, p, "GET", "/v1/external/"+name, "")
		}
	}
	for i, address := range p.statsd.Addrs() {
		for _, isNew := range []bool{false, true} { // connections
			for protocol, push := range pushes {
				t.Run(fmt.Sprintf("%s, new %v, %s", address.Network(), isNew, protocol), func(t *testing.T) {
					name := strings.NewReplacer("/", "_").Replace(fmt.Sprintf("g%d%v%s", i, isNew, protocol))
					var conn net.Conn
					old := 0
					for n := range 100 {
						if conn == nil || isNew {
							var err error
							conn, err = net.Dial(address.Network(), address.String())
							must(t, err)
							defer conn.Close()
						}
						if _, err := fmt.Fprintf(conn, "%s:%d|g\n", name, n+10); err != nil {
							t.Fatal(err)
						}
						awaitDelivered(t, conn)
						method, path, body, contentType := push(name)
						if status, answer := spoken(t, p, method, path, body, "Content-Type", contentType); status != 200 {
							t.Fatal(status, answer)
						}
						time.Sleep(time.Millisecond)
						if _, answer := spoken(t, p, "GET", "/v1/external/"+name, ""); !strings.Contains(answer, `"value":-1,`) {
							old++
						}
					}
					if old > 0 {
						t.Errorf("the older value stood %d times of 100", old)
					}
				})
			}
		}
	}
}

// awaitDelivered waits until the server's kernel has what was sent: even on loopback, it may be
// delivered after the call. To a Unix socket it is delivered by the call.
func awaitDelivered(t *testing.T, conn net.Conn) {
	if _, isUnix := conn.(*net.UnixConn); isUnix {
		return
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	must(t, err)
	for unsent := 1; unsent != 0; {
		must(t, raw.Control(func(fd uintptr) { unsent, _ = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }))
	}
}
