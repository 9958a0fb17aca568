package replica

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// exchange is a bus whose subscriptions have a goroutine each, as those of NATS.
type exchange struct {
	mu   sync.Mutex
	subs map[*queue]struct{}
	lose func(from, subject string) bool // may be nil
}

type queue struct {
	pattern string
	in      chan queued
}

type queued struct {
	subject string
	message []byte
}

// endpoint is the bus of one replica.
type endpoint struct {
	*exchange
	name string
}

func newExchange() *exchange { return &exchange{subs: map[*queue]struct{}{}} }

func (e *endpoint) Subscribe(pattern string, handle func(string, []byte)) (func(), error) {
	q := &queue{pattern, make(chan queued, 10_000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for one := range q.in {
			handle(one.subject, one.message)
			clear(one.message) // it is valid during the call only
		}
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subs[q] = struct{}{}
	return func() {
		e.mu.Lock()
		delete(e.subs, q)
		close(q.in)
		e.mu.Unlock()
		<-done
	}, nil
}

func (e *endpoint) Busy() bool { return false }

func (e *endpoint) Publish(subject string, message []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lose != nil && e.lose(e.name, subject) {
		return nil
	}
	for q := range e.subs {
		if matches(q.pattern, subject) {
			q.in <- queued{subject, slices.Clone(message)}
		}
	}
	return nil
}

// member is a replica with goroutines, over a modelTable that a lock guards.
type member struct {
	t       *testing.T
	mu      sync.Mutex // guards table and shown
	table   modelTable
	docs    *fakeDocuments
	shown   []Shadow
	soon    chan struct{}
	replica *Replica
	ended   chan error
	stop    context.CancelFunc
}

// lockedTable is a modelTable for several goroutines.
type lockedTable struct{ *member }

func (m lockedTable) Blocks() int { m.mu.Lock(); defer m.mu.Unlock(); return m.table.Blocks() }
func (m lockedTable) AppendClock(dst []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.AppendClock(dst)
}
func (m lockedTable) AppendBlockState(dst []byte, block int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.AppendBlockState(dst, block)
}
func (m lockedTable) AppendBlockNames(dst []byte, block int) []byte {
	return m.table.AppendBlockNames(dst, block)
}

// lockedShadow is a modelShadow that is read while it changes.
type lockedShadow struct {
	m *member
	modelShadow
}

func (s *lockedShadow) ReplaceBlock(block int, names, state []byte) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.modelShadow.ReplaceBlock(block, names, state)
}

func (s *lockedShadow) ApplyDelta(block int, delta []byte) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.modelShadow.ApplyDelta(block, delta)
}

func (s *lockedShadow) Series() int {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.modelShadow.Series()
}

func (s *lockedShadow) Bytes() int64 {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.modelShadow.Bytes()
}

func (s *lockedShadow) Expired() bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.modelShadow.Expired()
}

func join(t *testing.T, e *exchange, name string) *member { return joinBy(t, &endpoint{e, name}, name) }

func joinBy(t *testing.T, bus Bus, name string) *member {
	m := &member{t: t, soon: make(chan struct{}, 1), ended: make(chan error, 1), docs: newFakeDocuments()}
	m.table.at = 1
	r, err := New(Config{Name: name, Cluster: "test"}, Parts{
		Bus: bus, Table: lockedTable{m}, Documents: m.docs, Epoch: NewEpoch(), Wall: time.Now, Logger: slog.New(slog.DiscardHandler),
		NewShadow:  func(string) Shadow { return &lockedShadow{m: m} },
		SetShadows: func(shown []Shadow, _ int) { m.mu.Lock(); defer m.mu.Unlock(); m.shown = shown },
		Answer:     func(question []byte) []byte { return append([]byte(name+" says "), question...) },
		FlushSoon: func() {
			select {
			case m.soon <- struct{}{}:
			default:
			}
		},
	})
	must(t, err)
	m.replica = r
	ctx, stop := context.WithCancel(t.Context())
	flushed := make(chan struct{})
	serving, end := context.WithCancel(t.Context())
	m.stop = func() { stop(); <-flushed; end() }
	go func() { defer close(flushed); m.flushLoop(ctx) }()
	go func() { m.ended <- r.Run(serving) }()
	return m
}

