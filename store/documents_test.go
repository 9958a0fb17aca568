package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/format"
)

// shelf is the simplest implementation of Documents.
type shelf struct {
	mu      sync.Mutex
	held    map[DocumentKey]string
	changed map[DocumentKey]bool
	refuses string // a document that is not taken back
}

func newShelf() *shelf {
	return &shelf{held: map[DocumentKey]string{}, changed: map[DocumentKey]bool{}}
}

func documentKeyOf(name string) (key DocumentKey) {
	copy(key[:], name)
	return key
}

func (s *shelf) put(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := documentKeyOf(name)
	s.changed[key] = true
	if s.held[key] = value; value == "" {
		delete(s.held, key)
	}
}

func (s *shelf) Changed(all bool) (keys []DocumentKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all {
		for key := range s.held {
			s.changed[key] = true
		}
	}
	for key := range s.changed {
		keys = append(keys, key)
	}
	clear(s.changed)
	return keys
}

func (s *shelf) AppendDocument(dst []byte, key DocumentKey) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, there := s.held[key]
	return append(dst, value...), there
}

func (s *shelf) RestoreDocument(key DocumentKey, value []byte) error {
	if s.refuses != "" && documentKeyOf(s.refuses) == key {
		panic("a document that nobody can read")
	}
	s.held[key] = string(value)
	return nil
}

func (s *shelf) mustEqual(t *testing.T, o *shelf) {
	t.Helper()
	if len(s.held) != len(o.held) {
		t.Errorf("%d documents, want %d", len(o.held), len(s.held))
	}
	for key, value := range s.held {
		if o.held[key] != value {
			t.Errorf("%s: %d bytes restored, want %d", bytes.TrimRight(key[:], "\x00"), len(o.held[key]), len(value))
		}
	}
}

func openWith(t *testing.T, dir string, documents Documents) *Store {
	t.Helper()
	return mustOpenIn(t, database.StorageProcess, testConfig(dir), Parts{Table: newModel(0), Documents: documents})
}

// TestDocumentsSurvive: synced documents survive a crash and deleted ones don't return, whatever
// their size.
func TestDocumentsSurvive(t *testing.T) {
	t.Parallel()
	dir, shelf := t.TempDir(), newShelf()
	s := openWith(t, dir, shelf)
	stop := start(t, s)
	r := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		for range 60 {
			size := []int{0, 1, 1000, format.PartBytes, format.PartBytes + 1, 3 * format.PartBytes}[r.IntN(6)]
			value := bytes.Repeat([]byte{byte('a' + r.IntN(26))}, size)
			shelf.put(fmt.Sprint("d", r.IntN(20)), string(value))
		}
		mustSync(t, s)
		again := newShelf()
		copied := openWith(t, crashCopy(t, dir), again)
		shelf.mustEqual(t, again)
		mustClose(t, copied)
	}
	for name := range 20 {
		shelf.put(fmt.Sprint("d", name), "")
	}
	stop()
	mustClose(t, s)
	again := newShelf()
	s = mustOpenIn(t, database.InProcess, testConfig(dir), Parts{Table: newModel(0), Documents: again})
	shelf.mustEqual(t, again)
	if left := s.countKeys(t, format.PrefixDocument) + s.countKeys(t, format.PrefixPart); left != 0 {
		t.Errorf("%d entries of deleted documents are left", left)
	}
}

func (s *Store) countKeys(t *testing.T, kind byte) (n int) {
	t.Helper()
	from := s.local.Read()
	defer from.Close()
	err := from.Each([]byte{kind}, func(_, _ []byte) error { n++; return nil })
	must(t, err)
	return n
}

// TestDocumentThatCannotBeRead: an unreadable document loses itself alone, and Detail mentions it.
func TestDocumentThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir, shelf := t.TempDir(), newShelf()
	s := openWith(t, dir, shelf)
	stop := start(t, s)
	shelf.put("good", "1")
	shelf.put("bad", "2")
	stop()
	mustClose(t, s)
	again := newShelf()
	again.refuses = "bad"
	s = openWith(t, dir, again)
	if len(again.held) != 1 || again.held[documentKeyOf("good")] != "1" {
		t.Errorf("restored %v", again.held)
	}
	if _, detail := s.Detail(); detail == "" {
		t.Error("nothing tells of the loss")
	}
}

// TestDocumentsAreOwedUntilTheyAreOnDisk: documents of a failed flush are written by the next one.
func TestDocumentsAreOwedUntilTheyAreOnDisk(t *testing.T) {
	t.Parallel()
	dir, shelf := t.TempDir(), newShelf()
	s := openWith(t, dir, shelf)
	stop := start(t, s)
	shelf.put("a", "1")
	mustSync(t, s)
	stop()
	shelf.put("a", "2")
	s.flusher.batch.checkSpace = func(int) error { return fmt.Errorf("no room") }
	if err := s.flusher.run(s.db, s.seq.Next(false)); err == nil {
		t.Fatal("a flush without room went well")
	}
	s.flusher.batch.checkSpace = func(int) error { return nil }
	must(t, s.flusher.run(s.db, s.seq.Next(false)))
	mustClose(t, s)
	again := newShelf()
	openWith(t, dir, again)
	shelf.mustEqual(t, again)
}
