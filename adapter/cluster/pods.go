package cluster

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
)

// pods indexes the live pods. Only the goroutine that watches writes. Addresses are read without a
// lock, everything else under mu.
type pods struct {
	observer  *Observer
	addresses *addresses
	labelRoom labelRoom
	// labelTexts is what the labels' text takes of labelRoom, of the goroutine that watches.
	labelTexts objectRoom

	mu             sync.RWMutex
	byKey          map[string]map[string]*pod // by namespace and name
	byLabel        map[string]labelIndex      // by namespace
	byController   map[string]controllerIndex // by namespace
	uidIndex       map[uidKey]*pod
	containerIndex map[containerID]*pod
	// nodeAddresses counts the pods on the node of an address.
	nodeAddresses map[netip.Addr]int
	// contested holds the addresses that several pods claim, or a pod and a node, with those pods.
	contested map[netip.Addr][]*pod
	lastKey   uint64
	// announcing are the pods that announce endpoints; announcements counts its changes, from 1 on.
	announcing       map[uidKey]*pod
	announcements    uint64
	announcementRoom objectRoom // of the goroutine that watches
	gone             gonePods
	left             leftAddresses
}

func newPods(observer *Observer) *pods {
	room := newLabelRoom()
	return &pods{
		observer:       observer,
		addresses:      newAddresses(),
		labelRoom:      room,
		labelTexts:     room.ofKind(),
		byKey:          map[string]map[string]*pod{},
		byLabel:        map[string]labelIndex{},
		byController:   map[string]controllerIndex{},
		uidIndex:       map[uidKey]*pod{},
		containerIndex: map[containerID]*pod{},
		nodeAddresses:  map[netip.Addr]int{},
		contested:      map[netip.Addr][]*pod{},
		announcing:     map[uidKey]*pod{},
		announcements:  1,

		announcementRoom: newObjectRoom(0, maxAnnouncementRoom),
	}
}

// put indexes a pod.
func (p *pods) put(now *pod) {
	if changed, known := p.store(now); known {
		p.observer.sendersChanged(changed)
	}
}

// drop removes a pod.
func (p *pods) drop(namespace, name string) {
	p.announcementRoom.free(objectName{namespace, name})
	p.labelTexts.free(objectName{namespace, name})
	if changed := p.remove(namespace, name); len(changed) > 0 {
		p.observer.sendersChanged(changed) // another pod may now have a contested address alone
	}
}

// replace applies a complete list. It removes the missing pods first, so their addresses are free
// for new pods. Readers see each change at once; the observer is called once, at the end.
func (p *pods) replace(all []*pod) {
	var changed []netip.Addr
	anyKnown := false
	for _, pod := range p.missingFrom(all) {
		changed = append(changed, p.remove(pod.Namespace, pod.Name)...)
	}
	for _, pod := range all {
		addresses, known := p.store(pod)
		changed = append(changed, addresses...)
		anyKnown = anyKnown || known
	}
	if anyKnown || len(changed) > 0 {
		p.observer.sendersChanged(changed)
	}
	indexed := func(key objectName) bool { return p.byName(key.namespace, key.name) != nil }
	p.announcementRoom.freeOthers(indexed)
	p.labelTexts.freeOthers(indexed)
}

// missingFrom returns the known pods that are not in the list.
func (p *pods) missingFrom(all []*pod) (gone []*pod) {
	listed := make(map[uidKey]bool, len(all))
	for _, pod := range all {
		listed[newUIDKey(pod.UID)] = true
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for uid, pod := range p.uidIndex {
		if !listed[uid] {
			gone = append(gone, pod)
		}
	}
	return gone
}

// store indexes a pod. It returns the addresses whose Sender changed, and whether the pod can be
// found by anything new.
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
		now.Pod = was.Pod // callers keep the pointer, and the contents are equal
	}
	changed = p.replaceLocked(was, now)
	p.mu.Unlock()

	another := was == nil || was.UID != now.UID
	if was != nil && another {
		p.observer.objectGone(was.Object())
	}
	return changed, len(changed) > 0 || another || !slices.Equal(was.containers, now.containers)
}

// remove removes a pod, and returns the addresses that other pods have now.
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

