//go:build !race

// The bound is the server's own memory, of which the race detector takes several times as much.

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A flood of new series in a small container is refused; the kernel kills nobody. Without the
// bounds, these timers take twice the limit.
func TestFloodInACgroup(t *testing.T) {
	var ports []string
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ports = append(ports, listener.Addr().String())
		_ = listener.Close()
	}
	_, said := inACgroup(t, 128<<20, append(onFreePorts(t.TempDir()), "--statsd-tcp", ports[0], "--ops-address", ports[1])...)
	go func() { _, _ = io.Copy(io.Discard, said) }()
	var conn net.Conn
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var err error
		if conn, err = net.Dial("tcp", ports[0]); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	const timers = 150_000
	flood := bufio.NewWriter(conn)
	for i := range timers {
		fmt.Fprintf(flood, "flood.%d:%d|ms|#namespace:team-%d,pod:web-%d\n", i, i%1000, i%50, i%700)
	}
	must(t, errors.Join(flood.Flush(), conn.Close()))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		taken, refused := 0, 0
		if res, err := http.Get("http://" + ports[1] + "/metrics"); err == nil {
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			taken, refused = counted(string(body), `sluice_samples_applied_total{receiver="statsd_tcp"}`), counted(string(body), `sluice_samples_rejected_total{reason="limit",receiver="statsd_tcp"}`)
		}
		if taken+refused == timers && refused > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d taken, %d refused of %d", taken, refused, timers)
		}
	}
}

// counted is a metric's value in a page of them.
func counted(page, metric string) int {
	_, rest, _ := strings.Cut(page, "\n"+metric+" ")
	text, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseFloat(text, 64)
	return int(n)
}
