package agent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"google.golang.org/protobuf/proto"
)

func collector(maxBytes int) *Collector {
	c := DefaultConfig()
	c.MaxBytes, c.MaxSeries = maxBytes, 1000
	return NewCollector(c)
}

// sent returns all frames that are sent to a first server.
func sent(c *Collector) []*frame { return c.next(c.enter("", 1, true), 0, true) }

func named(name string, kind metric.Kind, op metric.Op, v float64) *metric.Sample {
	s := &metric.Sample{Name: []byte(name), Kind: kind, Op: op}
	s.SetFloat(v)
	return s
}

// state of a series, as samples in their order make it.
type seriesState struct {
	number  metric.Number
	values  map[string]int
	members map[string]bool
	samples uint64
}

func (s *seriesState) add(op metric.Op, n metric.Number, values []float64, rate float64, members [][]byte, dated int64) {
	switch op {
	case metric.Add, metric.Shift:
		s.number = s.number.Plus(n)
	case metric.Assign:
		s.number = n
	}
	for _, v := range values {
		s.values[fmt.Sprint(v, rate, dated)]++
	}
	for _, m := range members {
		s.members[string(m)] = true
	}
}

// A timer's sample of a rate below a millionth is rejected, as by a server: it would be a change of its own.
func TestRatesThatServersReject(t *testing.T) {
	c := collector(1 << 20)
	for _, of := range []struct {
		kind metric.Kind
		op   metric.Op
		rate float64
		want metric.Reason
	}{
		{metric.Timer, metric.Observe, 1e-7, metric.BadRate},
		{metric.Timer, metric.Observe, 1.0 / metric.MaxWeight, metric.Applied},
		{metric.Counter, metric.Add, 1e-7, metric.Applied},
		{metric.Set, metric.Insert, 1e-7, metric.Applied},
	} {
		s := named("a"+of.kind.String(), of.kind, of.op, 1)
		if s.Rate = of.rate; c.apply(s) != of.want {
			t.Errorf("a %s of rate %v is not %s", of.kind, of.rate, of.want)
		}
	}
}

// Whatever samples come between frames, the changes of the frames in their order leave each series as the samples themselves.
func TestChangesCountAsTheirSamples(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		c, want := collector(64<<20), map[string]*seriesState{}
		of := func(all map[string]*seriesState, name string) *seriesState {
			if all[name] == nil {
				all[name] = &seriesState{values: map[string]int{}, members: map[string]bool{}}
			}
			return all[name]
		}
		for range 2000 {
			var s *metric.Sample
			switch r.IntN(5) {
			case 0:
				s = named(fmt.Sprint("counter", r.IntN(3)), metric.Counter, metric.Add, float64(r.IntN(1000)-200)/8)
			case 1:
				s = named(fmt.Sprint("gauge", r.IntN(3)), metric.Gauge, metric.Assign, float64(r.IntN(1000))/10)
			case 2:
				s = named(fmt.Sprint("gauge", r.IntN(3)), metric.Gauge, metric.Shift, float64(r.IntN(100)-50))
			case 3:
				s = named(fmt.Sprint("timer", r.IntN(2)), metric.Timer, metric.Observe, float64(r.IntN(50)))
				s.Rate = []float64{0, 0.5}[r.IntN(2)]
			default:
				s = named("set", metric.Set, metric.Insert, 0)
				s.Member = fmt.Appendf(nil, "m%d", r.IntN(3000))
			}
			if r.IntN(20) == 0 && s.Kind != metric.Set {
				s.Dated = int64(1 + r.IntN(5))
			}
			if reason := c.apply(s); reason != metric.Applied {
				t.Fatal(reason)
			}
			made, _ := newChange(s)
			made.own(s)
			w := of(want, string(s.Name))
			w.add(made.op, made.number, made.values, made.rate, made.members, made.dated)
			w.samples++
			if r.IntN(100) == 0 {
				c.cut(time.Now())
			}
		}
		c.cut(time.Now())
		got, samples, last := map[string]*seriesState{}, uint64(0), uint64(0)
		for _, f := range sent(c) {
			if f.number != last+1 {
				t.Fatalf("frame %d after %d", f.number, last)
			}
			last = f.number
			for _, changed := range f.changes {
				g := of(got, string(changed.definition.Name))
				g.add(changed.op, changed.number, changed.values, changed.rate, changed.members, changed.dated)
				g.samples += changed.change.samples
			}
			samples += f.samples
		}
		if samples != 2000 || c.Held() != 2000 {
			t.Fatalf("frames have %d samples, %d are held", samples, c.Held())
		}
		for name, w := range want {
			g := got[name]
			if g.number != w.number || g.samples != w.samples || !maps.Equal(g.values, w.values) || !maps.Equal(g.members, w.members) {
				t.Fatalf("seed %d: %s: %v, %d samples; want %v, %d", seed, name, g.number, g.samples, w.number, w.samples)
			}
		}
		c.forget(c.current, last, 0, false)
		if s := c.state(time.Now()); s.samples != 0 || s.frames != 0 || c.acknowledged.Load() != 2000 || int64(s.held) != sizesOf(c) {
			t.Fatalf("after the acknowledgement: %+v", s)
		}
	}
}

