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

// maxRights limits the cached rights of one principal. A principal that needs more gets them at the
// cluster scope.
const maxRights = 256

// Principal is a metric.Principal with the API server's answers about it. It implements
// metric.Rights.
type Principal struct {
	metric.Principal

	mu         sync.Mutex // guards changes of the fields below
	rights     atomic.Pointer[map[metric.Right]answer]
	generation atomic.Uint64
	asked      map[metric.Right]bool // questions in flight; true: the namespace has ended since

	asking  singleflight.Group
	waiting chan struct{} // a slot for each request in flight about an account of its namespace
	ended   atomic.Bool   // the namespace of the service account was deleted
}

// answer is the API server's answer about one right. It is kept after it has expired, to detect a
// change.
type answer struct {
	granted bool
	until   time.Time
}

// Ended reports whether the namespace of the service account was deleted since its token was checked. A token that is
// checked later has another principal.
func (a *Principal) Ended() bool { return a.ended.Load() }

// generations makes the generations of all principals distinct.
var generations atomic.Uint64

func newAccount(a metric.Principal, waiting chan struct{}) *Principal {
	made := &Principal{Principal: a, waiting: waiting, asked: map[metric.Right]bool{}}
	made.Principal.Rights = made
	made.rights.Store(&map[metric.Right]answer{})
	made.generation.Store(generations.Add(1))
	return made
}

// Check implements metric.Rights. As everywhere in Kubernetes, a right at the cluster scope
// includes every namespace: a review without a namespace means all of them.
func (a *Principal) Check(r metric.Right) metric.Decision {
	known, now := *a.rights.Load(), time.Now()
	if wide, asked := known[r.Wide()]; asked && wide.granted && now.Before(wide.until) {
		return metric.Allowed
	}
	answer, asked := known[r]
	switch {
	case !asked || !now.Before(answer.until):
		return metric.Undecided
	case answer.granted:
		return metric.Allowed
	}
	return metric.Denied
}

// ask begins a question about a right, answered ends it.
func (a *Principal) ask(r metric.Right) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[r] = false
}

func (a *Principal) answered(r metric.Right) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asked, r)
}

// learn caches an answer, unless the namespace has ended since the question began: the answer may be about that one,
// and the question is to be asked again.
func (a *Principal) learn(r metric.Right, is answer) (learned bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked[r] {
		return false
	}
	known := maps.Clone(*a.rights.Load())
	before, asked := known[r]
	if !asked && len(known) >= maxRights {
		clear(known)
		a.changeLocked()
	}
	// A right that is granted for the first time was not denied before, so no decision changes. But
	// a right at the cluster scope may include one that was denied in a namespace.
	if asked && before.granted != is.granted || !asked && is.granted && r.Namespace == "" && len(known) > 0 {
		a.changeLocked()
	}
	known[r] = is
	a.rights.Store(&known)
	return true
}

// forget drops cached rights.
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

// forgetNamespace drops the cached rights in a namespace, and the answers to questions in flight.
func (a *Principal) forgetNamespace(namespace string) {
	a.mu.Lock()
	for r := range a.asked {
		a.asked[r] = a.asked[r] || r.Namespace == namespace
	}
	a.mu.Unlock()
	var rights []metric.Right
	for r := range *a.rights.Load() {
		if r.Namespace == namespace {
			rights = append(rights, r)
		}
	}
	if len(rights) > 0 {
		a.forget(rights...)
	}
}

// changeLocked makes the principal a different sender, so that earlier decisions no longer apply.
func (a *Principal) changeLocked() { a.generation.Store(generations.Add(1)) }

// expiredRights are the granted rights to push whose answers have expired; if there is one at the
// cluster scope, only that.
func (a *Principal) expiredRights() []metric.Right {
	known, now := *a.rights.Load(), time.Now()
	wide := metric.Right{Verb: metric.Create}
	if answer := known[wide]; answer.granted {
		if now.Before(answer.until) {
			return nil
		}
		return []metric.Right{wide}
	}
	var all []metric.Right
	for r, answer := range known {
		if r.Verb == metric.Create && answer.granted && !now.Before(answer.until) {
			all = append(all, r)
		}
	}
	return all
}

var keySeed = maphash.MakeSeed()

// Sender is the principal as a sender, with the pod that the credential is bound to, if known. The
// key changes when a right is granted or revoked.
func (a *Principal) Sender(from netip.Addr, pod *metric.Pod) metric.Sender {
	key := struct {
		generation uint64
		pod        string
		external   bool
	}{generation: a.generation.Load()}
	if pod != nil {
		key.pod, key.external = pod.UID, pod.DefaultExternal
	}
	return metric.Sender{Key: maphash.Comparable(keySeed, key) | metric.LocalKey, Address: from, Pod: pod, Known: true,
		Principal: &a.Principal}
}
