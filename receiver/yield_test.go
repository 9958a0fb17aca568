package receiver

import (
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Idle and dripping connections of an address yield to new senders, of that address and of others. A connection that
// brought a sample a moment ago keeps its place.
func TestIdleConnectionsYield(t *testing.T) {
	line, packet := func(s string) string { return s + "\n" }, frame
	for name, c := range map[string]struct {
		listener func(*testing.T) Listener
		each     int
		says     string // what each of the crowd sends
		line     func(string) string
	}{
		"tcp, idle":               {func(*testing.T) Listener { return tcp }, 4, "", line},
		"tcp, dripping":           {func(*testing.T) Listener { return tcp }, 4, "drip", line},
		"tcp, refused lines":      {func(*testing.T) Listener { return tcp }, 4, "foo:|g\n", line},
		"tcp, all together":       {func(*testing.T) Listener { return tcp }, 100, "", line},
		"unix, all together":      {unixStream, 100, "", packet},
		"unix, half a frame each": {unixStream, 100, "\x06\x00", packet},
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(c.listener(t))
			config.MaxConnections, config.MaxConnectionsPerAddress = 8, c.each
			room := min(config.MaxConnections, c.each)
			f := serve(t, config)
			sender := f.dial(0)
			f.send(sender, c.line("a:1|c"))
			f.eventually("a sender", func() bool { return f.recorder.sum("a") == 1 })
			var crowd []net.Conn
			for range room + 8 {
				conn := f.dial(0)
				f.send(conn, c.says)
				crowd = append(crowd, conn)
			}
			f.send(f.dial(0), c.line("b:1|c"))
			f.eventually("a new sender", func() bool { return f.recorder.sum("b") == 1 })
			f.send(sender, c.line("a:1|c"))
			f.eventually("the first sender again", func() bool { return f.recorder.sum("a") == 2 })
			if !closedByServer(crowd[0]) {
				t.Error("the connection that was idle longest stays open")
			}
			f.eventually("as many as may be", func() bool { return f.server.streams[0].limiter.Len() <= room })
			for _, want := range []string{"closed for a new connection", "idle"} {
				if !strings.Contains(f.log.String(), want) {
					t.Errorf("the log does not say %q: %s", want, f.log)
				}
			}
			registry := prometheus.NewRegistry()
			if err := f.server.Register(registry); err != nil {
				t.Fatal(err)
			}
			checkMetric(t, registry, "sluice_connections_yielded_total", float64(room+8+2-room))
			checkMetric(t, registry, "sluice_connections_refused_total", 0)
		})
	}
}
