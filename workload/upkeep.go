package workload

import (
	"maps"
	"time"
)

// Settle hands what was noted of ReplicaSets to the workloads that they are parts of, as far as the cluster has told by
// now. It is called every second or so.
func (m *Tracker) ResolveOwners() {
	m.mu.RLock()
	unsettled := maps.Clone(m.unsettled)
	m.mu.RUnlock()
	for uid := range unsettled {
		m.settle(uid)
	}
}

func (m *Tracker) settle(uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[uid]
	if r == nil {
		delete(m.unsettled, uid)
		return
	}
	owner, settled := m.pods.Owner(r.workload)
	if !settled {
		return
	}
	delete(m.unsettled, uid)
	if owner.UID == uid {
		return
	}
	for name, p := range r.metrics {
		for _, set := range p.sets {
			m.noteLocked(owner, r.namespace, name, p.kind, set)
		}
	}
	m.forgetLocked(uid)
}

// Forget drops the workloads that have had no pod for a day. It looks at all pods, so it is called every few minutes,
// and not before the cluster is known.
func (m *Tracker) Expire() { m.forgetAsOf(time.Now()) }

func (m *Tracker) forgetAsOf(now time.Time) {
	living := map[string]struct{}{}
	for one := range m.pods.Workloads() {
		living[one.UID] = struct{}{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, r := range m.records {
		if _, lives := living[uid]; lives {
			r.lastPod = now
		} else if now.Sub(r.lastPod) > keptWithoutPods {
			m.forgetLocked(uid)
		}
	}
}

func (m *Tracker) forgetLocked(uid string) {
	r := m.records[uid]
	m.bytes -= r.size()
	for name, p := range r.metrics {
		m.bytes -= p.size(name)
		key := metricName{r.namespace, name}
		if m.pushers[key]--; m.pushers[key] == 0 {
			delete(m.pushers, key)
		}
	}
	delete(m.records, uid)
	delete(m.unsettled, uid)
	m.changedLocked(uid)
}
