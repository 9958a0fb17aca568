package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-metrics/sluice/store/format"
)

const (
	noteName = "LOGS.synced"
	// noteBytes is one sector: it is overwritten in place, needs no room on a full disk, and is whole or not valid.
	noteBytes = 512
	// walkBytes is more than a transaction.
	walkBytes = 2 << 20
)

// A logNote says how far the logs have been synced, and since which start of the machine they are written. It is
// not synced itself: an older one promises less. Its owner holds upkeep.mu.
type logNote struct {
	dir   string
	boot  string
	marks map[string]mark // by the log's header
}

// A mark is how far a log was synced.
type mark struct {
	end     int64  // of the last transaction, counted from the header's end
	version uint64 // of that transaction; 0: unknown, as in the notes of former versions
}

func newNote(dir string) logNote {
	return logNote{dir: dir, boot: bootID(), marks: map[string]mark{}}
}

// bootID is of this start of the machine (random(4)), empty if unknown.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// observe follows the logs to their ends. What it finds may be written down once they are synced.
func (n *logNote) observe() error {
	marks := map[string]mark{}
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

func (n *logNote) follow(path string, marks map[string]mark) error {
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
		got, err := file.ReadAt(buf, logHeaderBytes+mark.end)
		if ignoreEOF(err) != nil {
			return err
		}
		read := walkLog(buf[:got])
		if read.committed == 0 {
			break
		}
		mark.end += int64(read.committed)
		mark.version = read.version
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
		line := fmt.Sprintf("%x %d %d\n", header, mark.end, mark.version)
		if text.Len()+len(line) > noteBytes-16 {
			break // Badger keeps three
		}
		text.WriteString(line)
	}
	text.Write(bytes.Repeat([]byte{' '}, noteBytes-10-text.Len()))
	fmt.Fprintf(&text, "\n%08x\n", format.Checksum(text.Bytes()))
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
	note := logNote{dir: dir, marks: map[string]mark{}}
	text, err := os.ReadFile(filepath.Join(dir, noteName))
	if err != nil || len(text) != noteBytes {
		return note
	}
	body := text[:noteBytes-10]
	if fmt.Sprintf("\n%08x\n", format.Checksum(body)) != string(text[noteBytes-10:]) {
		return note
	}
	for line := range strings.Lines(string(body)) {
		var header []byte
		var mark mark
		if boot, ok := strings.CutPrefix(line, "boot "); ok {
			note.boot = strings.TrimSpace(boot)
		} else if n, _ := fmt.Sscanf(line, "%x %d %d", &header, &mark.end, &mark.version); n >= 2 {
			note.marks[string(header)] = mark
		}
	}
	return note
}

// missingLogs returns the newest version that a log held which was synced and is not there, 0 if there is none. Such
// a log became a table, which holds that version or a newer one, or it is lost.
func missingLogs(dir string) (version uint64, err error) {
	note := readNote(dir)
	for _, log := range listLogs(dir) {
		header, err := readLogHeader(log.path)
		if err != nil {
			return 0, fmt.Errorf("store: cannot read a log: %w", err)
		}
		delete(note.marks, header)
	}
	for _, mark := range note.marks {
		version = max(version, mark.version)
	}
	return version, nil
}

// readLogHeader returns what identifies a log, or less of it where the log is cut.
func readLogHeader(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	header := make([]byte, logHeaderBytes)
	n, err := file.ReadAt(header, 0)
	return string(header[:n]), ignoreEOF(err)
}
