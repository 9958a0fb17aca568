package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluice-metrics/sluice/store/format"
)

// A memtable's log (Badger, memtable.go and structs.go) is a header, then entries up to the first
// invalid one, then zeros. An entry is two bytes of flags; the lengths of key and value and an
// expiry as varints; key; value; and the CRC-32C of all that, big-endian. A key ends with its
// inverted version. A transaction's entries share one version, and an entry with that version as
// its value ends the transaction.
const (
	flagTxn    = 1 << 6
	flagTxnEnd = 1 << 7

	maxKeyBytes = 1 << 16 // Badger's own bound
	// tornBytes is more than the longest entry that the store writes.
	tornBytes = 2 * format.PartBytes
)

// An entry is one entry of a log. Its slices belong to the log.
type entry struct {
	flags   byte
	version uint64
	value   []byte
	bytes   int
	likeOur bool // its flags and lengths are those that the store's entries have
}

// parseEntry parses the entry that b begins with.
func parseEntry(b []byte) (e entry, ok bool) {
	if len(b) < 2 {
		return e, false
	}
	var lengths [3]uint64 // key, value, expiry
	at := 2
	for i := range lengths {
		n, size := binary.Uvarint(b[at:])
		if size <= 0 {
			return e, false
		}
		lengths[i] = n
		at += size
	}
	key, value := lengths[0], lengths[1]
	if key < 8 || key > maxKeyBytes || value > uint64(len(b)) || at+int(key)+int(value)+4 > len(b) {
		return e, false
	}
	e.flags = b[0]
	e.likeOur = (e.flags&^1 == flagTxn || e.flags == flagTxnEnd) && b[1] == 0 && lengths[2] == 0 &&
		key < 256 && value <= tornBytes
	end := at + int(key) + int(value)
	e.bytes = end + 4
	e.version = math.MaxUint64 - binary.BigEndian.Uint64(b[at+int(key)-8:])
	e.value = b[at+int(key) : end]
	return e, true
}

// valid reports whether the entry that b begins with matches its checksum.
func (e *entry) valid(b []byte) bool {
	return format.Checksum(b[:e.bytes-4]) == binary.BigEndian.Uint32(b[e.bytes-4:])
}

// An Extent is how far a log can be read, in bytes after its header.
type Extent struct {
	Committed int    // end of the last transaction: Badger uses the log up to here
	End       int    // end of the last valid entry
	Version   uint64 // of the last transaction; 0: there is none
}

// Scan reads a log from the beginning of a transaction, as Badger does.
func Scan(b []byte) (x Extent) {
	var version uint64
	for inTxn := false; ; {
		e, ok := parseEntry(b[x.End:])
		if !ok || !e.valid(b[x.End:]) {
			return x
		}
		switch {
		case e.flags&flagTxn != 0:
			if inTxn && e.version != version {
				return x
			}
			inTxn, version = true, e.version
			x.End += e.bytes
			continue
		case e.flags&flagTxnEnd != 0:
			if n, err := strconv.ParseUint(string(e.value), 10, 64); !inTxn || err != nil || n != version {
				return x
			}
			inTxn = false
		case inTxn:
			return x
		}
		x.End += e.bytes
		x.Committed, x.Version = x.End, e.version
	}
}

// holdsEntry looks for a valid entry anywhere in b.
func holdsEntry(b []byte) bool {
	for at := range b {
		if e, ok := parseEntry(b[at:]); ok && e.likeOur && e.valid(b[at:]) {
			return true
		}
	}
	return false
}

// Check reports whether Badger would find in the logs all that it wrote. Its error is
// format.ErrDamaged, or one of the file system.
//
// All that was fsynced must be readable. Beyond that, a killed process leaves one unfinished entry
// at the very end of the last log and nothing after it, because the kernel still has all that it
// wrote. Only where the machine went down may there be holes. remark describes an unfinished end;
// it is empty where there is none.
func Check(dir string) (remark string, err error) {
	watermark := ReadWatermark(dir)
	onlyKilled := watermark.Boot != "" && watermark.Boot == bootID()
	logs := List(dir)
	for i, log := range logs {
		content, err := os.ReadFile(log.Path)
		if err != nil {
			return "", fmt.Errorf("store: cannot read a log: %w", err)
		}
		name := filepath.Base(log.Path)
		if len(content) < HeaderBytes {
			return "", format.Damaged("%s is cut to %d bytes", name, len(content))
		}
		header, body := content[:HeaderBytes], content[HeaderBytes:]
		read := Scan(body)
		if synced := watermark.Positions[string(header)].End; int64(read.Committed) < synced {
			return "", format.Damaged("%s was synced up to byte %d but is readable only up to %d", name, synced+HeaderBytes,
				read.Committed+HeaderBytes)
		}
		left := TrimZeros(body[read.End:])
		if len(left) == 0 && read.Committed == read.End {
			continue
		}
		if onlyKilled && (i < len(logs)-1 || len(left) > tornBytes || holdsEntry(left)) {
			return "", format.Damaged("%s is unreadable beyond byte %d, and more was written after it", name,
				read.Committed+HeaderBytes)
		}
		remark = fmt.Sprintf("%s ends with %d bytes of an unfinished write, which was left out", name,
			read.End-read.Committed+len(left))
	}
	return remark, nil
}

var zeros [4096]byte

// TrimZeros cuts the zeros off the end of b: of a log of 16 MiB they are nearly all.
func TrimZeros(b []byte) []byte {
	for len(b) >= len(zeros) && bytes.Equal(b[len(b)-len(zeros):], zeros[:]) {
		b = b[:len(b)-len(zeros)]
	}
	return bytes.TrimRight(b, "\x00")
}

// LostVersion returns the newest version in a log that was fsynced and is missing, 0 if none is.
// Such a log became a table, which holds that version or a newer one, or it is lost.
func LostVersion(dir string) (version uint64, err error) {
	watermark := ReadWatermark(dir)
	for _, log := range List(dir) {
		header, err := readHeader(log.Path)
		if err != nil {
			return 0, fmt.Errorf("store: cannot read a log: %w", err)
		}
		delete(watermark.Positions, header)
	}
	for _, position := range watermark.Positions {
		version = max(version, position.Version)
	}
	return version, nil
}
