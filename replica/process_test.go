package replica

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/aggregate"
	"github.com/sluice-metrics/sluice/aggregate/window"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/replica/claim"
	"github.com/sluice-metrics/sluice/replica/deletion"
)

// process is a process of a simulation with a real table, a store in memory and real shadows. It
// lives in a bubble of virtual time, and one goroutine does all of its work.
type process struct {
	t       *testing.T
	fabric  *fabric
	name    string
	config  aggregate.Config
	table   *aggregate.Table
	writer  *aggregate.Writer
	epoch   *Epoch
	replica *Replica
	port    *port
	merged  *aggregate.Merged
	flushed int
	disk    *disk
	samples []simulated // that the table has
	deleted *deletion.Log
	groups  *group.Groups
	lives   func(origin string) bool // may be nil
	scrapes *scrapes                 // nil: it does not scrape
}

// disk is what the store holds.
type disk struct {
	clock, epoch []byte
	names, state [][]byte
	deltas       [][][]byte
	samples      int                     // that it includes
	deleted      map[deletion.Key][]byte // deletions
	groups       map[group.Hash][]byte
}

// describe makes each sample describe the pod that its name ends in. Samples of groups are external.
func describe(s *metric.Sample, d *metric.Description) metric.Reason {
	if s.Object != nil {
		d.Object, d.Labels = *s.Object, metric.SortLabels(s.AppendLabels(d.Labels[:0]))
		return metric.Applied
	}
	d.Object = metric.Object{Resource: "pods", Namespace: "ns", Name: "p" + string(s.Tags)}
	return metric.Applied
}

// replicated is the configuration of a table among others.
func replicated(windows ...time.Duration) aggregate.Config {
	c := aggregate.DefaultConfig()
	c.Windows, c.Replicated = windows, true
	return c
}

