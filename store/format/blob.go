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
	if len(b.Value) > PartBytes {
		b.Parts = uint16((len(b.Value) + PartBytes - 1) / PartBytes)
	}
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

// A Reader reads blobs. One goroutine owns it; what it returns is valid until Reset.
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
		h, value, err = r.Blob(key, entry, 0)
		return err
	})
	return h, value, found, err
}

// Blob decodes an entry and, if its sequence is above a bound, reads and verifies its value.
func (r *Reader) Blob(key, entry []byte, above Sequence) (h Header, value []byte, err error) {
	h, value, err = parseHeader(entry)
	if err != nil || h.Seq <= above {
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
// buffer grows part by part, because a damaged header may claim any length.
func (r *Reader) joinParts(key []byte, h Header) ([]byte, error) {
	if limit := int(h.Parts) * PartBytes; int(h.Length) > limit {
		return nil, fmt.Errorf("entry %x: length is %d; must be at most %d in %d parts", key, h.Length, limit, h.Parts)
	}
	from := len(r.buf)
	for part := range int(h.Parts) {
		found, err := r.source.Get(AppendPartKey(nil, key, h.Generation, part), func(entry []byte) error {
			if len(entry) < 8 || Sequence(binary.BigEndian.Uint64(entry)) != h.Seq {
				return fmt.Errorf("entry %x: part %d of %d belongs to another flush", key, part, h.Parts)
			}
			r.buf = append(r.buf, entry[8:]...)
			return nil
		})
		if err == nil && !found {
			err = fmt.Errorf("entry %x: part %d of %d is missing", key, part, h.Parts)
		}
		if err != nil {
			return nil, err
		}
	}
	return r.buf[from:len(r.buf):len(r.buf)], nil
}

// take copies a value out of the database's mapped memory.
func (r *Reader) take(value []byte) []byte {
	from := len(r.buf)
	r.buf = append(r.buf, value...)
	return r.buf[from:len(r.buf):len(r.buf)]
}

// Reset ends the life of all values that were returned.
func (r *Reader) Reset() { r.buf = r.buf[:0] }
