package rollup

import (
	"maps"
	"time"
)

// ResolveOwners moves the metrics of ReplicaSets to the workloads that own them, as soon as the
// cluster view knows the owner, and records other replicas' series whose pod has become known. It
// is called every second.
func (m *Tracker) ResolveOwners() {
	m.retryUnknown()
	m.mu.RLock()
	unsettled := maps.Clone(m.unresolved)
	m.mu.RUnlock()
	for uid := range unsettled {
		m.resolveOwner(uid)
	}
}

func (m *Tracker) resolveOwner(uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[uid]
	if r == nil {
		delete(m.unresolved, uid)
		return
	}
	owner, resolved := m.pods.Owner(r.workload)
	if !resolved {
		return
	}
	delete(m.unresolved, uid)
	if owner.UID == uid {
		return
	}
	for name, p := range r.metrics {
		for _, set := range p.labelSets {
			m.addLocked(owner, r.namespace, name, p.kind, set)
		}
	}
	m.removeLocked(uid)
}

// Expire removes the workloads that have had no pod for a day. It looks at all pods, so it is
// called every few minutes, once the cluster view is synced.
func (m *Tracker) Expire() { m.expireAsOf(time.Now()) }

func (m *Tracker) expireAsOf(now time.Time) {
	living := map[string]struct{}{}
	for one := range m.pods.Workloads() {
		living[one.UID] = struct{}{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, r := range m.records {
		if _, lives := living[uid]; lives {
			r.lastPod = now
		} else if now.Sub(r.lastPod) > keepWithoutPods {
			m.removeLocked(uid)
		}
	}
}

func (m *Tracker) removeLocked(uid string) {
	r := m.records[uid]
	m.bytes -= r.size()
	for name, p := range r.metrics {
		m.bytes -= p.size(name)
		key := metricName{r.namespace, name}
		if m.pusherCount[key]--; m.pusherCount[key] == 0 {
			delete(m.pusherCount, key)
		}
	}
	delete(m.records, uid)
	delete(m.unresolved, uid)
	m.changedLocked(uid)
}
