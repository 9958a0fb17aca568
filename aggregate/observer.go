package aggregate

import "github.com/sluice-metrics/sluice/metric"

// Observer is told of each new series. It is called with locks of the table held: it never waits and never calls the
// table. The strings outlive the call, the object does not.
type Observer interface {
	SeriesCreated(o *metric.Object, name string, kind metric.Kind, labels metric.Labels)
}

type noObserver struct{}

func (noObserver) SeriesCreated(*metric.Object, string, metric.Kind, metric.Labels) {}

// SetObserver has w told of each series that is created from now on. It is called before the table is used.
func (t *Table) SetObserver(w Observer) { t.observer = w }

// ReplaySeries tells the witness of the live series on objects of a resource, as if each were created now: of those that were
// restored nobody was told.
func (t *Table) ReplaySeries(resource string) {
	for i := range t.index.shards {
		t.tellOfShard(&t.index.shards[i], resource)
	}
}

func (t *Table) tellOfShard(shard *indexShard, resource string) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	seen := 0
	for f := range shard.each() {
		if f.key.resource != resource {
			continue
		}
		for newest := range f.entries.all() {
			for e := newest; e != nil; e = e.older {
				t.tellOfLocked(shard, e)
			}
			seen++
			shard.letOthersIn(seen)
		}
	}
}

// tellOfLocked tells of an entry's series. One that is live while the shard's lock is held keeps its place until then.
func (t *Table) tellOfLocked(shard *indexShard, e *entry) {
	for _, r := range e.series {
		if t.isLive(r) {
			b, place := t.blocks.of(r.number)
			t.observer.SeriesCreated(shard.objectOf(e), e.family.key.name, e.kind, b.series[place].labels())
		}
	}
}
