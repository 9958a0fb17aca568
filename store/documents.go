package store

import (
	"fmt"
	"log/slog"

	"github.com/sluice-metrics/sluice/store/format"
)

// DocumentKey is what a document is found by: a hash of what names it, which the document itself says in full.
type DocumentKey [16]byte

// Documents are persisted beside the table, each as a whole. What they append is opaque to the store.
//
// The store calls them from one goroutine at a time, while others change them.
type Documents interface {
	// Changed returns the documents that were made, changed or deleted since the last call, or all of them.
	Changed(all bool) []DocumentKey
	// AppendDocument appends one as it is now; false: it is not there any more.
	AppendDocument(dst []byte, key DocumentKey) ([]byte, bool)
	// RestoreDocument takes what was persisted, after the table was restored. The bytes are its own until it returns.
	RestoreDocument(key DocumentKey, value []byte) error
}

// NoDocuments is for who has none.
type NoDocuments struct{}

// Changed implements Documents.
func (NoDocuments) Changed(bool) []DocumentKey { return nil }

// AppendDocument implements Documents.
func (NoDocuments) AppendDocument(dst []byte, _ DocumentKey) ([]byte, bool) { return dst, false }

// RestoreDocument implements Documents.
func (NoDocuments) RestoreDocument(DocumentKey, []byte) error { return nil }

// owed is what the disk does not have yet of the documents. Its owner is the flush.
type owed struct {
	from  Documents
	keys  map[DocumentKey]struct{}
	parts map[DocumentKey]partsOf // of those on disk that have any
	all   bool                    // the database is a new one
	value []byte
}

// partsOf says where the parts of a document lie.
type partsOf struct {
	generation uint8
	count      uint16
}

func (o *owed) init(from Documents) {
	o.from, o.keys, o.parts = from, map[DocumentKey]struct{}{}, map[DocumentKey]partsOf{}
}

// collect takes over what has changed. It is owed until a batch with it is on disk.
func (o *owed) collect() {
	for _, key := range o.from.Changed(o.all) {
		o.keys[key] = struct{}{}
	}
	o.all = false
}

// forget makes every document be written again.
func (o *owed) forget() {
	o.all = true
	clear(o.parts)
}

// put writes what is owed into the batch.
func (o *owed) put(b *batch, pace *pace) error {
	for key := range o.keys {
		if err := o.putOne(b, key); err != nil {
			return err
		}
		pace.step()
	}
	return nil
}

func (o *owed) putOne(b *batch, key DocumentKey) error {
	value, there := o.from.AppendDocument(o.value[:0], key)
	o.value = value
	head, was := append([]byte{format.PrefixDocument}, key[:]...), o.parts[key]
	if !there {
		if err := b.remove(head); err != nil {
			return err
		}
		return o.dropParts(b, key, head, was)
	}
	v := format.Blob{Key: head, Value: value, Header: format.Header{Seq: b.seq, Generation: was.generation ^ 1}}
	v, err := b.putParts(v)
	if err == nil {
		err = b.putHeads(v)
	}
	if err == nil {
		err = o.dropParts(b, key, head, was)
	}
	if err == nil && v.Parts > 0 {
		o.parts[key] = partsOf{v.Generation, v.Parts}
	}
	return err
}

// dropParts removes the parts that a document had before.
func (o *owed) dropParts(b *batch, key DocumentKey, head []byte, was partsOf) error {
	for part := range int(was.count) {
		if err := b.remove(format.AppendPartKey(nil, head, was.generation, part)); err != nil {
			return err
		}
	}
	delete(o.parts, key)
	return nil
}

// settled says that all that was owed is on disk.
func (o *owed) settled() {
	clear(o.keys)
	if cap(o.value) > keptBuffer {
		o.value = nil
	}
}

// restore hands all documents over. One that cannot be read is left out, and told of.
func (o *owed) restore(from readTxn, logger *slog.Logger) (restored, failed int, err error) {
	r := format.NewReader(from)
	err = from.Each([]byte{format.PrefixDocument}, func(key, entry []byte) error {
		r.Reset()
		if err := o.restoreOne(r, key, entry); err != nil {
			if failed++; failed <= loggedBlocks {
				logger.Error("a document cannot be restored", "key", fmt.Sprintf("%x", key), "reason", err)
			}
			return nil
		}
		restored++
		return nil
	})
	return restored, failed, err
}

func (o *owed) restoreOne(r *format.Reader, head, entry []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	var key DocumentKey
	if copy(key[:], head[1:]) != len(key) || len(head) != 1+len(key) {
		return fmt.Errorf("a key of %d bytes: want %d", len(head), 1+len(key))
	}
	h, value, err := r.Blob(head, entry, 0)
	if h.Parts > 0 {
		o.parts[key] = partsOf{h.Generation, h.Parts}
	}
	if err != nil {
		return err
	}
	return o.from.RestoreDocument(key, value)
}
