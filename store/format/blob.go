package format

import (
	"encoding/binary"
	"fmt"
)

// PartBytes bounds one entry's value. A longer value is written in parts, so that a checkpoint and
// its names fit one transaction.
const PartBytes = 256 << 10

// A Blob is a value with its key and header. Its head is the entry with the header. A value of up
// to PartBytes follows the header; a longer one lies in parts.
type Blob struct {
	Key   []byte
	Value []byte
	Header
}

// Seal completes the header for the value.
func (b *Blob) Seal() {
	b.Sum, b.Length = Checksum(b.Value), uint32(len(b.Value))
	b.Parts = Parts(len(b.Value))
}

// Parts is the number of parts of a value; 0: it follows the header.
func Parts(bytes int) uint16 {
	if bytes <= PartBytes {
		return 0
	}
	return uint16((bytes + PartBytes - 1) / PartBytes)
}

// Part is one part's piece of the value.
func (b *Blob) Part(part int) []byte {
	rest := b.Value[part*PartBytes:]
	return rest[:min(len(rest), PartBytes)]
}

// AppendPart appends the value of a part's entry: the sequence of its head, and the piece.
func AppendPart(dst []byte, seq Sequence, piece []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(seq)), piece...)
}

// A Source is a read transaction on the database.
type Source interface {
	// Get passes the value of a key to use, which must not keep it. found is false where there is
	// no such key.
	Get(key []byte, use func(value []byte) error) (found bool, err error)
}

// A Reader reads blobs. One goroutine owns it; what it returns is valid until Reset. Values in parts
// have memory of their own, because they may be large.
type Reader struct {
	source Source
	buf    []byte
}

// NewReader returns a reader of blobs from a source.
func NewReader(source Source) *Reader { return &Reader{source: source} }

// Head reads a blob; found is false where there is none. With found true, an error means that the
// blob is damaged.
func (r *Reader) Head(key []byte) (h Header, value []byte, found bool, err error) {
	found, err = r.source.Get(key, func(entry []byte) (err error) {
		h, value, err = r.Blob(key, entry)
		return err
	})
	return h, value, found, err
}

// Blob decodes an entry, and reads and verifies its value.
func (r *Reader) Blob(key, entry []byte) (h Header, value []byte, err error) {
	h, value, err = ParseHeader(entry)
	if err != nil {
		return h, nil, err
	}
	if h.Parts == 0 {
		value = r.take(value)
	} else if value, err = r.joinParts(key, h); err != nil {
		return h, nil, err
	}
	if uint32(len(value)) != h.Length || Checksum(value) != h.Sum {
		return h, nil, fmt.Errorf("entry %x: %d bytes do not match their checksum", key, len(value))
	}
	return h, value, nil
}

// joinParts reads the parts of a value. All of them must be there, and of the head's sequence. The
// last part comes first: a damaged header may claim any length, and memory is taken only for a length
// that this part confirms.
func (r *Reader) joinParts(key []byte, h Header) (value []byte, err error) {
	last, confirmed := int(h.Parts)-1, false
	err = r.part(key, h, last, func(piece []byte) { confirmed = int(h.Length) == last*PartBytes+len(piece) })
	if err == nil && !confirmed {
		err = fmt.Errorf("entry %x: length is %d, which its %d parts do not have", key, h.Length, h.Parts)
	}
	if err != nil {
		return nil, err
	}
	value = make([]byte, 0, h.Length)
	for part := range int(h.Parts) {
		if err := r.part(key, h, part, func(piece []byte) { value = append(value, piece...) }); err != nil {
			return nil, err
		}
	}
	return value, nil
}

// part passes one part of a value to use, which must not keep it.
func (r *Reader) part(key []byte, h Header, part int, use func(piece []byte)) error {
	found, err := r.source.Get(AppendPartKey(nil, key, h.Generation, part), func(entry []byte) error {
		if len(entry) < 8 || Sequence(binary.BigEndian.Uint64(entry)) != h.Seq {
			return fmt.Errorf("entry %x: part %d of %d belongs to another flush", key, part, h.Parts)
		}
		use(entry[8:])
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("entry %x: part %d of %d is missing", key, part, h.Parts)
	}
	return err
}

// take copies a value out of the database's mapped memory.
func (r *Reader) take(value []byte) []byte {
	from := len(r.buf)
	r.buf = append(r.buf, value...)
	return r.buf[from:len(r.buf):len(r.buf)]
}

// Reset ends the life of all values that were returned.
func (r *Reader) Reset() { r.buf = r.buf[:0] }
