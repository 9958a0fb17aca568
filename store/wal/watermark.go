package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-metrics/sluice/store/format"
)

const (
	watermarkName = "LOGS.synced"
	// watermarkBytes is one sector: the file is overwritten in place, needs no space on a full
	// disk, and is either complete or invalid.
	watermarkBytes = 512
	// scanBytes is more than a transaction.
	scanBytes = 2 << 20
)

// A Watermark records how far each log has been fsynced, and since which boot of the machine the
// logs are written. Its file isn't fsynced itself: an older watermark promises less. One goroutine
// owns it.
type Watermark struct {
	dir       string
	Boot      string              // boot ID of the machine; empty: unknown
	Positions map[string]Position // by the log's header
	buf       []byte              // of follow
}

// A Position is how far a log was fsynced.
type Position struct {
	End     int64  // of the last transaction, in bytes after the header
	Version uint64 // of that transaction; 0: unknown, because a former sluice wrote the watermark
}

// NewWatermark begins a watermark of this boot.
func NewWatermark(dir string) Watermark {
	return Watermark{dir: dir, Boot: bootID(), Positions: map[string]Position{}}
}

// bootID identifies this boot of the machine (random(4)). It is empty if unknown.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// Observe scans each log from its position to its end. The new positions may be written once the
// logs are fsynced.
func (w *Watermark) Observe() error {
	positions := map[string]Position{}
	for _, log := range List(w.dir) {
		if log.Size < HeaderBytes {
			continue
		}
		if err := w.follow(log.Path, positions); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("store: cannot follow a log: %w", err)
		}
	}
	w.Positions = positions
	return nil
}

func (w *Watermark) follow(path string, positions map[string]Position) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var header [HeaderBytes]byte
	if _, err := file.ReadAt(header[:], 0); err != nil {
		return ignoreEOF(err) // it became a table meanwhile
	}
	position := w.Positions[string(header[:])]
	if w.buf == nil {
		w.buf = make([]byte, scanBytes)
	}
	for {
		got, err := file.ReadAt(w.buf, HeaderBytes+position.End)
		if ignoreEOF(err) != nil {
			return err
		}
		read := Scan(w.buf[:got])
		if read.Committed == 0 {
			break
		}
		position.End += int64(read.Committed)
		position.Version = read.Version
	}
	positions[string(header[:])] = position
	return nil
}

// Write overwrites the watermark's file.
func (w *Watermark) Write() error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "boot %s\n", w.Boot)
	for header, position := range w.Positions {
		line := fmt.Sprintf("%x %d %d\n", header, position.End, position.Version)
		if text.Len()+len(line) > watermarkBytes-16 {
			break // Badger has three logs at most
		}
		text.WriteString(line)
	}
	text.Write(bytes.Repeat([]byte{' '}, watermarkBytes-10-text.Len()))
	fmt.Fprintf(&text, "\n%08x\n", format.Checksum(text.Bytes()))
	file, err := os.OpenFile(filepath.Join(w.dir, watermarkName), os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("store: cannot write the logs' watermark: %w", err)
	}
	_, err = file.WriteAt(text.Bytes(), 0)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("store: cannot write the logs' watermark: %w", err)
	}
	return nil
}

// ReadWatermark reads a database's watermark. A missing or invalid one promises nothing.
func ReadWatermark(dir string) Watermark {
	w := Watermark{dir: dir, Positions: map[string]Position{}}
	text, err := os.ReadFile(filepath.Join(dir, watermarkName))
	if err != nil || len(text) != watermarkBytes {
		return w
	}
	body := text[:watermarkBytes-10]
	if fmt.Sprintf("\n%08x\n", format.Checksum(body)) != string(text[watermarkBytes-10:]) {
		return w
	}
	for line := range strings.Lines(string(body)) {
		var header []byte
		var position Position
		if boot, ok := strings.CutPrefix(line, "boot "); ok {
			w.Boot = strings.TrimSpace(boot)
		} else if n, _ := fmt.Sscanf(line, "%x %d %d", &header, &position.End, &position.Version); n >= 2 {
			w.Positions[string(header)] = position
		}
	}
	return w
}
