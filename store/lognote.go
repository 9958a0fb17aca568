package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	noteName = "LOGS.synced"
	// noteBytes is one sector: it is overwritten in place, needs no room on a full disk, and is whole or not valid.
	noteBytes = 512
	// walkBytes is more than a transaction.
	walkBytes = 2 << 20
)

// A logNote says how far the logs have been synced, and since which start of the machine they are written. It is
// not synced itself: an older one promises less. Its owner is the syncing goroutine, or who holds Store.copying.
type logNote struct {
	dir   string
	boot  string
	marks map[string]int64 // by the log's header: the end of the last transaction, counted from the header's
}

func newNote(dir string) logNote {
	return logNote{dir: dir, boot: bootID(), marks: map[string]int64{}}
}

// bootID is of this start of the machine (random(4)), empty if unknown.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// observe follows the logs to their ends. What it finds may be written down once they are synced.
func (n *logNote) observe() error {
	marks := map[string]int64{}
	for _, log := range listLogs(n.dir) {
		if log.size < logHeaderBytes {
			continue
		}
		if err := n.follow(log.path, marks); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("store: cannot follow a log: %w", err)
		}
	}
	n.marks = marks
	return nil
}

func (n *logNote) follow(path string, marks map[string]int64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var header [logHeaderBytes]byte
	if _, err := file.ReadAt(header[:], 0); err != nil {
		return ignoreEOF(err) // it became a table meanwhile
	}
	mark := n.marks[string(header[:])]
	buf := make([]byte, walkBytes)
	for {
		got, err := file.ReadAt(buf, logHeaderBytes+mark)
		if ignoreEOF(err) != nil {
			return err
		}
		committed, _ := walkLog(buf[:got])
		mark += int64(committed)
		if committed == 0 {
			break
		}
	}
	marks[string(header[:])] = mark
	return nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// write writes the note over the last one.
func (n *logNote) write() error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "boot %s\n", n.boot)
	for header, mark := range n.marks {
		line := fmt.Sprintf("%x %d\n", header, mark)
		if text.Len()+len(line) > noteBytes-16 {
			break // Badger keeps three
		}
		text.WriteString(line)
	}
	text.Write(bytes.Repeat([]byte{' '}, noteBytes-10-text.Len()))
	fmt.Fprintf(&text, "\n%08x\n", crc32.Checksum(text.Bytes(), castagnoli))
	file, err := os.OpenFile(filepath.Join(n.dir, noteName), os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("store: cannot note what was synced: %w", err)
	}
	_, err = file.WriteAt(text.Bytes(), 0)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("store: cannot note what was synced: %w", err)
	}
	return nil
}

// readNote reads a database's note. One that is missing or not valid promises nothing.
func readNote(dir string) logNote {
	note := logNote{dir: dir, marks: map[string]int64{}}
	text, err := os.ReadFile(filepath.Join(dir, noteName))
	if err != nil || len(text) != noteBytes {
		return note
	}
	body := text[:noteBytes-10]
	if fmt.Sprintf("\n%08x\n", crc32.Checksum(body, castagnoli)) != string(text[noteBytes-10:]) {
		return note
	}
	for line := range strings.Lines(string(body)) {
		var header []byte
		var mark int64
		if boot, ok := strings.CutPrefix(line, "boot "); ok {
			note.boot = strings.TrimSpace(boot)
		} else if n, _ := fmt.Sscanf(line, "%x %d", &header, &mark); n == 2 {
			note.marks[string(header)] = mark
		}
	}
	return note
}
