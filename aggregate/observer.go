package aggregate

import (
	"github.com/sluice-metrics/sluice/aggregate/index"
	"github.com/sluice-metrics/sluice/metric"
)

// Observer receives each new series. The table calls it with locks held: it never waits and never
// calls the table. The strings outlive the call, the object does not.
type Observer interface {
	SeriesCreated(o *metric.Object, name string, kind metric.Kind, labels metric.Labels)
}

type noObserver struct{}

func (noObserver) SeriesCreated(*metric.Object, string, metric.Kind, metric.Labels) {}

// SetObserver sets the observer of new series. Call it before the table is used.
func (t *Table) SetObserver(o Observer) { t.observer = o }

// ReplaySeries reports all live series on objects of a resource to the observer, as if they were
// created now. The restore itself reports no series.
func (t *Table) ReplaySeries(resource string) {
	for i := range t.index.Shards {
		t.observeShard(&t.index.Shards[i], resource)
	}
}

func (t *Table) observeShard(shard *index.Shard, resource string) {
	shard.Mu.Lock()
	defer shard.Mu.Unlock()
	seen := 0
	for f := range shard.Each() {
		if f.Key.Resource != resource {
			continue
		}
		for newest := range f.Entries.All() {
			for e := newest; e != nil; e = e.Older {
				t.observeLocked(shard, e)
			}
			seen++
			shard.Yield(seen)
		}
	}
}

// observeLocked reports the live series of an entry. The shard's lock keeps their places from being
// reused.
func (t *Table) observeLocked(shard *index.Shard, e *index.Entry) {
	for _, r := range e.Series {
		if t.isLive(r) {
			b, place := t.blocks.of(r.Number)
			t.observer.SeriesCreated(shard.ObjectOf(e), e.Family.Key.Name, e.Kind, b.series[place].labels())
		}
	}
}
