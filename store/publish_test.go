package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/format"
)

// A modelReplica replays what a store publishes.
type modelReplica struct {
	mu      sync.Mutex
	copy    *modelTable
	kept    []keptDelta
	deltas  int
	flushes int
	written int // of the flushes
	damage  error
}

type keptDelta struct {
	block int
	delta []byte
}

func newReplica(blocks int) *modelReplica { return &modelReplica{copy: newModel(blocks)} }

func (r *modelReplica) PublishDelta(block int, delta []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deltas++
	if len(delta) == 0 {
		r.damage = errors.New("an empty delta was published")
	}
	r.kept = append(r.kept, keptDelta{block, bytes.Clone(delta)})
}

func (r *modelReplica) PublishWritten(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sendLocked(n)
}

func (r *modelReplica) sendLocked(n int) {
	for _, k := range r.kept[:n] {
		r.damage = errors.Join(r.damage, r.copy.RestoreBlock(k.block, nil, nil, slices.Values([][]byte{k.delta})))
	}
	r.kept = r.kept[n:]
}

func (r *modelReplica) PublishFlush(written bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sendLocked(len(r.kept))
	if r.flushes++; written {
		r.written++
	}
}

func (r *modelReplica) counts() (deltas, flushes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deltas, r.flushes
}

// sent is the number of deltas that were published, and not only taken.
func (r *modelReplica) sent() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deltas - len(r.kept)
}

func (r *modelReplica) value(block int, slot uint16) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copy.mu.Lock()
	defer r.copy.mu.Unlock()
	if block >= len(r.copy.blocks) {
		return ""
	}
	return r.copy.blocks[block].series[slot].value
}

func (r *modelReplica) mustEqual(t testing.TB, model *modelTable) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.damage != nil {
		t.Fatal(r.damage)
	}
	model.mustEqual(t, r.copy)
}

func mustOpenPublishing(t testing.TB, dir string, model *modelTable) (*Store, *modelReplica) {
	t.Helper()
	replica := newReplica(len(model.blocks))
	s := mustOpenIn(t, database.StorageProcess, testConfig(dir), Parts{Table: model, Publisher: replica})
	s.flusher.publisher.pacer.urgent = func() bool { return true }
	return s, replica
}

// TestPublish: a flush publishes each delta once and then its own end, also without changes.
func TestPublish(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), newModel(3)
	s, replica := mustOpenPublishing(t, dir, model)
	clock := newStepper(s)
	clock.period(t)
	model.put(0, 1, "a", "1")
	model.put(2, 1, "b", "2")
	clock.period(t)
	if deltas, flushes := replica.counts(); deltas != 2 || flushes != 2 {
		t.Errorf("%d deltas of 2, %d flushes of 2", deltas, flushes)
	}
	replica.mustEqual(t, model)
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// A writtenDB counts the deltas that are written, and checks at each commit that no other one was
// published.
type writtenDB struct {
	database.DB
	t       *testing.T
	replica *modelReplica
	written int
	commits int
}

type writtenTransaction struct {
	database.Transaction
	db     *writtenDB
	deltas int
}

func (d *writtenDB) Begin() database.Transaction {
	return &writtenTransaction{Transaction: d.DB.Begin(), db: d}
}

func (x *writtenTransaction) Set(key, value []byte) error {
	if key[0] == format.PrefixDelta {
		x.deltas++
	}
	return x.Transaction.Set(key, value)
}

func (x *writtenTransaction) Commit() error {
	if sent := x.db.replica.sent(); sent != x.db.written {
		x.db.t.Errorf("%d deltas are published, %d are written", sent, x.db.written)
	}
	err := x.Transaction.Commit()
	x.db.written += x.deltas
	x.db.commits++
	return err
}

// TestPublishFollowsTheDisk: a delta is published once it is written, so a kill takes back nothing
// that a replica has; also in a flush of many transactions.
func TestPublishFollowsTheDisk(t *testing.T) {
	t.Parallel()
	model := newModel(40)
	s, replica := mustOpenPublishing(t, t.TempDir(), model)
	clock := newStepper(s)
	for block := range 40 {
		model.put(block, 1, "a", "0")
	}
	clock.period(t) // the first write of a block is whole
	db := &writtenDB{DB: s.db, t: t, replica: replica, written: replica.sent()}
	s.setDatabase(db)
	for _, value := range []string{"1", "2"} {
		for block := range 40 {
			model.put(block, 1, "a", strings.Repeat(value, batchGoal/8))
		}
		clock.period(t)
	}
	if _, flushes := replica.counts(); db.commits < 4 || replica.sent() != db.written || replica.written != flushes {
		t.Errorf("%d commits, %d deltas published of %d, %d flushes written of %d", db.commits, replica.sent(), db.written, replica.written, flushes)
	}
	replica.mustEqual(t, model)
	s.setDatabase(db.DB)
	mustClose(t, s)
}

