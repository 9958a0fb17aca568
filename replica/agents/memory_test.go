package agents

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// defining is a frame that defines and changes counters of one sender, whose names begin alike.
func defining(number uint64, from netip.Addr, name string, first, n uint32) *agentwire.Frame {
	f := &agentwire.Frame{Number: number}
	for i := first; i < first+n; i++ {
		f.Series = append(f.Series, &agentwire.Series{Number: i, Kind: uint32(metric.Counter), Name: fmt.Append(nil, name, i), Address: from.AsSlice()})
		f.Changes = append(f.Changes, add(i, 1))
	}
	return f
}

func (c *client) tell(f *agentwire.Frame) {
	c.t.Helper()
	c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{Frame: f}})
}

// ends ends the stream, and waits until the server has left it.
func (c *client) ends() {
	for err := c.CloseSend(); err == nil; {
		_, err = c.Recv()
	}
}

// nodesWithPods is a server with agents of nodes, on each of which there are pods of the namespaces flood and shop.
func nodesWithPods(t *testing.T, table *table, maxBytes int64, nodes int) (s *served, agents []*client, pod func(node int, namespace string) netip.Addr) {
	pod = func(node int, namespace string) netip.Addr {
		return netip.AddrFrom4([4]byte{10, byte(len(namespace)), 0, byte(node)})
	}
	known := &senders{pods: map[netip.Addr]*metric.Pod{}}
	for node := range nodes {
		for _, namespace := range []string{"flood", "shop"} {
			known.put(pod(node, namespace), &metric.Pod{Namespace: namespace, Name: fmt.Sprint("node-", node)})
		}
	}
	parts := table.parts()
	parts.Senders, parts.NodeOf = known, func(p *metric.Pod) string { return p.Name }
	s = serveConfig(t, Config{Address: "127.0.0.1:0", Insecure: true, MaxBytes: maxBytes}, parts)
	for node := range nodes {
		c := s.dial(context.Background())
		c.send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Hello{Hello: &agentwire.Hello{Protocol: 1, Node: fmt.Sprint("node-", node), Run: uint64(node + 1)}}})
		c.next(func(a *agentwire.FromServer) bool { return a.GetWelcome() != nil })
		agents = append(agents, c)
	}
	return s, agents, pod
}

// Pods of a namespace that have the agents of all nodes tell of ever new series take the memory of their namespace, and leave
// some to others: what has no room is rejected.
func TestSeriesOfANamespaceLeaveRoom(t *testing.T) {
	const most, nodes, series = 1 << 20, 4, 2000
	table := durableTable()
	s, agents, pod := nodesWithPods(t, table, most, nodes)
	for node, c := range agents {
		c.tell(defining(1, pod(node, "flood"), "f", 1, series))
		c.acked(1)
		if held := s.room.Held(); held > most*3/4*3/4 || held < most/2 {
			t.Fatalf("the series of one namespace have %d bytes, of %d", held, most)
		}
	}
	flood := table.counted()
	agents[3].tell(defining(2, pod(3, "shop"), "s", series+1, 10))
	agents[3].acked(2)
	if table.sum(fmt.Sprint("s", series+10)) != 1 || s.room.Of("shop") == 0 {
		t.Errorf("a series of another namespace is not taken: %s, after %s", table.counted(), flood)
	}
	for _, c := range agents {
		c.ends()
	}
	if held := s.room.Held(); held != 0 {
		t.Errorf("%d bytes are held once all have gone", held)
	}
}

// Senders that nobody knows, as of forged addresses, have one share together, of which those of one
// node leave some to those of another one.
func TestStrangersOfANodeLeaveRoom(t *testing.T) {
	const most = 1 << 20
	table := durableTable()
	s, agents, pod := nodesWithPods(t, table, most, 3)
	stranger := func(node byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 99, 0, node}) }
	const last = 9999
	table.reject[fmt.Sprint("over", last)] = metric.OverLimit
	told := func(node int, name string, frames, each uint32) {
		t.Helper()
		c := agents[node]
		for i := range frames {
			c.tell(defining(uint64(i+1), stranger(byte(node)), name, each*i+1, each))
		}
		c.tell(defining(uint64(frames+1), pod(node, "shop"), "shop", each*frames+1, 1))
		c.tell(defining(uint64(frames+2), pod(node, "shop"), "over", last, 1))
		c.next(func(a *agentwire.FromServer) bool { return a.GetRejection().GetSeries() == last }) // it has taken all before
	}
	told(0, "f", 100, 20)
	told(1, "f", 100, 20)
	flood := s.room.Of("")
	if flood > most*3/4*3/4 || flood < most/2 {
		t.Errorf("the strangers of two nodes have %d bytes, of %d", flood, most)
	}
	told(2, "s", 1, 10)
	if more := s.room.Of("") - flood; more < 10*(definedBytes+changeBytes) {
		t.Errorf("the strangers of another node have %d bytes", more)
	}
	if table.sum("shop2001") != 2 || table.sum("shop11") != 1 {
		t.Errorf("a series of a namespace is not taken: %s", table.counted())
	}
	for node, c := range agents {
		c.ends()
		s.mu.Lock()
		s.forget(uint64(node + 1))
		s.mu.Unlock()
	}
	if held, strangers := s.room.Held(), s.strangers.held.Held(); held != 0 || strangers != 0 {
		t.Errorf("%d bytes are held at the end, of strangers %d", held, strangers)
	}
}

