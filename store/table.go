package store

// Table is persisted, as blocks of series. The bytes that it appends are opaque to the store.
//
// The store calls all methods but RestoreBlock from one goroutine at a time, while others write to
// the table.
type Table interface {
	// Blocks is the number of blocks. They are numbered from 0; the number only grows.
	Blocks() int
	// AppendDelta appends what changed in a block since its last AppendDelta: births, deaths,
	// values. It appends nothing where nothing changed. Deltas are replayed in order, possibly on a
	// state that includes them already, and must give the state after them.
	AppendDelta(dst []byte, block int) []byte
	// AppendState appends all of a block's values. It follows an AppendDelta of the block.
	AppendState(dst []byte, block int) []byte
	// NamesChanged reports whether AppendNames would append anything new.
	NamesChanged(block int) bool
	// AppendNames appends the identities of a block's series. It follows an AppendState of the
	// block; a series born in between is also in the next delta.
	AppendNames(dst []byte, block int) []byte
	// AppendClock appends the state common to all blocks. It is written with every transaction.
	AppendClock(dst []byte) []byte

	// RestoreClock comes first, unless the database is empty.
	RestoreClock(clock []byte) error
	// RestoreBlock restores one block; several goroutines call it, each for other blocks. names and
	// state are nil for a block without a checkpoint; deltas are those after the checkpoint, in
	// order. The bytes belong to the table until it returns.
	RestoreBlock(block int, names, state []byte, deltas [][]byte) error
	// RestoreDone comes last, even if there was nothing to restore.
	RestoreDone() error
}

// DocumentKey identifies a document: a hash of its name, which the document itself contains in
// full.
type DocumentKey [16]byte

// Documents are persisted beside the table, each as a whole. The bytes that they append are opaque
// to the store.
//
// The store calls them from one goroutine at a time, while others change them.
type Documents interface {
	// Changed returns the documents that were created, changed or deleted since the last call; or
	// all documents.
	Changed(all bool) []DocumentKey
	// AppendDocument appends a document in its present state. ok is false if the document is gone.
	AppendDocument(dst []byte, key DocumentKey) (value []byte, ok bool)
	// RestoreDocument restores a document. It comes after the table's RestoreDone. The bytes belong
	// to it until it returns.
	RestoreDocument(key DocumentKey, value []byte) error
}

// NoDocuments are no documents.
type NoDocuments struct{}

// Changed implements Documents.
func (NoDocuments) Changed(bool) []DocumentKey { return nil }

// AppendDocument implements Documents.
func (NoDocuments) AppendDocument(dst []byte, _ DocumentKey) ([]byte, bool) { return dst, false }

// RestoreDocument implements Documents.
func (NoDocuments) RestoreDocument(DocumentKey, []byte) error { return nil }