// replaceLocked replaces one pod by another, either of which may be nil. It returns the addresses
// whose Sender changed.
func (p *pods) replaceLocked(was, now *pod) (changed []netip.Addr) {
	places := was.allAddresses()
	for _, allAddress := range now.allAddresses() {
		places = addOnce(places, allAddress)
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

// claimantsLocked returns the pods that claim the address.
func (p *pods) claimantsLocked(address netip.Addr) []*pod {
	if several, ok := p.contested[address]; ok {
		return several
	}
	if s := p.addresses.load(address); s != nil && s.Pod != nil {
		return []*pod{p.uidIndex[newUIDKey(s.Pod.UID)]}
	}
	return nil
}

// resolveAddressLocked decides which pod has the address, and reports whether its Sender changed.
// An address that several pods claim, or a node, belongs to nobody.
func (p *pods) resolveAddressLocked(address netip.Addr, holders []*pod) bool {
	isNode := p.nodeAddresses[address] > 0
	if len(holders) > 1 || isNode && len(holders) > 0 {
		p.contested[address] = holders
	} else {
		delete(p.contested, address)
	}
	var owner *metric.Pod
	started := int64(0)
	if len(holders) == 1 && !isNode {
		owner, started = holders[0].Pod, holders[0].started
	}
	was := p.addresses.load(address)
	if was != nil && was.Pod != nil && (owner == nil || owner.UID != was.Pod.UID) {
		p.left.add(address)
	}
	if len(holders) == 0 && !isNode {
		p.addresses.drop(address)
		return false
	}
	if was != nil && was.Pod == owner {
		return false
	}
	p.lastKey++
	reused := owner != nil && p.left.lately(address)
	p.addresses.put(&metric.Sender{Key: p.lastKey, Address: address, Pod: owner, Known: true, Reused: reused,
		Started: started})
	return true
}

func (p *pods) indexLocked(added *pod) {
	if added == nil {
		return
	}
	if p.byKey[added.Namespace] == nil {
		p.byKey[added.Namespace], p.byLabel[added.Namespace] = map[string]*pod{}, labelIndex{}
		p.byController[added.Namespace] = controllerIndex{}
	}
	p.byKey[added.Namespace][added.Name] = added
	if p.byLabel[added.Namespace].add(added, p.labelRoom); added.labels == (labelSet{}) {
		p.labelTexts.free(objectName{added.Namespace, added.Name})
	}
	p.byController[added.Namespace].add(added)
	p.uidIndex[newUIDKey(added.UID)] = added
	if added.announcement != nil {
		p.announcing[newUIDKey(added.UID)] = added
		p.announcements++
	}
	for _, one := range added.containers {
		p.containerIndex[one.id] = added
	}
	for _, host := range added.hosts.Value() {
		if host.IsValid() {
			p.nodeAddresses[host]++
		}
	}
}

func (p *pods) unindexLocked(removed *pod) {
	if removed == nil {
		return
	}
	delete(p.byKey[removed.Namespace], removed.Name)
	p.byLabel[removed.Namespace].remove(removed, p.labelRoom)
	p.byController[removed.Namespace].remove(removed)
	if len(p.byKey[removed.Namespace]) == 0 {
		delete(p.byKey, removed.Namespace)
		delete(p.byLabel, removed.Namespace)
		delete(p.byController, removed.Namespace)
	}
	delete(p.uidIndex, newUIDKey(removed.UID))
	if removed.announcement != nil {
		delete(p.announcing, newUIDKey(removed.UID))
		p.announcements++
	}
	for _, one := range removed.containers {
		if p.containerIndex[one.id] == removed {
			delete(p.containerIndex, one.id)
		}
	}
	for _, host := range removed.hosts.Value() {
		if !host.IsValid() {
			continue
		}
		if p.nodeAddresses[host]--; p.nodeAddresses[host] == 0 {
			delete(p.nodeAddresses, host)
		}
	}
}

// byName returns the live pod of that name, or nil.
func (p *pods) byName(namespace, name string) *pod {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.byKey[namespace][name]
}

// matching returns the pods of a namespace whose labels the selector matches. It returns false
// if every requirement leaves more candidates than limit.
func (p *pods) matching(namespace string, selector labels.Selector, limit int) (all []*pod, ok bool) {
	p.mu.RLock()
	lists, n := p.byLabel[namespace].smallest(selector)
	if ok = n <= limit; ok {
		all = make([]*pod, 0, n)
		for _, list := range lists {
			for _, one := range list {
				all = append(all, one.pod)
			}
		}
	}
	p.mu.RUnlock()
	return slices.DeleteFunc(all, func(one *pod) bool { return !selector.Matches(&one.labels) }), ok
}

func (p *pods) byUID(uid string) *pod {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.uidIndex[newUIDKey(uid)]
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

// Sender returns the Sender of an address; nil: not known. This is where an address becomes a
// sender. It takes no lock and allocates nothing.
func (v *View) Sender(address netip.Addr) *metric.Sender {
	return v.pods.addresses.load(address.Unmap())
}

// NodeOf returns the name of a pod's node; empty: the pod does not live, or has no node yet.
func (v *View) NodeOf(pod *metric.Pod) string {
	if p := v.pods.byName(pod.Namespace, pod.Name); p != nil && p.UID == pod.UID {
		return p.node.Value()
	}
	return ""
}

// NodeOfUID is NodeOf for the pod of a UID.
func (v *View) NodeOfUID(uid string) string {
	if p := v.pods.byUID(uid); p != nil {
		return p.node.Value()
	}
	return ""
}

// Prefetch prefetches the addresses that Sender is asked for next.
func (v *View) Prefetch(addresses []netip.Addr) { v.pods.addresses.prefetch(addresses) }

// gonePods is a ring of the pods that were removed last. A mark is the number of pods
// removed so far. The lock of pods guards it.
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

// since returns the pods removed since a mark. Not ok: the ring is too short.
func (d *gonePods) since(mark uint64) (gone []metric.Object, ok bool) {
	if d.count-mark > maxGonePods {
		return nil, false
	}
	for i := mark; i < d.count; i++ {
		gone = append(gone, d.last[i%maxGonePods])
	}
	return gone, true
}

// PodsGoneSince returns the pods that Alive may have reported true for at a mark, and reports
// false for now, and the current mark. Not ok: too many pods were removed since.
func (v *View) PodsGoneSince(since uint64) (gone []metric.Object, now uint64, ok bool) {
	v.pods.mu.RLock()
	defer v.pods.mu.RUnlock()
	gone, ok = v.pods.gone.since(since)
	return gone, v.pods.gone.count, ok
}