// sizesOf is the memory of the series alone.
func sizesOf(c *Collector) (sum int64) {
	for _, one := range c.byKey {
		sum += one.size()
	}
	return sum
}

// Series are told apart by all that decides what they describe.
func TestSeriesOfACollector(t *testing.T) {
	c := collector(64 << 20)
	base := func() *metric.Sample { return named("a", metric.Counter, metric.Add, 1) }
	variants := []func(*metric.Sample){
		func(*metric.Sample) {},
		func(s *metric.Sample) { s.Name = []byte("b") },
		func(s *metric.Sample) { s.Kind, s.Op = metric.Gauge, metric.Assign },
		func(s *metric.Sample) { s.Tags, s.Separator = []byte("x:1"), ':' },
		func(s *metric.Sample) { s.Tags, s.Separator = []byte("x:1"), '=' },
		func(s *metric.Sample) { s.Container = []byte("x") },
		func(s *metric.Sample) { s.External = []byte("x") },
		func(s *metric.Sample) { s.DefaultExternal = true },
		func(s *metric.Sample) { s.Sender = &metric.Sender{Address: netip.MustParseAddr("10.0.0.1")} },
		func(s *metric.Sample) { s.Sender = &metric.Sender{Address: netip.MustParseAddr("10.0.0.2")} },
	}
	for range 2 {
		for _, vary := range variants {
			s := base()
			vary(s)
			c.apply(s)
		}
	}
	c.cut(time.Now())
	if n := len(c.byKey); n != len(variants) {
		t.Errorf("%d series, want %d", n, len(variants))
	}
	addresses := []string{}
	for _, changed := range sent(c)[0].changes {
		if changed.change.samples != 2 {
			t.Errorf("%v: %d samples", changed.definition, changed.change.samples)
		}
		if len(changed.definition.Address) > 0 {
			addresses = append(addresses, fmt.Sprint(changed.definition.Address))
		}
	}
	if slices.Sort(addresses); !slices.Equal(addresses, []string{"[10 0 0 1]", "[10 0 0 2]"}) {
		t.Error(addresses)
	}
}

// Nothing takes more memory than it may: what has no room is rejected and counted, and what merges goes on.
func TestMemoryOfACollector(t *testing.T) {
	const maxBytes = 100_000
	c := collector(maxBytes)
	rejected := uint64(0)
	for i := range 100_000 {
		s := named("t", metric.Timer, metric.Observe, float64(i))
		if c.apply(s) == metric.OverLimit {
			rejected++
		}
		if i%1000 == 0 {
			if c.apply(named("c", metric.Counter, metric.Add, 1)) != metric.Applied {
				t.Fatal("a counter is rejected")
			}
		}
		if s := c.state(time.Now()); s.held > maxBytes {
			t.Fatalf("%d bytes", s.held)
		}
	}
	if rejected == 0 || c.dropped.Load() != rejected {
		t.Errorf("%d rejected, %d counted", rejected, c.dropped.Load())
	}
	for i := range 2000 {
		c.apply(named(fmt.Sprint(i), metric.Counter, metric.Add, 1))
	}
	if len(c.byKey) > 1000 || c.state(time.Now()).held > maxBytes {
		t.Errorf("%d series", len(c.byKey))
	}
}

// A frame stays below what a server takes, whatever its changes are.
func TestFramesAreBounded(t *testing.T) {
	c := collector(64 << 20)
	for i := range 900 {
		s := named(fmt.Sprint(i), metric.Set, metric.Insert, 0)
		s.Tags = make([]byte, 4000)
		s.Member = make([]byte, 4000)
		c.apply(s)
	}
	c.cut(time.Now())
	all := sent(c)
	if len(all) < 5 {
		t.Errorf("%d frames", len(all))
	}
	for _, f := range all {
		if f.bytes > maxFrameBytes {
			t.Errorf("a frame of %d bytes", f.bytes)
		}
	}
}

