package group

import (
	"sync"
	"sync/atomic"

	"github.com/sluice-metrics/sluice/metric"
)

// usage is the use of the limits by the groups about one namespace. A group holds it as long as it
// lives.
type usage struct {
	namespace string
	groups    int64         // guarded by the lock of namespaceUsage
	names     labelNameSets // guarded by the lock of namespaceUsage
	bytes     atomic.Int64
}

// namespaceUsage holds the usage of each namespace that has a group. The lock is the innermost,
// within a shard's and a group's, and is held for map operations only.
type namespaceUsage struct {
	mu          sync.Mutex
	byNamespace map[string]*usage
}

// addGroup counts one more group of a namespace; it returns nil if that has reached the limit. A
// negative limit is none.
func (t *namespaceUsage) addGroup(namespace string, k Key, most int64) *usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.byNamespace[namespace]
	if u == nil {
		u = &usage{namespace: namespace}
	}
	if most >= 0 && u.groups >= most {
		return nil
	}
	u.groups++
	u.names.add(labelNamesOf(k.Labels))
	t.byNamespace[namespace] = u
	return u
}

func (t *namespaceUsage) removeGroup(u *usage, k Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.names.remove(labelNamesOf(k.Labels))
	if u.groups--; u.groups == 0 {
		delete(t.byNamespace, u.namespace)
	}
}

// labelNames lists the sets of label names of a namespace's groups. The list is immutable.
func (t *namespaceUsage) labelNames(u *usage) []labelNames {
	t.mu.Lock()
	defer t.mu.Unlock()
	return u.names.list
}

// payingNamespace is the namespace whose share a group uses: that of the described object, not the
// one that a label names, which may be any.
func payingNamespace(about metric.Object) string {
	if about.Resource == "namespaces" {
		return about.Name
	}
	return about.Namespace
}

// share is the part of the limits that one namespace may use; negative: unlimited. Groups about no
// namespace have no share: only senders with rights on the whole cluster push them.
func (c Config) share(namespace string) (groups, bytes int64) {
	if c.NamespaceShare == 0 || namespace == "" {
		return -1, -1
	}
	return max(1, int64(c.NamespaceShare*float64(c.MaxGroups))), int64(c.NamespaceShare * float64(c.MaxBytes))
}

// checkBytes rejects growth beyond the limits.
func (gs *Groups) checkBytes(u *usage, more int64) *Rejection {
	_, most := gs.config.share(u.namespace)
	switch {
	case more <= 0:
		return nil
	case gs.bytes.Load()+more > gs.config.MaxBytes:
		return reject(metric.OverLimit, "memory limit of all groups (%d bytes) reached; delete groups or push with a TTL", gs.config.MaxBytes)
	case most >= 0 && u.bytes.Load()+more > most:
		return reject(metric.OverLimit, "memory limit of the groups of namespace %s (%d bytes) reached; delete groups or push with a TTL", u.namespace, most)
	}
	return nil
}