func (m *member) flushLoop(ctx context.Context) {
	every := time.NewTicker(beatEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case <-every.C:
		case <-m.soon:
		case <-ctx.Done(): // the last flush
		}
		m.flush()
	}
}

func (m *member) flush() {
	m.mu.Lock()
	m.table.at++
	blocks := m.table.Blocks()
	m.mu.Unlock()
	for block := range blocks {
		m.mu.Lock()
		delta := m.table.AppendDelta(nil, block)
		m.mu.Unlock()
		if len(delta) > 0 {
			m.replica.PublishDelta(block, delta)
		}
	}
	m.replica.PublishFlush(true)
}

func (m *member) add(block int, n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.add(block, 0, n)
}

func (m *member) total() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.table.total()
	for _, s := range m.shown {
		sum += s.(*lockedShadow).total()
	}
	return sum
}

func (m *member) leave() {
	m.t.Helper()
	m.stop()
	must(m.t, <-m.ended)
}

// fakeDocuments are documents whose newest stamp wins.
type fakeDocuments struct {
	mu      sync.Mutex
	own     map[string]Document
	changed []Document
	applied map[string]Document // of all origins
	heard   func()              // is called for each document of another origin that is new; may be nil
}

func newFakeDocuments() *fakeDocuments {
	return &fakeDocuments{own: map[string]Document{}, applied: map[string]Document{}}
}

func (d *fakeDocuments) put(document Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own[document.Key] = document
	d.changed = append(d.changed, document)
	d.applyLocked(document)
}

func (d *fakeDocuments) applyLocked(document Document) {
	if have, known := d.applied[document.Key]; !known || have.Stamp < document.Stamp {
		d.applied[document.Key] = document
	}
}

func (d *fakeDocuments) TakeChanged() []Document {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.changed
	d.changed = nil
	return taken
}

func (d *fakeDocuments) All() []Document {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.own))
}

func (d *fakeDocuments) Apply(_ string, docs []Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, doc := range docs {
		before := d.applied[doc.Key].Stamp
		if d.applyLocked(doc); d.heard != nil && d.applied[doc.Key].Stamp != before {
			d.heard()
		}
	}
}

func (d *fakeDocuments) text(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.applied[key].Value)
}

func (d *fakeDocuments) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.applied)
}

func TestSyncAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		a, b, c := join(t, e, "a"), join(t, e, "b"), join(t, e, "c")
		for i := range 7 {
			a.add(i, 0)
		}
		time.Sleep(3 * time.Second)
		for i := range uint64(20) {
			a.add(int(i)%7, 1)
			began := time.Now()
			must(t, a.replica.SyncAll(t.Context()))
			if took := time.Since(began); took > 10*time.Millisecond {
				t.Errorf("took %v", took)
			}
			if b.total() != i+1 || c.total() != i+1 {
				t.Fatalf("b answers %d, c %d, want %d", b.total(), c.total(), i+1)
			}
			time.Sleep(time.Duration(i) * 30 * time.Millisecond)
		}
		e.mu.Lock()
		e.lose = func(from, _ string) bool { return from == "c" }
		e.mu.Unlock()
		a.add(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.replica.SyncAll(ctx); err == nil || !strings.Contains(err.Error(), "c did not confirm") {
			t.Errorf("with a silent replica: %v", err)
		}
		time.Sleep(3 * time.Second)
		if err := a.replica.SyncAll(t.Context()); err != nil {
			t.Errorf("with a replica that stands still: %v", err)
		}
		for _, m := range []*member{c, b, a} {
			m.leave()
		}
	})
}

