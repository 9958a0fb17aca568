package database

import (
	"log/slog"
	"os"
	"testing"

	"github.com/sluice-metrics/sluice/store/folder"
)

func TestMain(m *testing.M) {
	if code, isChild := ChildMain(); isChild {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

var quiet = slog.New(slog.DiscardHandler)

// newOpener returns an opener of a new data folder.
func newOpener(t *testing.T) Opener {
	t.Helper()
	f, err := folder.Open(t.TempDir())
	must(t, err)
	t.Cleanup(func() { _ = f.Release() })
	return Opener{Folder: f, ProbeTimeout: 1 << 36, Logger: quiet}
}

// mustWrite writes one entry in a transaction.
func mustWrite(t *testing.T, db DB, key string, value []byte) {
	t.Helper()
	txn := db.Begin()
	defer txn.Discard()
	must(t, txn.Set([]byte(key), value))
	must(t, txn.Commit())
}
