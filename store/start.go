package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/store/database"
	"github.com/sluice-metrics/sluice/store/folder"
	"github.com/sluice-metrics/sluice/store/format"
)

// start opens the database and restores from it: in this process, then the database moves to the
// storage process.
func (s *Store) start(ctx context.Context) error {
	free, err := s.freeBytes(s.folder.Dir)
	if err != nil {
		return err
	}
	if free < database.LeastFreeBytes {
		return s.startFull(ctx, free)
	}
	began := time.Now()
	opened, err := s.opener.Open(ctx, database.InProcess)
	if err != nil {
		return errors.Join(err, s.folder.EndRestore())
	}
	s.adopt(opened)
	if err = s.restore(ctx); err == nil && s.place == database.StorageProcess {
		err = s.moveToStorageProcess()
	}
	s.count.restoreNanos.Store(int64(time.Since(began)))
	return errors.Join(err, s.folder.EndRestore())
}

// restore restores from the open database. One that turns out to be damaged is set aside.
func (s *Store) restore(ctx context.Context) error {
	err := s.restoreOpen(ctx)
	if errors.Is(err, format.ErrDamaged) {
		if err := s.replaceDatabase(folder.Damaged, err, database.InProcess); err != nil {
			return err
		}
		err = s.restoreOpen(ctx)
	}
	return err
}

// restoreOpen restores the table and the documents from the open database. With format.ErrDamaged,
// the table was given nothing.
func (s *Store) restoreOpen(ctx context.Context) error {
	r := restore{db: s.local, table: s.table, logger: s.logger, keep: s.saveDamagedBlock}
	result, err := r.run(ctx)
	if err != nil {
		return err
	}
	s.seq, s.flusher.blocks = result.seq, result.blocks
	s.flusher.unfinished = s.flusher.unfinished || result.unfinished
	lost, err := s.restoreDocuments()
	if err != nil {
		return err
	}
	s.count.restoredBlocks.Store(int64(result.restored))
	s.count.failedBlocks.Store(int64(result.failed))
	s.count.cutBlocks.Store(int64(result.cut))
	if result.failed+result.cut+lost > 0 {
		s.tellLoss(fmt.Sprintf("of %d blocks %d could not be restored and %d only to an earlier state; %d documents could not be restored",
			result.restored+result.failed, result.failed, result.cut, lost))
	}
	if result.unfinished {
		s.tellLoss(fmt.Sprintf("the first flush of this database did not end, so it has a part of the series alone: %d blocks", result.restored))
	}
	return nil
}

func (s *Store) tellLoss(notice string) {
	s.status.notice(notice)
	s.logger.Error("restored with losses", "detail", notice)
}

// restoreDocuments restores the documents and returns how many couldn't be read.
func (s *Store) restoreDocuments() (lost int, err error) {
	from := s.local.Read()
	defer from.Close()
	restored, lost, err := s.flusher.documents.restore(from, s.logger)
	s.count.restoredDocuments.Store(int64(restored))
	s.count.failedDocuments.Store(int64(lost))
	return lost, err
}

func (s *Store) saveDamagedBlock(block int) {
	from := s.local.Read()
	defer from.Close()
	if err := saveDamagedBlock(s.folder.Dir, from, block, time.Now()); err != nil {
		s.logger.Error("a damaged block could not be saved", "block", block, "error", err)
	}
}

func (s *Store) moveToStorageProcess() error {
	if err := s.closeDatabase(); err != nil {
		return err
	}
	opened, err := s.opener.Reopen(database.StorageProcess)
	if err != nil {
		return err
	}
	s.adopt(opened)
	return nil
}

// startFull starts on a disk too full for a database that is written to. The data is restored all
// the same, because reading needs no space. Once there is space, the database is opened as after
// any pause, and changes made meanwhile are written.
func (s *Store) startFull(ctx context.Context, free uint64) error {
	began := time.Now()
	why := fmt.Sprintf("the disk has %s free; opening the database needs %s", mebibytes(free),
		mebibytes(database.LeastFreeBytes))
	err := s.restoreReadOnly(ctx)
	s.count.restoreNanos.Store(int64(time.Since(began)))
	switch {
	case err == nil:
		s.pause(why, began)
		return nil
	case !errors.Is(err, database.ErrUnreadable):
		return err
	}
	s.unrestored = errors.New("it was not restored from, because the disk was full")
	s.pause(why+": nothing was restored: "+strings.TrimPrefix(err.Error(), database.ErrUnreadable.Error()+": "), began)
	return s.table.RestoreDone()
}

// restoreReadOnly restores from a database that is opened for reading alone, and closes it.
func (s *Store) restoreReadOnly(ctx context.Context) error {
	db, err := s.opener.OpenReadOnly(ctx)
	if err != nil {
		return errors.Join(err, s.folder.EndRestore())
	}
	if db == nil { // there is none
		return s.table.RestoreDone()
	}
	s.local = db
	err = s.restoreOpen(ctx)
	if errors.Is(err, format.ErrDamaged) {
		err = fmt.Errorf("%w: %w", database.ErrUnreadable, err)
	}
	if err == nil && s.count.failedBlocks.Load() > 0 {
		s.unrestored = errors.New("not all of it could be restored, and there was no space to save the rest")
	}
	s.local = nil
	return errors.Join(err, db.Close(), s.folder.EndRestore())
}

// saveDamagedBlock writes the entries of a block that can't be restored to a file of the data
// folder, because the next checkpoint will overwrite them: keys and values in turn, each after its
// length as a big-endian uint32.
func saveDamagedBlock(dir string, from database.Reader, block int, now time.Time) error {
	name := fmt.Sprintf("block-%d.damaged-%s", block, now.UTC().Format("20060102T150405Z"))
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("store: cannot save a damaged block: %w", err)
	}
	out := bufio.NewWriter(file)
	save := func(key, value []byte) error { return errors.Join(writePiece(out, key), writePiece(out, value)) }
	for _, prefix := range []byte{format.PrefixNames, format.PrefixCheckpoint, format.PrefixDelta} {
		key := format.AppendBlockKey(nil, prefix, block)
		err = errors.Join(err, from.Each(key, save), from.Each(append([]byte{format.PrefixPart}, key...), save))
	}
	return errors.Join(err, out.Flush(), file.Sync(), file.Close(), durable.Sync(dir))
}

func writePiece(out *bufio.Writer, piece []byte) error {
	_, err := out.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(piece))), piece...))
	return err
}
