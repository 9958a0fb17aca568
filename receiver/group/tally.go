package group

import (
	"sync"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/metric"
)

// usage is what the groups about one namespace take. A group holds that of its namespace for as long as it lives.
type usage struct {
	namespace string
	groups    int64  // guarded by the tally's lock
	shapes    shapes // likewise
	bytes     atomic.Int64
}

// tally knows what each namespace takes that has a group. Its lock is the last one that is taken, within a shard's and a
// group's, and for a map's work only.
type tally struct {
	mu sync.Mutex
	of map[string]*usage
}

// enter counts one more group of a namespace; nil: it has as many as it may. Below 0: any number.
func (t *tally) enter(namespace string, k Key, most int64) *usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.of[namespace]
	if u == nil {
		u = &usage{namespace: namespace}
	}
	if most >= 0 && u.groups >= most {
		return nil
	}
	u.groups++
	u.shapes.add(shapeOf(k.Labels))
	t.of[namespace] = u
	return u
}

func (t *tally) leave(u *usage, k Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.shapes.remove(shapeOf(k.Labels))
	if u.groups--; u.groups == 0 {
		delete(t.of, u.namespace)
	}
}

// shapes are those that the groups of a namespace have. The list is not changed any more.
func (t *tally) shapes(u *usage) []shape {
	t.mu.Lock()
	defer t.mu.Unlock()
	return u.shapes.list
}

// holder is the namespace that pays for a group: that of what it is about, and not the one that a label names, for a label may
// name any beside an object elsewhere.
func holder(about metric.Object) string {
	if about.Resource == "namespaces" {
		return about.Name
	}
	return about.Namespace
}

// share is what one namespace may take; below 0: all. What is about none is pushed by those who may speak for all, and has no
// share.
func (c Config) share(namespace string) (groups, bytes int64) {
	if c.NamespaceShare == 0 || namespace == "" {
		return -1, -1
	}
	return max(1, int64(c.NamespaceShare*float64(c.MaxGroups))), int64(c.NamespaceShare * float64(c.MaxBytes))
}

// room says whether a group may take more bytes.
func (gs *Groups) room(u *usage, more int64) *Rejection {
	_, most := gs.config.share(u.namespace)
	switch {
	case more <= 0:
		return nil
	case gs.bytes.Load()+more > gs.config.MaxBytes:
		return refuse(metric.OverLimit, "all groups would hold more than %d bytes together, which is the limit: delete some, or let them end by a time to live", gs.config.MaxBytes)
	case most >= 0 && u.bytes.Load()+more > most:
		return refuse(metric.OverLimit, "the groups of namespace %s would hold more than %d bytes together, which is the limit of one namespace: delete some, or let them end by a time to live", u.namespace, most)
	}
	return nil
}
