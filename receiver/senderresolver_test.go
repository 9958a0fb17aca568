package receiver

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// directory knows the holders of addresses, and counts the look-ups.
type directory struct {
	mu    sync.Mutex
	pods  map[string]*metric.Sender
	asked int
}

func (d *directory) Sender(a netip.Addr) *metric.Sender {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return d.pods[a.String()]
}

func (d *directory) Prefetch([]netip.Addr) {}

func (d *directory) enter(address, pod string, key uint64) {
	d.enterCreated(address, pod, key, time.Unix(0, 0))
}

// enterCreated is enter for a pod that was created at a moment.
func (d *directory) enterCreated(address, pod string, key uint64, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pods == nil {
		d.pods = map[string]*metric.Sender{}
	}
	d.pods[address] = &metric.Sender{
		Key: key, Address: netip.MustParseAddr(address), Known: true,
		Pod: &metric.Pod{Namespace: "shop", Name: pod, UID: "uid-" + pod, Created: at.Unix()},
	}
}

// dialFrom connects from a loopback address of its own, as pods do in the tests of a cluster.
func (f *fixture) dialFrom(i int, from string) net.Conn {
	f.t.Helper()
	addr := f.server.Addrs()[i]
	dialer := net.Dialer{}
	switch addr.Network() {
	case "udp":
		dialer.LocalAddr = &net.UDPAddr{IP: net.ParseIP(from)}
	case "tcp":
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	_, port, _ := net.SplitHostPort(addr.String())
	host := "127.0.0.1"
	if strings.Contains(from, ":") {
		host = "::1"
	}
	conn, err := dialer.Dial(addr.Network(), net.JoinHostPort(host, port))
	must(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func serveTo(t *testing.T, d *directory, listeners ...Listener) *fixture {
	t.Helper()
	return bindParts(t, testConfig(listeners...), func(p *Parts) { p.Senders = d }).run()
}

// Every sample has its sender, over every network, and IPv4 is IPv4 on a dual-stack socket.
func TestSamplesNameTheirSender(t *testing.T) {
	d := &directory{}
	d.enter("127.0.0.2", "web-2", 2)
	d.enter("127.0.0.3", "web-3", 3)
	both := udp(1)
	both.Address = ":0"
	about := udp(1)
	about.About = AboutExternal
	gram := Listener{Network: "unixgram", Address: socketPath(t)}
	stream := unixStream(t)
	f := serveTo(t, d, udp(1), both, Listener{Network: "tcp", Address: "127.0.0.1:0"}, about, gram, stream)
	for i, network := range []string{"udp", "both", "tcp", "about"} {
		for _, from := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
			f.send(f.dialFrom(i, from), network+from+":1|c\n")
		}
	}
	f.send(f.dial(4), "gram:1|c")
	f.send(f.dial(5), frame("stream:1|c"))
	f.eventually("all", func() bool { return f.received() == 14 })
	for name, want := range map[string]string{
		"udp127.0.0.2": "127.0.0.2 web-2", "udp127.0.0.3": "127.0.0.3 web-3", "udp127.0.0.4": "127.0.0.4 unknown",
		"both127.0.0.2": "127.0.0.2 web-2", "both127.0.0.4": "127.0.0.4 unknown",
		"tcp127.0.0.2": "127.0.0.2 web-2", "tcp127.0.0.4": "127.0.0.4 unknown",
		"about127.0.0.2": "127.0.0.2 web-2 external",
		"gram":           "unix", "stream": "unix",
	} {
		if got := f.recorder.sentBy(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestSendersByIPv6(t *testing.T) {
	if _, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("no IPv6 here")
	}
	d := &directory{}
	d.enter("::1", "web-6", 6)
	l := udp(1)
	l.Address = "[::]:0"
	f := serveTo(t, d, l)
	f.send(f.dialFrom(0, "::1"), "a:1|c")
	f.eventually("it", func() bool { return f.recorder.sum("a") == 1 })
	if got := f.recorder.sentBy("a"); got != "::1 web-6" {
		t.Errorf("sent by %q", got)
	}
}

// A rejected line is logged with its sender, whatever the reason.
func TestRefusedLinesNameTheirSender(t *testing.T) {
	d := &directory{}
	d.enter("127.0.0.2", "web-2", 2)
	for _, c := range []struct {
		listener   Listener
		from, want string
	}{
		{udp(1), "127.0.0.2", "from=127.0.0.2 "},
		{udp(1), "127.0.0.4", "from=127.0.0.4 "},
		{Listener{Network: "tcp", Address: "127.0.0.1:0"}, "127.0.0.3", "from=127.0.0.3 "},
		{Listener{Network: "unixgram", Address: socketPath(t)}, "", "from=unix "},
	} {
		f := bindParts(t, testConfig(c.listener), func(p *Parts) { p.Senders = d })
		f.recorder.refuse = map[string]metric.Reason{"over": metric.OverLimit}
		f.run()
		conn := f.dial(0)
		if c.from != "" {
			conn = f.dialFrom(0, c.from)
		}
		f.send(conn, "broken\nover:1|c\n")
		f.eventually("both", func() bool { return strings.Count(f.log.String(), "line rejected") == 2 }) // counted before it is logged
		if got := strings.Count(f.log.String(), c.want+"suppressed="); got != 2 {
			t.Errorf("%s: %d of 2 lines say %q:\n%s", c.listener.Network, got, c.want, f.log)
		}
	}
	f := serve(t, testConfig(udp(1)))
	f.send(f.dial(0), "broken")
	f.eventually("it", func() bool { return strings.Contains(f.log.String(), "line rejected") })
	if strings.Contains(f.log.String(), "from=") {
		t.Errorf("nobody asks, and yet: %s", f.log)
	}
}

// Without a cluster, senders are not looked up, and samples have none.
func TestStandaloneNamesNobody(t *testing.T) {
	f := serve(t, testConfig(udp(1)))
	f.send(f.dial(0), "a:1|c")
	f.eventually("it", func() bool { return f.recorder.sum("a") == 1 })
	if got := f.recorder.sentBy("a"); got != "nobody" {
		t.Errorf("sent by %q", got)
	}
}

// The next datagram already belongs to the new pod, and the next connection.
func TestAddressChangesHands(t *testing.T) {
	d := &directory{}
	d.enter("127.0.0.2", "old", 1)
	f := serveTo(t, d, udp(1), tcp)
	gram := f.dialFrom(0, "127.0.0.2")
	for round, pod := range []string{"old", "new"} {
		d.enter("127.0.0.2", pod, uint64(round+1))
		f.send(gram, "a:1|c")
		f.send(f.dialFrom(1, "127.0.0.2"), "b:1|c\n")
		f.eventually(pod, func() bool { return f.received() == uint64(2*round+2) })
		for _, name := range []string{"a", "b"} {
			if got := f.recorder.sentBy(name); got != "127.0.0.2 "+pod {
				t.Errorf("%s: %q, want %s", name, got, pod)
			}
		}
	}
}

// One address is looked up once a batch, an unknown one has the same key every time and another
// than its neighbour, and nobody keeps what an address had before.
func TestOrigin(t *testing.T) {
	d := &directory{}
	o := SenderResolver{Senders: d}
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	first := *o.Sender(a)
	for range 3 {
		if again := o.Sender(a); *again != first || again.Known || again.Address != a || again.Key>>63 != 1 {
			t.Fatalf("%+v, then %+v", first, again)
		}
	}
	if d.asked != 1 {
		t.Errorf("asked %d times in a batch, want once", d.asked)
	}
	if other := o.Sender(b); other.Key == first.Key || other.Address != b {
		t.Errorf("%+v is %+v's", other, first)
	}
	if back := o.Sender(a); back.Key != first.Key || d.asked != 3 {
		t.Errorf("%+v after %d questions", back, d.asked)
	}
	d.enter("10.0.0.1", "web-1", 5)
	if o.Sender(a).Known {
		t.Error("asked again within the batch")
	}
	o.Reset()
	if got := o.Sender(a); got.Pod == nil || got.Key != 5 {
		t.Errorf("%+v: want the pod", got)
	}
	if got := o.Sender(netip.Addr{}); got != unixSender {
		t.Errorf("no address: %+v", got)
	}
}
