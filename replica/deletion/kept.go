package deletion

import (
	"container/heap"

	"github.com/sluice-metrics/sluice/internal/fair"
)

const (
	// most and mostBytes bound the deletions. The oldest of the namespace with most of what there is too much of is
	// forgotten first, but the end of a namespace only among its like, which have half of the number: a replica that
	// starts would show what the former holder of the name had at one that is away.
	most      = 10_000
	mostBytes = 16 << 20
)

// kept are the deletions by their namespaces, so that the one to forget is found without a look at all of them.
type kept struct {
	ends   byAge            // of namespaces
	others map[string]byAge // by namespace
	number fair.Shares[string, int]
	bytes  fair.Shares[string, int]
}

func (k *kept) add(d *deletion) {
	if d.selector.wholeNamespace() {
		heap.Push(&k.ends, d)
		return
	}
	namespace := d.selector.inNamespace()
	of := k.others[namespace]
	heap.Push(&of, d)
	k.set(namespace, of)
	k.number.Add(namespace, 1)
	k.bytes.Add(namespace, d.bytes())
}

func (k *kept) remove(d *deletion) {
	if d.selector.wholeNamespace() {
		heap.Remove(&k.ends, d.place)
		return
	}
	namespace := d.selector.inNamespace()
	of := k.others[namespace]
	heap.Remove(&of, d.place)
	k.set(namespace, of)
	k.number.Add(namespace, -1)
	k.bytes.Add(namespace, -d.bytes())
}

func (k *kept) set(namespace string, of byAge) {
	if k.others == nil {
		k.others = map[string]byAge{}
	}
	if k.others[namespace] = of; len(of) == 0 {
		delete(k.others, namespace)
	}
}

// tooMuch is the deletion to forget; nil: none. Nobody's many have those of others forgotten. Each replica forgets the same.
func (k *kept) tooMuch() *deletion {
	switch {
	case k.bytes.Held() > mostBytes:
		return k.others[fair.Largest(&k.bytes)][0]
	case len(k.ends)+k.number.Held() <= most:
		return nil
	case len(k.ends) > most/2:
		return k.ends[0]
	}
	return k.others[fair.Largest(&k.number)][0]
}

// byAge is a heap of deletions, the oldest first (container/heap). Each knows its place.
type byAge []*deletion

func (b byAge) Len() int           { return len(b) }
func (b byAge) Less(i, j int) bool { return b[i].before(b[j]) }
func (b byAge) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].place, b[j].place = i, j
}

func (b *byAge) Push(one any) {
	d := one.(*deletion)
	d.place = len(*b)
	*b = append(*b, d)
}

func (b *byAge) Pop() any {
	last := len(*b) - 1
	d := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return d
}

// bytesOfADeletion and bytesOfALabel are what those take beside their texts, roughly.
const bytesOfADeletion, bytesOfALabel = 256, 32

// bytes is what a deletion takes in memory, and a little more than on disk.
func (d *deletion) bytes() int {
	s := &d.selector
	n := bytesOfADeletion + len(s.Resource) + len(s.Namespace) + len(s.Object) + len(s.Name) + len(d.origin)
	for _, l := range s.Labels {
		n += bytesOfALabel + len(l.Key) + len(l.Value)
	}
	return n
}