func startProcess(t *testing.T, f *fabric, p *process) {
	p.t, p.fabric = t, f
	p.table, p.epoch = aggregate.New(p.config, describe, slog.New(slog.DiscardHandler)), f.newEpoch()
	p.table.SetSeed.Store(uint64(time.Now().Unix())<<32 | uint64(f.rng.Uint32()))
	p.table.Clock.Uptime = func() window.Uptime { return window.Uptime{Boot: "virtual", Up: time.Since(f.began)} }
	p.merged = aggregate.NewMerged(p.table)
	p.deleted = deletion.New(p.name, p.merged, slog.New(slog.DiscardHandler))
	p.groups = group.New(group.DefaultConfig(), p.merged)
	p.groups.Replicate(p.name, slog.New(slog.DiscardHandler))
	if d := p.disk; d != nil {
		p.restore(d)
	}
	p.writer, p.port = p.table.NewWriter(), f.open()
	r, err := New(Config{Name: p.name, Cluster: "test"}, Parts{
		Bus: p.port, Table: p.table, Documents: simulatedDocuments{p}, Epoch: p.epoch, Wall: time.Now, Logger: slog.New(slog.DiscardHandler),
		NewShadow: func(string) Shadow {
			shadow := aggregate.NewShadow(p.config, slog.New(slog.DiscardHandler))
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
		Relayed: p.deleted.Repeat, FlushSoon: func() {}, Lives: p.lives,
	})
	must(t, err)
	r.inline = true
	if _, err := r.subscribe(); err != nil {
		t.Fatal(err)
	}
	p.replica = r
	if p.scrapes != nil {
		p.scrapes.start(p, r)
	}
}

func (p *process) restore(d *disk) {
	must(p.t, p.epoch.RestoreDocument(d.epoch))
	must(p.t, p.table.RestoreClock(d.clock))
	for i := range d.deltas {
		must(p.t, p.table.RestoreBlock(i, d.names[i], d.state[i], slices.Values(d.deltas[i])))
	}
	must(p.t, p.table.RestoreDone())
	p.samples = p.samples[:d.samples]
	for key, value := range d.deleted {
		must(p.t, p.deleted.RestoreDocument(key, value))
	}
	for key, value := range d.groups {
		must(p.t, p.groups.RestoreDocument(key, value))
	}
	p.table.Begin()
}

// simulatedDocuments are the deletions and the groups. The first byte of a key says which.
type simulatedDocuments struct{ *process }

func (d simulatedDocuments) TakeChanged() []Document {
	return append(documentsOf(d.deleted.TakeShared(), d.groups.TakeShared()), d.scrapes.documents((*claim.Claims).TakeShared)...)
}

func (d simulatedDocuments) All() []Document {
	return append(documentsOf(d.deleted.AllShared(), d.groups.AllShared()), d.scrapes.documents((*claim.Claims).AllShared)...)
}

func documentsOf(deleted []deletion.Document, groups []group.Document) (all []Document) {
	for _, document := range deleted {
		all = append(all, Document{Key: "d" + string(document.Key[:]), Stamp: document.Stamp, Value: document.Value})
	}
	for _, document := range groups {
		all = append(all, Document{Key: "g" + string(document.Key[:]), Stamp: document.Stamp, Value: document.Value})
	}
	slices.SortFunc(all, func(a, b Document) int { return strings.Compare(a.Key, b.Key) })
	return all
}

func (d simulatedDocuments) Apply(origin string, docs []Document) {
	for _, doc := range docs {
		var err error
		switch key := []byte(doc.Key[1:]); doc.Key[0] {
		case 'd':
			err = d.deleted.Apply([]deletion.Document{{Key: deletion.Key(key), Stamp: doc.Stamp, Value: doc.Value}})
		case 'c':
			err = d.scrapes.claims.Apply(origin, []claim.Document{{Key: [16]byte(key), Stamp: doc.Stamp, Value: doc.Value}})
		case 'g':
			err = d.groups.Apply([]group.Document{{Key: group.Hash(key), Stamp: doc.Stamp, Value: doc.Value}})
		}
		must(d.t, err)
	}
}

func (p *process) kill() {
	p.port.close()
	if p.scrapes != nil {
		p.scrapes.stop()
	}
	p.replica = nil
}

// flush flushes to the disk and to the fabric.
func (p *process) flush() {
	d := p.disk
	if d == nil {
		d = &disk{deleted: map[deletion.Key][]byte{}, groups: map[group.Hash][]byte{}}
		p.disk = d
	}
	p.flushed++
	following := p.deleted.Following(false)
	for block := range p.table.Blocks() {
		if block >= len(d.deltas) {
			d.names, d.state, d.deltas = append(d.names, nil), append(d.state, nil), append(d.deltas, nil)
		}
		if delta := p.table.AppendDelta(nil, block); len(delta) > 0 {
			p.replica.PublishDelta(block, delta)
			d.deltas[block] = append(d.deltas[block], delta)
		}
		if p.flushed%20 == 0 {
			d.state[block] = p.table.AppendBlockState(nil, block)
			d.names[block] = p.table.AppendNames(nil, block)
			d.deltas[block] = nil
		}
	}
	p.replica.PublishFlush(true)
	d.clock, d.epoch = p.table.AppendClock(nil), p.epoch.AppendDocument(nil)
	d.samples = len(p.samples)
	for key, value := range following {
		if d.deleted[key] = value; value == nil {
			delete(d.deleted, key)
		}
	}
	for _, key := range p.groups.Changed(false) {
		if value, has := p.groups.AppendDocument(nil, key); has {
			d.groups[key] = value
		} else {
			delete(d.groups, key)
		}
	}
}

// push applies a sample.
func (p *process) push(s simulated) {
	s.apply(p.t, p.writer)
	p.samples = append(p.samples, s)
}

// lost is what a process that was killed has not flushed of a metric.
func (p *process) lost(name string) (sum int64) {
	for _, s := range p.samples[p.disk.samples:] {
		if s.name == name {
			sum += s.whole
		}
	}
	return sum
}

// read returns the merged values of a metric, by pod. It is empty if there is none.
func (p *process) read(expression string) map[string]metric.Number {
	return readFrom(p.merged, expression)
}

func readFrom(m *aggregate.Merged, expression string) map[string]metric.Number {
	points, _ := m.Objects(ofPods(expression))
	values := map[string]metric.Number{}
	for _, point := range points {
		values[point.Object.Name] = point.Value
	}
	return values
}

func ofPods(expression string) metric.Query {
	return metric.Query{Resource: "pods", Namespace: "ns", Object: "*", Expression: metric.ParseExpression(expression)}
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

// startProcesses starts n origins.
func startProcesses(t *testing.T, f *fabric, c aggregate.Config, n int) (all []*process) {
	for i := range n {
		p := &process{name: fmt.Sprintf("origin-%d", i), config: c}
		startProcess(t, f, p)
		all = append(all, p)
	}
	return all
}

// passTables lets a tenth of a second pass.
func passTables(f *fabric, all []*process, tick int) {
	for end := time.Now().Add(stepEvery); time.Now().Before(end); {
		wait := time.Until(f.nextAt(end))
		time.Sleep(max(grain, (wait + grain - 1).Truncate(grain)))
		f.deliver()
	}
	for i, p := range all {
		if p.replica == nil {
			continue
		}
		p.roll()
		if (tick+i)%5 == 0 {
			p.flush()
		}
		p.replica.step(time.Now())
	}
}

// roll rolls after each half of a tick, as the roller of a server does.
func (p *process) roll() {
	if half := p.table.Clock.Tick / 2; p.table.Clock.Now().At%half < stepEvery {
		p.table.Roll()
	}
}
