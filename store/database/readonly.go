package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"github.com/sluice-metrics/sluice/internal/durable"
	"github.com/sluice-metrics/sluice/store/format"
	"github.com/sluice-metrics/sluice/store/wal"
)

// ErrUnreadable: the database can't be read without writing to the disk, which is full.
var ErrUnreadable = errors.New("the database cannot be read without free space")

// OpenReadOnly checks, probes and opens the database as Open does, but writes nothing; it only cuts
// the logs where the last transaction ends, as Badger would. It returns nil where there is no
// database. There is no space for a scratch copy, so the probe opens the database itself, for
// reading alone.
//
// Badger doesn't unmap the logs of such a database, so their space, some 8 MiB each, is free only
// when this process ends.
func (o *Opener) OpenReadOnly(ctx context.Context) (*Local, error) {
	fresh, torn, err := o.check()
	if err == nil && fresh {
		return nil, nil
	}
	if torn != "" {
		o.Logger.Warn("the last process did not finish a write", "detail", torn)
	}
	if err == nil {
		err = wal.Cut(o.Folder.Database())
	}
	if err == nil {
		err = o.probeReadOnly(ctx)
	}
	if err == nil {
		if err = o.Folder.BeginRestore(); durable.IsFull(err) {
			err = nil // no space to count deaths of the process: the probe must suffice
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(err, format.ErrVersion) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	db, err := badger.Open(readOnlyOptions(o.Folder.Database()))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return &Local{badger: db}, nil
}