// Changes that began at other times are in other frames, however long none was cut: the frame of a new pod's began with the pod.
func TestFramesBeganWithTheirChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := collector(64<<20), time.Now()
		for i := range 4 {
			c.apply(named("old", metric.Counter, metric.Add, 1))
			c.apply(named(fmt.Sprint("new", i/2), metric.Counter, metric.Add, 1))
			time.Sleep(time.Minute)
		}
		c.cut(time.Now())
		var got []string
		for i, f := range c.frames {
			for _, change := range f.changes {
				got = append(got, fmt.Sprintf("%d: %d of %s since %v", i+1, change.samples, change.definition.Name, f.began.Sub(began)))
			}
			if age := time.Since(f.made); age != 0 {
				t.Errorf("frame %d is %v old", f.number, age)
			}
		}
		if !slices.Equal(got, []string{"1: 4 of old since 0s", "1: 2 of new0 since 0s", "2: 2 of new1 since 2m0s"}) {
			t.Errorf("%q", got)
		}
	})
}

// A rejected series takes no sample for its time, and an idle one is forgotten, unless a frame still needs it.
func TestSeriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := collector(64 << 20)
		one := named("a", metric.Counter, metric.Add, 1)
		c.apply(one)
		for _, s := range c.byKey {
			c.reject(s, metric.Identity, time.Now().Add(10*time.Second))
		}
		if got := c.apply(one); got != metric.Identity {
			t.Errorf("%v, want identity", got)
		}
		time.Sleep(11 * time.Second)
		if got := c.apply(one); got != metric.Applied {
			t.Errorf("%v after the time", got)
		}
		c.cut(time.Now())
		time.Sleep(time.Hour)
		sent(c)
		c.sweep(time.Now())
		if len(c.byKey) != 1 {
			t.Error("a series of a kept frame is forgotten")
		}
		c.forget(c.current, 1, 0, false)
		time.Sleep(time.Hour)
		if forgotten := c.sweep(time.Now()); len(c.byKey) != 0 || c.state(time.Now()).held != 0 || len(forgotten) != 1 {
			t.Errorf("%d series, %d forgotten", len(c.byKey), len(forgotten))
		}
	})
}

// Long members of a set make several changes and frames: a server takes none that is much longer than maxFrameBytes, and the agent
// could never tell it.
func TestLongMembers(t *testing.T) {
	c := collector(64 << 20)
	for i := range 200 {
		s := named("s", metric.Set, metric.Insert, 0)
		s.Member = append(make([]byte, 64<<10), byte(i))
		if r := c.apply(s); r != metric.Applied {
			t.Fatal(r)
		}
	}
	c.cut(time.Now())
	members := 0
	for _, f := range sent(c) {
		size := 0
		for _, changed := range f.changes {
			size += proto.Size(changed.wire(1))
			members += len(changed.members)
		}
		if size > maxFrameBytes {
			t.Errorf("frame %d has %d bytes", f.number, size)
		}
	}
	if members != 200 {
		t.Errorf("%d members", members)
	}
	if c.forget(c.current, c.current.last, 0, false); c.bytes != sizeOf(len(c.key), 0) {
		t.Errorf("%d bytes are held without a change", c.bytes)
	}
}

// Samples of HTTP are of one series if object, labels and lifetime are the same, and their definition has all of it.
func TestSeriesOfHTTP(t *testing.T) {
	c := NewCollector(DefaultConfig())
	push := func(object *metric.Object, ttl time.Duration, labels ...metric.Label) {
		s := named("c", metric.Counter, metric.Add, 1)
		s.Object, s.TTL, s.Fields = object, ttl, labels
		if reason := c.apply(s); reason != metric.Applied {
			t.Fatal(reason)
		}
	}
	pod := metric.Object{Resource: "pods", Namespace: "shop", Name: "web"}
	for range 2 {
		push(nil, 0)
		push(&metric.Object{}, 0) // of no object, which is not that of the sender
		push(&pod, 0)
		push(&metric.Object{Resource: "pods", Namespace: "shopw", Name: "eb"}, 0)
		push(&pod, metric.Forever)
		push(&pod, metric.Forever, metric.Label{Key: "a", Value: "b\nc"})
		push(&pod, metric.Forever, metric.Label{Key: "a", Value: "b"}, metric.Label{Key: "c"})
	}
	c.cut(time.Now())
	frames := sent(c)
	if len(frames) != 1 || len(frames[0].changes) != 7 {
		t.Fatalf("%d frames, want 1 with 7 series: %+v", len(frames), frames)
	}
	for _, changed := range frames[0].changes {
		if changed.change.samples != 2 {
			t.Errorf("%v has %d samples, want 2", changed.definition, changed.change.samples)
		}
	}
	d := frames[0].changes[5].numbered(9)
	if d.Object.GetNamespace() != "shop" || d.Object.GetName() != "web" || d.TtlNanos != int64(metric.Forever) || len(d.Labels) != 1 || d.Labels[0].Value != "b\nc" || d.Number != 9 {
		t.Errorf("%v", d)
	}
}
