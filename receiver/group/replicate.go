package group

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
	"unsafe"

	"github.com/sluice-metrics/sluice/internal/ratelog"
	"github.com/sluice-metrics/sluice/metric"
)

// A Document is the state of one group, or of its deletion, as replicas exchange it.
type Document struct {
	Key Hash
	// Stamp is the time of the newest change, in Unix milliseconds. A receiver whose clock differs
	// corrects it, and with it all stamps in Value.
	Stamp int64
	Value []byte
}

// replication is the state that only replicas have.
type replication struct {
	name   string
	now    func() time.Time
	logger *slog.Logger
	early  ratelog.Limiter // of deletions that are forgotten early
}

// Replicate makes this process one of several replicas, with a name of its own. Call it before any
// other method.
func (gs *Groups) Replicate(name string, logger *slog.Logger) {
	gs.replication = &replication{name: name, now: time.Now, logger: logger, early: ratelog.Limiter{Interval: time.Minute}}
	for i := range gs.shards {
		gs.shards[i].shared = map[Hash]struct{}{}
		gs.shards[i].tombstones = map[Hash]tombstone{}
	}
}

// shareLocked marks a group as changed here, as markLocked does for the store.
func (gs *Groups) shareLocked(g *group) {
	if gs.replication == nil {
		return
	}
	s := gs.shard(g.hash)
	s.mu.Lock()
	s.shared[g.hash] = struct{}{}
	s.mu.Unlock()
}

// TakeShared returns the documents of the groups that were changed here, or deleted, since the last
// call.
func (gs *Groups) TakeShared() (all []Document) {
	for i := range gs.shards {
		s := &gs.shards[i]
		s.mu.Lock()
		if len(s.shared) == 0 {
			s.mu.Unlock()
			continue
		}
		taken := s.shared
		s.shared = map[Hash]struct{}{}
		s.mu.Unlock()
		for h := range taken {
			all = gs.appendShared(all, h)
		}
	}
	return all
}

// AllShared returns the documents of all groups and deletions, whoever changed them last.
func (gs *Groups) AllShared() (all []Document) {
	for i := range gs.shards {
		s := &gs.shards[i]
		s.mu.Lock()
		keys := slices.AppendSeq(slices.Collect(maps.Keys(s.groups)), maps.Keys(s.tombstones))
		s.mu.Unlock()
		for _, h := range keys {
			all = gs.appendShared(all, h)
		}
	}
	return all
}

func (gs *Groups) appendShared(all []Document, h Hash) []Document {
	if g := gs.lockExisting(h); g != nil {
		defer g.mu.Unlock()
		if c := g.contents.Load(); c != nil && !c.expired(gs.table.Lifetime()) {
			all = append(all, Document{h, c.versions.newest().stamp, appendDocument(nil, g, c)})
		}
		return all
	}
	if ended := gs.tombstone(h); ended.stamp != 0 {
		all = append(all, Document{h, ended.stamp, appendTombstone(nil, h, ended)})
	}
	return all
}

// Apply joins documents of another replica with the groups here. The order of documents doesn't
// matter, nor that one comes twice. The error names one of the documents that were not applied.
func (gs *Groups) Apply(documents []Document) error {
	var first error
	for i := range documents {
		if err := gs.applyDocument(&documents[i]); err != nil && first == nil {
			first = fmt.Errorf("the document %x of a group cannot be applied: %w", documents[i].Key, err)
		}
	}
	return first
}

// Removals counts how often series of a family left the table.
func (gs *Groups) Removals() uint64 { return gs.removals.Load() }

// errOverMemory: others' groups have as much memory as the groups here may have.
var errOverMemory = errors.New("memory limit of other replicas' groups reached")

func (gs *Groups) applyDocument(d *Document) error {
	if isTombstone(d.Value) {
		h, ended, err := readTombstone(d.Value)
		if err != nil || h != d.Key {
			return errors.Join(errDocument, err)
		}
		ended.stamp = d.Stamp
		gs.applyDeletion(h, ended)
		return nil
	}
	from, c, err := readShared(d.Value)
	if err != nil {
		return err
	}
	if from.hash = from.key.Hash(); from.hash != d.Key {
		return errDocument
	}
	if 2*gs.config.MaxBytes < gs.bytes.Load()+c.bytes {
		return errOverMemory
	}
	gs.correct(c, d.Stamp)
	if g := gs.lockToJoin(from, c); g != nil {
		defer g.mu.Unlock()
		gs.joinLocked(g, c)
	}
	return nil
}

