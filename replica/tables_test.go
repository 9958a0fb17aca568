package replica

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/metric"
)

// process is a process of a simulation with a real table, a store in memory and real shadows. It
// lives in a bubble of virtual time, and one goroutine does all of its work.
type process struct {
	t       *testing.T
	fabric  *fabric
	name    string
	table   *aggregate.Table
	writer  *aggregate.Writer
	epoch   *Epoch
	replica *Replica
	port    *port
	merged  *aggregate.Merged
	flushed int
	disk    *disk
	counted map[string]int64 // what was pushed to this process's epoch, by metric
}

// disk is what the store holds.
type disk struct {
	clock, epoch []byte
	names, state [][]byte
	deltas       [][][]byte
	counted      map[string]int64 // that it includes
}

// describe makes each sample describe the pod that its name ends in.
func describe(s *metric.Sample, d *metric.Description) metric.Reason {
	d.Object = metric.Object{Resource: "pods", Namespace: "ns", Name: "p" + string(s.Tags)}
	return metric.Applied
}

func simulatedConfig() aggregate.Config {
	c := aggregate.DefaultConfig()
	c.Replicated = true
	return c
}

func startProcess(t *testing.T, f *fabric, p *process) {
	p.t, p.fabric = t, f
	p.table, p.epoch = aggregate.New(simulatedConfig(), describe, slog.New(slog.DiscardHandler)), NewEpoch()
	p.counted = map[string]int64{}
	if d := p.disk; d != nil {
		p.restore(d)
	}
	p.writer = p.table.NewWriter()
	p.port, p.merged = f.open(), aggregate.NewMerged(p.table)
	r, err := New(Config{Name: p.name, Cluster: "test"}, Parts{
		Bus: p.port, Table: p.table, Epoch: p.epoch, Wall: time.Now, Logger: slog.New(slog.DiscardHandler),
		NewShadow: func(string) Shadow {
			shadow := aggregate.NewShadow(simulatedConfig(), slog.New(slog.DiscardHandler))
			shadow.SetOwn(p.table)
			return shadow
		},
		SetShadows: func(shown []Shadow, rank int) {
			var shadows []*aggregate.Shadow
			for _, s := range shown {
				shadows = append(shadows, s.(*aggregate.Shadow))
			}
			p.merged.SetRank(rank)
			p.merged.SetShadows(shadows)
		},
		FlushSoon: func() {},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.inline = true
	if _, err := r.subscribe(); err != nil {
		t.Fatal(err)
	}
	p.replica = r
}

func (p *process) restore(d *disk) {
	if err := p.epoch.RestoreDocument(d.epoch); err != nil {
		p.t.Fatal(err)
	}
	if err := p.table.RestoreClock(d.clock); err != nil {
		p.t.Fatal(err)
	}
	for i := range d.deltas {
		if err := p.table.RestoreBlock(i, d.names[i], d.state[i], d.deltas[i]); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := p.table.RestoreDone(); err != nil {
		p.t.Fatal(err)
	}
	for name, n := range d.counted {
		p.counted[name] = n
	}
}

func (p *process) kill() {
	p.port.close()
	p.replica = nil
}

// flush flushes to the disk and to the fabric.
func (p *process) flush() {
	d := p.disk
	if d == nil {
		d = &disk{}
		p.disk = d
	}
	p.flushed++
	for block := range p.table.Blocks() {
		if block >= len(d.deltas) {
			d.names, d.state, d.deltas = append(d.names, nil), append(d.state, nil), append(d.deltas, nil)
		}
		if delta := p.table.AppendDelta(nil, block); len(delta) > 0 {
			p.replica.PublishDelta(block, delta)
			d.deltas[block] = append(d.deltas[block], delta)
		}
		if p.flushed%20 == 0 {
			d.state[block] = p.table.AppendState(nil, block)
			d.names[block] = p.table.AppendNames(nil, block)
			d.deltas[block] = nil
		}
	}
	p.replica.PublishFlush()
	d.clock, d.epoch = p.table.AppendClock(nil), p.epoch.AppendDocument(nil)
	d.counted = map[string]int64{}
	for name, n := range p.counted {
		d.counted[name] = n
	}
}

// push counts.
func (p *process) push(name string, pod int, n int64) {
	s := metric.Sample{Name: []byte(name), Separator: ':', Kind: metric.Counter, Op: metric.Add, Whole: n}
	s.Tags = fmt.Append(nil, pod)
	p.writer.Online()
	if got := p.writer.Apply(&s); got != metric.Applied {
		p.t.Fatal(got)
	}
	p.writer.Offline()
	p.counted[name] += n
}

// read returns the merged values of a metric, by pod. It is empty if there is none.
func (p *process) read(expression string) map[string]metric.Number {
	q := metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(expression)}
	points, _ := p.merged.Objects(q)
	values := map[string]metric.Number{}
	for _, one := range points {
		values[one.Object.Name] = one.Value
	}
	return values
}

// total is the merged total of a metric over all pods.
func (p *process) total(name string) (sum int64) {
	for pod, value := range p.read(name + ":total") {
		n, ok := value.Int64()
		if !ok {
			p.t.Fatalf("%s of %s: %v is no whole number", name, pod, value)
		}
		sum += n
	}
	return sum
}

var counted = []string{"a", "b", "c"}

// startProcesses starts n origins.
func startProcesses(t *testing.T, f *fabric, n int) (all []*process) {
	for i := range n {
		p := &process{name: fmt.Sprintf("origin-%d", i)}
		startProcess(t, f, p)
		all = append(all, p)
	}
	return all
}

// TestSimulationOfTables runs real tables and shadows. Once it is quiet, the sum of what all
// origins counted is the merged total at each of them.
func TestSimulationOfTables(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		if *oneSeed == 0 && seed > uint64(*seeds)/8 {
			return // a seed costs eight times as much as one of tables in small
		}
		synctest.Test(t, func(t *testing.T) { simulateTables(t, seed) })
	})
}

