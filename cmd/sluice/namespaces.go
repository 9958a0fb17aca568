package main

import (
	"crypto/sha256"
	"errors"
	"iter"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/replica"
	"github.com/sluice-metrics/sluice/store"
)

// namespaces remembers the UID of each namespace, with the data: a namespace that was deleted, even while
// Sluice was down, leaves nothing to a later one of its name (docs/adr/0082). One that is gone is remembered
// for a day: what is pushed for it late is no later namespace's either. A namespace that was never seen has no
// UID here, and keeps what was pushed for it.
type namespaces struct {
	changed chan struct{} // has an element if a known namespace has another UID, or is gone

	mu      sync.Mutex
	uids    map[string]string    // as last seen, by name
	ended   map[string]time.Time // those of uids that are gone, since when
	unsaved map[string]struct{}  // names whose documents the store doesn't have yet
	// unshared are those that other replicas have not heard of, and elsewhere the UIDs that they know, by name.
	unshared  map[string]struct{}
	elsewhere map[string]seenElsewhere
}

// seenElsewhere is the UID of a namespace that another replica has seen last. answered is the UID here on which the
// other one's data were removed.
type seenElsewhere struct{ uid, answered string }

// endedFor is how long a namespace that is gone is remembered: pushes may wait that long at a forwarder.
const endedFor = 24 * time.Hour

func newNamespaces() *namespaces {
	return &namespaces{changed: make(chan struct{}, 1), uids: map[string]string{}, ended: map[string]time.Time{},
		unsaved: map[string]struct{}{}, unshared: map[string]struct{}{}, elsewhere: map[string]seenElsewhere{}}
}

const namespaceResource = "namespaces"

// added is told of each object that the cluster view adds.
func (n *namespaces) added(o metric.Object) {
	if o.Resource != namespaceResource {
		return
	}
	n.mu.Lock()
	was := n.uids[o.Name]
	if was == "" {
		n.setLocked(o.Name, o.UID)
	}
	n.mu.Unlock()
	if was != "" && was != o.UID {
		n.wake()
	}
}

// gone is told of each object that the cluster view removes.
func (n *namespaces) gone(o metric.Object) {
	if o.Resource == namespaceResource {
		n.wake()
	}
}

func (n *namespaces) wake() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *namespaces) all() (uids map[string]string, ended map[string]time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.uids), maps.Clone(n.ended)
}

// set follows a namespace whose end all replicas were told; an empty UID: it is gone. One that was known to be gone is
// forgotten.
func (n *namespaces) set(name, uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.elsewhere, name) // heard before: endFormer would end the same again at each document
	n.setLocked(name, uid)
}

func (n *namespaces) setLocked(name, uid string) {
	_, forgotten := n.ended[name]
	delete(n.ended, name)
	switch {
	case uid != "":
		n.uids[name] = uid
	case forgotten:
		delete(n.uids, name)
	default:
		n.ended[name] = time.Now()
	}
	n.unsaved[name], n.unshared[name] = struct{}{}, struct{}{}
}

// Every document of a namespace is namespaceMark, a version, the name, a zero byte and the UID. If the namespace
// is gone, a zero byte and the Unix second follow since when.
const namespaceMark, namespaceVersion = 'N', 1

func isNamespaceDocument(value []byte) bool { return len(value) > 0 && value[0] == namespaceMark }

func namespaceKey(name string) (key store.DocumentKey) {
	sum := sha256.Sum256([]byte("namespace\x00" + name))
	copy(key[:], sum[:])
	return key
}

// following returns the documents that changed since the last call, or all documents; nil: a namespace is forgotten.
func (n *namespaces) following(all bool) map[store.DocumentKey][]byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	if all {
		for name := range n.uids {
			n.unsaved[name] = struct{}{}
		}
	}
	documents := make(map[store.DocumentKey][]byte, len(n.unsaved))
	for name := range n.unsaved {
		documents[namespaceKey(name)] = n.documentLocked(name)
	}
	clear(n.unsaved)
	return documents
}

func (n *namespaces) documentLocked(name string) []byte {
	uid := n.uids[name]
	if uid == "" {
		return nil
	}
	value := appendNamespace(nil, name, uid)
	if since, gone := n.ended[name]; gone {
		value = strconv.AppendInt(append(value, 0), since.Unix(), 10)
	}
	return value
}

func appendNamespace(dst []byte, name, uid string) []byte {
	return append(append(append(append(dst, namespaceMark, namespaceVersion), name...), 0), uid...)
}

var errNamespace = errors.New("the document of a namespace is damaged")

// RestoreDocument restores a document of a namespace.
func (n *namespaces) RestoreDocument(key store.DocumentKey, value []byte) error {
	name, uid, ended, err := readNamespace(key, value)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.uids[name] = uid; !ended.IsZero() {
		n.ended[name] = ended
	}
	return nil
}