// After SyncDeletion, every replica has what the others changed because of a document. Replicas whose documents
// change each other's tables at once don't wait for each other.
func TestSyncDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		all := []*member{join(t, e, "a"), join(t, e, "b"), join(t, e, "c")}
		for _, m := range all {
			m.docs.heard = func() { m.add(0, 1) }
		}
		time.Sleep(3 * time.Second)
		want := uint64(0)
		deletes := func(m *member, stamp int) {
			m.docs.put(Document{m.replica.me.name, int64(stamp), []byte{1}})
			began := time.Now()
			must(t, m.replica.SyncDeletion(t.Context()))
			if took := time.Since(began); took > 300*time.Millisecond {
				t.Errorf("took %v", took)
			}
		}
		for i := range 20 {
			deletes(all[i%3], i+1)
			want += 2
			for _, m := range all {
				if got := m.total(); got != want {
					t.Fatalf("after %d documents, %s answers %d, want %d", i+1, m.replica.me.name, got, want)
				}
			}
			time.Sleep(time.Duration(i) * 30 * time.Millisecond)
		}
		var deleting sync.WaitGroup
		for _, m := range all {
			deleting.Go(func() {
				for i := range 20 {
					deletes(m, 100+i)
				}
			})
		}
		deleting.Wait()
		for _, m := range all {
			if got := m.total(); got != want+120 {
				t.Errorf("%s answers %d, want %d", m.replica.me.name, got, want+120)
			}
			m.leave()
		}
	})
}

// A deletion whose document is lost is not confirmed before the replica has heard of it.
func TestSyncAllHasTheDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		a, b := join(t, e, "a"), join(t, e, "b")
		time.Sleep(3 * time.Second)
		e.mu.Lock()
		e.lose = func(_, subject string) bool { return strings.HasSuffix(subject, "."+topicDoc) }
		e.mu.Unlock()
		for i := range int64(5) {
			a.docs.put(Document{"gone", i + 1, []byte(fmt.Sprint(i))})
			must(t, a.replica.SyncAll(t.Context()))
			if got, want := b.docs.text("gone"), fmt.Sprint(i); got != want {
				t.Fatalf("b has %q of the document, want %q", got, want)
			}
		}
		b.leave()
		a.leave()
	})
}

// A clean end hands over everything: nothing of the last half second is missing.
func TestHandOver(t *testing.T) {
	for _, lost := range []string{"", topicDelta, topicBeat} {
		t.Run("lost="+lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newExchange()
				a, b := join(t, e, "a"), join(t, e, "b")
				time.Sleep(2100 * time.Millisecond)
				a.add(3, 17)
				n := 0
				e.mu.Lock()
				e.lose = func(from, subject string) bool {
					if lost == "" || n > 0 || !strings.Contains(subject, ".a."+lost) {
						return false
					}
					n++
					return true
				}
				e.mu.Unlock()
				began := time.Now()
				a.leave()
				if took := time.Since(began); took > handOverTimeout {
					t.Errorf("took %v", took)
				}
				time.Sleep(10 * time.Millisecond)
				if got := b.total(); got != 17 {
					t.Errorf("b answers %d, want 17", got)
				}
				if _, detail := b.replica.Ready(); detail != "1 origin, a ended 0s ago" {
					t.Error(detail)
				}
				b.leave()
			})
		})
	}
}

func TestDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		a, b := join(t, e, "a"), join(t, e, "b")
		time.Sleep(2 * time.Second)
		a.docs.put(Document{"k", 1, []byte("one")})
		time.Sleep(time.Second)
		if got := b.docs.text("k"); got != "one" {
			t.Errorf("b has %q", got)
		}
		e.mu.Lock()
		e.lose = func(_, subject string) bool { return strings.Contains(subject, topicDoc) }
		e.mu.Unlock()
		a.docs.put(Document{"k", 2, []byte("two")}) // lost: found by the heartbeat
		time.Sleep(3 * time.Second)
		if got := b.docs.text("k"); got != "two" {
			t.Errorf("b has %q", got)
		}
		for i := range 100 {
			a.docs.put(Document{fmt.Sprint(i), 3, make([]byte, 100_000)})
		}
		time.Sleep(3 * time.Second)
		c := join(t, e, "c")
		time.Sleep(3 * time.Second)
		if got := c.docs.count(); got != 101 {
			t.Errorf("c has %d documents", got)
		}
		for _, m := range []*member{c, b, a} {
			m.leave()
		}
	})
}

