package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
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

// ParseHeader decodes the header of an entry and returns the bytes that follow it. The error is
// ErrHeader.
func ParseHeader(entry []byte) (Header, []byte, error) {
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

const (
	// Version is the version of the keys and values that this package writes. Older versions are
	// read; the next write brings the database to this one.
	Version      = 6
	firstVersion = 1

	magic = "sluice"

	// ManifestMagic marks our databases in Badger's manifest ("SL"): Badger's "external magic".
	ManifestMagic = 0x534c
)

// ErrVersion: the data folder was written by a version of sluice whose format this one can't read.
var ErrVersion = errors.New("unknown format version")

// ErrDamaged: the database can't be trusted.
var ErrDamaged = errors.New("the database is damaged")

// Damaged is ErrDamaged with what is wrong.
func Damaged(text string, args ...any) error {
	return fmt.Errorf("store: %w: %s", ErrDamaged, fmt.Sprintf(text, args...))
}

// Readable reports whether this package reads a version.
func Readable(version uint32) bool { return version >= firstVersion && version <= Version }

// UnreadableVersion is ErrVersion for a data folder, with the remedy.
func UnreadableVersion(dir string, version uint32) error {
	return fmt.Errorf("store: %s has %w %d; this sluice reads versions up to %d: start the sluice that wrote it, or give another data folder",
		dir, ErrVersion, version, Version)
}

// AppendVersion appends the value of the version entry.
func AppendVersion(dst []byte) []byte {
	return binary.BigEndian.AppendUint32(append(dst, magic...), Version)
}

// ParseVersion decodes the value of the version entry. Its error is ErrDamaged.
func ParseVersion(value []byte) (uint32, error) {
	rest, ok := strings.CutPrefix(string(value), magic)
	if !ok || len(rest) != 4 {
		return 0, Damaged("its format version is garbage")
	}
	return binary.BigEndian.Uint32([]byte(rest)), nil
}