func readNamespace(key store.DocumentKey, value []byte) (name, uid string, ended time.Time, err error) {
	if len(value) < 2 || value[0] != namespaceMark || value[1] != namespaceVersion {
		return "", "", ended, errNamespace
	}
	name, uid, ok := strings.Cut(string(value[2:]), "\x00")
	uid, since, gone := strings.Cut(uid, "\x00")
	if gone {
		second, err := strconv.ParseInt(since, 10, 64)
		ok, ended = ok && err == nil, time.Unix(second, 0)
	}
	if !ok || uid == "" || namespaceKey(name) != key {
		return "", "", ended, errNamespace
	}
	return name, uid, ended, nil
}

// Replicas exchange the UIDs that they have seen last: one that cannot read the cluster doesn't know that a namespace
// has changed hands, and another one that has just started hasn't seen the former one.

// TakeShared returns the documents of the namespaces whose UIDs changed since the last call.
func (n *namespaces) TakeShared() []replica.Document {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer clear(n.unshared)
	return n.sharedLocked(maps.Keys(n.unshared))
}

// AllShared returns the documents of all namespaces that there are.
func (n *namespaces) AllShared() []replica.Document {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sharedLocked(maps.Keys(n.uids))
}

func (n *namespaces) sharedLocked(names iter.Seq[string]) (all []replica.Document) {
	for name := range names {
		uid := n.uids[name]
		if _, gone := n.ended[name]; gone || uid == "" {
			continue
		}
		all = append(all, replica.Document{Key: keyText(namespacesKey, namespaceKey(name)), Stamp: time.Now().UnixMilli(),
			Value: appendNamespace(nil, name, uid)})
	}
	return all
}

// hear enters what another replica shares.
func (n *namespaces) hear(key store.DocumentKey, value []byte) error {
	name, uid, _, err := readNamespace(key, value)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.elsewhere[name].uid != uid {
		n.elsewhere[name] = seenElsewhere{uid: uid}
	}
	return nil
}

// others returns the UIDs that other replicas have seen last.
func (n *namespaces) others() map[string]seenElsewhere {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.elsewhere)
}

// answer notes that the data of another replica's UID were removed. It reports whether they were not before.
func (n *namespaces) answer(name, other, uid string) (first bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	first = n.elsewhere[name] != seenElsewhere{other, uid}
	n.elsewhere[name] = seenElsewhere{other, uid}
	return first
}

// endFormer removes what other replicas have of namespaces that they have seen last under another UID: all that is older
// than the namespace that has the name now.
func (p *dataPath) endFormer() {
	if p.cluster.namespaces == nil {
		return
	}
	for name, other := range p.cluster.namespaces.others() {
		uid, created, known := p.cluster.view.Namespace(name)
		if !known || uid == "" || uid == other.uid {
			continue
		}
		before := endOfFormer(created)
		if p.cluster.namespaces.answer(name, other.uid, uid) {
			p.replication.deletions.AddNamespace(name, before)
		}
		p.merged.DeleteNamespace(name, before)
		p.groups.EndNamespace(name, before)
	}
}

// endOfFormer is the moment before which everything was a former namespace's. The creation of the present one is known
// to the second.
func endOfFormer(created time.Time) time.Time {
	now, end := time.Now(), created.Add(time.Second)
	if now.Before(end) {
		return now
	}
	return end
}

// endOfOwn is endOfFormer for own series: those that were restored are older, whatever clock the API server has. up is the
// time since then. Wall clock times of two moments say nothing: the clock may have been set back between them.
func endOfOwn(before, restored time.Time, up time.Duration) time.Time {
	if time.Since(before) > up {
		return restored
	}
	return before
}

// endNamespaces removes what ended namespaces had: all that is older than the namespace that has the name
// now. Groups may be another replica's, and as new as the namespace. If no namespace has the name, that is done again when
// one has, or when the former one is forgotten: its clients may push for a while.
func (p *dataPath) endNamespaces() {
	uids, ended := p.cluster.namespaces.all()
	for name, was := range uids {
		uid, created, known := p.cluster.view.Namespace(name)
		since, gone := ended[name]
		if !known || uid == was && !gone || uid == "" && gone && time.Since(since) < endedFor {
			continue
		}
		p.endNamespace(name, uid, created)
	}
}

func (p *dataPath) endNamespace(name, uid string, created time.Time) {
	p.push.EndNamespace(name, uid != "") // before its data: they would be pushed again
	p.api.EndNamespace(name)
	before := time.Now()
	if uid != "" {
		before = endOfFormer(created)
	}
	own, ofGroups := endOfOwn(before, p.restored, time.Since(p.restored)), before
	if deletions := p.replication.deletions; deletions == nil {
		ofGroups = own
	} else {
		deletions.AddNamespace(name, before)
		p.merged.DeleteNamespace(name, before)
	}
	gone, groups := p.table.DeleteNamespace(name, own), p.groups.EndNamespace(name, ofGroups)
	p.rules.EndNamespace(name)
	p.rejections.EndNamespace(name)
	p.senders.EndNamespace(name)
	p.pushers.EndNamespace(name)
	if p.console != nil {
		p.viewers.EndNamespace(name, uid != "")
		p.console.EndNamespace(name)
	}
	p.cluster.namespaces.set(name, uid)
	p.log.Info("removed what a namespace had that was deleted", "namespace", name, "series", gone, "groups", groups)
}
