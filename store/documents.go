package store

import (
	"fmt"
	"log/slog"
	"maps"

	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/format"
)

// dirtyDocuments are the documents that the disk doesn't have yet in their present state. The
// flusher owns them.
type dirtyDocuments struct {
	documents Documents
	dirty     map[DocumentKey]struct{}
	following map[DocumentKey][]byte        // those that follow, as they were when a flush began
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
	d.following = map[DocumentKey][]byte{}
}

// begin takes the documents that follow, before the flush takes anything else.
func (d *dirtyDocuments) begin() { maps.Copy(d.following, d.documents.Following(d.all)) }

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

// put writes the dirty documents into the batch, and then those that follow.
func (d *dirtyDocuments) put(b *batch, pacer *pacer) error {
	for key := range d.dirty {
		value, exists := d.documents.AppendDocument(d.value[:0], key)
		d.value = value
		if err := d.putOne(b, key, value, exists); err != nil {
			return err
		}
		pacer.step()
	}
	for key, value := range d.following {
		if err := d.putOne(b, key, value, value != nil); err != nil {
			return err
		}
		pacer.step()
	}
	return nil
}

func (d *dirtyDocuments) putOne(b *batch, key DocumentKey, value []byte, exists bool) error {
	head, old := append([]byte{format.PrefixDocument}, key[:]...), d.parts[key]
	blob := format.Blob{Key: head, Value: value, Header: format.Header{Seq: b.seq, Generation: old.generation ^ 1}}
	err := error(nil)
	if !exists {
		err = b.remove(head)
	} else if blob, err = b.putParts(blob); err == nil {
		err = b.putHeads(blob)
	}
	if err != nil {
		return err
	}
	b.documents = append(b.documents, documentWrite{key, documentParts{blob.Generation, blob.Parts}})
	for part := range int(old.count) { // of the former state
		if err := b.remove(format.AppendPartKey(nil, head, old.generation, part)); err != nil {
			return err
		}
	}
	return nil
}

// A documentWrite is a document's head in the transaction under way, with its parts; 0 if it has none.
type documentWrite struct {
	key   DocumentKey
	parts documentParts
}

// committed records which parts the heads on disk name: the next state of a document never overwrites them (S2).
func (d *dirtyDocuments) committed(writes []documentWrite) {
	for _, w := range writes {
		if d.parts[w.key] = w.parts; w.parts.count == 0 {
			delete(d.parts, w.key)
		}
	}
}

// flushed records that all dirty documents are written.
func (d *dirtyDocuments) flushed() {
	clear(d.dirty)
	clear(d.following)
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
	h, value, err := blobs.Blob(head, entry)
	if h.Parts > 0 {
		d.parts[key] = documentParts{h.Generation, h.Parts}
	}
	if err != nil {
		return err
	}
	return d.documents.RestoreDocument(key, value)
}
