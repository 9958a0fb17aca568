package wal

import (
	"encoding/binary"
	"math"
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
	e.likeOur = (e.flags&^1 == flagTxn || e.flags == flagTxnEnd) && b[1] == 0 && lengths[2] == 0 && key < 256 && value <= tornBytes
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
