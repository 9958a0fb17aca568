package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/internal/durable"
)

// HeaderBytes is the length of a log's header. Of these bytes 12 are random and tell one log from
// all others.
const HeaderBytes = 20

// A File is a memtable's log in the database's folder.
type File struct {
	Path   string
	Number int
	Size   int64
}

// List finds the logs of a database, oldest first.
func List(dir string) []File {
	var logs []File
	entries, _ := os.ReadDir(dir) // a folder that can't be read isn't opened either
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".mem")
		number, err := strconv.Atoi(name)
		stat, statErr := e.Info()
		if ok && err == nil && statErr == nil {
			logs = append(logs, File{filepath.Join(dir, e.Name()), number, stat.Size()})
		}
	}
	slices.SortFunc(logs, func(a, b File) int { return a.Number - b.Number })
	return logs
}

// readHeader returns a log's header, or less of it where the log is cut.
func readHeader(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	header := make([]byte, HeaderBytes)
	n, err := file.ReadAt(header, 0)
	return string(header[:n]), ignoreEOF(err)
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// RemoveEmpty removes logs of zero bytes. Badger leaves one when it is killed between truncating
// and removing it, or between creating and sizing it, and then fails to open.
func RemoveEmpty(dir string) error {
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		logs, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, log := range logs {
			entry, err := os.Stat(log)
			if err != nil || entry.Size() > 0 {
				continue
			}
			if err := os.Remove(log); err != nil {
				return fmt.Errorf("store: cannot remove an empty log: %w", err)
			}
		}
	}
	return nil
}

// Cut truncates every log where its last transaction ends, and removes a log without one. Badger
// opens a database for reading only if no log needs that.
func Cut(dir string) error {
	for _, log := range List(dir) {
		content, err := os.ReadFile(log.Path)
		if err == nil {
			if read := Scan(content[min(HeaderBytes, len(content)):]); read.Committed > 0 {
				err = os.Truncate(log.Path, int64(HeaderBytes+read.Committed))
			} else {
				err = os.Remove(log.Path)
			}
		}
		if err != nil {
			return fmt.Errorf("store: cannot cut the log %s: %w", filepath.Base(log.Path), err)
		}
	}
	return nil
}

// Sync fsyncs all logs and the folder, and thereby all that was committed. Badger's own Sync holds
// a lock that stops its writer, and omits the logs of memtables that wait to become tables. A log
// that is gone meanwhile became a table, which Badger synced.
func Sync(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		if err := durable.Sync(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("store: cannot sync: %w", err)
		}
	}
	if err := durable.Sync(dir); err != nil {
		return fmt.Errorf("store: cannot sync: %w", err)
	}
	return nil
}