// Documents that another replica had are here after HearDocuments, whatever the moment between two
// flushes, and also if their message is lost.
func TestHearDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		a, b, c := join(t, e, "a"), join(t, e, "b"), join(t, e, "c")
		time.Sleep(3 * time.Second)
		lost := 0
		e.mu.Lock()
		e.lose = func(_, subject string) bool {
			if !strings.Contains(subject, topicDoc) {
				return false
			}
			lost++
			return lost%3 == 0
		}
		e.mu.Unlock()
		for i := range int64(20) {
			time.Sleep(time.Duration(i) * 30 * time.Millisecond)
			text := fmt.Sprint(i)
			b.docs.put(Document{"b", i + 1, []byte(text)})
			c.docs.put(Document{"c", i + 1, []byte(text)})
			began := time.Now()
			must(t, a.replica.HearDocuments(t.Context()))
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			if got := a.docs.text("b") + " " + a.docs.text("c"); got != text+" "+text {
				t.Fatalf("a has %s, want %s of both", got, text)
			}
		}
		e.mu.Lock()
		if lost < 10 {
			t.Errorf("%d messages of documents: the test does not see what it should", lost)
		}
		e.lose = func(from, subject string) bool { return from == "c" && !strings.Contains(subject, topicBeat) }
		e.mu.Unlock()
		c.docs.put(Document{"c", 100, []byte("unheard")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.replica.HearDocuments(ctx); err == nil || !strings.Contains(err.Error(), "c did not confirm") {
			t.Errorf("with a replica that does not answer: %v", err)
		}
		e.mu.Lock()
		e.lose = func(from, subject string) bool {
			return from == "c" && strings.Contains(subject, topicDoc) || strings.Contains(subject, ".state.c.")
		}
		e.mu.Unlock()
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := a.replica.HearDocuments(ctx); err == nil || !strings.Contains(err.Error(), "the documents of c did not arrive") {
			t.Errorf("without the documents of a replica: %v", err)
		}
		e.mu.Lock()
		silent := false
		e.lose = func(from, subject string) bool {
			lost := from == "c" && silent
			silent = silent || from == "c" && strings.Contains(subject, "."+syncedOf+".")
			return lost
		}
		e.mu.Unlock()
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := a.replica.HearDocuments(ctx)
		e.mu.Lock()
		if err != nil || !silent {
			t.Errorf("with a replica that ends behind its answer: %v, silent %v", err, silent)
		}
		e.mu.Unlock()
		for _, m := range []*member{c, b, a} {
			m.leave()
		}
	})
}

// TestConcurrently runs everything at once, for the race detector.
func TestConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		members := []*member{join(t, e, "a"), join(t, e, "b"), join(t, e, "c")}
		var pushing sync.WaitGroup
		for _, m := range members {
			pushing.Go(func() {
				for i := range 300 {
					m.add(i%50, 1)
					m.docs.put(Document{fmt.Sprint(i), int64(i), []byte{1}})
					m.replica.Origins()
					time.Sleep(17 * time.Millisecond)
				}
			})
		}
		pushing.Wait()
		time.Sleep(3 * time.Second)
		for _, m := range members {
			if got := m.total(); got != 900 {
				t.Errorf("%s answers %d", m.replica.me.name, got)
			}
		}
		for _, m := range members {
			m.leave()
		}
	})
}
