package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// ChildMain is the first thing that main calls:
//
//	if code, isChild := store.ChildMain(); isChild {
//		os.Exit(code)
//	}
//
// In a process that a store made for a trial, or to keep its database, it does that and says what to exit with; in any other it
// does nothing. Without it databases are opened untried, and in the process itself.
func ChildMain() (code int, isChild bool) {
	if dir := os.Getenv(trialEnv); dir != "" {
		return trialMain(dir), true
	}
	if dir := os.Getenv(apartEnv); dir != "" {
		return keeperMain(dir, os.Stdin, os.Stdout), true
	}
	canBeApart = true
	return 0, false
}

// keeperGCPercent: nearly all that Badger allocates is a table in the making, soon garbage.
const keeperGCPercent = 25

// Building tables in turn with memtables left 160 MB of free pages on the heap where 750,000 series changed every second. From
// giveBackFrom on they go back, looked at every giveBackEvery. A limit of memory (debug.SetMemoryLimit) does that too; but where Badger
// holds more for a while, as it did after compactions, Go then collects without end: every 20 ms, for a minute.
const (
	giveBackFrom  = 32 << 20
	giveBackEvery = 5 * time.Second
)

// giveBack runs as long as the process.
func giveBack() {
	free := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	for range time.Tick(giveBackEvery) {
		if metrics.Read(free); free[0].Value.Uint64() >= giveBackFrom {
			debug.FreeOSMemory()
		}
	}
}

// mostFrame is far beyond a transaction of batchBytes.
const mostFrame = 16 * batchBytes

// keeperMain opens a database, writes what comes in, and closes it when nothing more can come.
func keeperMain(dir string, in io.Reader, out io.Writer) int {
	debug.SetGCPercent(keeperGCPercent)
	debug.SetMemoryLimit(math.MaxInt64) // GOMEMLIMIT, where it is set, is the server's
	go giveBack()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := openDatabase(apartOptions(dir, logger))
	var up *upkeep
	if err == nil {
		if up, err = beginUpkeep(dir, logger); err != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if tell(out, err) != nil || err != nil {
		return 1
	}
	go up.serve(os.NewFile(childAsked, "asked"), os.NewFile(childTells, "tells"))
	from := bufio.NewReader(in)
	var frame []byte
	for {
		frame, err = readFrame(from, frame)
		if err != nil {
			break
		}
		if tell(out, write(here{db, up}, frame)) != nil {
			break // who asked is gone
		}
	}
	err = here{db, up}.Close()
	_ = tell(out, err)
	if err != nil {
		return 1
	}
	return 0
}

// readFrame reads a transaction into buf, or into a larger one.
func readFrame(from io.Reader, buf []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return buf, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > mostFrame {
		return buf, fmt.Errorf("a transaction of %d bytes", size)
	}
	if int(size) > cap(buf) {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err := io.ReadFull(from, buf)
	return buf, err
}

// The child's ends of the pipes for upkeep, behind the lock's: see exec.Cmd.ExtraFiles.
const (
	childAsked = 4
	childTells = 5
)

// serve does what is asked for until nobody can ask any more.
func (u *upkeep) serve(asked io.Reader, out io.Writer) {
	var what [1]byte
	for {
		if _, err := io.ReadFull(asked, what[:]); err != nil {
			return
		}
		do := u.sync
		if what[0] == askCopy {
			do = u.renewCopy
		}
		if tell(out, do()) != nil {
			return
		}
	}
}

// write commits a transaction.
func write(db here, frame []byte) error {
	txn := db.begin()
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
			err = fmt.Errorf("an entry of kind %q", operation)
		}
		if err != nil {
			return err
		}
		frame = rest
	}
	return txn.Commit()
}

func cutPiece(from []byte) (piece, rest []byte, err error) {
	if len(from) < 4 || uint64(len(from)-4) < uint64(binary.BigEndian.Uint32(from)) {
		return nil, nil, errors.New("a transaction that ends early")
	}
	end := 4 + int(binary.BigEndian.Uint32(from))
	return from[4:end:end], from[end:], nil
}
