package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A Header opens every value of a block and every document. The value's bytes follow it, or lie in
// parts.
type Header struct {
	Seq        Sequence
	Link       Sequence // of a delta: the block's write before it; of a checkpoint: the sequence of its names
	Sum        uint32   // CRC-32C of the whole value
	Length     uint32   // of the whole value, in bytes
	Parts      uint16   // 0: the value follows the header
	Generation uint8    // of the parts; it alternates, so a new value never overwrites parts in use
}

// HeaderBytes is the length of an encoded header.
const HeaderBytes = 8 + 8 + 4 + 4 + 2 + 1

// ErrHeader: a value is too short for its header.
var ErrHeader = errors.New("header is cut short")

// Append appends the encoded header.
func (h Header) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Seq))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Link))
	dst = binary.BigEndian.AppendUint32(dst, h.Sum)
	dst = binary.BigEndian.AppendUint32(dst, h.Length)
	dst = binary.BigEndian.AppendUint16(dst, h.Parts)
	return append(dst, h.Generation)
}

// parseHeader decodes the header of an entry and returns the bytes that follow it. The error is
// ErrHeader.
func parseHeader(entry []byte) (Header, []byte, error) {
	if len(entry) < HeaderBytes {
		return Header{}, nil, ErrHeader
	}
	return Header{
		Seq:        Sequence(binary.BigEndian.Uint64(entry)),
		Link:       Sequence(binary.BigEndian.Uint64(entry[8:])),
		Sum:        binary.BigEndian.Uint32(entry[16:]),
		Length:     binary.BigEndian.Uint32(entry[20:]),
		Parts:      binary.BigEndian.Uint16(entry[24:]),
		Generation: entry[26],
	}, entry[HeaderBytes:], nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C of a value.
func Checksum(value []byte) uint32 { return crc32.Checksum(value, castagnoli) }
