package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
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
	follows map[DocumentKey][]byte
	refuses string // a document that is not taken back
}

func newShelf() *shelf {
	return &shelf{held: map[DocumentKey]string{}, changed: map[DocumentKey]bool{}, follows: map[DocumentKey][]byte{}}
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

func (s *shelf) follow(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follows[documentKeyOf(name)] = []byte(value)
}

func (s *shelf) Following(bool) map[DocumentKey][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.follows = map[DocumentKey][]byte{} }()
	return s.follows
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
		_, again, _ := afterCrash(t, dir)
		shelf.mustEqual(t, again)
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

// afterCrash is what a process reads that starts after a crash at this moment, and what it says.
func afterCrash(t *testing.T, dir string) (table *modelTable, documents *shelf, detail string) {
	t.Helper()
	table, documents = newModel(0), newShelf()
	s := mustOpenIn(t, database.StorageProcess, testConfig(crashCopy(t, dir)), Parts{Table: table, Documents: documents})
	_, detail = s.Detail()
	mustClose(t, s)
	return table, documents, detail
}

// flushWithRoom is a flush that has room for so many transactions.
func (s *Store) flushWithRoom(transactions int) error {
	s.flusher.batch.checkSpace = func(int) error {
		if transactions--; transactions < 0 {
			return fmt.Errorf("no room")
		}
		return nil
	}
	s.seq = s.seq.Next(false)
	return s.flusher.run(s.db, s.seq)
}

const enoughRoom = 1000

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
	if s.flushWithRoom(0) == nil {
		t.Fatal("a flush without room went well")
	}
	must(t, s.flushWithRoom(enoughRoom))
	mustClose(t, s)
	again := newShelf()
	openWith(t, dir, again)
	shelf.mustEqual(t, again)
}

// TestLongDocumentAfterAFailedFlush holds S2 for documents: a flush that fails at its head, and one that ends in the middle
// after it, write nothing over the parts that the head on disk names.
func TestLongDocumentAfterAFailedFlush(t *testing.T) {
	t.Parallel()
	const parts = 3
	long := func(c byte) string { return string(bytes.Repeat([]byte{c}, parts*format.PartBytes)) }
	for second, transactions := range map[string]int{long('b'): parts, "b": 0} {
		dir, shelf := t.TempDir(), newShelf()
		s := openWith(t, dir, shelf)
		flush := func(value string, transactions int) error {
			shelf.put("a", value)
			return s.flushWithRoom(transactions)
		}
		must(t, flush(long('a'), enoughRoom))
		if flush(second, transactions) == nil || flush(long('c'), 1) == nil {
			t.Fatal("a flush without room went well")
		}
		_, again, _ := afterCrash(t, dir)
		if got := again.held[documentKeyOf("a")]; got != long('a') {
			t.Errorf("after %.1q was not written: %d bytes", second, len(got))
		}
		must(t, flush(long('c'), enoughRoom))
		_, again, _ = afterCrash(t, dir)
		shelf.mustEqual(t, again)
	}
}

// TestNewDatabaseThatIsNotFinished: if the first flush of a new database ends in the middle, all documents are on disk,
// and the next start tells that series are missing.
func TestNewDatabaseThatIsNotFinished(t *testing.T) {
	t.Parallel()
	const blocks = 4
	dir, shelf, table := t.TempDir(), newShelf(), newModel(blocks)
	for block := range blocks {
		table.put(block, 1, "m", string(bytes.Repeat([]byte("x"), batchGoal))) // a transaction each
	}
	for i := range 20 {
		shelf.put(fmt.Sprint("d", i), "1")
	}
	shelf.follow("holder", "first")
	s := mustOpenIn(t, database.StorageProcess, testConfig(dir), Parts{Table: table, Documents: shelf})
	onDisk := func() (series, documents int, detail string) {
		restored, shelf, detail := afterCrash(t, dir)
		for _, b := range restored.blocks {
			series += len(b.series)
		}
		return series, len(shelf.held), detail
	}
	if s.flushWithRoom(3) == nil {
		t.Fatal("a flush without room went well")
	}
	if series, documents, detail := onDisk(); series == 0 || series == blocks || documents != 21 || !strings.Contains(detail, "first flush") {
		t.Errorf("in the middle: %d series, %d documents, %q", series, documents, detail)
	}
	must(t, s.flushWithRoom(enoughRoom))
	if series, documents, detail := onDisk(); series != blocks || documents != 21 || strings.Contains(detail, "first flush") {
		t.Errorf("at the end: %d series, %d documents, %q", series, documents, detail)
	}
}

// interruptedTable runs during once, between the blocks of a flush and its documents.
type interruptedTable struct {
	*modelTable
	during func()
}

func (t *interruptedTable) AppendDelta(dst []byte, block int) []byte {
	dst = t.modelTable.AppendDelta(dst, block)
	if t.during != nil {
		t.during()
		t.during = nil
	}
	return dst
}

// TestDocumentThatFollows holds S7: what is removed while a flush is under way is on disk before the document that says so.
func TestDocumentThatFollows(t *testing.T) {
	t.Parallel()
	dir, shelf, table := t.TempDir(), newShelf(), &interruptedTable{modelTable: newModel(1)}
	s := mustOpenIn(t, database.StorageProcess, testConfig(dir), Parts{Table: table, Documents: shelf})
	onDisk := func() (has bool, says string) {
		restored, documents, _ := afterCrash(t, dir)
		_, has = restored.blocks[0].series[1]
		return has, documents.held[documentKeyOf("holder")]
	}
	table.put(0, 1, "orders", "7")
	shelf.follow("holder", "first")
	table.during = func() {
		table.kill(0, 1)
		shelf.follow("holder", "second")
	}
	must(t, s.flushWithRoom(enoughRoom))
	if has, says := onDisk(); !has || says != "first" {
		t.Errorf("after the flush that was under way: series %t, holder %q", has, says)
	}
	must(t, s.flushWithRoom(enoughRoom))
	if has, says := onDisk(); has || says != "second" {
		t.Errorf("after the next flush: series %t, holder %q", has, says)
	}
}

// TestDocumentThatFollowsIsLast holds S7 where a flush ends in the middle: the other documents are on disk before.
func TestDocumentThatFollowsIsLast(t *testing.T) {
	t.Parallel()
	dir, shelf := t.TempDir(), newShelf()
	s := openWith(t, dir, shelf)
	big := bytes.Repeat([]byte("x"), batchGoal+1) // a transaction each
	const documents = 5
	for fails := range documents + 1 {
		text := fmt.Sprint(fails)
		for i := range documents {
			shelf.put(fmt.Sprint("d", i), text+string(big))
		}
		shelf.follow("holder", text)
		if s.flushWithRoom(fails) == nil {
			t.Fatalf("a flush of %d transactions had room for all", fails)
		}
		if _, again, _ := afterCrash(t, dir); again.held[documentKeyOf("holder")] == text {
			t.Errorf("after %d transactions the document that follows is on disk", fails)
		}
	}
	must(t, s.flushWithRoom(enoughRoom))
	_, again, _ := afterCrash(t, dir)
	if says := again.held[documentKeyOf("holder")]; says != fmt.Sprint(documents) {
		t.Errorf("the document that follows says %q", says)
	}
}
