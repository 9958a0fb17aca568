package database

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/sluice-metrics/sluice/internal/footprint"
	"github.com/sluice-metrics/sluice/store/format"
	"github.com/sluice-metrics/sluice/store/wal"
)

// processGCPercent is low because nearly all that Badger allocates is a table under construction,
// soon garbage.
const processGCPercent = 25

// Building tables and memtables in turn left 160 MB of free pages on the heap where 750,000 series
// changed every second. So every few seconds, free pages of freeThreshold or more are returned to
// the system. A memory limit (debug.SetMemoryLimit) returns them too. But where Badger holds more
// for a while, as after compactions, Go then collects garbage without end: every 20 ms, for a
// minute.
const freeThreshold = 32 << 20

// returnMemory runs until the process ends.
func returnMemory() {
	free := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	rest := footprint.NewRest()
	for range time.Tick(footprint.Interval) {
		if metrics.Read(free); free[0].Value.Uint64() >= freeThreshold {
			debug.FreeOSMemory()
		}
		rest.Look()
	}
}

// processMain is the storage process: it opens a database, commits the transactions from its input,
// and closes the database at the end of the input. It returns the exit code.
func processMain(dir string, in io.Reader, out io.Writer) int {
	debug.SetGCPercent(processGCPercent)
	debug.SetMemoryLimit(math.MaxInt64) // GOMEMLIMIT, where it is set, is for the server
	go returnMemory()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := openLocal(processOptions(dir, logger), logger)
	if writeResult(out, err) != nil || err != nil {
		return 1
	}
	go serveSyncs(db, pollable(childRequests, "requests"), os.NewFile(childResults, "results"))
	from := bufio.NewReader(in)
	var frame []byte
	for {
		if frame, err = readFrame(from, frame); err != nil {
			break
		}
		if writeResult(out, commitFrame(db, frame)) != nil {
			break // the parent has ended
		}
	}
	err = db.Close()
	_ = writeResult(out, err)
	if err != nil {
		return 1
	}
	return 0
}

// pollable is a pipe to read from that Go's poller waits for. A thread that returns from a blocking
// read wakes Go's monitor thread, which naps dozens of times, 20 µs each, before it sleeps again.
func pollable(pipe uintptr, name string) *os.File {
	_ = syscall.SetNonblock(int(pipe), true) // without it the reads block, which works
	return os.NewFile(pipe, name)
}

// serveSyncs fsyncs as requested, until the parent ends.
func serveSyncs(db *Local, in io.Reader, out io.Writer) {
	var request [1]byte
	for {
		if _, err := io.ReadFull(in, request[:]); err != nil {
			return
		}
		if writeResult(out, db.Sync()) != nil {
			return
		}
	}
}

// commitFrame commits the transaction in a frame, or begins a compaction.
func commitFrame(db *Local, frame []byte) error {
	if len(frame) == 1 && frame[0] == entryCompact {
		return db.Compact()
	}
	txn := db.Begin()
	defer txn.Discard()
	for len(frame) > 0 {
		operation := frame[0]
		key, rest, err := cutPiece(frame[1:])
		switch {
		case err == nil && operation == entryDelete:
			err = txn.Delete(key)
		case err == nil && operation == entrySet:
			var value []byte
			if value, rest, err = cutPiece(rest); err == nil {
				err = txn.Set(key, value)
			}
		case err == nil:
			err = fmt.Errorf("an entry has the unknown operation %q", operation)
		}
		if err != nil {
			return err
		}
		frame = rest
	}
	return txn.Commit()
}

// environmental errors say nothing about the database.
var environmental = []error{syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
	syscall.EACCES, syscall.EPERM}

// probeMain is the probe. It returns the exit code.
func probeMain(dir string) int {
	fmt.Println(probeBegun)
	version, err := probeDatabase(dir)
	fmt.Printf("%s%d\n", probeFormat, version)
	if err == nil {
		fmt.Println(probePassed)
		return 0
	}
	result := probeFault
	for _, e := range environmental {
		if errors.Is(err, e) {
			result = probeUnable
		}
	}
	reason := strings.TrimPrefix(err.Error(), format.Damaged("").Error()) // the parent adds it again
	fmt.Println(result + strings.ReplaceAll(reason, "\n", " "))
	return 1
}

// probeDatabase opens a database as Open would, and reads all of it. It doesn't close the database:
// the process ends, and the parent removes the folder.
func probeDatabase(dir string) (version uint32, err error) {
	_, listed, _, err := readManifest(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return 0, err
	}
	lost, err := wal.LostVersion(dir)
	if err != nil {
		return 0, err
	}
	db, err := badger.Open(localOptions(dir, slog.New(slog.NewTextHandler(os.Stderr, nil))).
		WithReadOnly(os.Getenv(readOnlyEnv) != "").
		WithChecksumVerificationMode(options.OnTableAndBlockRead))
	if err != nil {
		return 0, err
	}
	// Badger leaves out a table whose checksum is wrong, and goes on without it.
	opened := map[uint64]badger.TableInfo{}
	for _, t := range db.Tables() {
		opened[t.ID] = t
	}
	newest := uint64(0) // in a table that the last process listed; this opening made others of the logs
	for id := range listed {
		t, ok := opened[id]
		if !ok {
			return 0, fmt.Errorf("table %d is damaged", id)
		}
		newest = max(newest, t.MaxVersion)
	}
	if lost > newest {
		return 0, fmt.Errorf("a log that was synced up to version %d is missing, and the tables end at version %d",
			lost, newest)
	}
	if version, err = readVersion(db); err != nil {
		return version, err
	}
	from := (&Local{badger: db}).Read()
	defer from.Close()
	return version, from.Each(nil, func(_, _ []byte) error { return nil })
}
