package cluster

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
)

// pods holds the pods that live, by all that they are asked by. One goroutine writes, the one that watches; addresses
// are read without a lock, all else under it.
type pods struct {
	observer  *Observer
	addresses *addresses

	mu             sync.RWMutex
	byKey          map[string]map[string]*pod // by namespace and name
	byLabel        map[string]labelIndex      // by namespace
	uidIndex       map[string]*pod
	containerIndex map[containerID]*pod
	// nodes counts the pods that say that an address is a node's.
	nodeAddresses map[netip.Addr]int
	// contested are the addresses of several pods, or of a pod and a node, and those pods.
	contested map[netip.Addr][]*pod
	lastKey   uint64
	gone      gonePods
}

func newPods(observer *Observer) *pods {
	return &pods{
		observer:       observer,
		addresses:      newAddresses(),
		byKey:          map[string]map[string]*pod{},
		byLabel:        map[string]labelIndex{},
		uidIndex:       map[string]*pod{},
		containerIndex: map[containerID]*pod{},
		nodeAddresses:  map[netip.Addr]int{},
		contested:      map[netip.Addr][]*pod{},
	}
}

// put files what the cluster says of a pod.
func (p *pods) put(now *pod) {
	if changed, known := p.store(now); known {
		p.observer.podKnown(changed)
	}
}

// drop forgets a pod.
func (p *pods) drop(namespace, name string) {
	if changed := p.remove(namespace, name); len(changed) > 0 {
		p.observer.podKnown(changed) // who contested an address has it alone now
	}
}

// replace takes a whole list for the truth: what is not in it is gone. Those go first, so that their addresses are free
// for those that come. Readers see it happen pod by pod; what became known is told at the end, at once.
func (p *pods) replace(all []*pod) {
	var changed []netip.Addr
	anything := false
	for _, one := range p.missingFrom(all) {
		changed = append(changed, p.remove(one.Namespace, one.Name)...)
	}
	for _, one := range all {
		addresses, known := p.store(one)
		changed = append(changed, addresses...)
		anything = anything || known
	}
	if anything || len(changed) > 0 {
		p.observer.podKnown(changed)
	}
}