// Series of other nodes' pods, and those that the table rejects, take no memory: of what the agent sends before it hears of
// that, the reason is the same.
func TestRejectedSeriesAreNotKept(t *testing.T) {
	table := durableTable()
	table.reject["over7"] = metric.OverLimit
	s, agents, pod := nodesWithPods(t, table, 1<<20, 2)
	told := func(number uint64, f *agentwire.Frame, want string) {
		t.Helper()
		agents[1].tell(f)
		r := agents[1].next(func(a *agentwire.FromServer) bool { return a.GetRejection() != nil }).GetRejection()
		if agents[1].acked(number); r.Reason != want || r.ForNanos != int64(rejectFor) || s.room.Held() != 0 {
			t.Errorf("frame %d: told %v, and %d bytes are held", number, r, s.room.Held())
		}
	}
	more := func(number uint64, series uint32, want string) {
		t.Helper()
		agents[1].tell(&agentwire.Frame{Number: number, Changes: []*agentwire.Change{add(series, 1)}})
		if agents[1].acked(number); table.counted() != want {
			t.Errorf("frame %d: counted %s, want %s", number, table.counted(), want)
		}
	}
	told(1, defining(1, pod(0, "flood"), "foreign", 6, 1), "identity")
	more(2, 6, "identity 2")
	told(3, defining(3, pod(1, "shop"), "over", 7, 1), "limit")
	more(4, 7, "identity 2, limit 2")
	agents[1].tell(defining(5, pod(1, "shop"), "over", 8, 1)) // it is over no limit
	more(6, 8, "applied 2, identity 2, limit 2")
}

// Changes that wait take room with their series, also once the stream has ended, until they are settled.
func TestWaitingChangesTakeRoom(t *testing.T) {
	table := durableTable()
	s, agents, _ := nodesWithPods(t, table, 1<<20, 1)
	agents[0].tell(defining(1, netip.AddrFrom4([4]byte{10, 0, 0, 99}), "w", 1, 10))
	agents[0].stays(0)
	held := s.room.Of("")
	if held < 10*(definedBytes+changeBytes) {
		t.Errorf("%d bytes are held", held)
	}
	agents[0].ends()
	if left := s.room.Of(""); left != held {
		t.Errorf("%d bytes are held after the stream, before %d", left, held)
	}
	s.mu.Lock()
	s.forget(1)
	s.mu.Unlock()
	if left := s.room.Held(); left != 0 {
		t.Errorf("%d bytes are held once the run is forgotten", left)
	}
}

// Frames that come again have room by their memory, of which a node has a share.
func TestFramesThatComeAgainTakeRoom(t *testing.T) {
	table := durableTable()
	table.restored = 1000
	s, agents, pod := nodesWithPods(t, table, 1<<20, 2)
	agents[1].tell(defining(998, pod(1, "shop"), "b", 1, 1))
	for s.again.Held() == 0 {
		time.Sleep(time.Millisecond)
	}
	for i := uint64(1); agents[0].Send(&agentwire.FromAgent{Message: &agentwire.FromAgent_Frame{
		Frame: &agentwire.Frame{Number: i, Series: defining(i, pod(0, "shop"), "a", 1, 1).Series, Changes: many(add(1, 1), 100)}}}) == nil; i++ {
		if i == 999 {
			t.Fatal("frames of 999 times 100 changes are kept")
		}
	}
	agents[0].fails(codes.ResourceExhausted, "frames again")
	agents[1].tell(defining(999, pod(1, "shop"), "b", 1, 1))
	agents[1].tell(defining(1000, pod(1, "shop"), "a", 1, 1))
	agents[1].acked(1000)
	agents[1].ends()
	if left, again := s.room.Held(), s.again.Held(); left != 0 || again != 0 {
		t.Errorf("%d bytes are held at the end, and %d of frames that come again", left, again)
	}
}

// A node whose frames are more than its share has them taken while it is alone: the agent sends no others before.
func TestANodeAloneSendsAllAgain(t *testing.T) {
	const frames = 20
	table := durableTable()
	table.restored = frames
	s, agents, pod := nodesWithPods(t, table, 1<<20, 1)
	for i := uint64(1); i <= frames; i++ {
		agents[0].tell(&agentwire.Frame{Number: i, Series: defining(i, pod(0, "shop"), "a", 1, 1).Series, Changes: many(add(1, 1), 100)})
	}
	agents[0].acked(frames)
	if got, again := table.sum("a1"), s.again.Held(); got != frames*100 || again != 0 {
		t.Errorf("counted %v, and %d bytes are held", got, again)
	}
}