// readShared is readDocument for bytes of another process.
func readShared(value []byte) (*group, *contents, error) {
	g, c, err := readDocument(value)
	if err != nil {
		return nil, nil, err
	}
	if c.versions == nil || g.key.Labels.Len() == 0 || c.pushed == 0 && c.failed == 0 {
		return nil, nil, errDocument
	}
	for _, f := range c.families {
		for i := range f.Metrics {
			if isOwn(f.Name) || len(f.Metrics[i].Labels) == 0 {
				return nil, nil, errDocument
			}
		}
		f.unserved = nil // the sender's
	}
	return g, c, nil
}

// correct converts the times of another replica's contents to the clocks of this one.
func (gs *Groups) correct(c *contents, stamp int64) {
	if by := stamp - c.versions.newest().stamp; by != 0 {
		c.versions.shift(by)
		c.pushed, c.failed = shifted(c.pushed, by), shifted(c.failed, by)
		for _, f := range c.families {
			f.pushed = shifted(f.pushed, by)
		}
	}
	start := c.versions.pushed.stamp
	if c.pushed == 0 {
		start = c.versions.failed.stamp
	}
	age := max(gs.replication.now().Sub(time.UnixMilli(start)), 0)
	c.began = max(gs.table.Lifetime()-age, 1)
}

func shifted(nanoseconds, milliseconds int64) int64 {
	if nanoseconds == 0 {
		return 0
	}
	return max(nanoseconds+milliseconds*int64(time.Millisecond), 1)
}

// lockToJoin returns the group with the lock held; nil: it is deleted or over.
func (gs *Groups) lockToJoin(from *group, c *contents) *group {
	if g := gs.lockExisting(from.hash); g != nil {
		return g
	}
	if !gs.tombstone(from.hash).before(c.versions.newest()) || c.expired(gs.table.Lifetime()) {
		return nil
	}
	return gs.lockAlways(from.key, from.about)
}

// joinLocked joins a group with the contents of another replica.
func (gs *Groups) joinLocked(g *group, other *contents) {
	before := g.contents.Load()
	own := before
	if own == nil {
		own = &contents{versions: &versions{ended: gs.tombstone(g.hash).version}}
	}
	now := gs.table.Lifetime()
	next, gone := join(own.unexpired(now), other.unexpired(now))
	gs.shareOwnLocked(g, own.versions, next.versions)
	switch {
	case before != nil && next.versions.equal(before.versions):
		return
	case gone:
		gs.buryLocked(g, next.versions.ended)
		return
	case next.expired(now):
		gs.removeLocked(g)
		return
	}
	gs.markLocked(g)
	gs.updateTable(g, own, next)
	next.bytes = g.size(next)
	gs.setLocked(g, next)
	if before == nil {
		gs.dropTombstone(g.hash)
	}
}

// shareOwnLocked shares a group again if it comes back with a change of this replica: a former process lost
// the change after only some of the others had heard of it, and nobody else tells the rest.
func (gs *Groups) shareOwnLocked(g *group, before, next *versions) {
	if me := gs.replication.name; before.newestOf(me).before(next.newestOf(me)) {
		gs.shareLocked(g)
	}
}

// updateTable removes series that are no longer the group's from the table. Series that the last
// push to another replica has too stay: what they counted here is part of the merged value.
func (gs *Groups) updateTable(g *group, own, next *contents) {
	for old, f := range own.replacedIn(next) {
		gs.remove(&g.about, old, f)
	}
	gs.hideRemoved(&g.about, own, next)
	for _, f := range next.families {
		old := own.find(f.Name)
		if f == old {
			continue
		}
		if old != nil && f.Type.Kind() != old.Type.Kind() {
			old = nil
		}
		match := matchLabels(f, old)
		for i := range f.Metrics {
			if j := match.indexOf(i); j < 0 || !old.served(j) {
				f.setUnserved(i)
			}
		}
	}
}

// hideRemoved hides the series that are no longer a group's where other replicas have them: a replica that
// is away doesn't hear of it. next is nil for a group that was deleted or has expired.
func (gs *Groups) hideRemoved(about *metric.Object, before, next *contents) {
	if gs.replication == nil || before == nil {
		return
	}
	var s sampleBuilder
	for old, f := range before.replacedIn(next) {
		match := matchLabels(old, f)
		var sets []metric.Labels
		for i := range old.Metrics {
			if match.indexOf(i) < 0 {
				sets = append(sets, s.labelSet(about, old, i))
			}
		}
		if len(sets) > 0 {
			gs.table.Hide(*about, old.Name, sets)
		}
	}
}

