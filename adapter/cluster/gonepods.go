package cluster

import "github.com/sluice-metrics/sluice/metric"

// departed are the pods that went last. A moment is how many had gone by then. The lock of pods guards it.
type gonePods struct {
	count uint64
	last  [maxGonePods]metric.Object
}

// keptDeparted is of how many pods it is known that they went: who looks less often than that many go asks about each pod again.
const maxGonePods = 1024

func (d *gonePods) add(gone metric.Object) {
	d.last[d.count%maxGonePods] = gone
	d.count++
}

// since lists who went since a moment. Not ok: they are more than are kept.
func (d *gonePods) since(moment uint64) (gone []metric.Object, ok bool) {
	if d.count-moment > maxGonePods {
		return nil, false
	}
	for i := moment; i < d.count; i++ {
		gone = append(gone, d.last[i%maxGonePods])
	}
	return gone, true
}

// Gone lists the pods that Alive may have said yes of at a moment, as it was returned before, and does not any more; and which
// moment is now. Not ok: too many went since.
func (v *View) PodsGoneSince(since uint64) (gone []metric.Object, now uint64, ok bool) {
	v.pods.mu.RLock()
	defer v.pods.mu.RUnlock()
	gone, ok = v.pods.gone.since(since)
	return gone, v.pods.gone.count, ok
}
