package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/store/format"
)

// Badger's log of a memtable (memtable.go and structs.go there): 20 bytes of header, of which 12 are random and
// make it one of its kind, then entries up to the first that is none, then zeros. An entry is two bytes of flags,
// the lengths of key and value and an expiry as varints, key, value, and the CRC-32C of all that, big-endian. A
// key ends with its inverted version; a transaction's entries have one version, and an entry with that as its
// value ends it.
const (
	logHeaderBytes = 20
	logTxn         = 1 << 6
	logTxnEnd      = 1 << 7

	maxKeyBytes = 1 << 16 // Badger's own bound
	// tornBytes is more than the longest entry that we write.
	tornBytes = 2 * format.PartBytes
)

// A logFile is a memtable's log in the folder.
type logFile struct {
	path   string
	number int
	size   int64
}

// listLogs finds the logs of a database, oldest first.
func listLogs(dir string) []logFile {
	var logs []logFile
	entries, _ := os.ReadDir(dir) // what cannot be read is not opened either
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".mem")
		number, err := strconv.Atoi(name)
		stat, statErr := e.Info()
		if ok && err == nil && statErr == nil {
			logs = append(logs, logFile{filepath.Join(dir, e.Name()), number, stat.Size()})
		}
	}
	slices.SortFunc(logs, func(a, b logFile) int { return a.number - b.number })
	return logs
}

// A logEntry is one entry; its slices are those of the log.
type logEntry struct {
	flags      byte
	version    uint64
	value      []byte
	bytes      int
	plainlyOur bool // it has the flags and lengths that our entries have
}

// parseEntry reads the entry that b begins with.
func parseEntry(b []byte) (e logEntry, ok bool) {
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
	e.plainlyOur = (e.flags&^1 == logTxn || e.flags == logTxnEnd) && b[1] == 0 && lengths[2] == 0 && key < 256 && value <= tornBytes
	end := at + int(key) + int(value)
	e.bytes = end + 4
	e.version = math.MaxUint64 - binary.BigEndian.Uint64(b[at+int(key)-8:])
	e.value = b[at+int(key) : end]
	return e, true
}

// whole says whether an entry that b begins with matches its checksum.
func (e *logEntry) whole(b []byte) bool {
	return format.Checksum(b[:e.bytes-4]) == binary.BigEndian.Uint32(b[e.bytes-4:])
}

// A walk is how far a log can be read.
type walk struct {
	committed int    // the end of the last transaction: Badger would use what is before
	end       int    // of the last whole entry
	version   uint64 // of the last transaction; 0: there is none
}

// walkLog follows a log from the beginning of a transaction as Badger does.
func walkLog(b []byte) (w walk) {
	var version uint64
	for running := false; ; {
		e, ok := parseEntry(b[w.end:])
		if !ok || !e.whole(b[w.end:]) {
			return w
		}
		switch {
		case e.flags&logTxn != 0:
			if running && e.version != version {
				return w
			}
			running, version = true, e.version
			w.end += e.bytes
			continue
		case e.flags&logTxnEnd != 0:
			if n, err := strconv.ParseUint(string(e.value), 10, 64); !running || err != nil || n != version {
				return w
			}
			running = false
		case running:
			return w
		}
		w.end += e.bytes
		w.committed, w.version = w.end, e.version
	}
}

// holdsEntry looks for a whole entry anywhere in b.
func holdsEntry(b []byte) bool {
	for at := range b {
		if e, ok := parseEntry(b[at:]); ok && e.plainlyOur && e.whole(b[at:]) {
			return true
		}
	}
	return false
}

// checkLogs says whether Badger would find in its logs what it wrote: it takes the first entry that does not match
// its checksum for the end, cuts the log there and says nothing.
//
// What was synced must be there. Beyond that, a process that is killed leaves one entry unfinished at the very end
// and nothing after it, for the kernel still has all that it wrote; only where the machine went down may there be
// holes. remark tells of an unfinished end.
func checkLogs(dir string) (remark string, err error) {
	note := readNote(dir)
	onlyKilled := note.boot != "" && note.boot == bootID()
	logs := listLogs(dir)
	for i, log := range logs {
		content, err := os.ReadFile(log.path)
		if err != nil {
			return "", fmt.Errorf("store: cannot read a log: %w", err)
		}
		name := filepath.Base(log.path)
		if len(content) < logHeaderBytes {
			return "", format.Damaged("%s is cut to %d bytes", name, len(content))
		}
		header, body := content[:logHeaderBytes], content[logHeaderBytes:]
		read := walkLog(body)
		if synced := note.marks[string(header)].end; int64(read.committed) < synced {
			return "", format.Damaged("%s was synced up to byte %d and can be read only up to %d", name, synced+logHeaderBytes, read.committed+logHeaderBytes)
		}
		left := bytes.TrimRight(body[read.end:], "\x00")
		if len(left) == 0 && read.committed == read.end {
			continue
		}
		if onlyKilled && (i < len(logs)-1 || len(left) > tornBytes || holdsEntry(left)) {
			return "", format.Damaged("%s cannot be read beyond byte %d, and more was written after it", name, read.committed+logHeaderBytes)
		}
		remark = fmt.Sprintf("%s ends with %d bytes of an unfinished write, which was left out", name, read.end-read.committed+len(left))
	}
	return remark, nil
}