// Frames that follow those, of which one waits for a sender that is gone, are applied where there is no room for them: the next
// stream would send them again, and find no more.
func TestFramesWithoutRoomDoNotWait(t *testing.T) {
	table := durableTable()
	table.restored = 1
	s, agents, pod := nodesWithPods(t, table, 1<<20, 1)
	agents[0].tell(defining(1, netip.AddrFrom4([4]byte{10, 0, 0, 99}), "gone", 1, 1))
	const frames = 20
	for i := uint64(2); i <= frames; i++ {
		agents[0].tell(&agentwire.Frame{Number: i, Series: defining(i, pod(0, "shop"), "a", 2, 1).Series, Changes: many(add(2, 1), 100)})
	}
	agents[0].acked(frames)
	if got := table.sum("a2"); got != (frames-1)*100 {
		t.Errorf("counted %v: %s", got, table.counted())
	}
	agents[0].ends()
	if left, again := s.room.Held(), s.again.Held(); left != 0 || again != 0 {
		t.Errorf("%d bytes are held at the end, and %d of frames that come again", left, again)
	}
}

// A change of a series that was forgotten since it came takes the room of both while it waits.
func TestChangesOfForgottenSeriesTakeRoom(t *testing.T) {
	table := durableTable()
	table.restored = 1
	s, agents, _ := nodesWithPods(t, table, 1<<20, 1)
	stranger := netip.AddrFrom4([4]byte{10, 0, 0, 99})
	agents[0].tell(defining(1, stranger, "gone", 1, 1)) // those that follow come again for a while
	agents[0].tell(defining(2, stranger, "w", 2, 1))
	agents[0].tell(&agentwire.Frame{Number: 3, Forgotten: []uint32{1, 2}})
	for s.waits.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	agents[0].ends()
	if held := s.room.Of(""); held < definedBytes+changeBytes {
		t.Errorf("%d bytes are held", held)
	}
	s.mu.Lock()
	s.forget(1)
	s.mu.Unlock()
	if left := s.room.Of(""); left != 0 {
		t.Errorf("%d bytes are held once the run is forgotten", left)
	}
}

func many[T any](one T, n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = one
	}
	return all
}

// Definitions, and frames until they are applied, take no more memory than is counted.
func TestMemoryOfFramesIsCounted(t *testing.T) {
	const frames = 20
	parts := newTable().parts()
	s := serve(t, "127.0.0.1:0", parts)
	for name, one := range map[string]func(i uint32) *agentwire.Frame{
		"series": func(i uint32) *agentwire.Frame {
			return defining(1, netip.AddrFrom4([4]byte{10, 0, 0, 1}), "http_requests_total", i*1000, 1000)
		},
		"labels": func(i uint32) *agentwire.Frame {
			f := defining(1, netip.AddrFrom4([4]byte{10, 0, 0, 1}), "m", i*1000, 1000)
			for _, d := range f.Series {
				d.Labels = many(&agentwire.Label{Key: "k", Value: "v"}, 20)
			}
			return f
		},
		"members": func(i uint32) *agentwire.Frame {
			f := defining(1, netip.AddrFrom4([4]byte{10, 0, 0, 1}), "m", i, 1)
			f.Changes = many(&agentwire.Change{Series: i, Op: agentwire.Op_INSERT, Members: many([]byte("a"), 1000)}, 20)
			return f
		},
		"increments": func(i uint32) *agentwire.Frame {
			f := defining(1, netip.AddrFrom4([4]byte{10, 0, 0, 1}), "m", i, 1)
			f.Changes = many(add(i, 1), 1000)
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			stream := unheard(s)
			var wire [frames][]byte
			for i := range wire {
				text, err := proto.Marshal(one(uint32(i)))
				must(t, err)
				wire[i] = text
			}
			before, all, size := heap(), make([]frame, frames), 0
			for i := range wire {
				all[i].Frame = new(agentwire.Frame)
				must(t, proto.Unmarshal(wire[i], all[i].Frame))
				must(t, stream.define(&all[i]))
				size += all[i].size()
			}
			if took := heap() - before; took > int64(size+stream.defined) {
				t.Errorf("frames and definitions take %d bytes, counted as %d and %d", took, size, stream.defined)
			}
			clear(all)
			if took := heap() - before; took > int64(stream.defined) {
				t.Errorf("definitions take %d bytes, counted as %d", took, stream.defined)
			}
			runtime.KeepAlive(all)
		})
	}
}

// unheard is a stream whose agent hears nothing.
func unheard(s *served) *stream {
	t := newStream(s.Server, sendless{}, "a", "", &agentwire.Hello{Run: 7})
	t.run, t.of = &run{node: "a"}, &node{}
	return t
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A stream that has lost most of its series keeps no place for them.
func TestMapsOfSeriesShrink(t *testing.T) {
	parts := newTable().parts()
	s := serve(t, "127.0.0.1:0", parts)
	one := unheard(s)
	must(t, one.define(&frame{Frame: defining(1, netip.AddrFrom4([4]byte{10, 0, 0, 1}), "m", 1, 100_000)}))
	for number := range uint32(99_000) {
		one.undefine(number + 1)
	}
	before := heap()
	must(t, one.tick(time.Now()))
	if freed := before - heap(); freed < 100_000*8 || len(one.series) != 1000 {
		t.Errorf("%d bytes are freed, %d series are left", freed, len(one.series))
	}
}