// applyDeletion deletes what is older than a deletion at another replica.
func (gs *Groups) applyDeletion(h Hash, at tombstone) {
	ended := at.version
	g := gs.lockExisting(h)
	if g == nil {
		g = &group{hash: h}
	} else {
		defer g.mu.Unlock()
	}
	before := g.contents.Load()
	if before == nil { // it is unknown, or a push will come
		gs.shareOwnLocked(g, &versions{ended: gs.tombstone(h).version}, &versions{ended: ended})
		gs.setTombstone(h, at)
		return
	}
	next, gone := join(before, &contents{versions: &versions{ended: ended}})
	gs.shareOwnLocked(g, before.versions, next.versions)
	switch {
	case next.versions.equal(before.versions):
	case gone:
		gs.buryLocked(g, ended)
		gs.deleted.Add(1)
	default:
		gs.joinLocked(g, &contents{versions: &versions{ended: ended}})
	}
}

const pointerBytes = int64(unsafe.Sizeof((*family)(nil)))

// size is the memory of the group with these contents.
func (g *group) size(c *contents) int64 {
	n := g.overhead() + versionBytes(c.versions)
	for _, f := range c.families {
		n += f.bytes + pointerBytes
	}
	return n
}

// versionBytes is the memory of versions.
func versionBytes(v *versions) int64 {
	if v == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*v)) + int64(len(v.families))*int64(unsafe.Sizeof(version{}))
}

// next is the version of a change here.
func (gs *Groups) next(known *versions, now time.Time) version {
	return version{max(now.UnixMilli(), known.newest().stamp+1), gs.replication.name}
}

// known returns the versions of a group before a change.
func (gs *Groups) known(g *group) *versions {
	if c := g.contents.Load(); c != nil {
		return c.versions
	}
	return &versions{ended: gs.tombstone(g.hash).version}
}

// setPushedLocked sets the contents after a push.
func (gs *Groups) setPushedLocked(g *group, next *contents, p *Push) {
	if gs.replication == nil {
		gs.setLocked(g, next)
		return
	}
	before, known := g.contents.Load(), gs.known(g)
	now := gs.next(known, p.Now)
	v := &versions{pushed: now, failed: known.failed, replaced: known.replaced, ended: known.ended}
	if p.Replace {
		v.replaced = now
	}
	v.families = make([]version, len(next.families))
	for i, f := range next.families {
		v.families[i] = now
		if before.find(f.Name) == f { // of an earlier push
			v.families[i] = before.familyVersion(f.Name)
		}
	}
	next.versions = v
	next.bytes += versionBytes(v)
	gs.setLocked(g, next)
	gs.dropTombstone(g.hash)
}

// versionsAfterFailure are the versions after a push that was rejected.
func (gs *Groups) versionsAfterFailure(g *group, at time.Time) *versions {
	v := *gs.known(g)
	v.failed = gs.next(&v, at)
	gs.dropTombstone(g.hash)
	return &v
}

// endLocked deletes a group at a request.
func (gs *Groups) endLocked(g *group) {
	if gs.replication == nil {
		gs.removeLocked(g)
		return
	}
	ended := gs.next(gs.known(g), gs.replication.now())
	gs.buryLocked(g, ended)
	gs.shareLocked(g)
}

// buryLocked removes a group and remembers when it was deleted.
func (gs *Groups) buryLocked(g *group, ended version) {
	gs.removeLocked(g)
	gs.setTombstone(g.hash, tombstone{ended, g.about.InNamespace()})
}

// restoreVersions gives a restored group its versions. A document that was written without replicas
// has none: then its times count.
func (gs *Groups) restoreVersions(c *contents) {
	if gs.replication == nil {
		c.versions = nil
		return
	}
	if c.versions != nil {
		return
	}
	c.versions = versionsByTime(c, gs.replication.name)
	c.bytes += versionBytes(c.versions)
}

// versionsByTime are the versions of contents that have none.
func versionsByTime(c *contents, origin string) *versions {
	at := func(nanoseconds int64) (v version) {
		if nanoseconds > 0 {
			v = version{max(nanoseconds/int64(time.Millisecond), 1), origin}
		}
		return v
	}
	v := &versions{pushed: at(c.pushed), failed: at(c.failed), families: make([]version, len(c.families))}
	for i, f := range c.families {
		v.families[i] = at(f.pushed)
	}
	return v
}
