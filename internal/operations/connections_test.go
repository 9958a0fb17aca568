package operations

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
)

// A client that opens many connections keeps no probe out, from another address or its own.
func TestManyConnectionsKeepNoProbeOut(t *testing.T) {
	for name, request := range map[string]string{
		"says nothing":        "",
		"half a request":      "GET /livez HT",
		"is served, and idle": "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var said logtest.Buffer
			began := time.Now()
			server := withoutMetrics(t, &said)
			for i := range maxConnections + 1 {
				conn := dialFrom(t, server, net.IPv4(127, 0, 0, 9))
				if _, err := io.WriteString(conn, request); err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(request, "\r\n") && i < maxConnectionsEach {
					if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, address := range []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 9)} {
				probe := dialFrom(t, server, address)
				_ = probe.SetDeadline(time.Now().Add(time.Minute))
				_, _ = io.WriteString(probe, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
				resp, err := http.ReadResponse(bufio.NewReader(probe), nil)
				if err != nil {
					t.Fatalf("a probe from %s: %v", address, err)
				}
				if resp.StatusCode != http.StatusOK {
					t.Errorf("a probe from %s: %s", address, resp.Status)
				}
			}
			if closed := yielded(t, server); closed != maxConnections+1-maxConnectionsEach+1 {
				t.Errorf("%v connections are counted as closed", closed)
			}
			for _, want := range []string{"127.0.0.9:", "open_from_address=64", "limit_from_address=64"} {
				if text := said.String(); !strings.Contains(text, want) {
					t.Errorf("the log does not say %s: %s", want, text)
				}
			}
			lines := said.Count("\n")
			if took := time.Since(began); lines > 2+int(took/time.Minute) {
				t.Errorf("%d lines of log in %v, want one a minute", lines, took)
			}
		})
	}
}

func TestACrowdKeepsNoneOut(t *testing.T) {
	address := crowd.Address(t)
	crowd.KeepsNoneOut(t, address, maxConnections, "", func() (stop func()) {
		return runningAt(t, address, nil, prometheus.NewRegistry(), io.Discard).stop
	}, func(conn net.Conn) error {
		_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		_, err := http.ReadResponse(bufio.NewReader(conn), nil)
		return err
	})
}

// yielded is how many connections were closed for others.
func yielded(t *testing.T, s *Server) (closed float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	must(t, s.Register(registry))
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "sluice_connections_yielded_total" {
			closed += f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return closed
}

// All addresses together share one limit, and a connection with a request in flight is closed last.
func TestConnectionsOfManyAddresses(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	server := withoutMetrics(t, &logtest.Buffer{}, Check{Name: "slow", State: func() (bool, string) { close(asked); <-answer; return true, "" }})
	busy := dialFrom(t, server, net.IPv4(127, 0, 0, 1))
	_, _ = io.WriteString(busy, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-asked
	for i := range maxConnections + 100 {
		dialFrom(t, server, net.IPv4(127, 0, 1, byte(i%16)))
	}
	close(answer)
	if _, err := http.ReadResponse(bufio.NewReader(busy), nil); err != nil {
		t.Error("a connection with a request was closed before those that have none:", err)
	}
	if open := server.listener.Len(); open > maxConnections {
		t.Errorf("%d connections are open", open)
	}
}

// A closed connection frees its slot.
func TestClosedConnectionsFreeTheirSlots(t *testing.T) {
	server := withoutMetrics(t, &logtest.Buffer{})
	for range 3 * maxConnectionsEach {
		conn := dialFrom(t, server, net.IPv4(127, 0, 0, 9))
		_, _ = io.WriteString(conn, "GET /livez HTTP/1.0\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}
	if closed := yielded(t, server); closed != 0 {
		t.Errorf("%v connections were closed for others, though only one was open at a time", closed)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		open := server.listener.Len()
		if open == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are remembered", open)
		}
	}
}

// withoutMetrics runs a server whose /metrics is empty.
func withoutMetrics(t *testing.T, said io.Writer, checks ...Check) *Server {
	t.Helper()
	return running(t, checks, prometheus.NewRegistry(), said)
}

func dialFrom(t *testing.T, server *Server, address net.IP) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: address}}
	conn, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", server.Addr().(*net.TCPAddr).Port))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
