package receiver

import (
	"strings"
	"sync"
	"testing"
)

// relayed is a Relay that keeps what it gets.
type relayed struct {
	mu  sync.Mutex
	got []string
}

func (r *relayed) Relay(lines []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(lines) > 0 {
		r.got = append(r.got, string(lines))
	}
}

func (r *relayed) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, "; ")
}

// Lines are relayed as they came, whether they are valid or not, and whole.
func TestLinesAreRelayed(t *testing.T) {
	for name, c := range map[string]struct {
		listener Listener
		want     string
	}{
		"udp": {udp(1), "a:1|c\nbad\r\n; b:2|c; c:3|ms"},
		"tcp": {tcp, "a:1|c\nbad\r\n; b:2|cc:3|ms"}, // one stream
	} {
		t.Run(name, func(t *testing.T) {
			r := &relayed{}
			f := bindParts(t, testConfig(c.listener), func(p *Parts) { p.Relay = r }).run()
			conn := f.dial(0)
			f.send(conn, "a:1|c\nbad\r\n")
			f.eventually("the first packet", func() bool { return f.received() == 2 })
			f.send(conn, "b:2|c")
			if name == "udp" {
				f.eventually("the second packet", func() bool { return f.received() == 3 })
			}
			f.send(conn, "c:3|ms")
			conn.Close()
			f.eventually("the last packet", func() bool { return r.all() == c.want })
		})
	}
}
