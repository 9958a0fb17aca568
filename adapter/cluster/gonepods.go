package cluster

import "github.com/sluice-metrics/sluice/metric"

// gonePods is a ring of the pods that were removed last. A moment is the number of pods removed by
// then. The lock of pods guards it.
type gonePods struct {
	count uint64
	last  [maxGonePods]metric.Object
}

// maxGonePods is the length of the ring. A caller that asks less often checks each pod again.
const maxGonePods = 1024

func (d *gonePods) add(gone metric.Object) {
	d.last[d.count%maxGonePods] = gone
	d.count++
}

// since returns the pods removed since a moment. Not ok: the ring is too short.
func (d *gonePods) since(moment uint64) (gone []metric.Object, ok bool) {
	if d.count-moment > maxGonePods {
		return nil, false
	}
	for i := moment; i < d.count; i++ {
		gone = append(gone, d.last[i%maxGonePods])
	}
	return gone, true
}

// PodsGoneSince returns the pods that Alive may have reported true for at a moment, and reports
// false for now, and the current moment. Not ok: too many pods were removed since.
func (v *View) PodsGoneSince(since uint64) (gone []metric.Object, now uint64, ok bool) {
	v.pods.mu.RLock()
	defer v.pods.mu.RUnlock()
	gone, ok = v.pods.gone.since(since)
	return gone, v.pods.gone.count, ok
}