func simulateTables(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	f := newFabric(rng, time.Now)
	all := startProcesses(t, f, 2+rng.IntN(2))
	f.drop, f.double, f.late = rng.Float64()*0.3, rng.Float64()*0.2, rng.Float64()*0.4
	f.delay = time.Duration(1+rng.IntN(2000)) * time.Millisecond
	floor := map[*process]int64{}
	for tick := range 300 {
		p := all[rng.IntN(len(all))]
		switch {
		case rng.IntN(50) > 0:
			for range rng.IntN(20) {
				if p.replica != nil {
					p.push(counted[rng.IntN(3)], rng.IntN(4), int64(rng.IntN(9)))
				}
			}
		case p.replica != nil:
			p.kill()
			lost := p.counted["a"]
			if p.disk != nil {
				lost -= p.disk.counted["a"]
			}
			for one := range floor {
				floor[one] -= lost
			}
			delete(floor, p)
		default:
			startProcess(t, f, p)
		}
		passTables(f, all, tick)
		for _, p := range all {
			if p.replica == nil {
				continue
			}
			got := p.total("a")
			if got < floor[p] {
				t.Fatalf("%s: the total of a fell from %d to %d", p.name, floor[p], got)
			}
			floor[p] = got
		}
	}
	f.drop, f.double, f.late = 0, 0, 0
	for _, p := range all {
		if p.replica == nil {
			startProcess(t, f, p)
		}
	}
	for tick := range 80 {
		passTables(f, all, tick)
	}
	for _, name := range counted {
		var want int64
		for _, p := range all {
			want += p.counted[name]
		}
		for _, p := range all {
			if got := p.total(name); got != want {
				t.Errorf("%s answers %d for %s, want %d; %+v", p.name, got, name, want, p.replica.Origins())
			}
		}
	}
}

// passTables lets a tenth of a second pass.
func passTables(f *fabric, all []*process, tick int) {
	for range 10 {
		time.Sleep(10 * time.Millisecond)
		f.deliver()
	}
	for i, p := range all {
		if p.replica == nil {
			continue
		}
		if (tick+i)%5 == 0 {
			p.flush()
		}
		p.replica.step(time.Now())
	}
}

// TestSimulationOfRates: constant streams read constant at every replica, whatever happens to the
// fabric and to the processes, for as long as an origin's windows stand.
func TestSimulationOfRates(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		if *oneSeed == 0 && seed > uint64(*seeds)/20 {
			return
		}
		synctest.Test(t, func(t *testing.T) { simulateRates(t, seed) })
	})
}

func simulateRates(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	f := newFabric(rng, time.Now)
	all := startProcesses(t, f, 2+rng.IntN(2))
	f.drop, f.double, f.late = rng.Float64()*0.2, rng.Float64()*0.2, rng.Float64()*0.2
	f.delay = time.Duration(1+rng.IntN(1000)) * time.Millisecond
	down := map[*process]int{}
	lowest, highest, ownLowest := 1e9, 0.0, 1e9
	for tick := range 900 {
		for i, p := range all {
			if p.replica != nil {
				p.push("stream", i, 5)
			} else if down[p]--; down[p] == 0 {
				startProcess(t, f, p)
			}
		}
		if p := all[rng.IntN(len(all))]; tick > 200 && p.replica != nil && rng.IntN(150) == 0 {
			p.kill()
			down[p] = 10 + rng.IntN(300)
		}
		passTables(f, all, tick)
		for _, p := range all {
			if p.replica == nil || tick < 200 {
				continue
			}
			if ready, _ := p.replica.Ready(); !ready {
				continue
			}
			for pod, value := range p.read("stream:rate:10s") {
				v := value.Float64()
				if pod == "p"+p.name[len(p.name)-1:] {
					ownLowest = min(ownLowest, v)
				}
				lowest, highest = min(lowest, v), max(highest, v)
				if v < 45 || v > 55 {
					t.Fatalf("tick %d: %s reads %v for %s, want 50; %+v", tick, p.name, v, pod, p.replica.Origins())
				}
			}
		}
	}
	t.Logf("between %.2f and %.2f; at the origin from %.2f", lowest, highest, ownLowest)
}