// TestPublishWhileDiskIsFull: publishing goes on at the ordinary interval, and what was published
// meanwhile reaches the disk once there is space.
func TestPublishWhileDiskIsFull(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), newModel(4)
	s, replica := mustOpenPublishing(t, dir, model)
	clock := newStepper(s)
	model.put(0, 1, "a", "before")
	clock.period(t)
	s.freeBytes = func(string) (uint64, error) { return 0, nil }
	for _, value := range []string{"meanwhile", "at last"} {
		model.put(1, 1, "a", value)
		clock.now = clock.now.Add(s.cfg.FlushInterval)
		if err := s.flushStep(clock.now); err == nil {
			t.Fatal("a flush succeeded on a full disk")
		}
		if s.periodStart != clock.now {
			t.Error("the flush goroutine doesn't wait for the interval")
		}
		replica.mustEqual(t, model)
	}
	if _, flushes := replica.counts(); flushes != 3 || replica.written != 1 {
		t.Errorf("%d flushes of 3, %d of 1 on disk", flushes, replica.written)
	}
	s.freeBytes = database.FreeBytes
	clock.now = clock.now.Add(firstRetry)
	clock.flush(t)
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// TestPublishWhileDiskHangs: publishing goes on while a transaction waits for the disk.
func TestPublishWhileDiskHangs(t *testing.T) {
	t.Parallel()
	dir, model, replica := t.TempDir(), newModel(4), newReplica(4)
	cfg := testConfig(dir)
	cfg.FlushInterval = minFlushInterval
	s := mustOpenIn(t, database.StorageProcess, cfg, Parts{Table: model, Publisher: replica})
	child, stop := storageProcess(t, dir), start(t, s)
	must(t, child.Signal(syscall.SIGSTOP))
	defer child.Signal(syscall.SIGCONT)
	for _, value := range []string{"1", "2", "3"} {
		model.put(1, 1, "a", value)
		eventually(t, value, func() bool { return replica.value(1, 1) == value })
	}
	must(t, child.Signal(syscall.SIGCONT))
	stop()
	if model.published.Load() == 0 {
		t.Error("deltas for the Publisher alone are taken as if they were written")
	}
	replica.mustEqual(t, model)
	mustClose(t, s)
	mustRestore(t, dir, model)
}

// A faultyDB fails, or is slow, at random commits.
type faultyDB struct {
	database.DB
	random    *rand.Rand
	meanwhile func() // during a slow commit
	slow      int
}

type faultyTransaction struct {
	database.Transaction
	db *faultyDB
}

func (d *faultyDB) Begin() database.Transaction { return &faultyTransaction{d.DB.Begin(), d} }

func (x *faultyTransaction) Commit() error {
	switch x.db.random.IntN(6) {
	case 0:
		x.Discard()
		return database.ErrDiskFull
	case 1:
		x.db.meanwhile()
		x.db.slow++
	}
	return x.Transaction.Commit()
}

// TestPublishOnFaultyDisk holds S4 where the Publisher takes deltas that the disk doesn't get: with
// failing and slow transactions at any moment of a flush, the copy of a replica is complete after
// each flush, and the disk after each that succeeded.
func TestPublishOnFaultyDisk(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		dir, model := t.TempDir(), newModel(11)
		s, replica := mustOpenPublishing(t, dir, model)
		random := rand.New(rand.NewPCG(seed, 1))
		other := rand.New(rand.NewPCG(seed, 2)) // of another goroutine
		db := &faultyDB{DB: s.db, random: random, meanwhile: func() {
			_, before := replica.counts()
			model.randomOps(other, 3)
			eventually(t, "two flushes", func() bool { _, now := replica.counts(); return now >= before+2 })
		}}
		s.setDatabase(db)
		s.flusher.publisher.interval = time.Millisecond
		clock := newStepper(s)
		succeeded, failed := 0, 0
		for range 30 {
			model.randomOps(other, 5)
			clock.now = clock.now.Add(s.cfg.FlushInterval)
			if s.flushStep(clock.now) != nil {
				failed++
				replica.mustEqual(t, model)
				clock.now = clock.now.Add(firstRetry)
				continue
			}
			succeeded++
		}
		if succeeded < 5 || failed < 5 || db.slow < 5 {
			t.Fatalf("%d flushes succeeded, %d failed; %d slow transactions", succeeded, failed, db.slow)
		}
		s.setDatabase(db.DB)
		clock.now = clock.now.Add(firstRetry)
		clock.period(t)
		clock.period(t) // changes during a slow transaction
		replica.mustEqual(t, model)
		mustClose(t, s)
		mustRestore(t, dir, model)
	}
}

// TestFlushSoon: FlushSoon doesn't wait for the interval.
func TestFlushSoon(t *testing.T) {
	t.Parallel()
	model, replica := newModel(1), newReplica(1)
	s := mustOpenIn(t, database.StorageProcess, testConfig(t.TempDir()), Parts{Table: model, Publisher: replica})
	s.cfg.FlushInterval = time.Hour
	stop := start(t, s)
	eventually(t, "the first flush", func() bool { _, flushes := replica.counts(); return flushes > 0 })
	model.put(0, 1, "a", strings.Repeat("x", 10))
	s.FlushSoon()
	eventually(t, "the flush", func() bool { return replica.value(0, 1) != "" })
	stop()
}