// missingFrom are the pods that are known and not in the list.
func (p *pods) missingFrom(all []*pod) (gone []*pod) {
	listed := make(map[string]bool, len(all))
	for _, one := range all {
		listed[one.UID] = true
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for uid, one := range p.uidIndex {
		if !listed[uid] {
			gone = append(gone, one)
		}
	}
	return gone
}

// file files a pod. It returns the addresses that have another Sender now, and whether there is anything by which the
// pod could not be found before.
func (p *pods) store(now *pod) (changed []netip.Addr, known bool) {
	if now.finished {
		changed = p.remove(now.Namespace, now.Name)
		return changed, len(changed) > 0
	}
	p.mu.Lock()
	was := p.byKey[now.Namespace][now.Name]
	if was != nil && was.equal(now) {
		p.mu.Unlock()
		return nil, false
	}
	if was != nil && *was.Pod == *now.Pod {
		now.Pod = was.Pod // who has it by pointer keeps it: it is the same
	}
	changed = p.replaceLocked(was, now)
	p.mu.Unlock()

	another := was == nil || was.UID != now.UID
	if was != nil && another {
		p.observer.objectGone(was.Object())
	}
	return changed, len(changed) > 0 || another || !slices.Equal(was.containers, now.containers)
}

// forget takes a pod out and returns the addresses that others have now.
func (p *pods) remove(namespace, name string) []netip.Addr {
	p.mu.Lock()
	was := p.byKey[namespace][name]
	if was == nil {
		p.mu.Unlock()
		return nil
	}
	changed := p.replaceLocked(was, nil)
	p.mu.Unlock()
	p.observer.objectGone(was.Object())
	return changed
}

// replaceLocked takes one pod out and another in, either of which may be nil, and returns the addresses that have
// another Sender now.
func (p *pods) replaceLocked(was, now *pod) (changed []netip.Addr) {
	places := was.allAddresses()
	for _, one := range now.allAddresses() {
		places = addOnce(places, one)
	}
	holders := make([][]*pod, len(places))
	for i, place := range places {
		for _, one := range p.claimantsLocked(place) {
			if one != was {
				holders[i] = append(holders[i], one)
			}
		}
		if now != nil && slices.Contains(now.addresses, place) {
			holders[i] = append(holders[i], now)
		}
	}
	p.unindexLocked(was)
	p.indexLocked(now)
	if was != nil && (now == nil || now.Namespace != was.Namespace || now.Name != was.Name || now.UID != was.UID) {
		p.gone.add(was.Object())
	}
	for i, place := range places {
		if p.resolveAddressLocked(place, holders[i]) {
			changed = append(changed, place)
		}
	}
	return changed
}

// holdersLocked are the pods that say they have the address.
func (p *pods) claimantsLocked(address netip.Addr) []*pod {
	if several, ok := p.contested[address]; ok {
		return several
	}
	if s := p.addresses.load(address); s != nil && s.Pod != nil {
		return []*pod{p.uidIndex[s.Pod.UID]}
	}
	return nil
}

// settleLocked decides whose the address is, and reports whether it has another Sender now.
func (p *pods) resolveAddressLocked(address netip.Addr, holders []*pod) bool {
	isNode := p.nodeAddresses[address] > 0
	if len(holders) > 1 || isNode && len(holders) > 0 {
		p.contested[address] = holders
	} else {
		delete(p.contested, address)
	}
	if len(holders) == 0 && !isNode {
		p.addresses.drop(address)
		return false
	}
	var owner *metric.Pod
	if len(holders) == 1 && !isNode {
		owner = holders[0].Pod
	}
	if was := p.addresses.load(address); was != nil && was.Pod == owner {
		return false
	}
	p.lastKey++
	p.addresses.put(&metric.Sender{Key: p.lastKey, Address: address, Pod: owner, Known: true})
	return true
}

func (p *pods) indexLocked(one *pod) {
	if one == nil {
		return
	}
	if p.byKey[one.Namespace] == nil {
		p.byKey[one.Namespace], p.byLabel[one.Namespace] = map[string]*pod{}, labelIndex{}
	}
	p.byKey[one.Namespace][one.Name] = one
	p.byLabel[one.Namespace].add(one)
	p.uidIndex[one.UID] = one
	for _, id := range one.containers {
		p.containerIndex[id] = one
	}
	for _, host := range one.hosts.Value() {
		if host.IsValid() {
			p.nodeAddresses[host]++
		}
	}
}

func (p *pods) unindexLocked(one *pod) {
	if one == nil {
		return
	}
	delete(p.byKey[one.Namespace], one.Name)
	p.byLabel[one.Namespace].remove(one)
	if len(p.byKey[one.Namespace]) == 0 {
		delete(p.byKey, one.Namespace)
		delete(p.byLabel, one.Namespace)
	}
	delete(p.uidIndex, one.UID)
	for _, id := range one.containers {
		if p.containerIndex[id] == one {
			delete(p.containerIndex, id)
		}
	}
	for _, host := range one.hosts.Value() {
		if !host.IsValid() {
			continue
		}
		if p.nodeAddresses[host]--; p.nodeAddresses[host] == 0 {
			delete(p.nodeAddresses, host)
		}
	}
}

// byName returns the pod of that name; nil: none that lives.
func (p *pods) byName(namespace, name string) *pod {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.byKey[namespace][name]
}

// matching returns the pods of a namespace whose labels the selector matches. Not ok: no requirement of it leads to at most
// so many pods, and those would all have to be looked at.
func (p *pods) matching(namespace string, selector labels.Selector, most int) (all []*pod, ok bool) {
	p.mu.RLock()
	lists, n := p.byLabel[namespace].smallest(selector)
	if ok = n <= most; ok {
		all = slices.Concat(lists...)
	}
	p.mu.RUnlock()
	return slices.DeleteFunc(all, func(one *pod) bool { return !selector.Matches(&one.labels) }), ok
}

func (p *pods) byUID(uid string) *pod {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.uidIndex[uid]
}

func (p *pods) byContainer(id string) *pod {
	key := newContainerID(id)
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.containerIndex[key]
}

func (p *pods) count() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.uidIndex)
}
