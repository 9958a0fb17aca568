package store

import (
	"fmt"
	"log/slog"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/format"
)

// dirtyDocuments are the documents that the disk doesn't have yet in their present state. The
// flusher owns them.
type dirtyDocuments struct {
	documents Documents
	dirty     map[DocumentKey]struct{}
	parts     map[DocumentKey]documentParts // of the documents on disk that have parts
	all       bool                          // the database is a new one
	value     []byte                        // scratch
}

// documentParts says which entries are the parts of a document on disk.
type documentParts struct {
	generation uint8
	count      uint16
}

func (d *dirtyDocuments) init(documents Documents) {
	d.documents, d.dirty, d.parts = documents, map[DocumentKey]struct{}{}, map[DocumentKey]documentParts{}
}

// collect asks which documents have changed. They stay dirty until a flush with them is written.
func (d *dirtyDocuments) collect() {
	for _, key := range d.documents.Changed(d.all) {
		d.dirty[key] = struct{}{}
	}
	d.all = false
}

// writeAll makes the next flush write every document.
func (d *dirtyDocuments) writeAll() {
	d.all = true
	clear(d.parts)
}

// put writes the dirty documents into the batch.
func (d *dirtyDocuments) put(b *batch, pacer *pacer) error {
	for key := range d.dirty {
		if err := d.putOne(b, key); err != nil {
			return err
		}
		pacer.step()
	}
	return nil
}

func (d *dirtyDocuments) putOne(b *batch, key DocumentKey) error {
	value, exists := d.documents.AppendDocument(d.value[:0], key)
	d.value = value
	head, old := append([]byte{format.PrefixDocument}, key[:]...), d.parts[key]
	if !exists {
		if err := b.remove(head); err != nil {
			return err
		}
		return d.removeParts(b, key, head, old)
	}
	blob := format.Blob{Key: head, Value: value, Header: format.Header{Seq: b.seq, Generation: old.generation ^ 1}}
	blob, err := b.putParts(blob)
	if err == nil {
		err = b.putHeads(blob)
	}
	if err == nil {
		err = d.removeParts(b, key, head, old)
	}
	if err == nil && blob.Parts > 0 {
		d.parts[key] = documentParts{blob.Generation, blob.Parts}
	}
	return err
}

// removeParts removes the parts of a document's former state.
func (d *dirtyDocuments) removeParts(b *batch, key DocumentKey, head []byte, old documentParts) error {
	for part := range int(old.count) {
		if err := b.remove(format.AppendPartKey(nil, head, old.generation, part)); err != nil {
			return err
		}
	}
	delete(d.parts, key)
	return nil
}

// flushed records that all dirty documents are written.
func (d *dirtyDocuments) flushed() {
	clear(d.dirty)
	if cap(d.value) > keptBuffer {
		d.value = nil
	}
}

// restore restores all documents. It logs and leaves out those that can't be read.
func (d *dirtyDocuments) restore(from database.Reader, logger *slog.Logger) (restored, failed int, err error) {
	blobs := format.NewReader(from)
	err = from.Each([]byte{format.PrefixDocument}, func(key, entry []byte) error {
		blobs.Reset()
		if err := d.restoreOne(blobs, key, entry); err != nil {
			if failed++; failed <= maxLoggedBlocks {
				logger.Error("a document cannot be restored", "key", fmt.Sprintf("%x", key), "reason", err)
			}
			return nil
		}
		restored++
		return nil
	})
	return restored, failed, err
}

func (d *dirtyDocuments) restoreOne(blobs *format.Reader, head, entry []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	var key DocumentKey
	if copy(key[:], head[1:]) != len(key) || len(head) != 1+len(key) {
		return fmt.Errorf("its key has %d bytes; must be %d", len(head), 1+len(key))
	}
	h, value, err := blobs.Blob(head, entry, 0)
	if h.Parts > 0 {
		d.parts[key] = documentParts{h.Generation, h.Parts}
	}
	if err != nil {
		return err
	}
	return d.documents.RestoreDocument(key, value)
}
