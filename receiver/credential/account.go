package credential

import (
	"hash/maphash"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"golang.org/x/sync/singleflight"
)

// maxRights bounds what is remembered of one account. An account that needs more is granted them at the cluster scope.
const maxRights = 256

// Account is a metric.Principal with the answers that the API server gave about it. It implements metric.Rights.
type Principal struct {
	metric.Principal

	mu         sync.Mutex // guards changing what follows
	rights     atomic.Pointer[map[metric.Right]answer]
	generation atomic.Uint64

	asking  singleflight.Group
	waiting chan struct{} // has a place for each question in flight
}

// answer is the API server's about one right. It stays when it is over, to tell whether the next one is news.
type answer struct {
	granted bool
	until   time.Time
}

// generations makes one generation be of one account.
var generations atomic.Uint64

func newAccount(a metric.Principal) *Principal {
	made := &Principal{Principal: a, waiting: make(chan struct{}, maxAskedEach)}
	made.Principal.Rights = made
	made.rights.Store(&map[metric.Right]answer{})
	made.generation.Store(generations.Add(1))
	return made
}

// Check implements metric.Rights. What may be done at the cluster scope may be in every namespace, as everywhere in
// Kubernetes: a review without a namespace means all of them.
func (a *Principal) Check(r metric.Right) metric.Decision {
	known, now := *a.rights.Load(), time.Now()
	if wide, asked := known[metric.Right{Verb: r.Verb}]; asked && wide.granted && now.Before(wide.until) {
		return metric.Allowed
	}
	one, asked := known[r]
	switch {
	case !asked || !now.Before(one.until):
		return metric.Undecided
	case one.granted:
		return metric.Allowed
	}
	return metric.Denied
}

// learn enters an answer.
func (a *Principal) learn(r metric.Right, is answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := maps.Clone(*a.rights.Load())
	before, asked := known[r]
	if !asked && len(known) >= maxRights {
		clear(known)
		a.changeLocked()
	}
	// What is granted for the first time was not refused before, so there is nothing to take back; but at the cluster scope
	// it may be of what was refused in a namespace.
	if asked && before.granted != is.granted || !asked && is.granted && r.Namespace == "" && len(known) > 0 {
		a.changeLocked()
	}
	known[r] = is
	a.rights.Store(&known)
}

// forget drops what is known of rights.
func (a *Principal) forget(rights ...metric.Right) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := maps.Clone(*a.rights.Load())
	for _, r := range rights {
		delete(known, r)
	}
	a.rights.Store(&known)
	a.changeLocked()
}

// changeLocked makes the account another sender: what was decided for the one that it was holds no more.
func (a *Principal) changeLocked() { a.generation.Store(generations.Add(1)) }

// overdue are the rights to push that were granted, and too long ago to be relied on: that at the cluster scope alone, if
// there is one.
func (a *Principal) overdue() []metric.Right {
	known, now := *a.rights.Load(), time.Now()
	wide := metric.Right{Verb: metric.Create}
	if one := known[wide]; one.granted {
		if now.Before(one.until) {
			return nil
		}
		return []metric.Right{wide}
	}
	var all []metric.Right
	for r, one := range known {
		if r.Verb == metric.Create && one.granted && !now.Before(one.until) {
			all = append(all, r)
		}
	}
	return all
}

var keySeed = maphash.MakeSeed()

// Sender is the account as a sender, with the pod that its credential is bound to, if that is known. Its key is another one
// once a right was granted or taken away.
func (a *Principal) Sender(from netip.Addr, pod *metric.Pod) metric.Sender {
	key := struct {
		generation uint64
		pod        string
		external   bool
	}{generation: a.generation.Load()}
	if pod != nil {
		key.pod, key.external = pod.UID, pod.DefaultExternal
	}
	return metric.Sender{Key: maphash.Comparable(keySeed, key) | metric.LocalKey, Address: from, Pod: pod, Known: true, Principal: &a.Principal}
}
